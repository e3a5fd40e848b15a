//! Loads: from the engine's wish over fetch, progress and abort to their one result.

use alloc::sync::Arc;

use kvpeer_wire::{
    AbortAck, AbortFetch, Bits, Blocks, Demand, Fetch, FetchProgress, Keys, Msg, Outcome, RequestName, Round,
    TransferDone,
};

use super::{Consumer, Fetching, Load, LoadState, Patience, RequestState, Tables, wait_ms};
use crate::block_set::NotAdded;
use crate::cx::Cx;
use crate::deadlines::Due;
use crate::faults::{Fault, seeded};
use crate::key_map::KeyMap;
use crate::{
    BlockIdx, CloseReason, Count, Destination, JobId, LoadFailure, LoadOutcome, Misuse, PeerId, RequestId,
};

/// What becomes of a load that the engine asks for.
pub(crate) enum Accepted {
    /// It is to be sent to this peer.
    Send(PeerId),
    /// Its result is told.
    Over,
}

impl Tables {
    /// Takes a load, or refuses it and changes nothing (CMD-3, LOAD-1).
    pub(crate) fn load(
        &mut self,
        cx: &mut Cx<'_>,
        job: JobId,
        name: RequestName<'_>,
        keys: Keys<'_>,
        blocks: &[BlockIdx],
    ) -> Result<Accepted, Misuse> {
        check_counts(keys, blocks.len(), cx.config.limits.keys)?;
        let probes = self.requests.get(name.as_str()).map(|found| &found.probes);
        if !probes.is_some_and(|probes| probes.hold_in_order(keys)) {
            check_distinct(keys)?;
        }
        let shared = probes.and_then(|probes| probes.share(keys));
        let (id, request) = self.requests.get_key_value(name.as_str()).ok_or(Misuse::UnknownRequest)?;
        let (id, supply, state, source) = (id.clone(), request.supply, request.state, request.source.clone());
        self.reserved.add_all(blocks).map_err(|why| match why {
            NotAdded::OutOfRange(block) => Misuse::OutOfRange(block),
            NotAdded::Taken(block) if blocks.iter().filter(|other| **other == block).count() > 1 => {
                Misuse::DoubledBlock(block)
            }
            NotAdded::Taken(block) => Misuse::Reserved(block),
        })?;
        let load = Load {
            request: id,
            supply,
            blocks: blocks.to_vec(),
            state: LoadState::Held { keys: shared.unwrap_or_else(|| Arc::new(keys.to_buf())) },
        };
        if let Some(request) = self.requests.get_mut(name.as_str()) {
            request.loads.insert(job);
            if !blocks.is_empty() && request.state == RequestState::Open {
                // Hits are good for one round, and this fetch closes it (LOAD-7).
                if !seeded(Fault::HitsSurviveFetch) {
                    request.probes.clear();
                    self.fresh.remove(name.as_str());
                }
            }
        }
        self.loads.insert(job, load);
        match state {
            // LOAD-4
            _ if blocks.is_empty() => {
                self.conclude(cx, job, LoadOutcome::Loaded, Destination::Reusable, None);
                Ok(Accepted::Over)
            }
            // LOAD-5
            RequestState::Failed(reason) => {
                self.fail_held(cx, job, LoadFailure::Session(reason));
                Ok(Accepted::Over)
            }
            RequestState::Open => Ok(Accepted::Send(source)),
        }
    }

    /// The bytes that a held load keeps.
    pub(crate) fn held_bytes(&self, job: JobId) -> usize {
        match self.loads.get(&job).map(|load| &load.state) {
            Some(LoadState::Held { keys }) => keys.as_keys().size(),
            Some(LoadState::Fetching(_) | LoadState::Aborting { .. } | LoadState::Quarantined { .. })
            | None => 0,
        }
    }
}

/// A job's keys: as many as its blocks, not too many.
pub(crate) fn check_counts(keys: Keys<'_>, blocks: usize, limit: usize) -> Result<(), Misuse> {
    if keys.len() != blocks {
        return Err(Misuse::Unequal { keys: keys.len(), blocks });
    }
    if keys.len() > limit {
        return Err(Misuse::TooManyKeys { keys: keys.len(), limit });
    }
    Ok(())
}

/// A job's keys: all different.
pub(crate) fn check_distinct(keys: Keys<'_>) -> Result<(), Misuse> {
    KeyMap::build(keys).map(|_| ()).map_err(|_| Misuse::DoubledKey)
}

