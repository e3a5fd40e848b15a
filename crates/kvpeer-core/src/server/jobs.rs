//! Store jobs: blocks pinned in the engine's memory until their one result.

use super::{Job, Offer, Origin, Tables};
use crate::cx::Cx;
use crate::deadlines::Due;
use crate::faults::{Fault, seeded};
use crate::{Event, JobId, StoreFailure, StoreOutcome};

/// From which of a job's counts a block leaves.
#[derive(Clone, Copy)]
pub(super) enum Stage {
    Offered,
    Claimed,
}

impl Job {
    pub(super) fn due_key(&self, job: JobId) -> Due {
        match self.origin {
            Origin::Store => Due::Store(job),
            Origin::Pin(..) => Due::Pin(job),
        }
    }

    /// SUP-12
    fn outcome(&self) -> StoreOutcome {
        match (self.delivered, self.failure) {
            (delivered, _) if delivered == self.total => StoreOutcome::Delivered,
            (0, None) => StoreOutcome::Unclaimed,
            (0, Some(failure)) => StoreOutcome::Failed(failure),
            (delivered, _) => StoreOutcome::Partly { delivered },
        }
    }
}

impl Tables {
    /// A round takes offered blocks. The match stops a pin's time to live (PIN-3).
    pub(super) fn claim(&mut self, cx: &mut Cx<'_>, job: JobId, count: u32) {
        let Some(found) = self.jobs.get_mut(&job) else { return };
        found.offered -= count;
        found.claimed += count;
        match found.origin {
            Origin::Store => {}
            Origin::Pin(..) => cx.disarm(&mut found.due, Due::Pin(job)),
        }
    }

    /// Claimed blocks have reached the consumer.
    pub(super) fn deliver(&mut self, cx: &mut Cx<'_>, job: JobId, count: u32) {
        if let Some(found) = self.jobs.get_mut(&job) {
            found.claimed -= count;
            found.delivered += count;
        }
        self.settle(cx, job);
    }

    /// `count` blocks will not reach anybody; without a reason they are merely unclaimed.
    pub(super) fn lose(
        &mut self,
        cx: &mut Cx<'_>,
        job: JobId,
        count: u32,
        stage: Stage,
        why: Option<StoreFailure>,
    ) {
        if let Some(found) = self.jobs.get_mut(&job) {
            match stage {
                Stage::Offered => found.offered -= count,
                Stage::Claimed => found.claimed -= count,
            }
            found.failure = found.failure.or(why);
        }
        self.settle(cx, job);
    }

    /// A claimed block is offered again, if its job still offers. Says whether it is.
    pub(super) fn give_back(&mut self, job: JobId) -> bool {
        match self.jobs.get_mut(&job) {
            Some(found) if found.offer == Offer::Open => {
                found.claimed -= 1;
                found.offered += 1;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Nothing of the job is offered any more; what is claimed runs to its end.
    pub(super) fn close_offer(&mut self, cx: &mut Cx<'_>, job: JobId, why: Option<StoreFailure>) {
        let Some(found) = self.jobs.get_mut(&job) else { return };
        found.offer = Offer::Closed;
        found.offered = 0;
        if seeded(Fault::UnpinOnStoreTimer) {
            found.claimed = 0;
        }
        found.failure = found.failure.or(why);
        let due = found.due_key(job);
        cx.disarm(&mut found.due, due);
        self.settle(cx, job);
    }

    /// Tells a job's one result (I3), but not while a round reads it (I2, PD-6): what is read is claimed.
    fn settle(&mut self, cx: &mut Cx<'_>, job: JobId) {
        let over = self.jobs.get(&job).is_some_and(|found| found.offered == 0 && found.claimed == 0);
        if !over {
            return;
        }
        if let Some(mut found) = self.jobs.remove(&job) {
            let due = found.due_key(job);
            cx.disarm(&mut found.due, due);
            if let Some(pool) = self.pools.get_mut(&found.request) {
                pool.jobs.remove(&job);
            }
            cx.tell(Event::StoreFinished { job, outcome: found.outcome() });
        }
    }
}
