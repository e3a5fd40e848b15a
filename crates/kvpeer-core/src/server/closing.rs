//! How a round's lookups, a request or a whole session end on the producer's side.

use alloc::vec::Vec;

use kvpeer_wire::{Failure, Release};

use super::fetches::runs;
use super::jobs::Stage;
use super::{Ending, Fetching, Holder, Pins, Producer, RoundId, Serving, Slot};
use crate::cx::Cx;
use crate::deadlines::Due;
use crate::faults::{Fault, seeded};
use crate::{CloseReason, JobId, RequestId, StoreFailure, XferId};

impl Producer<'_> {
    /// The round's fetch is here, or its end: its lookups are closed (LKP-12), its pins are handed over.
    pub(super) fn close_probing(&mut self, cx: &mut Cx<'_>, id: &RoundId) -> Vec<Pins> {
        if !matches!(self.session.rounds.get(id), Some(Serving::Probing(_))) {
            return Vec::new();
        }
        self.end_lookups(cx, |of| of == id);
        let Some(Serving::Probing(probing)) = self.session.remove_round(id) else { return Vec::new() };
        for pins in &probing.pins {
            self.session.pinned -= pins.len();
            self.unkeep(pins.kept);
        }
        probing.pins
    }

    /// Pins that nobody fetches.
    pub(super) fn unpin(&mut self, cx: &mut Cx<'_>, pins: &[Pins]) {
        let runs = runs(pins.iter().flat_map(Pins::jobs));
        runs.for_each(|(job, count)| self.tables.lose(cx, job, count, Stage::Offered, None));
    }

    /// A lookup's pins were not fetched in time (PIN-2).
    pub(crate) fn pin_timed_out(&mut self, cx: &mut Cx<'_>, job: JobId, id: &RoundId) {
        let Some(Serving::Probing(probing)) = self.session.rounds.get_mut(id) else { return };
        let mut gone = 0;
        let mut unkept = 0;
        probing.pins.retain_mut(|pins| {
            gone += pins.drop_job(job);
            let over = pins.len() == 0;
            unkept += if over { pins.kept } else { 0 };
            !over
        });
        let empty = probing.is_empty();
        for asked in self.session.lookups.values_mut().filter(|asked| asked.id == *id) {
            gone += asked.pins.drop_job(job);
        }
        self.session.pinned -= gone;
        self.unkeep(unkept);
        if empty {
            self.session.remove_round(id);
        }
        self.tables.close_offer(cx, job, None);
    }

    /// The consumer needs nothing more for this request (SUP-16). Live fetches run to their own end (SUP-17); nothing
    /// remembers the id of a `pinned` request (SUP-18).
    pub(crate) fn release(&mut self, cx: &mut Cx<'_>, msg: &Release<'_>) {
        let request = RequestId::from(msg.request);
        let rounds: Vec<RoundId> = self.session.rounds_of(&request).cloned().collect();
        for id in rounds {
            let pins = self.close_probing(cx, &id);
            self.unpin(cx, &pins);
        }
        self.tables.release_pool(cx, &request, self.epoch, self.peer);
    }

    /// The session will end, but posted WRITEs may finish: nothing new is served (END-1).
    pub(crate) fn begin_closing(&mut self, cx: &mut Cx<'_>, reason: CloseReason) {
        self.session.closing = Some(reason);
        self.answer_all(cx);
        self.close_supply(cx, reason);
        for id in self.fetches(|fetching| fetching.posted < fetching.queue.len() || fetching.waiting > 0) {
            if !seeded(Fault::WriteWhileClosing) {
                self.fail_going(cx, &id, Failure::Closing);
            }
        }
    }

    /// The session is over: what is not in flight ends now, the rest with the fence (SUP-15).
    pub(crate) fn end(&mut self, cx: &mut Cx<'_>, reason: CloseReason) {
        let reason = *self.session.closing.get_or_insert(reason);
        self.end_lookups(cx, |_| true);
        self.close_supply(cx, reason);
        for id in self.fetches(|_| true) {
            self.set_ending(cx, &id, Ending::Silent(reason));
            if !self.advance(cx, &id) {
                self.lose_unread(cx, &id, reason);
            }
        }
        for (seq, xfer) in &mut self.session.xfers {
            cx.disarm(&mut xfer.due, Due::Write(XferId { epoch: self.epoch, seq: *seq }));
        }
    }

    /// Of a fetch that has WRITEs out: nothing waits any more, and what no WRITE reads is free at once, whether or not
    /// the right can be fenced (END-14).
    fn lose_unread(&mut self, cx: &mut Cx<'_>, id: &RoundId, reason: CloseReason) {
        let due = Due::CancelRetry(self.epoch, id.request.clone(), id.round);
        let Some(fetching) = self.session.fetching(id) else { return };
        cx.disarm(&mut fetching.cancel_due, due);
        fetching.landed = 0;
        let waited = core::mem::take(&mut fetching.waiting);
        let mut unread = Vec::new();
        for slot in &mut fetching.slots {
            match *slot {
                Slot::Posted(source) if seeded(Fault::UnpinOnSessionEnd) => unread.push(source.job),
                Slot::Posted(_) | Slot::Lost => continue,
                Slot::Claimed(source) | Slot::Landed(source) => unread.push(source.job),
                Slot::Waiting => {}
            }
            *slot = Slot::Lost;
        }
        self.session.parked -= waited;
        for job in unread {
            self.tables.unclaim(cx, job, Some(StoreFailure::Session(reason)));
        }
    }

    /// Pins and pools of this session go back to the engine (PD-4).
    fn close_supply(&mut self, cx: &mut Cx<'_>, reason: CloseReason) {
        let probing =
            self.session.rounds.iter().filter(|(_, serving)| matches!(serving, Serving::Probing(_)));
        let ids: Vec<RoundId> = probing.map(|(id, _)| id.clone()).collect();
        for id in ids {
            let pins = self.close_probing(cx, &id);
            self.unpin(cx, &pins);
        }
        let bound = self.tables.pools.iter().filter(|(_, pool)| pool.holder == Holder::Bound(self.epoch));
        let ids: Vec<RequestId> = bound.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.tables.end_pool(cx, &id, Some(StoreFailure::Session(reason)), None);
        }
    }

    fn fetches(&self, of: impl Fn(&Fetching) -> bool) -> Vec<RoundId> {
        let live = self.session.rounds.iter().filter(|(_, serving)| match serving {
            Serving::Fetching(fetching) => of(fetching),
            Serving::Probing(_) => false,
        });
        live.map(|(id, _)| id.clone()).collect()
    }
}
