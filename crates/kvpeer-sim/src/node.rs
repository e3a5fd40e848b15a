//! One node: its endpoint, and what its planes, its cache and its engine know.

use std::collections::{BTreeMap, BTreeSet};

use kvpeer_core::{BlockIdx, Compatibility, Config, Endpoint, Epoch, Identity, JobId, ProbeId, Time};
use kvpeer_wire::RegionInfo;

use crate::judge::Known;
use crate::names::{ConnKey, Process, RightKey, Side, Who};
use crate::setup::{Ask, Fits, Setup};

/// A node in one of its lives.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Node {
    pub(crate) process: Process,
    pub(crate) state: Alive,
    pub(crate) endpoint: Endpoint,
    /// Dials under way.
    pub(crate) dials: BTreeMap<Epoch, Dial>,
    pub(crate) rights: BTreeMap<Epoch, Right>,
    pub(crate) probes: BTreeMap<ProbeId, Probe>,
    /// Which block holds a key.
    pub(crate) cache: BTreeMap<u8, BlockIdx>,
    /// What is in each block.
    pub(crate) cells: Vec<Cell>,
    pub(crate) book: Book,
    pub(crate) next_pin: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Alive {
    Yes,
    No,
}

/// A dial under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Dial {
    pub(crate) to: Who,
    /// The core does not want it any more.
    pub(crate) cancelled: bool,
}

/// What a block holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Cell {
    /// Nothing that anybody relies on.
    Blank,
    /// What this key names.
    Of(u8),
}

/// The endpoint, queue and key of one link, and what is known of the peer's.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Right {
    pub(crate) conn: ConnKey,
    pub(crate) side: Side,
    /// What the core has asked and not been answered.
    pub(crate) asked: BTreeSet<Ask>,
    /// Those of them that take longer than any timer.
    pub(crate) late: BTreeSet<Ask>,
    pub(crate) state: RightState,
    /// Where WRITEs on this link go, once the peer is registered.
    pub(crate) target: Option<Target>,
    /// Whether a WRITE of this link has ended in error.
    pub(crate) errored: bool,
    /// Whether something has happened that ends its session in order.
    pub(crate) closing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum RightState {
    None,
    Open,
    Closed { fenced: bool },
}

/// Where a peer's WRITEs land.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Target {
    pub(crate) right: RightKey,
    pub(crate) num_blocks: u32,
    pub(crate) registered: bool,
}

/// A lookup that the cache is asked to answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Probe {
    pub(crate) keys: Vec<u8>,
    pub(crate) open: Vec<u32>,
    /// The core does not need an answer any more.
    pub(crate) over: bool,
}

