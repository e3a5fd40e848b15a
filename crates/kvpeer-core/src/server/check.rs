//! The structural laws of the server role.

use alloc::collections::{BTreeMap, BTreeSet};

use super::{Ending, Fetching, Holder, Origin, Pins, Serving, Session, Slot, Tables};
use crate::deadlines::{Deadlines, Due};
use crate::endpoint::{count, law};
use crate::{Epoch, JobId, ProbeId, Violation, XferId};

impl Session {
    pub(crate) fn live_fetches(&self) -> usize {
        self.rounds.values().filter(|serving| matches!(serving, Serving::Fetching(_))).count()
    }

    /// How many deadlines of this session are armed.
    pub(crate) fn armed(&self) -> usize {
        let rounds = self.rounds.values().map(|serving| match serving {
            Serving::Probing(_) => 0,
            Serving::Fetching(fetching) => count(&[fetching.parked_due, fetching.cancel_due]),
        });
        let lookups = self.lookups.values().map(|asked| count(&[asked.due, asked.retry_due]));
        let xfers = self.xfers.values().map(|xfer| count(&[xfer.due]));
        rounds.chain(lookups).chain(xfers).sum()
    }

    pub(crate) fn count_claims(&self, claims: &mut BTreeMap<JobId, u32>) {
        for serving in self.rounds.values() {
            if let Serving::Fetching(fetching) = serving {
                for source in fetching.slots.iter().filter_map(Slot::source) {
                    *claims.entry(source.job).or_default() += 1;
                }
            }
        }
    }

    pub(crate) fn check(
        &self,
        epoch: Epoch,
        tables: &Tables,
        deadlines: &Deadlines,
    ) -> Result<(), Violation> {
        let mut totals = Totals::default();
        let mut requests = BTreeSet::new();
        for (id, serving) in &self.rounds {
            requests.insert(&id.request);
            match serving {
                Serving::Probing(probing) => {
                    let lookups = self.lookups.values().filter(|asked| asked.id == *id).count();
                    law(probing.lookups == lookups, "a round counts its lookups")?;
                    law(!probing.is_empty(), "a probing round has a lookup or a pin")?;
                    law(
                        probing.pins.iter().all(|pins| pins.len() > 0),
                        "an answered lookup is kept for its pins",
                    )?;
                    totals.pinned += probing.pins.iter().map(Pins::len).sum::<usize>();
                    totals.kept += probing.pins.iter().map(|pins| pins.kept).sum::<usize>();
                }
                Serving::Fetching(fetching) => {
                    fetching.check()?;
                    totals.parked += fetching.waiting;
                    totals.in_flight += fetching.in_flight;
                    totals.kept += fetching.kept;
                    let queued = self.ready.iter().filter(|ready| *ready == id).count();
                    let posts = fetching.ending == Ending::Going && fetching.posted < fetching.queue.len();
                    law(queued == usize::from(posts), "a round with blocks to post stands in line, once")?;
                    let pool = tables.pools.get(&id.request);
                    let listed = pool.is_some_and(|pool| {
                        pool.holder == Holder::Bound(epoch) && pool.demand.contains(&id.round)
                    });
                    let needs = fetching.wanted.is_some() && self.closing.is_none();
                    law(listed || !needs, "an await round is demand of the pool it is bound to")?;
                    let parked = fetching.parked_due.is_some_and(|at| {
                        deadlines.contains(at, &Due::Parked(epoch, id.request.clone(), id.round))
                    });
                    let waits = fetching.ending == Ending::Going && fetching.waiting > 0;
                    law(parked == waits, "parked demand, and only that, has a deadline")?;
                }
            }
        }
        for asked in self.lookups.values() {
            totals.kept += asked.pins.kept;
            totals.pinned += asked.pins.len();
            law(asked.pins.open() > 0, "an open lookup has open keys")?;
            law(asked.pins.open() == asked.pins.open_keys().count(), "open keys are counted")?;
        }
        for (seq, asked) in &self.lookups {
            let due = Due::Probe(ProbeId { epoch, seq: *seq });
            law(asked.due.is_some_and(|at| deadlines.contains(at, &due)), "a lookup has a deadline")?;
        }
        for (seq, xfer) in &self.xfers {
            let due = Due::Write(XferId { epoch, seq: *seq });
            let armed = xfer.due.is_some_and(|at| deadlines.contains(at, &due));
            law(armed || self.closing.is_some(), "a WRITE of a live session has a deadline")?;
            law(self.rounds.contains_key(&xfer.id), "a WRITE belongs to a live round")?;
        }
        law(requests.len() == self.requests, "different requests are counted")?;
        law(totals.parked == self.parked, "parked blocks are counted")?;
        law(totals.pinned == self.pinned, "pinned blocks are counted")?;
        law(totals.in_flight == self.blocks_in_flight, "blocks in flight are counted")?;
        let posted: usize = self.xfers.values().map(|xfer| xfer.to - xfer.from).sum();
        law(posted == totals.in_flight, "what is in flight is in a WRITE")?;
        law(totals.kept == self.kept, "bytes kept are counted")
    }
}

