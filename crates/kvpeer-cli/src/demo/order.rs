//! What the director and the two processes say to each other: one JSON object a line, on the pipes.

use serde::{Deserialize, Serialize};

/// An order. Each is answered by one [`Reply`], in order.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Order {
    /// These are a prompt's tokens; it is called by this name from now on. Blocks of a prompt are numbered from 0,
    /// and named by their keys, which follow from the tokens.
    Learn { prompt: String, tokens: Vec<u32> },
    /// From now on peers that look these blocks up find them, in the region's blocks of the same numbers.
    Publish { prompt: String, blocks: Vec<u32> },
    /// Offer these blocks, from the region's blocks of the same numbers, for a request.
    Store { request: String, prompt: String, blocks: Vec<u32> },
    /// Take a request's blocks from a peer.
    Open { request: String, peer: String, address: String, supply: Taken },
    /// Which of these blocks does the peer hold? Answered when it is known of all.
    Lookup { request: String, prompt: String, blocks: Vec<u32> },
    /// Get these blocks, into the region from block `at` on.
    Load { request: String, prompt: String, blocks: Vec<u32>, at: u32 },
    /// Stop a load.
    Abort { job: u64 },
    /// The request is over here.
    Finish { request: String },
    /// What is going on?
    Stats,
    /// What do these blocks of the region hold?
    Digests { first: u32, count: u32 },
    /// Use these blocks of the region for something else: write `with` all over them.
    Fill { first: u32, count: u32, with: u32 },
    /// As soon as all of these loads have given their blocks back, in the same moment, use those for something else:
    /// write `new` where `old` was before the loads.
    Reuse { loads: Vec<LoadedRange>, old: u32, new: u32 },
}

/// A load, and where its blocks are in the region.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub(crate) struct LoadedRange {
    pub(crate) job: u64,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// How a request's blocks are taken.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub(crate) enum Taken {
    /// After lookups.
    Symmetric,
    /// As they are stored.
    PrefillDecode,
}

#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Reply {
    Done,
    /// The job that will have a result.
    Job(u64),
    Hits(Vec<bool>),
    Stats(Stats),
    Digests(Vec<String>),
    /// The node says no.
    Refused(String),
}

/// From a node's own statistics.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Stats {
    /// WRITEs that are posted and not terminal.
    pub(crate) writes: usize,
    /// Blocks in those.
    pub(crate) blocks_in_flight: usize,
    /// Blocks that are demanded and not stored.
    pub(crate) parked: usize,
    /// Loads whose blocks are quarantined.
    pub(crate) quarantined: usize,
}

/// What happens without an order.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// The node is at work.
    Ready {
        peer: String,
        address: String,
    },
    LoadFinished {
        job: u64,
        result: LoadResult,
        reusable: bool,
    },
    /// The blocks of a quarantined load may be used again.
    Released {
        job: u64,
    },
    /// After an order to that end: so many blocks are used for something else.
    Reused {
        blocks: u32,
    },
    StoreFinished {
        job: u64,
        outcome: String,
        delivered: bool,
    },
    FetchArrived {
        request: String,
    },
    PeerDown {
        reason: String,
    },
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) enum LoadResult {
    Loaded,
    Failed { why: String, landed: u32 },
}

/// One line from a process.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Line {
    Reply(Reply),
    News(News),
}
