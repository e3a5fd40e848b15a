//! Fetches of a peer: demand meets supply.

use alloc::boxed::Box;
use alloc::vec::Vec;

use kvpeer_wire::{
    AbortAck, AbortFetch, BitsBuf, Blocks, Failure, Fetch, FetchProgress, Keys, KeysBuf, Msg, Outcome,
    RequestName, Round, Supply, TransferDone,
};

use super::jobs::Stage;
use super::{Ending, Fetching, Pins, Producer, RoundId, Serving, Slot, Source, Told, Wanted, Writes, pins};
use crate::cx::Cx;
use crate::deadlines::Due;
use crate::faults::{Fault, seeded};
use crate::key_map::{self, KeyMap};
use crate::{Action, Count, JobId, RequestId, StoreFailure, XferId};

/// What a fetch keeps beside what it demands, in bytes; rounded up.
const FETCH_OVERHEAD: usize = 1024;

impl Producer<'_> {
    pub(crate) fn fetch(&mut self, cx: &mut Cx<'_>, msg: &Fetch<'_>) {
        let id = RoundId { request: RequestId::from(msg.request), round: msg.round };
        if let Some(Serving::Fetching(_)) = self.session.rounds.get(&id) {
            return cx.count(Count::DuplicateFetch); // MSG-10; the order of rounds means nothing (ID-11).
        }
        let mut pins = self.close_probing(cx, &id);
        let opened = match msg.supply {
            Supply::Pinned => self.open_pinned(cx, &id, msg, &mut pins),
            Supply::Await => self.open_await(cx, &id, msg),
        };
        match opened {
            Ok(fetching) => {
                let claimed = fetching.slots.iter().filter_map(Slot::source).map(|source| source.job);
                runs(claimed).for_each(|(job, count)| self.tables.claim(cx, job, count));
                self.unpin(cx, &pins);
                self.begin(cx, id, fetching);
            }
            Err(failure) => {
                // PIN-4: the round is closed, whatever became of its fetch.
                self.unpin(cx, &pins);
                self.refuse(cx, msg, failure);
            }
        }
    }

    fn refuse(&mut self, cx: &mut Cx<'_>, msg: &Fetch<'_>, why: Failure) {
        match why {
            Failure::Malformed => cx.count(Count::MalformedFetch),
            Failure::Overloaded => cx.count(Count::Overloaded),
            Failure::NoSupply
            | Failure::SupplyTimeout
            | Failure::ProducerFinished
            | Failure::WriteFailed
            | Failure::Closing
            | Failure::NotYours
            | Failure::Other(_) => {}
        }
        let landed = BitsBuf::zeros(u32::try_from(msg.demand.len()).unwrap_or(u32::MAX));
        let outcome = Outcome::Failed { why, settled: true, landed: landed.as_bits() };
        self.line
            .send(cx, Msg::TransferDone(TransferDone { request: msg.request, round: msg.round, outcome }));
    }

    /// What every fetch must pass, whatever its supply.
    fn check_fetch(&self, cx: &Cx<'_>, id: &RoundId, msg: &Fetch<'_>) -> Result<(), Failure> {
        if self.session.closing.is_some() {
            return Err(Failure::Closing);
        }
        // MSG-8, SUP-4
        if !distinct_and_below(msg.demand.blocks(), self.region.num_blocks) && !seeded(Fault::ForeignBlocks) {
            return Err(Failure::Malformed);
        }
        let fits = self.admits_round(cx, id) && self.may_keep(cx, fetch_size(msg));
        if fits { Ok(()) } else { Err(Failure::Overloaded) }
    }

    /// A fetch from this round's pins: all it demands, or nothing (PIN-1).
    fn open_pinned(
        &mut self,
        cx: &mut Cx<'_>,
        id: &RoundId,
        msg: &Fetch<'_>,
        pins: &mut [Pins],
    ) -> Result<Fetching, Failure> {
        self.check_fetch(cx, id, msg)?;
        match pins::take_all(pins, msg.demand.keys()) {
            Ok(slots) => Ok(Fetching::new(cx, msg, slots, None)),
            Err((why, taken)) => {
                let runs = runs(taken.iter().filter_map(Slot::source).map(|source| source.job));
                runs.for_each(|(job, count)| self.tables.lose(cx, job, count, Stage::Offered, None));
                Err(why)
            }
        }
    }

    /// A fetch of what is, or will be, stored for the request.
    fn open_await(&mut self, cx: &mut Cx<'_>, id: &RoundId, msg: &Fetch<'_>) -> Result<Fetching, Failure> {
        self.check_fetch(cx, id, msg)?;
        let keys = msg.demand.keys();
        let index = KeyMap::build(keys).map_err(|_| Failure::Malformed)?;
        self.tables.bind(cx, &id.request, self.epoch, self.peer)?;
        let Some(pool) = self.tables.pools.get_mut(&id.request) else { return Err(Failure::NoSupply) };
        let mut slots = alloc::vec![Slot::Waiting; msg.demand.len()];
        for (slot, key) in slots.iter_mut().zip(keys.iter()) {
            if let Some((job, block)) = pool.take(key) {
                *slot = Slot::Claimed(Source { job, block });
            }
        }
        let unmet = slots.iter().filter(|slot| **slot == Slot::Waiting).count();
        let full = self.session.parked + unmet > cx.config.limits.parked_blocks;
        let refusal = match unmet {
            0 => None,
            _ => pool.no_more_comes().or(full.then_some(Failure::Overloaded)),
        };
        if let Some(failure) = refusal {
            for (slot, key) in slots.iter().zip(keys.iter()) {
                if let Slot::Claimed(source) = slot {
                    pool.put(key, source.job, source.block);
                }
            }
            self.tables.tend(cx, &id.request);
            return Err(failure);
        }
        pool.demand.insert(id.round);
        self.tables.tend(cx, &id.request);
        Ok(Fetching::new(cx, msg, slots, Some(Wanted { keys: keys.to_buf(), index })))
    }

    /// A fetch that stands: its first blocks are posted, its peer hears how far it is (MSG-16) or, if it demands
    /// nothing, that it is over (PD-13).
    fn begin(&mut self, cx: &mut Cx<'_>, id: RoundId, mut fetching: Fetching) {
        self.session.parked += fetching.waiting;
        self.keep(fetching.kept);
        let for_ever = seeded(Fault::ParkedForEver);
        if let (Some(at), false) = (fetching.parked_due, fetching.waiting == 0 || for_ever) {
            cx.arm(at, Due::Parked(self.epoch, id.request.clone(), id.round));
        } else {
            fetching.parked_due = None;
        }
        let posts = !fetching.queue.is_empty();
        self.session.insert_round(id.clone(), Serving::Fetching(Box::new(fetching)));
        if posts {
            self.session.ready.push_back(id.clone());
        }
        self.post(cx);
        if !self.advance(cx, &id) {
            self.tell_progress(cx, &id);
        }
    }

    /// A store for a request that is bound here meets the demand that waits for it.
    pub(crate) fn stored(&mut self, cx: &mut Cx<'_>, request: &RequestId, job: JobId, keys: Keys<'_>) {
        self.meet(cx, request, keys);
        self.tables.drop_unmet(cx, request, job);
    }

    /// Blocks that are offered now, for the first time or again, meet demand that waits for them (PD-5).
    fn meet(&mut self, cx: &mut Cx<'_>, request: &RequestId, keys: Keys<'_>) {
        let Some(pool) = self.tables.pools.get_mut(request) else { return };
        if !pool.is_bound_to(self.epoch) {
            return;
        }
        let rounds: Vec<Round> = pool.demand.iter().copied().collect();
        let mut met = Vec::new();
        for round in rounds {
            let id = RoundId { request: request.clone(), round };
            let Some(Serving::Fetching(fetching)) = self.session.rounds.get_mut(&id) else { continue };
            let Some(wanted) = fetching.wanted.as_ref().filter(|_| fetching.ending == Ending::Going) else {
                continue;
            };
            let before = fetching.waiting;
            let idle = fetching.posted == fetching.queue.len();
            for key in keys.iter() {
                let Some(at) = wanted.index.find(wanted.keys.as_keys(), key) else { continue };
                let Some(slot @ Slot::Waiting) = fetching.slots.get_mut(at as usize) else { continue };
                let Some(pool) = self.tables.pools.get_mut(request) else { continue };
                let Some((job, block)) = pool.take(key) else { continue };
                *slot = Slot::Claimed(Source { job, block });
                fetching.queue.push(at);
                fetching.waiting -= 1;
                self.tables.claim(cx, job, 1);
            }
            self.session.parked -= before - fetching.waiting;
            if idle && fetching.posted < fetching.queue.len() {
                self.session.ready.push_back(id.clone());
            }
            if fetching.waiting == 0 && before > 0 {
                cx.disarm(&mut fetching.parked_due, Due::Parked(self.epoch, id.request.clone(), round));
                met.push(id);
            }
        }
        self.tables.tend(cx, request);
        self.post(cx);
        // From here on the consumer's patience is for the transfer, not for the supply (MSG-17).
        met.iter().for_each(|id| self.tell_progress(cx, id));
    }

    pub(crate) fn abort_fetch(&mut self, cx: &mut Cx<'_>, msg: &AbortFetch<'_>) {
        let id = RoundId { request: RequestId::from(msg.request), round: msg.round };
        let Some(fetching) = self.session.fetching(&id) else {
            cx.count(Count::UnknownRound); // MSG-11
            if !seeded(Fault::UnknownAbortUnanswered) {
                self.ack(cx, msg.request, msg.round);
            }
            return;
        };
        match fetching.ending {
            Ending::Aborted if seeded(Fault::SecondAck) => return self.ack(cx, msg.request, msg.round),
            Ending::Aborted => return, // MSG-19
            Ending::Going | Ending::Failing(_) | Ending::Silent(_) => {}
        }
        self.set_ending(cx, &id, Ending::Aborted);
        if !self.advance(cx, &id) {
            self.cancel(cx, &id);
        }
    }

    /// MSG-20: also of rounds that are unknown here or over.
    fn ack(&mut self, cx: &mut Cx<'_>, request: RequestName<'_>, round: Round) {
        let settled = self.session.writes == Writes::Clean || seeded(Fault::SettledAfterError);
        self.line.send(cx, Msg::AbortAck(AbortAck { request, round, settled }));
    }

    /// Asks the plane once more to drop what of an aborted round has not left (SUP-11).
    pub(crate) fn cancel(&mut self, cx: &mut Cx<'_>, id: &RoundId) {
        for (seq, xfer) in &self.session.xfers {
            if xfer.id == *id {
                cx.act(Action::Cancel { xfer: XferId { epoch: self.epoch, seq: *seq } });
            }
        }
        let due = Due::CancelRetry(self.epoch, id.request.clone(), id.round);
        let at = cx.now + cx.config.timing.cancel_retry;
        if let Some(fetching) = self.session.fetching(id) {
            fetching.cancel_due = Some(cx.arm(at, due));
        }
    }

    /// Demand has waited long enough (PD-8).
    pub(crate) fn parked_timed_out(&mut self, cx: &mut Cx<'_>, id: &RoundId) {
        if let Some(fetching) = self.session.fetching(id) {
            fetching.parked_due = None;
            self.fail_going(cx, id, Failure::SupplyTimeout);
        }
    }

    /// No more supply comes for this round (PD-9).
    pub(crate) fn producer_finished(&mut self, cx: &mut Cx<'_>, request: &RequestId, round: Round) {
        let id = RoundId { request: request.clone(), round };
        let unmet = self.session.fetching(&id).is_some_and(|fetching| fetching.waiting > 0);
        if unmet && !seeded(Fault::FinishUntold) {
            self.fail_going(cx, &id, Failure::ProducerFinished);
        }
    }

    /// A live fetch fails: nothing more of it is posted, and it ends when nothing is in flight.
    pub(super) fn fail_going(&mut self, cx: &mut Cx<'_>, id: &RoundId, why: Failure) {
        if self.session.fetching(id).is_some_and(|fetching| fetching.ending == Ending::Going) {
            self.set_ending(cx, id, Ending::Failing(why));
            self.advance(cx, id);
        }
    }

    pub(super) fn set_ending(&mut self, cx: &mut Cx<'_>, id: &RoundId, ending: Ending) {
        let epoch = self.epoch;
        let Some(fetching) = self.session.fetching(id) else { return };
        fetching.ending = ending;
        cx.disarm(&mut fetching.parked_due, Due::Parked(epoch, id.request.clone(), id.round));
        self.session.ready.retain(|ready| ready != id);
    }

    fn tell_progress(&mut self, cx: &mut Cx<'_>, id: &RoundId) {
        let Some(Serving::Fetching(fetching)) = self.session.rounds.get_mut(id) else { return };
        fetching.told = Told { at: cx.now, landed: fetching.landed };
        let progress = FetchProgress {
            request: id.request.as_name(),
            round: id.round,
            matched: count(fetching.slots.len() - fetching.waiting),
            parked: count(fetching.waiting),
            landed: count(fetching.landed),
        };
        self.line.send(cx, Msg::FetchProgress(progress));
    }

    /// Tells growth, at most once a while (MSG-17).
    pub(super) fn tell_growth(&mut self, cx: &mut Cx<'_>, id: &RoundId) {
        let grown = self.session.fetching(id).is_some_and(|fetching| {
            fetching.ending == Ending::Going
                && fetching.landed > fetching.told.landed
                && cx.now.since(fetching.told.at) >= cx.config.timing.progress
        });
        if grown {
            self.tell_progress(cx, id);
        }
    }

    /// Ends a fetch that has nothing left to do, and nothing in flight (I5, SUP-2). Says whether it did.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_>, id: &RoundId) -> bool {
        let over = self.session.fetching(id).is_some_and(|fetching| {
            let all_landed = fetching.landed == fetching.slots.len();
            let quiet = fetching.in_flight == 0
                || (seeded(Fault::AckBeforeQuiesce) && fetching.ending == Ending::Aborted);
            let posted = seeded(Fault::DoneWhenPosted) && fetching.posted == fetching.slots.len();
            posted || (quiet && (all_landed || fetching.ending != Ending::Going))
        });
        let serving = if over { self.session.remove_round(id) } else { None };
        let Some(Serving::Fetching(mut fetching)) = serving else { return false };
        self.session.parked -= fetching.waiting;
        self.unkeep(fetching.kept);
        cx.disarm(&mut fetching.parked_due, Due::Parked(self.epoch, id.request.clone(), id.round));
        cx.disarm(&mut fetching.cancel_due, Due::CancelRetry(self.epoch, id.request.clone(), id.round));
        self.tell_end(cx, id, &fetching);
        self.settle_slots(cx, id, &fetching);
        true
    }

    /// The one terminal message of a fetch (MSG-18, MSG-19).
    fn tell_end(&mut self, cx: &mut Cx<'_>, id: &RoundId, fetching: &Fetching) {
        let landed;
        let outcome = match fetching.ending {
            Ending::Going => Outcome::Ok, // Every block has landed: I4, MSG-21.
            Ending::Failing(why) => {
                landed = fetching.landed_bits();
                let settled = !fetching.errored || seeded(Fault::DoneSettledAfterError);
                Outcome::Failed { why, settled, landed: landed.as_bits() }
            }
            Ending::Aborted => return self.ack(cx, id.request.as_name(), id.round),
            Ending::Silent(_) => return,
        };
        let done = TransferDone { request: id.request.as_name(), round: id.round, outcome };
        self.line.send(cx, Msg::TransferDone(done));
    }

    /// Every block of an ended fetch goes to the consumer, back to the pool (PD-5), or is lost to its job.
    fn settle_slots(&mut self, cx: &mut Cx<'_>, id: &RoundId, fetching: &Fetching) {
        if let Some(pool) = self.tables.pools.get_mut(&id.request)
            && pool.is_bound_to(self.epoch)
        {
            pool.demand.remove(&id.round);
        }
        let told = matches!(fetching.ending, Ending::Going | Ending::Failing(_));
        let landed = fetching.slots.iter().filter_map(|slot| match slot {
            Slot::Landed(source) if told => Some(source.job),
            Slot::Landed(_) | Slot::Waiting | Slot::Claimed(_) | Slot::Posted(_) | Slot::Lost => None,
        });
        runs(landed).for_each(|(job, count)| self.tables.deliver(cx, job, count));
        let mut given_back = KeysBuf::new();
        for (at, slot) in fetching.slots.iter().enumerate() {
            let source = match slot {
                Slot::Claimed(source) | Slot::Posted(source) => source,
                Slot::Landed(source) if !told => source,
                Slot::Landed(_) | Slot::Waiting | Slot::Lost => continue,
            };
            let key = fetching.wanted.as_ref().and_then(|wanted| wanted.keys.as_keys().get(at));
            let pool = self.tables.pools.get(&id.request);
            let takes_back = pool.is_some_and(|pool| pool.is_bound_to(self.epoch) && pool.takes_back());
            let takes_back = takes_back && !seeded(Fault::GivenBackLost);
            match key.filter(|_| takes_back && self.tables.give_back(source.job)) {
                Some(key) => {
                    if let Some(pool) = self.tables.pools.get_mut(&id.request) {
                        pool.put(key, source.job, source.block);
                    }
                    given_back.push(key);
                }
                None if seeded(Fault::GivenBackLost) => {}
                None => self.tables.unclaim(cx, source.job, self.why_lost(fetching.ending)),
            }
        }
        if fetching.wanted.is_some() {
            self.meet(cx, &id.request, given_back.as_keys());
            self.tables.tend(cx, &id.request);
        }
    }

    pub(super) fn why_lost(&self, ending: Ending) -> Option<StoreFailure> {
        let closing = self.session.closing.map(StoreFailure::Session);
        match ending {
            Ending::Aborted => closing.or(Some(StoreFailure::Aborted)),
            Ending::Failing(Failure::WriteFailed) => Some(StoreFailure::WriteFailed),
            Ending::Silent(reason) => Some(StoreFailure::Session(reason)),
            Ending::Going | Ending::Failing(_) => closing,
        }
    }
}

