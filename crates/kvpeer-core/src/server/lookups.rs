//! Lookups of a peer, answered by the block cache, which pins what it finds (LKP-6).

use alloc::vec::Vec;

use kvpeer_wire::{BitsBuf, Lookup, LookupId, LookupResp, Msg};

use super::{Asked, Job, Offer, Origin, Pins, Probing, Producer, RoundId, Serving, Source};
use crate::cx::Cx;
use crate::deadlines::Due;
use crate::faults::{Fault, seeded};
use crate::{Action, BlockIdx, Count, Event, JobId, KeyAt, ProbeId, RequestId, StoreOutcome};

/// What the block cache says in one `Probed`.
#[derive(Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) pin: Option<JobId>,
    pub(crate) hits: &'a [(KeyAt, BlockIdx)],
    pub(crate) misses: &'a [KeyAt],
}

impl Producer<'_> {
    pub(crate) fn lookup(&mut self, cx: &mut Cx<'_>, msg: &Lookup<'_>) {
        let id = RoundId { request: RequestId::from(msg.request), round: msg.round };
        let pins = match self.admit_lookup(cx, msg, &id) {
            Ok(pins) => pins,
            Err(why) => {
                if let Some(what) = why {
                    cx.count(what);
                }
                return self.answer_misses(cx, msg.lookup_id, 0, msg.keys.len());
            }
        };
        self.keep(pins.kept);
        if !self.session.rounds.contains_key(&id) {
            self.session.insert_round(id.clone(), Serving::Probing(Probing::default()));
        }
        if let Some(Serving::Probing(probing)) = self.session.rounds.get_mut(&id) {
            probing.lookups += 1;
        }
        let seq = self.session.mint();
        let probe = ProbeId { epoch: self.epoch, seq };
        let asked = Asked {
            lookup_id: msg.lookup_id,
            pins,
            told: 0,
            pinned_at: None,
            due: Some(cx.arm(cx.now + cx.config.timing.probe, Due::Probe(probe))),
            retry_due: None,
            id,
        };
        self.ask_cache(cx, probe, &asked);
        self.session.lookups.insert(seq, asked);
    }

    /// Room for a lookup's pins; or what it counts as that it is answered with misses at once, if it counts.
    fn admit_lookup(&self, cx: &Cx<'_>, msg: &Lookup<'_>, id: &RoundId) -> Result<Pins, Option<Count>> {
        let limits = &cx.config.limits;
        // PIN-5
        let closed = matches!(self.session.rounds.get(id), Some(Serving::Fetching(_)));
        if self.session.closing.is_some() || closed || msg.keys.is_empty() {
            return Err(None);
        }
        let room = self.session.lookups.len() < limits.lookups && self.admits_round(cx, id);
        if !room || !self.may_keep(cx, Pins::size(msg.keys)) {
            return Err(Some(Count::Overloaded)); // LKP-10
        }
        Pins::new(msg.keys).map_err(|_| Some(Count::MalformedLookup)) // MSG-9
    }

    fn ask_cache(&self, cx: &mut Cx<'_>, probe: ProbeId, asked: &Asked) {
        let mut open = Vec::new();
        open.reserve_exact(asked.pins.open());
        open.extend(asked.pins.open_keys());
        cx.act(Action::Probe {
            probe,
            peer: self.peer,
            request: &asked.id.request,
            round: asked.id.round,
            keys: asked.pins.keys(),
            open: &open,
        });
    }

    fn answer_misses(&mut self, cx: &mut Cx<'_>, lookup_id: LookupId, offset: u32, count: usize) {
        let misses = BitsBuf::zeros(u32::try_from(count).unwrap_or(u32::MAX));
        let resp = LookupResp { lookup_id, offset, hits: misses.as_bits(), pin_ms: 0 };
        self.line.send(cx, Msg::LookupResp(resp));
    }

    /// The block cache answers, in full or in part. A pin always gets its one result (I3).
    pub(crate) fn probed(&mut self, cx: &mut Cx<'_>, seq: u64, answer: Answer<'_>) {
        let Some(mut asked) = self.session.lookups.remove(&seq) else { return late(cx, answer.pin) };
        let probe = ProbeId { epoch: self.epoch, seq };
        match answer.pin {
            Some(job) => self.pin(cx, &mut asked, job, answer.hits),
            None => {
                if !answer.hits.is_empty() {
                    cx.count(Count::BadAnswer);
                }
                answer.hits.iter().for_each(|(at, _)| _ = asked.pins.answer(*at, None));
            }
        }
        answer.misses.iter().for_each(|at| _ = asked.pins.answer(*at, None));
        self.tell_prefix(cx, &mut asked);
        if asked.pins.open() == 0 {
            self.end_lookup(cx, probe, asked);
        } else {
            if asked.retry_due.is_none() {
                asked.retry_due = Some(cx.arm(cx.now + cx.config.timing.probe_retry, Due::ProbeRetry(probe)));
            }
            self.session.lookups.insert(seq, asked);
        }
    }

    /// Puts down the pins of one answer, or gives them up at once where they have no place.
    fn pin(&mut self, cx: &mut Cx<'_>, asked: &mut Asked, job: JobId, hits: &[(KeyAt, BlockIdx)]) {
        let room = cx.config.limits.pinned_blocks.saturating_sub(self.session.pinned);
        let total = put_down(asked, job, hits, room, cx);
        if total == 0 {
            return cx.tell(Event::StoreFinished { job, outcome: StoreOutcome::Unclaimed });
        }
        let new = Job {
            request: asked.id.request.clone(),
            origin: Origin::Pin(self.epoch, asked.id.round),
            total,
            offered: total,
            claimed: 0,
            delivered: 0,
            failure: None,
            offer: Offer::Open,
            due: (!seeded(Fault::PinsForEver)).then(|| cx.arm(cx.now + cx.config.timing.pin, Due::Pin(job))),
        };
        self.tables.jobs.insert(job, new);
        self.session.pinned += total as usize;
        asked.pinned_at = asked.pinned_at.or(Some(cx.now));
    }

    /// Sends what is settled from the first untold key on (LKP-7): each key is told once (LKP-9).
    fn tell_prefix(&mut self, cx: &mut Cx<'_>, asked: &mut Asked) {
        let part = asked.pins.answered_from(asked.told);
        let count = part.clone().count() as u32;
        if count == 0 {
            return;
        }
        let mut hits = BitsBuf::zeros(count);
        (0u32..).zip(part).filter(|(_, hit)| *hit).for_each(|(at, _)| hits.set(at));
        // An earlier hit of this lookup may have been pinned for a while.
        let pinned_for = asked
            .pinned_at
            .map_or(cx.config.timing.pin, |since| cx.config.timing.pin.saturating_sub(cx.now.since(since)));
        let pin_ms = crate::time::wire_millis(pinned_for);
        let resp =
            LookupResp { lookup_id: asked.lookup_id, offset: asked.told, hits: hits.as_bits(), pin_ms };
        self.line.send(cx, Msg::LookupResp(resp));
        asked.told += count;
    }

    /// Pending keys are asked for again (LKP-6).
    pub(crate) fn probe_again(&mut self, cx: &mut Cx<'_>, probe: ProbeId) {
        let Some(mut asked) = self.session.lookups.remove(&probe.seq) else { return };
        asked.retry_due = Some(cx.arm(cx.now + cx.config.timing.probe_retry, Due::ProbeRetry(probe)));
        self.ask_cache(cx, probe, &asked);
        self.session.lookups.insert(probe.seq, asked);
    }

    /// Keys that are still pending are misses (LKP-8).
    pub(crate) fn probe_timed_out(&mut self, cx: &mut Cx<'_>, probe: ProbeId) {
        let Some(mut asked) = self.session.lookups.remove(&probe.seq) else { return };
        asked.due = None;
        asked.pins.close();
        self.tell_prefix(cx, &mut asked);
        self.end_lookup(cx, probe, asked);
    }

    /// The lookup is answered, or its answer is not wanted any more.
    pub(super) fn end_lookup(&mut self, cx: &mut Cx<'_>, probe: ProbeId, mut asked: Asked) {
        cx.disarm(&mut asked.due, Due::Probe(probe));
        cx.disarm(&mut asked.retry_due, Due::ProbeRetry(probe));
        cx.act(Action::EndProbe { probe });
        let kept = asked.pins.kept;
        let (empty, keeps) = match self.session.rounds.get_mut(&asked.id) {
            Some(Serving::Probing(probing)) => {
                probing.lookups -= 1;
                let keeps = asked.pins.len() > 0;
                if keeps {
                    probing.pins.push(asked.pins);
                }
                (probing.is_empty(), keeps)
            }
            Some(Serving::Fetching(_)) | None => (false, false),
        };
        if !keeps {
            self.unkeep(kept);
        }
        if empty {
            self.session.remove_round(&asked.id);
        }
    }

    /// Ends the lookups of one round, or of all, unanswered (LKP-12).
    pub(super) fn end_lookups(&mut self, cx: &mut Cx<'_>, of: impl Fn(&RoundId) -> bool) {
        let mine = self.session.lookups.iter().filter(|(_, asked)| of(&asked.id));
        let seqs: Vec<u64> = mine.map(|(seq, _)| *seq).collect();
        for seq in seqs {
            if let Some(asked) = self.session.lookups.remove(&seq) {
                self.end_lookup(cx, ProbeId { epoch: self.epoch, seq }, asked);
            }
        }
    }

    /// Answers every open lookup, its pins being given up: what was not told yet is a miss.
    pub(super) fn answer_all(&mut self, cx: &mut Cx<'_>) {
        let open = self.session.lookups.values();
        let untold: Vec<(LookupId, u32, usize)> =
            open.map(|asked| (asked.lookup_id, asked.told, asked.pins.keys().len())).collect();
        for (lookup_id, told, keys) in untold {
            self.answer_misses(cx, lookup_id, told, keys - told as usize);
        }
        self.end_lookups(cx, |_| true);
    }
}

