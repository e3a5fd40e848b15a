//! Pools: what is stored for a request, until its consumer's `await` rounds take it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use kvpeer_wire::{Failure, Key, Keys, RequestName, Round};

use super::jobs::Stage;
use super::{Holder, Intake, Job, Offer, Origin, Pool, Tables};
use crate::client::{check_counts, check_distinct};
use crate::cx::Cx;
use crate::deadlines::Due;
use crate::faults::{Fault, seeded};
use crate::{
    BlockIdx, Count, Epoch, Event, JobId, KeyBuf, Misuse, PeerId, RequestId, StoreFailure, StoreOutcome, Time,
};

/// A store as the engine wishes it.
pub(crate) struct Offered<'a> {
    pub(crate) job: JobId,
    pub(crate) request: RequestName<'a>,
    pub(crate) keys: Keys<'a>,
    pub(crate) blocks: &'a [BlockIdx],
    /// The only peer that may have it.
    pub(crate) consumer: Option<PeerId>,
    /// The peer that the request's supply is bound to.
    pub(crate) holder: Option<PeerId>,
}

/// What became of a store.
pub(crate) enum Stored {
    /// It has its result.
    Over,
    /// It waits for its consumer.
    Parked,
    /// It may meet demand of this session.
    Bound(Epoch),
}

impl Pool {
    fn unbound(consumer: Option<PeerId>) -> Self {
        Self {
            holder: Holder::Unbound,
            consumer,
            intake: Intake::Coming,
            supply: BTreeMap::new(),
            jobs: BTreeSet::new(),
            demand: BTreeSet::new(),
            due: None,
        }
    }

    /// Takes one block of this key.
    pub(super) fn take(&mut self, key: Key<'_>) -> Option<(JobId, BlockIdx)> {
        let key = KeyBuf::from(key);
        let (found, _) = self.supply.range((key, JobId(0))..=(key, JobId(u64::MAX))).next()?;
        let found = *found;
        self.supply.remove(&found).map(|block| (found.1, block))
    }

    pub(super) fn put(&mut self, key: Key<'_>, job: JobId, block: BlockIdx) {
        self.supply.insert((KeyBuf::from(key), job), block);
    }

    /// Whether a consumer that the engine names agrees with the one it named before and with the holder (PD-3).
    fn may_go_to(&self, named: Option<&PeerId>, holder: Option<&PeerId>) -> bool {
        let Some(named) = named else { return true };
        self.consumer.as_ref().is_none_or(|before| before == named)
            && holder.is_none_or(|holder| holder == named)
    }

    pub(super) fn is_bound_to(&self, epoch: Epoch) -> bool {
        self.holder == Holder::Bound(epoch)
    }

    /// Why unmet demand cannot be met any more, if it cannot.
    pub(super) fn no_more_comes(&self) -> Option<Failure> {
        match self.intake {
            Intake::Coming => None,
            Intake::Finished => Some(Failure::ProducerFinished),
            Intake::Released => Some(Failure::SupplyTimeout),
        }
    }

    pub(super) fn takes_back(&self) -> bool {
        self.intake != Intake::Released
    }

    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    pub(crate) fn supplied(&self) -> usize {
        self.supply.len()
    }
}

impl Tables {
    /// Offers blocks, or refuses and changes nothing (CMD-4).
    pub(crate) fn store(&mut self, cx: &mut Cx<'_>, offered: Offered<'_>) -> Result<Stored, Misuse> {
        let Offered { job, request, keys, blocks, consumer, holder } = offered;
        check_counts(keys, blocks.len(), cx.config.limits.keys)?;
        check_distinct(keys)?;
        if let Some(block) = blocks.iter().find(|block| **block >= cx.config.region.num_blocks) {
            return Err(Misuse::OutOfRange(*block));
        }
        let pool = self.pools.get(request.as_str());
        if pool.is_some_and(|pool| !pool.may_go_to(consumer.as_ref(), holder.as_ref())) {
            return Err(Misuse::OtherConsumer);
        }
        let finished = pool.is_some_and(|pool| pool.intake == Intake::Finished);
        if finished || self.over.get(request.as_str()).is_some() {
            let outcome = StoreOutcome::Failed(StoreFailure::SupplyOver); // PD-10
            cx.tell(Event::StoreFinished { job, outcome });
            return Ok(Stored::Over);
        }
        if blocks.is_empty() {
            cx.tell(Event::StoreFinished { job, outcome: StoreOutcome::Delivered });
            return Ok(Stored::Over);
        }
        let id = RequestId::from(request);
        let pool = self.pools.entry(id.clone()).or_insert_with(|| Pool::unbound(None));
        pool.consumer = pool.consumer.take().or(consumer);
        if pool.supply.is_empty() {
            // The time to claim it starts with the first block there is to claim.
            cx.disarm(&mut pool.due, Due::Unbound(id.clone()));
        }
        pool.jobs.insert(job);
        for (key, block) in keys.iter().zip(blocks) {
            pool.put(key, job, *block);
        }
        let (due, stored) = match pool.holder {
            Holder::Unbound => (None, Stored::Parked),
            Holder::Bound(epoch) => {
                (Some(cx.arm(cx.now + cx.config.timing.store, Due::Store(job))), Stored::Bound(epoch))
            }
        };
        let total = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
        let new = Job {
            request: id.clone(),
            origin: Origin::Store,
            total,
            offered: total,
            claimed: 0,
            delivered: 0,
            failure: None,
            offer: Offer::Open,
            due,
        };
        self.jobs.insert(job, new);
        self.tend(cx, &id);
        Ok(stored)
    }

