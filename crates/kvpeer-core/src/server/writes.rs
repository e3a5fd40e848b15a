//! WRITEs: posted a bounded number at a time, rounds in turn; each ends exactly once.

use alloc::vec::Vec;

use kvpeer_wire::Failure;

use super::fetches::runs;
use super::jobs::Stage;
use super::{Ending, Fetching, Producer, RoundId, Slot, Writes, Xfer};
use crate::cx::Cx;
use crate::deadlines::Due;
use crate::faults::{Fault, seeded};
use crate::{Action, BlockIdx, CloseReason, Count, StoreFailure, TransferEnd, XferId};

impl Producer<'_> {
    /// Posts what fits into the window (SUP-3, LIM-5).
    pub(super) fn post(&mut self, cx: &mut Cx<'_>) {
        // SUP-7, I8: nothing new for a peer that is over.
        let over = self.session.closing.is_some() || self.session.writes == Writes::Errored;
        if over && !seeded(Fault::WriteWhileClosing) {
            return;
        }
        let block_len = cx.config.region.block_len;
        let (window, most) =
            (cx.config.limits.window_blocks(block_len), cx.config.limits.write_blocks(block_len));
        while self.session.blocks_in_flight < window
            && let Some(id) = self.session.ready.pop_front()
        {
            let room = (window - self.session.blocks_in_flight).min(most);
            if self.post_some(cx, &id, room) {
                self.session.ready.push_back(id);
            }
        }
    }

    /// Posts one WRITE of at most `most` blocks. Says whether the round has more to post.
    fn post_some(&mut self, cx: &mut Cx<'_>, id: &RoundId, most: usize) -> bool {
        let seq = self.session.mint();
        let Some(fetching) = self.session.fetching(id) else { return false };
        let from = fetching.posted;
        let to = fetching.queue.len().min(from.saturating_add(most));
        let (mut src, mut dst) = (Vec::<BlockIdx>::new(), Vec::<BlockIdx>::new());
        src.reserve_exact(to - from);
        dst.reserve_exact(to - from);
        for at in fetching.queue.get(from..to).unwrap_or_default() {
            let at = *at as usize;
            if let (Some(slot), Some(target)) = (fetching.slots.get_mut(at), fetching.dst.get(at))
                && let Slot::Claimed(source) = *slot
            {
                *slot = Slot::Posted(source);
                src.push(source.block);
                dst.push(*target);
            }
        }
        fetching.posted = to;
        fetching.in_flight += to - from;
        let more = to < fetching.queue.len();
        self.session.blocks_in_flight += to - from;
        let xfer = XferId { epoch: self.epoch, seq };
        let due = Some(cx.arm(cx.now + cx.config.timing.write, Due::Write(xfer)));
        self.session.xfers.insert(seq, Xfer { id: id.clone(), from, to, due });
        cx.act(Action::Write { xfer, src: &src, dst: &dst }); // SUP-6
        more
    }

    /// A WRITE has ended. Returns why the session must end, if it must.
    pub(crate) fn transfer(&mut self, cx: &mut Cx<'_>, seq: u64, end: TransferEnd) -> Option<CloseReason> {
        if !self.session.xfers.contains_key(&seq) {
            cx.count(Count::StaleTransfer);
            return None;
        }
        let lied = seeded(Fault::ErrorIsDone) && end == TransferEnd::Errored;
        let end = if lied { TransferEnd::Done } else { end };
        let verdict = match end {
            TransferEnd::NotPosted if seeded(Fault::RefusalEndsSession) => Some(CloseReason::DataPlane),
            TransferEnd::Done | TransferEnd::NotPosted => None,
            TransferEnd::Errored => {
                self.session.writes = Writes::Errored;
                Some(CloseReason::DataPlane)
            }
            // Proves nothing before its right reports closed (SUP-9): see `fenced`.
            TransferEnd::Fenced => return None,
        };
        self.end_write(cx, seq, end);
        verdict
    }

    /// The deadline of a WRITE has passed; the WRITE itself goes on (SUP-10).
    pub(crate) fn write_timed_out(&mut self, seq: u64) {
        if let Some(xfer) = self.session.xfers.get_mut(&seq) {
            xfer.due = None;
        }
    }

    /// Every WRITE that has not ended is over: its right is closed, nothing reads its source any more (SUP-9).
    pub(crate) fn fenced(&mut self, cx: &mut Cx<'_>) {
        let seqs: Vec<u64> = self.session.xfers.keys().copied().collect();
        seqs.into_iter().for_each(|seq| self.end_write(cx, seq, TransferEnd::Fenced));
    }

    fn end_write(&mut self, cx: &mut Cx<'_>, seq: u64, end: TransferEnd) {
        let Some(mut xfer) = self.session.xfers.remove(&seq) else { return };
        cx.disarm(&mut xfer.due, Due::Write(XferId { epoch: self.epoch, seq }));
        let blocks = xfer.to - xfer.from;
        self.session.blocks_in_flight -= blocks;
        let Some(fetching) = self.session.fetching(&xfer.id) else { return };
        fetching.in_flight -= blocks;
        let ending = fetching.ending;
        let lost = match end {
            // Its session is over: nobody is told of it, and nothing reads its source any more (SUP-15).
            TransferEnd::Done | TransferEnd::NotPosted if matches!(ending, Ending::Silent(_)) => {
                Some(self.why_lost(ending))
            }
            TransferEnd::Done => {
                fetching.landed += blocks;
                fetching.mark(&xfer, Slot::Landed);
                None
            }
            // Dropped because the round is ending anyway: its blocks are as they were before (SUP-8).
            TransferEnd::NotPosted if ending != Ending::Going => {
                fetching.mark(&xfer, Slot::Claimed);
                None
            }
            TransferEnd::NotPosted | TransferEnd::Errored => Some(Some(StoreFailure::WriteFailed)),
            TransferEnd::Fenced => Some(self.why_lost(ending)),
        };
        if let Some(why) = lost {
            self.lose_write(cx, &xfer, why);
        }
        match end {
            TransferEnd::Done | TransferEnd::Fenced => {}
            TransferEnd::NotPosted => self.fail_write(cx, &xfer.id),
            TransferEnd::Errored => {
                if let Some(fetching) = self.session.fetching(&xfer.id) {
                    fetching.errored = true;
                }
                self.fail_write(cx, &xfer.id);
            }
        }
        if !self.advance(cx, &xfer.id) {
            self.tell_growth(cx, &xfer.id);
        }
        self.post(cx);
    }

    /// A round, and none of its neighbours, fails with its WRITE (SUP-8, I9).
    fn fail_write(&mut self, cx: &mut Cx<'_>, id: &RoundId) {
        if self.session.fetching(id).is_some_and(|fetching| fetching.ending == Ending::Going) {
            self.set_ending(cx, id, Ending::Failing(Failure::WriteFailed));
        }
    }

    fn lose_write(&mut self, cx: &mut Cx<'_>, xfer: &Xfer, why: Option<StoreFailure>) {
        let mut jobs = Vec::new();
        if let Some(fetching) = self.session.fetching(&xfer.id) {
            fetching.mark(xfer, |source| {
                jobs.push(source.job);
                Slot::Lost
            });
        }
        let runs = runs(jobs.into_iter());
        runs.for_each(|(job, count)| self.tables.lose(cx, job, count, Stage::Claimed, why));
    }

    /// The engine says that nobody reads the blocks of this store any more, though its right could not be fenced.
    /// Says whether the store was held by this session.
    pub(crate) fn release_held(&mut self, cx: &mut Cx<'_>, job: crate::JobId) -> bool {
        let mut freed = 0u32;
        let mut why = None;
        for serving in self.session.rounds.values_mut() {
            let super::Serving::Fetching(fetching) = serving else { continue };
            for slot in &mut fetching.slots {
                if matches!(slot, Slot::Posted(source) if source.job == job) {
                    *slot = Slot::Lost;
                    freed += 1;
                }
            }
            if let Ending::Silent(reason) = fetching.ending {
                why = Some(StoreFailure::Session(reason));
            }
        }
        if freed > 0 {
            self.tables.lose(cx, job, freed, Stage::Claimed, why);
            let held = self.session.rounds.values().any(|serving| match serving {
                super::Serving::Fetching(fetching) => {
                    fetching.slots.iter().any(|slot| matches!(slot, Slot::Posted(_)))
                }
                super::Serving::Probing(_) => false,
            });
            if !held {
                self.fenced(cx);
            }
        }
        freed > 0
    }
}

impl Fetching {
    /// Moves the posted blocks of a WRITE on.
    fn mark(&mut self, xfer: &Xfer, mut to: impl FnMut(super::Source) -> Slot) {
        for at in self.queue.get(xfer.from..xfer.to).unwrap_or_default() {
            if let Some(slot) = self.slots.get_mut(*at as usize)
                && let Slot::Posted(source) = *slot
            {
                *slot = to(source);
            }
        }
    }
}