impl Fetching {
    fn new(cx: &Cx<'_>, msg: &Fetch<'_>, slots: Vec<Slot>, wanted: Option<Wanted>) -> Self {
        // FR-15
        let wait = core::time::Duration::from_millis(u64::from(msg.wait_ms)).min(cx.config.timing.parked);
        let queue: Vec<u32> =
            (0u32..).zip(&slots).filter(|(_, slot)| **slot != Slot::Waiting).map(|(at, _)| at).collect();
        Self {
            wanted,
            dst: msg.demand.blocks().iter().collect(),
            waiting: slots.len() - queue.len(),
            slots,
            queue,
            posted: 0,
            in_flight: 0,
            landed: 0,
            ending: Ending::Going,
            errored: false,
            parked_due: Some(cx.now + wait),
            cancel_due: None,
            told: Told { at: cx.now, landed: 0 },
            kept: fetch_size(msg),
        }
    }

    fn landed_bits(&self) -> BitsBuf {
        let mut bits = BitsBuf::zeros(count(self.slots.len()));
        for (at, slot) in (0u32..).zip(&self.slots) {
            if let Slot::Landed(_) = slot {
                bits.set(at);
            }
        }
        bits
    }
}

impl Slot {
    pub(crate) fn source(&self) -> Option<Source> {
        match self {
            Slot::Claimed(source) | Slot::Posted(source) | Slot::Landed(source) => Some(*source),
            Slot::Waiting | Slot::Lost => None,
        }
    }
}

