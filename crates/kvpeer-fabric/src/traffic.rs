//! The accounts of one right: which transfers wait, are in flight or have ended, and what they report.
//!
//! Pure bookkeeping without libfabric. Its law: each admitted transfer ends exactly once (SUP-6), and only when none
//! of its parts is in flight.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::error::FabricError;
use crate::event::{Refusal, TransferEnd};
use crate::faults::{Fault, seeded};
use crate::runs::{Part, Shape, plan};

/// Names a transfer for as long as one of its parts is in flight. Slots are used again, with a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A transfer's id and how it ended.
pub(crate) type Ended = (u64, TransferEnd);

/// Queue and accounts. Allocates only while it grows.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_seq: HashMap<u64, Ticket>,
    /// Parts not posted yet, in order. Parts of transfers that were cut or have ended are skipped when met.
    queue: VecDeque<(Ticket, Part)>,
    /// In order, since all transfers of a plane have the same time. Those of ended transfers are skipped.
    deadlines: VecDeque<(Instant, Ticket)>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    /// `None`: free.
    transfer: Option<Transfer>,
}

#[derive(Debug)]
struct Transfer {
    seq: u64,
    /// Parts in the queue that will still be posted.
    queued: usize,
    in_flight: usize,
    /// Why the rest will not be posted.
    cut: Option<Refusal>,
    /// The first error of a part.
    error: Option<FabricError>,
}

impl Traffic {
    /// Takes a transfer on. The indexes were checked. `Ok(Some(..))`: it has nothing to move and is done.
    pub(crate) fn admit(
        &mut self,
        seq: u64,
        (src, dst): (&[u32], &[u32]),
        shape: Shape,
        queue_limit: usize,
        deadline: Instant,
    ) -> Result<Option<Ended>, Refusal> {
        if self.by_seq.contains_key(&seq) {
            return Err(Refusal::DuplicateId);
        }
        let before = self.queue.len();
        let ticket = self.vacancy();
        let mut fits = true;
        plan(src, dst, shape, |part| {
            fits = self.queue.len() < queue_limit;
            if fits {
                self.queue.push_back((ticket, part));
            }
            fits
        });
        let queued = self.queue.len() - before;
        if !fits || queued == 0 {
            self.queue.truncate(before);
            self.free.push(ticket.index);
            return if fits { Ok(Some((seq, TransferEnd::Done))) } else { Err(Refusal::QueueFull) };
        }
        if let Some(slot) = self.slots.get_mut(ticket.index as usize) {
            slot.transfer = Some(Transfer { seq, queued, in_flight: 0, cut: None, error: None });
        }
        self.by_seq.insert(seq, ticket);
        self.note_deadline(deadline, ticket);
        Ok(None)
    }

    /// The part to post next, and whether others wait behind it.
    pub(crate) fn next(&mut self) -> Option<(Ticket, Part, bool)> {
        while let Some((ticket, part)) = self.queue.front().copied() {
            if self.get(ticket).is_some_and(|transfer| transfer.cut.is_none()) {
                return Some((ticket, part, self.queue.len() > 1));
            }
            self.queue.pop_front();
        }
        None
    }

    /// The part that `next` answered was posted.
    pub(crate) fn posted(&mut self) {
        let Some((ticket, _)) = self.queue.pop_front() else { return };
        if let Some(transfer) = self.get_mut(ticket) {
            transfer.queued = transfer.queued.saturating_sub(1);
            transfer.in_flight += 1;
        }
    }

    /// A posted part of this transfer completed.
    pub(crate) fn completed(&mut self, ticket: Ticket, result: Result<(), FabricError>) -> Option<Ended> {
        let transfer = self.get_mut(ticket)?;
        transfer.in_flight = transfer.in_flight.saturating_sub(1);
        if let Err(error) = result
            && !seeded(Fault::FailedWriteIsDone)
        {
            transfer.error.get_or_insert(error);
        }
        self.end_if_over(ticket)
    }

    /// Drops what is not posted yet of one transfer. Unknown ids and those without such parts are left alone.
    pub(crate) fn cut(&mut self, seq: u64, why: Refusal) -> Option<Ended> {
        let ticket = *self.by_seq.get(&seq)?;
        self.cut_ticket(ticket, why).filter(|_| !seeded(Fault::CancelUntold))
    }