impl Consumer<'_> {
    /// Sends the one fetch of a held load, in a round of its own (LOAD-2); that round's lookups are closed (ID-10).
    pub(crate) fn fetch(&mut self, cx: &mut Cx<'_>, job: JobId) {
        let Some(load) = self.tables.loads.get_mut(&job) else { return };
        let LoadState::Held { keys } = &mut load.state else { return };
        let keys = core::mem::take(keys);
        let id = load.request.clone();
        let round = self.close_round(cx, &id).unwrap_or_else(|| self.session.mint_round());
        let Some(load) = self.tables.loads.get_mut(&job) else { return };
        let wait = cx.config.timing.parked;
        // Keys and blocks were counted when the load was taken.
        let Ok(demand) = Demand::new(keys.as_keys(), Blocks::new(&load.blocks)) else { return };
        let fetch =
            Fetch { request: id.as_name(), round, supply: load.supply, demand, wait_ms: wait_ms(wait) };
        self.line.send(cx, Msg::Fetch(fetch));
        self.session.rounds.insert(round, job);
        load.state = LoadState::Fetching(Fetching {
            epoch: self.epoch,
            round,
            parked_until: cx.now + wait + cx.config.timing.parked_slack,
            landed: 0,
            patience: Patience::Unsaid,
            due: Some(cx.arm(cx.now + cx.config.timing.load, Due::Load(job))),
        });
    }

    /// Asks the producer to stop, once (LOAD-6). The result comes with its answer.
    pub(crate) fn abort(&mut self, cx: &mut Cx<'_>, job: JobId, why: LoadFailure) {
        let Some(load) = self.tables.loads.get_mut(&job) else { return };
        let LoadState::Fetching(fetching) = &mut load.state else { return };
        cx.disarm(&mut fetching.due, Due::Load(job));
        let round = fetching.round;
        let due = Some(cx.arm(cx.now + cx.config.timing.abort_ack, Due::AbortAck(job)));
        load.state = LoadState::Aborting { epoch: self.epoch, round, why, due };
        self.line.send(cx, Msg::AbortFetch(AbortFetch { request: load.request.as_name(), round }));
    }

    /// Aborts every load on the wire.
    pub(crate) fn abort_all(&mut self, cx: &mut Cx<'_>, why: LoadFailure) {
        let jobs: alloc::vec::Vec<JobId> = self.session.rounds.values().copied().collect();
        jobs.into_iter().for_each(|job| self.abort(cx, job, why));
    }

    pub(crate) fn progress(&mut self, cx: &mut Cx<'_>, msg: &FetchProgress<'_>) {
        let Some(job) = self.live(msg.request, msg.round) else { return cx.count(Count::UnknownRound) };
        let Some(load) = self.tables.loads.get_mut(&job) else { return };
        let LoadState::Fetching(fetching) = &mut load.state else { return };
        let grew = msg.landed > fetching.landed && msg.landed as usize <= load.blocks.len();
        let met = fetching.patience.hear(msg.parked);
        if grew {
            fetching.landed = msg.landed;
        }
        // LOAD-8
        let patience = cx.now + cx.config.timing.load;
        let at = match fetching.patience {
            Patience::ForSupply => fetching.parked_until,
            Patience::ForTransfer if grew || met => patience,
            Patience::ForTransfer | Patience::Unsaid => return,
        };
        cx.rearm(&mut fetching.due, at, Due::Load(job));
    }

    /// The end of a fetch, also of one whose abort crosses it. Returns why the session must end, if it must.
    pub(crate) fn transfer_done(&mut self, cx: &mut Cx<'_>, msg: &TransferDone<'_>) -> Option<CloseReason> {
        let Some(job) = self.live(msg.request, msg.round) else {
            cx.count(Count::UnknownRound);
            return None;
        };
        if !seeded(Fault::ResultTwice) {
            self.session.rounds.remove(&msg.round);
        }
        match msg.outcome {
            Outcome::Ok => {
                self.tables.conclude(cx, job, LoadOutcome::Loaded, Destination::Reusable, None);
                None
            }
            Outcome::Failed { why, settled, landed } => {
                self.fail(cx, job, LoadFailure::Producer(why), landed, Settled::of(settled))
            }
        }
    }

    /// The end of an aborted fetch. Returns why the session must end, if it must.
    pub(crate) fn abort_ack(&mut self, cx: &mut Cx<'_>, msg: &AbortAck<'_>) -> Option<CloseReason> {
        let aborting = self.live(msg.request, msg.round).and_then(|job| Some((job, self.aborting(job)?)));
        let Some((job, why)) = aborting else {
            cx.count(Count::UnknownRound);
            return None;
        };
        self.session.rounds.remove(&msg.round);
        self.fail(cx, job, why, Bits::default(), Settled::of(msg.settled))
    }

    /// LOAD-9: its blocks are reusable only when every WRITE is known to be over.
    fn fail(
        &mut self,
        cx: &mut Cx<'_>,
        job: JobId,
        why: LoadFailure,
        landed: Bits<'_>,
        settled: Settled,
    ) -> Option<CloseReason> {
        let wanted = self.tables.loads.get(&job).map_or(0, |load| load.blocks.len());
        // MSG-15, LOAD-11: what is not listed must not be kept.
        let landed = if landed.len() as usize == wanted { landed } else { Bits::default() };
        let outcome = LoadOutcome::Failed { why, landed };
        match settled {
            Settled::Yes => {
                self.tables.conclude(cx, job, outcome, Destination::Reusable, None);
                None
            }
            Settled::No => {
                self.tables.conclude(cx, job, outcome, Destination::Quarantined, Some(self.epoch));
                self.session.quarantined.insert(job);
                Some(CloseReason::Unsettled)
            }
        }
    }

    /// The abort of `job` was not acknowledged in time: the load fails, nothing is freed, the session ends (LOAD-10).
    pub(crate) fn abort_unacked(&mut self, cx: &mut Cx<'_>, job: JobId, round: Round) {
        let Some(why) = self.aborting(job) else { return };
        self.session.rounds.remove(&round);
        let settled = if seeded(Fault::FreeOnAckTimer) { Settled::Yes } else { Settled::No };
        self.fail(cx, job, why, Bits::default(), settled);
    }

    /// The load of a round, if the round is live and of this request (I6, LOAD-3, MSG-12).
    fn live(&self, request: RequestName<'_>, round: Round) -> Option<JobId> {
        let job = *self.session.rounds.get(&round)?;
        let load = self.tables.loads.get(&job)?;
        (load.request.as_name() == request).then_some(job)
    }

    fn aborting(&self, job: JobId) -> Option<LoadFailure> {
        match &self.tables.loads.get(&job)?.state {
            LoadState::Aborting { why, .. } => Some(*why),
            LoadState::Held { .. } | LoadState::Fetching(_) | LoadState::Quarantined { .. } => None,
        }
    }
}