fn fetch_size(msg: &Fetch<'_>) -> usize {
    // A slot, a destination, a place in the queue (whose room may double), and in the index of wanted keys.
    let per_block = size_of::<Slot>() + 3 * size_of::<u32>() + key_map::MOST_PER_KEY;
    msg.demand.keys().size() + msg.demand.len() * per_block + FETCH_OVERHEAD
}

fn distinct_and_below(blocks: Blocks<'_>, limit: u32) -> bool {
    let mut last = None;
    let ascending = blocks.iter().all(|block| last.replace(block).is_none_or(|last| last < block));
    if ascending {
        return last.is_none_or(|last| last < limit);
    }
    let mut sorted: Vec<u32> = blocks.iter().collect();
    sorted.sort_unstable();
    sorted.last().is_none_or(|last| *last < limit) && !sorted.array_windows().any(|[a, b]| a == b)
}

/// Stretches of equal jobs, with their lengths.
pub(super) fn runs(jobs: impl Iterator<Item = JobId>) -> impl Iterator<Item = (JobId, u32)> {
    let mut jobs = jobs.peekable();
    core::iter::from_fn(move || {
        let job = jobs.next()?;
        let mut count = 1;
        while jobs.next_if_eq(&job).is_some() {
            count += 1;
        }
        Some((job, count))
    })
}

fn count(blocks: usize) -> u32 {
    u32::try_from(blocks).unwrap_or(u32::MAX)
}