/// The engine's jobs that are not over.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Book {
    pub(crate) loads: BTreeMap<JobId, Load>,
    pub(crate) stores: BTreeMap<JobId, Store>,
    /// Requests that were told to have failed, until the engine finishes them.
    pub(crate) failed: BTreeSet<u8>,
    pub(crate) known: Known,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Load {
    pub(crate) request: u8,
    pub(crate) keys: Vec<u8>,
    pub(crate) blocks: Vec<BlockIdx>,
    pub(crate) state: LoadState,
    /// The link that its fetch was sent on.
    pub(crate) epoch: Option<Epoch>,
    /// Where its blocks come from.
    pub(crate) source: Option<Who>,
    /// The engine has aborted it, or finished its request.
    pub(crate) unwanted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LoadState {
    /// It has no result.
    Asked,
    /// It has failed, and its blocks are not free.
    Quarantined,
}

/// What a store job is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Purpose {
    Request(u8),
    /// A lookup of this peer's.
    Lookup(Option<Who>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Store {
    pub(crate) keys: Vec<u8>,
    pub(crate) blocks: Vec<BlockIdx>,
    /// What it was stored, or pinned, for.
    pub(crate) purpose: Purpose,
    /// Blocks that reached the consumer, as the producer has told it.
    pub(crate) delivered: u32,
    /// Another job pins one of the blocks, too: whose block was delivered cannot be told.
    pub(crate) shared: bool,
}

impl Node {
    pub(crate) fn new(setup: &Setup, process: Process) -> Self {
        let who = process.who;
        let stock = setup.stock.iter().find(|(owner, _)| *owner == who).map(|(_, keys)| keys.as_slice());
        let cache: BTreeMap<u8, BlockIdx> = stock.unwrap_or_default().iter().copied().zip(0u32..).collect();
        let endpoint = endpoint(setup, process);
        let mut cells = vec![Cell::Blank; endpoint.config().region.num_blocks as usize];
        for (key, block) in &cache {
            cells[*block as usize] = Cell::Of(*key);
        }
        Self {
            process,
            state: Alive::Yes,
            endpoint,
            dials: BTreeMap::new(),
            rights: BTreeMap::new(),
            probes: BTreeMap::new(),
            cache,
            cells,
            book: Book::default(),
            next_pin: 1000,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.state == Alive::Yes
    }

    /// The earliest moment at which the endpoint must be woken, if there is one before the end of time.
    pub(crate) fn next_deadline(&self) -> Option<kvpeer_core::Deadline> {
        let deadline = self.endpoint.next_deadline().filter(|deadline| deadline.at < Time::NEVER);
        deadline.filter(|_| self.is_alive())
    }

    pub(crate) fn right(&self, conn: ConnKey, side: Side) -> Option<(Epoch, &Right)> {
        let found = self.rights.iter().find(|(_, right)| right.conn == conn && right.side == side);
        found.map(|(epoch, right)| (*epoch, right))
    }

    /// Whether what a peer has posted can still land through this right.
    pub(crate) fn lets_land(&self, right: RightKey) -> bool {
        let state = self.rights.get(&right.epoch).map(|right| right.state);
        let closed = matches!(state, Some(RightState::Closed { fenced: true }) | None);
        self.is_alive() && self.process == right.owner && !closed
    }
}

impl Purpose {
    pub(crate) fn is_lookup(self) -> bool {
        match self {
            Self::Lookup(_) => true,
            Self::Request(_) => false,
        }
    }
}

impl Right {
    pub(crate) fn new(conn: ConnKey, side: Side) -> Self {
        Self {
            conn,
            side,
            asked: BTreeSet::new(),
            late: BTreeSet::new(),
            state: RightState::None,
            target: None,
            errored: false,
            closing: false,
        }
    }

    /// Whether nothing can land through it, or ever could.
    pub(crate) fn is_closed(&self) -> bool {
        match self.state {
            RightState::None | RightState::Closed { fenced: true } => true,
            RightState::Open | RightState::Closed { fenced: false } => false,
        }
    }
}

impl Book {
    /// Puts down a store or a pin.
    pub(crate) fn store(&mut self, job: JobId, purpose: Purpose, keys: Vec<u8>, blocks: Vec<BlockIdx>) {
        let others = self.stores.values_mut();
        let shared = others.filter(|store| store.blocks.iter().any(|block| blocks.contains(block)));
        let shared = shared.map(|store| store.shared = true).count() > 0;
        self.stores.insert(job, Store { keys, blocks, purpose, delivered: 0, shared });
    }

    /// The job whose block is read.
    pub(crate) fn reader_of(&self, block: BlockIdx) -> Option<JobId> {
        self.stores.iter().find(|(_, store)| store.blocks.contains(&block)).map(|(job, _)| *job)
    }

    /// How many unfinished jobs pin a block.
    pub(crate) fn pins(&self, block: BlockIdx) -> usize {
        self.stores.values().filter(|store| store.blocks.contains(&block)).count()
    }

    /// The load that reserves a block.
    pub(crate) fn holder(&self, block: BlockIdx) -> Option<JobId> {
        self.loads.iter().find(|(_, load)| load.blocks.contains(&block)).map(|(job, _)| *job)
    }
}

fn endpoint(setup: &Setup, process: Process) -> Endpoint {
    let identity =
        Identity { peer_id: process.who.peer(), incarnation: u64::from(process.life), loopback: false };
    let region = RegionInfo { base_addr: 0, num_blocks: setup.blocks, block_len: 1 << 10 };
    let mut config = Config::new(identity, region, Compatibility::default());
    config.timing = setup.timing.clone();
    config.limits = setup.limits.clone();
    if let Some(other) = setup.others.get(&process.who) {
        config.timing = other.timing.clone();
        config.limits = other.limits.clone();
        config.region.num_blocks = other.blocks;
        match other.fits {
            Fits::Yes => {}
            Fits::OtherLength => config.region.block_len *= 2,
            Fits::OtherSeed => config.compat.hash_seed = "another".to_owned(),
            Fits::OtherFingerprint => {
                config.compat.fingerprint.push("layout", "another").expect("a short pair");
            }
        }
    }
    Endpoint::new(config).expect("a sound configuration")
}
