//! Requests: opened and finished by the engine, failed by the end of their session.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use kvpeer_wire::{Bits, RequestName, Supply};

use super::{Consumer, LoadState, Probes, Request, RequestState, Tables};
use crate::cx::Cx;
use crate::deadlines::Due;
use crate::endpoint::count;
use crate::faults::{Fault, seeded};
use crate::{
    CloseReason, Destination, Epoch, Event, JobId, LoadFailure, LoadOutcome, Misuse, PeerId, RequestId,
};

impl Tables {
    /// Opens a request. Opening it again with the same source and mode only renews the address (CMD-2).
    pub(crate) fn open(
        &mut self,
        request: RequestName<'_>,
        source: PeerId,
        address: &str,
        supply: Supply,
        limit: usize,
    ) -> Result<(), Misuse> {
        let full = self.requests.len() >= limit;
        match self.requests.get_mut(request.as_str()) {
            Some(open) if open.source == source && open.supply == supply => {
                open.address = Box::from(address);
                Ok(())
            }
            Some(_) => Err(Misuse::AlreadyOpen),
            None if full => Err(Misuse::TooMany("open requests")),
            None => {
                let new = Request {
                    source,
                    address: Box::from(address),
                    supply,
                    state: RequestState::Open,
                    loads: BTreeSet::new(),
                    probes: Probes::default(),
                    open: BTreeSet::new(),
                    open_due: None,
                    told: None,
                    round: None,
                };
                self.requests.insert(RequestId::from(request), new);
                Ok(())
            }
        }
    }

    /// Tells a load's one result (I3) and, unless its blocks are quarantined, forgets it.
    pub(super) fn conclude(
        &mut self,
        cx: &mut Cx<'_>,
        job: JobId,
        outcome: LoadOutcome<'_>,
        destination: Destination,
        epoch: Option<Epoch>,
    ) {
        let Some(load) = self.loads.get_mut(&job) else { return };
        match &mut load.state {
            LoadState::Held { .. } | LoadState::Quarantined { .. } => {}
            LoadState::Fetching(fetching) => cx.disarm(&mut fetching.due, Due::Load(job)),
            LoadState::Aborting { due, .. } => cx.disarm(due, Due::AbortAck(job)),
        }
        cx.tell(Event::LoadFinished { job, request: &load.request, outcome, destination });
        if let Some(request) = self.requests.get_mut(&load.request) {
            request.loads.remove(&job);
        }
        match (destination, epoch) {
            (Destination::Quarantined, Some(epoch)) => {
                load.state = LoadState::Quarantined { epoch };
                if seeded(Fault::ReuseQuarantined) {
                    let blocks = core::mem::take(&mut load.blocks);
                    self.reserved.remove_all(&blocks);
                }
            }
            (Destination::Quarantined, None) | (Destination::Reusable, _) => self.forget(job),
        }
    }

    /// Ends a load that never left this node.
    pub(crate) fn fail_held(&mut self, cx: &mut Cx<'_>, job: JobId, why: LoadFailure) {
        let outcome = LoadOutcome::Failed { why, landed: Bits::default() };
        self.conclude(cx, job, outcome, Destination::Reusable, None);
    }

    /// The destination of a quarantined load is free; told once, for then the load is forgotten (LOAD-12).
    pub(crate) fn release_destination(&mut self, cx: &mut Cx<'_>, job: JobId) {
        cx.tell(Event::DestinationReleased { job });
        self.forget(job);
    }

    #[cfg_attr(not(feature = "seeded-faults"), allow(dead_code))]
    fn drop_aborting(&mut self, cx: &mut Cx<'_>, job: JobId) -> bool {
        let Some(load) = self.loads.get_mut(&job) else { return false };
        let LoadState::Aborting { due, .. } = &mut load.state else { return false };
        cx.disarm(due, Due::AbortAck(job));
        self.forget(job);
        true
    }

    fn forget(&mut self, job: JobId) {
        if let Some(load) = self.loads.remove(&job) {
            self.reserved.remove_all(&load.blocks);
        }
    }

    /// A request whose work could not be brought to its peer; told once (END-7).
    pub(crate) fn fail_request(&mut self, cx: &mut Cx<'_>, request: &RequestId, reason: CloseReason) {
        let Some(found) = self.requests.get_mut(request) else { return };
        match found.state {
            RequestState::Failed(_) => return,
            RequestState::Open => found.state = RequestState::Failed(reason),
        }
        found.probes.clear();
        self.fresh.remove(request);
        cx.tell(Event::RequestFailed { request, reason });
    }
}

impl Consumer<'_> {
    /// Every load on the wire fails, its destination quarantined (END-6); requests that had something open fail.
    pub(crate) fn end(&mut self, cx: &mut Cx<'_>, reason: CloseReason) {
        let told: Vec<(RequestId, bool)> = self.tables.requests_of(self.epoch);
        for job in core::mem::take(&mut self.session.rounds).into_values() {
            let outcome = LoadOutcome::Failed { why: LoadFailure::Session(reason), landed: Bits::default() };
            if seeded(Fault::TrustPeerDeath) {
                self.tables.conclude(cx, job, outcome, Destination::Reusable, None);
                continue;
            }
            if seeded(Fault::ResultDropped) && self.tables.drop_aborting(cx, job) {
                continue;
            }
            self.tables.conclude(cx, job, outcome, Destination::Quarantined, Some(self.epoch));
            self.session.quarantined.insert(job);
        }
        self.session.lookups.clear();
        for (id, was_busy) in told {
            let Some(request) = self.tables.requests.get_mut(&id) else { continue };
            cx.disarm(&mut request.open_due, Due::Lookup(id.clone()));
            request.open.clear();
            request.round = None;
            request.told = None;
            request.probes.forget_answers();
            if was_busy {
                self.tables.fail_request(cx, &id, reason);
            }
        }
    }

    /// All destinations of this session are fenced: nothing lands in them any more (I1).
    pub(crate) fn fenced(&mut self, cx: &mut Cx<'_>) {
        for job in core::mem::take(&mut self.session.quarantined) {
            self.tables.release_destination(cx, job);
        }
    }
}

impl Tables {
    /// How many deadlines of requests and loads are armed.
    pub(crate) fn armed(&self) -> usize {
        let requests = self.requests.values().map(|request| count(&[request.open_due]));
        let loads = self.loads.values().map(|load| match &load.state {
            LoadState::Held { .. } | LoadState::Quarantined { .. } => 0,
            LoadState::Fetching(fetching) => count(&[fetching.due]),
            LoadState::Aborting { due, .. } => count(&[*due]),
        });
        requests.chain(loads).sum()
    }

    /// Requests that a session has heard of, and whether they wait for it.
    fn requests_of(&self, epoch: Epoch) -> Vec<(RequestId, bool)> {
        let told = self.requests.iter().filter(|(_, request)| request.told == Some(epoch));
        told.map(|(id, request)| (id.clone(), !request.open.is_empty() || !request.loads.is_empty()))
            .collect()
    }
}