    /// Announces a request that this node will produce; its id's past is forgotten (PD-11).
    pub(crate) fn open(
        &mut self,
        cx: &mut Cx<'_>,
        request: RequestName<'_>,
        consumer: Option<PeerId>,
        holder: Option<PeerId>,
    ) -> Result<(), Misuse> {
        match self.pools.get_mut(request.as_str()) {
            Some(pool) if !pool.may_go_to(consumer.as_ref(), holder.as_ref()) => {
                return Err(Misuse::OtherConsumer);
            }
            Some(pool) => pool.consumer = pool.consumer.take().or(consumer),
            None => {
                let id = RequestId::from(request);
                self.forget_over(cx, &id);
                self.pools.insert(id.clone(), Pool::unbound(consumer));
                self.tend(cx, &id);
            }
        }
        Ok(())
    }

    /// The session that a request's supply is bound to.
    pub(crate) fn holder(&self, request: RequestName<'_>) -> Option<Epoch> {
        match self.pools.get(request.as_str())?.holder {
            Holder::Bound(epoch) => Some(epoch),
            Holder::Unbound => None,
        }
    }

    /// The node shuts down: supply that no session holds goes back to the engine.
    pub(crate) fn end_unbound(&mut self, cx: &mut Cx<'_>, why: StoreFailure) {
        let unbound = self.pools.iter().filter(|(_, pool)| pool.holder == Holder::Unbound);
        let unbound: Vec<RequestId> = unbound.map(|(id, _)| id.clone()).collect();
        unbound.into_iter().for_each(|id| self.end_pool(cx, &id, Some(why), None));
    }

    /// Binds a pool, which may be new, to the session that fetches it (PD-2); or says why not (PD-3, PD-10).
    pub(super) fn bind(
        &mut self,
        cx: &mut Cx<'_>,
        id: &RequestId,
        epoch: Epoch,
        peer: &PeerId,
    ) -> Result<(), Failure> {
        if let Some(failure) = self.over.get(id.as_str()) {
            return Err(failure);
        }
        let bound = self.bound.get(&epoch).copied().unwrap_or(0);
        if bound >= cx.config.limits.requests && self.holder(id.as_name()) != Some(epoch) {
            return Err(Failure::Overloaded);
        }
        let pool = self.pools.entry(id.clone()).or_insert_with(|| Pool::unbound(None));
        match pool.holder {
            Holder::Bound(holder) if holder == epoch => return Ok(()),
            Holder::Bound(_) if !seeded(Fault::AnyPeerFetches) => {
                cx.count(Count::NotYours);
                return Err(Failure::NotYours);
            }
            Holder::Unbound if pool.consumer.as_ref().is_some_and(|named| named != peer) => {
                cx.count(Count::NotYours);
                return Err(Failure::NotYours);
            }
            Holder::Unbound | Holder::Bound(_) => pool.holder = Holder::Bound(epoch),
        }
        self.bound.insert(epoch, bound + 1);
        cx.disarm(&mut pool.due, Due::Unbound(id.clone()));
        for job in &pool.jobs {
            if let Some(found) = self.jobs.get_mut(job) {
                cx.rearm(&mut found.due, cx.now + cx.config.timing.store, Due::Store(*job));
            }
        }
        cx.tell(Event::FetchArrived { request: id, peer });
        Ok(())
    }

    /// Keeps a pool's deadline, and the pool itself, in step with what is in it.
    pub(super) fn tend(&mut self, cx: &mut Cx<'_>, id: &RequestId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        let empty = pool.supply.is_empty() && pool.demand.is_empty();
        match (empty, pool.intake, pool.holder) {
            (true, Intake::Finished, _) => self.end_pool(cx, id, None, Some(Failure::ProducerFinished)),
            (true, Intake::Released, _) => self.end_pool(cx, id, None, Some(Failure::SupplyTimeout)),
            (true, Intake::Coming, _) | (false, _, Holder::Unbound) => {
                if pool.due.is_none() && !seeded(Fault::PoolsForEver) {
                    pool.due = Some(cx.arm(cx.now + cx.config.timing.unbound, Due::Unbound(id.clone())));
                }
            }
            (false, _, Holder::Bound(_)) => cx.disarm(&mut pool.due, Due::Unbound(id.clone())),
        }
    }