/// A pin for a lookup that is over: nobody will fetch it (ID-7, PIN-5).
pub(crate) fn late(cx: &mut Cx<'_>, pin: Option<JobId>) {
    match pin {
        Some(job) => {
            cx.count(Count::LatePin);
            if seeded(Fault::LatePinLost) {
                return;
            }
            cx.tell(Event::StoreFinished { job, outcome: StoreOutcome::Unclaimed });
        }
        None => cx.count(Count::StaleProbe),
    }
}

/// Adds a pin for every hit on a key that is open and a block that is ours (LKP-11), as far as there is room (LKP-10);
/// returns how many. Other open keys are misses.
fn put_down(asked: &mut Asked, job: JobId, hits: &[(KeyAt, BlockIdx)], room: usize, cx: &mut Cx<'_>) -> u32 {
    let before = asked.pins.len();
    let mut full = false;
    for (at, block) in hits {
        let ours = *block < cx.config.region.num_blocks;
        let fits = asked.pins.len() - before < room;
        let pinned = (ours && fits).then_some(Source { job, block: *block });
        let was_open = asked.pins.answer(*at, pinned);
        if !was_open || !ours {
            cx.count(Count::BadAnswer);
        }
        full |= was_open && ours && !fits;
    }
    if full {
        cx.count(Count::Overloaded);
    }
    (asked.pins.len() - before) as u32
}