    /// Drops what is not posted yet of all transfers.
    pub(crate) fn cut_all(&mut self, why: Refusal, mut each: impl FnMut(Ended)) {
        self.queue.clear();
        for index in 0..self.slots.len() {
            let Some(ticket) = self.ticket_at(index) else { continue };
            if let Some(ended) = self.cut_ticket(ticket, why) {
                each(ended);
            }
        }
    }

    /// The endpoint is closed: whatever has not ended, ends so.
    pub(crate) fn fence(&mut self, mut each: impl FnMut(Ended)) {
        self.queue.clear();
        self.deadlines.clear();
        for index in 0..self.slots.len() {
            let Some(ticket) = self.ticket_at(index) else { continue };
            if let Some(transfer) = self.remove(ticket)
                && !seeded(Fault::FencedUntold)
            {
                each((transfer.seq, TransferEnd::Fenced));
            }
        }
    }

    /// Reports the transfers past their deadline, each once.
    pub(crate) fn stalled(&mut self, now: Instant, mut each: impl FnMut(u64)) {
        while let Some((deadline, ticket)) = self.deadlines.front().copied() {
            match self.get(ticket) {
                Some(_) if deadline > now => return,
                Some(transfer) if !seeded(Fault::StallUntold) => each(transfer.seq),
                Some(_) | None => {}
            }
            self.deadlines.pop_front();
        }
    }

    /// When `stalled` has something to report at the earliest.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let live = |(_, ticket): &&(Instant, Ticket)| self.get(*ticket).is_some();
        self.deadlines.iter().find(live).map(|(deadline, _)| *deadline)
    }

    /// Whether parts wait to be posted (some may belong to cut transfers).
    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    fn cut_ticket(&mut self, ticket: Ticket, why: Refusal) -> Option<Ended> {
        let transfer = self.get_mut(ticket)?;
        if transfer.queued > 0 {
            transfer.queued = 0;
            transfer.cut = Some(why);
        }
        self.end_if_over(ticket)
    }

    fn end_if_over(&mut self, ticket: Ticket) -> Option<Ended> {
        let over = self.get(ticket).is_some_and(|transfer| {
            transfer.in_flight == 0 && transfer.queued == 0 || seeded(Fault::DoneAtFirstPart)
        });
        let transfer = if over { self.remove(ticket)? } else { return None };
        let end = match (transfer.error, transfer.cut) {
            (Some(error), _) => TransferEnd::Errored(error),
            (None, Some(why)) => TransferEnd::NotPosted(why),
            (None, None) => TransferEnd::Done,
        };
        Some((transfer.seq, end))
    }

    fn note_deadline(&mut self, deadline: Instant, ticket: Ticket) {
        // A stuck transfer at the front would let entries of ended ones pile up behind it.
        if self.deadlines.len() > 2 * self.by_seq.len() + 64 {
            let slots = &self.slots;
            self.deadlines.retain(|(_, ticket)| live(slots, *ticket).is_some());
        }
        self.deadlines.push_back((deadline, ticket));
    }

    fn vacancy(&mut self) -> Ticket {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, transfer: None });
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let generation = self.slots.get(index as usize).map_or(0, |slot| slot.generation);
        Ticket { index, generation }
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Transfer> {
        let slot =
            self.slots.get_mut(ticket.index as usize).filter(|slot| slot.generation == ticket.generation)?;
        let transfer = slot.transfer.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(ticket.index);
        self.by_seq.remove(&transfer.seq);
        Some(transfer)
    }

    fn ticket_at(&self, index: usize) -> Option<Ticket> {
        let slot = self.slots.get(index).filter(|slot| slot.transfer.is_some())?;
        Some(Ticket { index: u32::try_from(index).ok()?, generation: slot.generation })
    }

    fn get(&self, ticket: Ticket) -> Option<&Transfer> {
        live(&self.slots, ticket)
    }

    fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Transfer> {
        let slot = self.slots.get_mut(ticket.index as usize)?;
        slot.transfer.as_mut().filter(|_| slot.generation == ticket.generation)
    }
}

fn live(slots: &[Slot], ticket: Ticket) -> Option<&Transfer> {
    let slot = slots.get(ticket.index as usize)?;
    slot.transfer.as_ref().filter(|_| slot.generation == ticket.generation)
}

#[cfg(test)]
#[path = "traffic_tests.rs"]
mod tests;
