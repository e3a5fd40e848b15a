//! The client role: what this node, as a consumer, wants from its peers.

mod loads;
mod lookups;
mod probes;
mod requests;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use kvpeer_wire::{BitsBuf, KeysBuf, LookupId, Round, Supply};

use crate::block_set::BlockSet;
use crate::cx::Line;
use crate::faults::{Fault, seeded};
use crate::{BlockIdx, CloseReason, Epoch, JobId, LoadFailure, PeerId, RequestId, Time};

use probes::{Places, Probes};

pub(crate) use loads::{Accepted, Whereabouts, check_counts, check_distinct};
pub(crate) use probes::Fresh;

/// What outlives sessions: requests and loads.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Tables {
    pub(crate) requests: BTreeMap<RequestId, Request>,
    pub(crate) loads: BTreeMap<JobId, Load>,
    /// Destinations of all loads, quarantined ones included.
    pub(crate) reserved: BlockSet,
    /// Requests with keys to flush.
    pub(crate) fresh: BTreeSet<RequestId>,
}

/// What belongs to one session and ends with it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Session {
    next_round: u64,
    next_lookup: u64,
    /// Fetches whose end has not come.
    pub(crate) rounds: BTreeMap<Round, JobId>,
    /// Lookups that are not fully answered.
    pub(crate) lookups: BTreeMap<LookupId, Asked>,
    /// Loads whose destinations wait for the fence of this session's right.
    pub(crate) quarantined: BTreeSet<JobId>,
}

/// A request that this node consumes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Request {
    pub(crate) source: PeerId,
    pub(crate) address: Box<str>,
    pub(crate) supply: Supply,
    pub(crate) state: RequestState,
    pub(crate) loads: BTreeSet<JobId>,
    probes: Probes,
    /// Lookups on the wire, and when they are given up.
    open: BTreeSet<LookupId>,
    open_due: Option<Time>,
    /// The session that has heard of this request, and the round that its lookups opened there.
    pub(crate) told: Option<Epoch>,
    round: Option<Round>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum RequestState {
    Open,
    /// Its session ended under it.
    Failed(CloseReason),
}

/// A lookup on the wire.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Asked {
    request: RequestId,
    places: Places,
    answered: BitsBuf,
    left: usize,
}

/// A load job.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Load {
    pub(crate) request: RequestId,
    pub(crate) supply: Supply,
    pub(crate) blocks: Vec<BlockIdx>,
    pub(crate) state: LoadState,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LoadState {
    /// Waits for a link.
    Held { keys: Arc<KeysBuf> },
    /// Its fetch is sent.
    Fetching(Fetching),
    /// Its abort is sent.
    Aborting { epoch: Epoch, round: Round, why: LoadFailure, due: Option<Time> },
    /// Its result is told; its destination is not free.
    Quarantined { epoch: Epoch },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Fetching {
    pub(crate) epoch: Epoch,
    pub(crate) round: Round,
    /// How long parked demand may wait, from the sending of the fetch.
    parked_until: Time,
    landed: u32,
    patience: Patience,
    pub(crate) due: Option<Time>,
}

/// What a sent fetch waits for, by what its producer says. Supply is waited for once: a producer cannot prolong a
/// load by parking it again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Patience {
    /// The producer has not said anything.
    Unsaid,
    ForSupply,
    ForTransfer,
}

/// The client role on one link: borrows only what it changes.
pub(crate) struct Consumer<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) line: &'a mut Line,
    pub(crate) session: &'a mut Session,
    pub(crate) tables: &'a mut Tables,
}

impl Tables {
    pub(crate) fn new(num_blocks: u32) -> Self {
        Self {
            requests: BTreeMap::new(),
            loads: BTreeMap::new(),
            reserved: BlockSet::new(num_blocks),
            fresh: BTreeSet::new(),
        }
    }
}

impl Session {
    /// ID-9: counted over all requests of the session, never anew.
    fn mint_round(&mut self) -> Round {
        let round = Round(self.next_round);
        if !seeded(Fault::RoundsRestart) {
            self.next_round = self.next_round.saturating_add(1);
        }
        round
    }

    /// ID-12
    fn mint_lookup(&mut self) -> LookupId {
        let id = LookupId(self.next_lookup);
        self.next_lookup = self.next_lookup.saturating_add(1);
        id
    }
}

/// How long parked demand may wait at the producer, as a fetch says it.
fn wait_ms(wait: Duration) -> u32 {
    crate::time::wire_millis(wait)
}