impl Patience {
    /// Takes in whether blocks wait for supply; says whether the last of them has just got it.
    fn hear(&mut self, parked: u32) -> bool {
        let before = *self;
        *self = match (before, parked) {
            (Patience::Unsaid | Patience::ForSupply, 1..) => Patience::ForSupply,
            (Patience::Unsaid | Patience::ForSupply, 0) | (Patience::ForTransfer, _) => Patience::ForTransfer,
        };
        before == Patience::ForSupply && *self == Patience::ForTransfer
    }
}

/// Whether every WRITE of a failed fetch is known to have ended in success or never to have left.
#[derive(Clone, Copy)]
enum Settled {
    Yes,
    No,
}

impl Settled {
    fn of(settled: bool) -> Self {
        if settled || seeded(Fault::TrustUnsettled) { Self::Yes } else { Self::No }
    }
}

/// Where a load is, for the endpoint to route its timer or its abort.
pub(crate) enum Whereabouts {
    Held(RequestId),
    Fetching(crate::Epoch),
    Aborting(crate::Epoch, Round),
    Quarantined(crate::Epoch),
}

impl Tables {
    pub(crate) fn whereabouts(&self, job: JobId) -> Option<Whereabouts> {
        let load = self.loads.get(&job)?;
        Some(match &load.state {
            LoadState::Held { .. } => Whereabouts::Held(load.request.clone()),
            LoadState::Fetching(fetching) => Whereabouts::Fetching(fetching.epoch),
            LoadState::Aborting { epoch, round, .. } => Whereabouts::Aborting(*epoch, *round),
            LoadState::Quarantined { epoch } => Whereabouts::Quarantined(*epoch),
        })
    }
}
