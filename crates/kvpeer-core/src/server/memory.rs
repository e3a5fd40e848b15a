//! The memory of ids whose supply is over: late fetches and stores of them fail at once (PD-10).

use kvpeer_wire::Failure;

use super::{Over, Tables};
use crate::cx::Cx;
use crate::deadlines::Due;
use crate::{Count, RequestId, Time};

/// What a remembered id keeps, in bytes; rounded up.
const REMEMBERED_SIZE: usize = 512;

impl Over {
    pub(super) fn get(&self, id: &str) -> Option<Failure> {
        self.by_id.get(id).map(|(failure, _)| *failure)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RequestId, Time)> {
        self.by_id.iter().map(|(id, (_, due))| (id, *due))
    }

    /// Forgets an id; returns when it would have been forgotten anyway.
    fn remove(&mut self, id: &RequestId) -> Option<Time> {
        let (_, due) = self.by_id.remove(id)?;
        self.by_due.remove(&(due, id.clone()));
        Some(due)
    }
}

impl Tables {
    pub(super) fn remember(&mut self, cx: &mut Cx<'_>, id: &RequestId, failure: Failure) {
        self.forget_over(cx, id);
        // A peer can fill this memory, with names of its own choosing: it stays a small part of what is kept for peers.
        let most = cx.config.limits.remembered.min(cx.config.limits.total_bytes / (8 * REMEMBERED_SIZE));
        if self.over.len() >= most.max(1)
            && let Some((_, oldest)) = self.over.by_due.first().cloned()
        {
            cx.count(Count::ForgottenEarly);
            self.forget_over(cx, &oldest);
        }
        let due = cx.arm(cx.now + cx.config.timing.remembered, Due::Remembered(id.clone()));
        self.over.by_id.insert(id.clone(), (failure, due));
        self.over.by_due.insert((due, id.clone()));
    }

    pub(super) fn forget_over(&mut self, cx: &mut Cx<'_>, id: &RequestId) {
        if let Some(due) = self.over.remove(id) {
            cx.deadlines.disarm(due, Due::Remembered(id.clone()));
        }
    }

    /// The time of an id in memory is up.
    pub(crate) fn memory_timed_out(&mut self, id: &RequestId) {
        self.over.remove(id);
    }
}
