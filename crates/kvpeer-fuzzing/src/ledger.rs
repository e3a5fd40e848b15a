//! The engine's books: every job gets exactly one result (I3), and blocks are let go of in order.

use std::collections::{BTreeMap, BTreeSet};

use kvpeer_core::{BlockIdx, Destination, Event, JobId, LoadOutcome};

/// Jobs that are not over.
#[derive(Clone, Default)]
pub(crate) struct Ledger {
    pub(crate) loads: BTreeMap<JobId, Load>,
    /// Stores and pins, with the blocks that they pin.
    pub(crate) stores: BTreeMap<JobId, Vec<BlockIdx>>,
    /// Jobs whose id the engine has given away twice: what they are told is its own fault.
    pub(crate) muddled: BTreeSet<JobId>,
}

#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) blocks: Vec<BlockIdx>,
    pub(crate) state: LoadState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoadState {
    Asked,
    Quarantined,
}

/// A result that was told just now.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Loaded(JobId),
    LoadFailed(JobId, Destination),
    Released(JobId),
    /// A store or pin is over; its blocks.
    Stored(Vec<BlockIdx>),
}

impl Ledger {
    pub(crate) fn is_free(&self, job: JobId) -> bool {
        !self.loads.contains_key(&job) && !self.stores.contains_key(&job)
    }

    pub(crate) fn is_reserved(&self, block: BlockIdx) -> bool {
        self.loads.values().any(|load| load.blocks.contains(&block))
    }

    pub(crate) fn is_pinned(&self, block: BlockIdx) -> bool {
        self.stores.values().any(|blocks| blocks.contains(&block))
    }

    pub(crate) fn note(&mut self, event: &Event<'_>) -> Option<Told> {
        match event {
            Event::LoadFinished { job, outcome, destination, .. } => {
                let Some(load) = self.loads.get_mut(job) else { return self.unexpected(*job) };
                assert_eq!(load.state, LoadState::Asked, "I3: {job:?} has a second result");
                match destination {
                    Destination::Reusable => drop(self.loads.remove(job)),
                    Destination::Quarantined => load.state = LoadState::Quarantined,
                }
                Some(match outcome {
                    LoadOutcome::Loaded => Told::Loaded(*job),
                    LoadOutcome::Failed { .. } => Told::LoadFailed(*job, *destination),
                })
            }
            Event::DestinationReleased { job } => {
                let Some(load) = self.loads.remove(job) else { return self.unexpected(*job) };
                assert_eq!(load.state, LoadState::Quarantined, "LOAD-12: {job:?} was not quarantined");
                Some(Told::Released(*job))
            }
            Event::StoreFinished { job, .. } => match self.stores.remove(job) {
                Some(blocks) => Some(Told::Stored(blocks)),
                None => self.unexpected(*job),
            },
            Event::LookupAnswered { .. }
            | Event::FetchArrived { .. }
            | Event::PeerUp { .. }
            | Event::PeerDown { .. }
            | Event::PeerRefused { .. }
            | Event::RequestFailed { .. } => None,
        }
    }

    fn unexpected(&self, job: JobId) -> Option<Told> {
        assert!(self.muddled.contains(&job), "I3: {job:?} is told a result that it does not wait for");
        None
    }
}
