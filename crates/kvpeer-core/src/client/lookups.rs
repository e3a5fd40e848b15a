//! Lookups: which of these blocks does the source hold?

use alloc::vec::Vec;
use core::time::Duration;

use kvpeer_wire::{Bits, BitsBuf, Keys, Lookup, LookupId, LookupResp, Msg, RequestName, Round};

use super::{Asked, Consumer, Fresh, Places, RequestState, Tables};
use crate::cx::Cx;
use crate::deadlines::Due;
use crate::faults::{Fault, seeded};
use crate::{Count, Event, LookupState, RequestId, Time};

impl Tables {
    /// Appends what is known about each key; its first sight puts it down for the next flush (LKP-1).
    pub(crate) fn lookup(
        &mut self,
        now: Time,
        name: RequestName<'_>,
        keys: Keys<'_>,
        known: &mut Vec<LookupState>,
    ) {
        let found = self.requests.get_mut(name.as_str());
        let open = found.filter(|request| match request.state {
            RequestState::Failed(_) => false, // END-7
            RequestState::Open => true,
        });
        let Some(request) = open else {
            return known.extend(core::iter::repeat_n(LookupState::Miss, keys.len()));
        };
        request.probes.look_up(now, keys, known);
        if request.probes.is_fresh() && !self.fresh.contains(name.as_str()) {
            self.fresh.insert(RequestId::from(name));
        }
    }

    /// Takes keys of a request that wait for a flush, as many as fit into one lookup.
    pub(crate) fn take_fresh(&mut self, id: &RequestId, most: usize) -> Option<Fresh> {
        self.requests.get_mut(id)?.probes.take_fresh(most)
    }

    /// Keys that get no answer: a miss once, then unknown again (LKP-3).
    pub(crate) fn give_up(&mut self, cx: &mut Cx<'_>, id: &RequestId, places: &Places) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.probes.give_up(places);
        cx.tell(Event::LookupAnswered { request: id });
    }
}

impl Consumer<'_> {
    /// Asks the source; the request's first lookup after a fetch opens its next round (ID-9).
    pub(crate) fn ask(&mut self, cx: &mut Cx<'_>, id: &RequestId, fresh: Fresh) {
        let Some(request) = self.tables.requests.get_mut(id) else { return };
        let lookup_id = self.session.mint_lookup();
        let round = match (request.told, request.round) {
            (Some(epoch), Some(round)) if epoch == self.epoch => round,
            (Some(_), _) | (None, _) => self.session.mint_round(),
        };
        request.round = Some(round);
        request.told = Some(self.epoch);
        request.open.insert(lookup_id);
        if request.open_due.is_none() {
            request.open_due = Some(cx.arm(cx.now + cx.config.timing.lookup, Due::Lookup(id.clone())));
        }
        let lookup = Lookup { lookup_id, request: id.as_name(), round, keys: fresh.keys.as_keys() };
        self.line.send(cx, Msg::Lookup(lookup));
        let places = fresh.places;
        let left = places.len();
        let answered = BitsBuf::zeros(u32::try_from(left).unwrap_or(u32::MAX));
        self.session.lookups.insert(lookup_id, Asked { request: id.clone(), places, answered, left });
    }

    /// A part of an answer. Only keys that had none before count as progress (LKP-4).
    pub(crate) fn lookup_resp(&mut self, cx: &mut Cx<'_>, msg: &LookupResp<'_>) {
        // LKP-5: an answer is for the keys of its own lookup. MSG-13: one that is closed needs none.
        let Some(asked) = self.session.lookups.get_mut(&msg.lookup_id) else {
            return cx.count(Count::LateLookupResp);
        };
        let Some(request) = self.tables.requests.get_mut(&asked.request) else { return };
        let until = cx.now + Duration::from_millis(u64::from(msg.pin_ms)).min(cx.config.timing.pin);
        let before = asked.left;
        if u64::from(msg.offset) + u64::from(msg.hits.len()) > asked.places.len() as u64 {
            cx.count(Count::LateLookupResp); // MSG-13
        }
        let (answered, left) = (&mut asked.answered, &mut asked.left);
        let part = (asked.places.len() as u32).saturating_sub(msg.offset).min(msg.hits.len());
        if answered.as_bits().any(msg.offset, part) || part < msg.hits.len() {
            for (at, hit) in (msg.offset..).zip(msg.hits.iter()).take(part as usize) {
                if !answered.as_bits().get(at) {
                    *left -= 1;
                    answered.set(at);
                    request.probes.answer(&asked.places, until, at, Bits::one(hit));
                }
            }
        } else {
            *left -= part as usize;
            answered.set_run(msg.offset, part);
            request.probes.answer(&asked.places, until, msg.offset, msg.hits);
        }
        if asked.left == before {
            return;
        }
        cx.tell(Event::LookupAnswered { request: &asked.request });
        let id = asked.request.clone();
        if asked.left == 0 {
            self.session.lookups.remove(&msg.lookup_id);
            request.open.remove(&msg.lookup_id);
        }
        if request.open.is_empty() {
            cx.disarm(&mut request.open_due, Due::Lookup(id));
        } else {
            cx.rearm(&mut request.open_due, cx.now + cx.config.timing.lookup, Due::Lookup(id));
        }
    }

    /// A fetch is about to go, or the request ends: its lookups are closed. Returns the round that they had opened.
    pub(crate) fn close_round(&mut self, cx: &mut Cx<'_>, id: &RequestId) -> Option<Round> {
        let request = self.tables.requests.get_mut(id)?;
        for lookup in core::mem::take(&mut request.open) {
            if !seeded(Fault::LateAnswers) {
                self.session.lookups.remove(&lookup);
            }
        }
        cx.disarm(&mut request.open_due, Due::Lookup(id.clone()));
        let round = request.round.take();
        let ours = request.told.replace(self.epoch) == Some(self.epoch);
        round.filter(|_| ours)
    }

    /// The source did not answer in time: what is open becomes a miss, once.
    pub(crate) fn lookups_timed_out(&mut self, cx: &mut Cx<'_>, id: &RequestId) {
        let Some(request) = self.tables.requests.get_mut(id) else { return };
        request.open_due = None;
        let open: Vec<LookupId> = core::mem::take(&mut request.open).into_iter().collect();
        for lookup in open {
            if let Some(asked) = self.session.lookups.remove(&lookup) {
                self.tables.give_up(cx, id, &asked.places);
            }
        }
    }
}