    /// The pool's time is up: nobody claimed it (PD-7), or its binding has neither demand nor supply (PD-4).
    pub(crate) fn reap(&mut self, cx: &mut Cx<'_>, id: &RequestId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        pool.due = None;
        let remember = match (pool.holder, pool.intake) {
            (Holder::Bound(_), Intake::Coming) => None,
            (Holder::Unbound, Intake::Coming) if pool.supply.is_empty() => None,
            (Holder::Unbound | Holder::Bound(_), Intake::Coming | Intake::Released) => {
                Some(Failure::SupplyTimeout)
            }
            (Holder::Unbound | Holder::Bound(_), Intake::Finished) => Some(Failure::ProducerFinished),
        };
        self.end_pool(cx, id, None, remember);
    }

    /// Removes a pool. What it offers is lost to its jobs; its id may be remembered.
    pub(super) fn end_pool(
        &mut self,
        cx: &mut Cx<'_>,
        id: &RequestId,
        why: Option<StoreFailure>,
        remember: Option<Failure>,
    ) {
        let Some(mut pool) = self.pools.remove(id) else { return };
        cx.disarm(&mut pool.due, Due::Unbound(id.clone()));
        if let Holder::Bound(epoch) = pool.holder
            && let Some(bound) = self.bound.get_mut(&epoch)
        {
            *bound -= 1;
            if *bound == 0 {
                self.bound.remove(&epoch);
            }
        }
        for job in pool.jobs {
            self.close_offer(cx, job, why);
        }
        if let Some(failure) = remember {
            self.remember(cx, id, failure);
        }
    }

    /// The producer side of a request is over: no more stores come (PD-9). Returns whose demand has to be told.
    pub(crate) fn finish(
        &mut self,
        cx: &mut Cx<'_>,
        request: RequestName<'_>,
    ) -> Option<(Epoch, Vec<Round>)> {
        let id = RequestId::from(request);
        let Some(pool) = self.pools.get_mut(&id) else {
            if self.over.get(id.as_str()).is_none() {
                self.remember(cx, &id, Failure::ProducerFinished);
            }
            return None;
        };
        if pool.intake == Intake::Coming {
            pool.intake = Intake::Finished;
        }
        let demand = match pool.holder {
            Holder::Unbound => None,
            Holder::Bound(epoch) => Some((epoch, pool.demand.iter().copied().collect())),
        };
        self.tend(cx, &id);
        demand
    }

    /// The holder needs no more of it: what is offered is unclaimed, live demand runs to its own end (SUP-17).
    pub(super) fn release_pool(&mut self, cx: &mut Cx<'_>, id: &RequestId, epoch: Epoch, peer: &PeerId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        let theirs = match pool.holder {
            Holder::Bound(holder) => holder == epoch,
            Holder::Unbound => pool.consumer.as_ref() == Some(peer),
        };
        if !theirs {
            return;
        }
        pool.intake = Intake::Released;
        pool.supply.clear();
        for job in pool.jobs.clone() {
            self.close_offer(cx, job, None);
        }
        self.tend(cx, id);
    }

    /// Takes what nobody has claimed out of the offer (CMD-8, SUP-13, SUP-14); says whether there was such a store.
    pub(crate) fn withdraw(
        &mut self,
        cx: &mut Cx<'_>,
        job: JobId,
        why: Option<StoreFailure>,
    ) -> Option<RequestId> {
        let found = self.jobs.get(&job)?;
        let id = match found.origin {
            Origin::Store => found.request.clone(),
            Origin::Pin(..) => return None,
        };
        if let Some(pool) = self.pools.get_mut(&id)
            && found.offered > 0
        {
            pool.supply.retain(|(_, owner), _| *owner != job);
        }
        self.close_offer(cx, job, why);
        self.tend(cx, &id);
        Some(id)
    }

    /// What of a store was offered to released demand only and met none of it.
    pub(super) fn drop_unmet(&mut self, cx: &mut Cx<'_>, id: &RequestId, job: JobId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        if pool.intake == Intake::Released {
            pool.supply.retain(|(_, owner), _| *owner != job);
            self.close_offer(cx, job, None);
            self.tend(cx, id);
        }
    }

    pub(super) fn unclaim(&mut self, cx: &mut Cx<'_>, job: JobId, why: Option<StoreFailure>) {
        self.lose(cx, job, 1, Stage::Claimed, why);
    }
}
