//! What one engine has asked for and was told: jobs, and who holds which block.

use std::collections::BTreeMap;

use kvpeer_core::{Destination, JobId, StoreOutcome};

use crate::LoadEnd;
use crate::judge::{Verdict, demand};

#[derive(Clone, Default)]
pub(crate) struct Books {
    pub(crate) loads: BTreeMap<JobId, Load>,
    pub(crate) stores: BTreeMap<JobId, Store>,
}

#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) request: String,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) blocks: Vec<u32>,
    pub(crate) end: Option<(LoadEnd, Destination)>,
    /// Until its destination is reusable.
    pub(crate) holds: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) blocks: Vec<u32>,
    pub(crate) outcome: Option<StoreOutcome>,
    /// How many WRITEs there had been before it.
    pub(crate) since: usize,
    /// Another job pinned one of its blocks at the same time: whose WRITE it was cannot be told.
    shared: bool,
}

impl Books {
    pub(crate) fn load(&mut self, job: JobId, request: &str, keys: Vec<Vec<u8>>, blocks: Vec<u32>) {
        let load = Load { request: request.into(), keys, blocks, end: None, holds: true };
        self.loads.insert(job, load);
    }

    pub(crate) fn store(&mut self, job: JobId, blocks: Vec<u32>, since: usize) {
        let mut shared = false;
        for other in self.stores.values_mut().filter(|store| store.outcome.is_none()) {
            if other.blocks.iter().any(|block| blocks.contains(block)) {
                other.shared = true;
                shared = true;
            }
        }
        self.stores.insert(job, Store { blocks, outcome: None, since, shared });
    }

    /// The load that a block is reserved by or quarantined for.
    pub(crate) fn holder(&self, block: u32) -> Option<JobId> {
        self.loads.iter().find(|(_, load)| load.holds && load.blocks.contains(&block)).map(|(job, _)| *job)
    }

    /// How many unfinished jobs pin a block.
    pub(crate) fn pins(&self, block: u32) -> usize {
        self.stores.values().filter(|store| store.outcome.is_none() && store.blocks.contains(&block)).count()
    }

    pub(crate) fn load_finished(
        &mut self,
        job: JobId,
        request: &str,
        end: &LoadEnd,
        destination: Destination,
    ) -> Verdict<Load> {
        let load =
            self.loads.get_mut(&job).ok_or_else(|| format!("I3: a result for {job:?}, which never was"))?;
        demand(load.end.is_none(), || format!("I3: a second result for load {job:?}"))?;
        demand(load.request == request, || {
            format!("a result of {request:?} for {job:?} of {:?}", load.request)
        })?;
        match end {
            LoadEnd::Loaded => {
                demand(destination == Destination::Reusable, || {
                    format!("{job:?} is loaded and quarantined")
                })?;
            }
            LoadEnd::Failed { landed, .. } => {
                let fits = landed.is_empty() || landed.len() == load.blocks.len();
                demand(fits, || {
                    format!("{job:?} has {} blocks but {} landed bits", load.blocks.len(), landed.len())
                })?;
                let all = !landed.is_empty() && landed.iter().all(|bit| *bit);
                demand(!all || destination == Destination::Quarantined, || {
                    format!("{job:?} failed but all landed")
                })?;
            }
        }
        load.holds = destination == Destination::Quarantined;
        load.end = Some((end.clone(), destination));
        Ok(load.clone())
    }

    pub(crate) fn released(&mut self, job: JobId) -> Verdict<Vec<u32>> {
        let load = self.loads.get_mut(&job).ok_or_else(|| format!("releases {job:?}, which never was"))?;
        let quarantined = matches!(load.end, Some((_, Destination::Quarantined))) && load.holds;
        demand(quarantined, || format!("releases {job:?}, which is not quarantined"))?;
        load.holds = false;
        Ok(load.blocks.clone())
    }

    /// `surely` blocks reached the consumer for good; `perhaps` counts those of rounds that ended otherwise, too.
    pub(crate) fn store_finished(
        &mut self,
        job: JobId,
        outcome: StoreOutcome,
        (surely, perhaps): (usize, usize),
    ) -> Verdict<Vec<u32>> {
        let store =
            self.stores.get_mut(&job).ok_or_else(|| format!("I3: a result for {job:?}, which never was"))?;
        demand(store.outcome.is_none(), || format!("I3: a second result for store {job:?}"))?;
        store.outcome = Some(outcome);
        let all = store.blocks.len();
        let right = match outcome {
            StoreOutcome::Delivered => perhaps == all,
            StoreOutcome::Partly { delivered } => {
                (surely..=perhaps).contains(&(delivered as usize)) && (1..all).contains(&(delivered as usize))
            }
            StoreOutcome::Unclaimed | StoreOutcome::Failed(_) => surely == 0,
        };
        let promise =
            || format!("store {job:?} ends {outcome:?}, but {surely} to {perhaps} of {all} blocks arrived");
        demand(right || store.shared, promise)?;
        Ok(store.blocks.clone())
    }

    /// Stores and pins without a result.
    pub(crate) fn unfinished_stores(&self) -> Vec<JobId> {
        self.stores.iter().filter(|(_, store)| store.outcome.is_none()).map(|(job, _)| *job).collect()
    }

    /// Jobs without a result.
    pub(crate) fn unanswered(&self) -> Vec<JobId> {
        let loads = self.loads.iter().filter(|(_, load)| load.end.is_none()).map(|(job, _)| *job);
        loads.chain(self.unfinished_stores()).collect()
    }

    /// Loads whose blocks are quarantined.
    pub(crate) fn quarantined(&self) -> Vec<JobId> {
        self.loads.iter().filter(|(_, load)| load.end.is_some() && load.holds).map(|(job, _)| *job).collect()
    }
}