#[derive(Default)]
struct Totals {
    parked: usize,
    pinned: usize,
    in_flight: usize,
    kept: usize,
}

impl Fetching {
    /// demanded = waiting + claimed + in flight + landed + lost
    fn check(&self) -> Result<(), Violation> {
        let slots = |of: fn(&Slot) -> bool| self.slots.iter().filter(|slot| of(slot)).count();
        law(slots(|slot| matches!(slot, Slot::Waiting)) == self.waiting, "waiting blocks are counted")?;
        law(slots(|slot| matches!(slot, Slot::Landed(_))) == self.landed, "landed blocks are counted")?;
        law(slots(|slot| matches!(slot, Slot::Posted(_))) <= self.in_flight, "posted blocks are in flight")?;
        let silent = matches!(self.ending, Ending::Silent(_));
        let over = self.in_flight == 0 && (self.ending != Ending::Going || self.landed == self.slots.len());
        law(!over, "a fetch with nothing left to do has ended")?;
        let claimed = slots(|slot| matches!(slot, Slot::Claimed(_)));
        law(silent || claimed >= self.queue.len() - self.posted, "the queue holds what is claimed")?;
        law(self.dst.len() == self.slots.len(), "every demanded block has a destination")
    }
}

impl Tables {
    /// How many deadlines of jobs, pools and remembered ids are armed.
    pub(crate) fn armed(&self) -> usize {
        let jobs = self.jobs.values().map(|job| count(&[job.due]));
        let pools = self.pools.values().map(|pool| count(&[pool.due]));
        jobs.chain(pools).sum::<usize>() + self.over.len()
    }

    pub(crate) fn check(&self, deadlines: &Deadlines, claims: BTreeMap<JobId, u32>) -> Result<(), Violation> {
        let mut offered: BTreeMap<JobId, u32> = BTreeMap::new();
        for (id, pool) in &self.pools {
            for (_, job) in pool.supply.keys() {
                *offered.entry(*job).or_default() += 1;
                law(pool.jobs.contains(job), "supply belongs to a job of its pool")?;
            }
            if let Some(at) = pool.due() {
                law(deadlines.contains(at, &Due::Unbound(id.clone())), "a pool's deadline is armed")?;
            }
            let waits = pool.holder == Holder::Unbound || pool.supplied() + pool.demand.len() == 0;
            law(pool.due().is_some() == waits, "a pool nobody uses, and only that, has a deadline")?;
            law(self.over.get(id.as_str()).is_none(), "an id is either supplied or over")?;
        }
        for (id, at) in self.over.iter() {
            law(deadlines.contains(at, &Due::Remembered(id.clone())), "a remembered id has a deadline")?;
        }
        let bound = self.pools.values().filter(|pool| pool.holder != Holder::Unbound).count();
        law(self.bound.values().sum::<usize>() == bound, "bound pools are counted")?;
        for (job, found) in &self.jobs {
            if let Some(at) = found.due {
                law(deadlines.contains(at, &found.due_key(*job)), "a job's deadline is armed")?;
            }
            law(found.offered + found.claimed > 0, "a job with nothing left has its result")?;
            law(claims.get(job).copied().unwrap_or(0) == found.claimed, "claimed blocks are counted")?;
            let sum = found.offered + found.claimed + found.delivered;
            law(sum <= found.total, "no block of a job is counted twice")?;
            match found.origin {
                Origin::Store => {
                    let count = offered.get(job).copied().unwrap_or(0);
                    law(count == found.offered, "offered blocks are counted")?;
                }
                Origin::Pin(..) => {}
            }
        }
        law(claims.keys().all(|job| self.jobs.contains_key(job)), "what is claimed belongs to a job")?;
        law(offered.keys().all(|job| self.jobs.contains_key(job)), "what is offered belongs to a job")
    }
}
