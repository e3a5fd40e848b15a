//! Asking for blocks, and what comes back.

use crate::{Bits, Blocks, Failure, Keys, RequestName, Round, Supply};

/// `fetch`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch<'a> {
    /// For which request.
    pub request: RequestName<'a>,
    /// In which of its rounds; closes the round's lookups.
    pub round: Round,
    /// Where the blocks come from.
    pub supply: Supply,
    /// Which blocks, and where to.
    pub demand: Demand<'a>,
    /// How long unmet `await` demand may wait, in milliseconds.
    pub wait_ms: u32,
}

/// Keys and their destination blocks, as many of the one as of the other (FR-14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand<'a> {
    keys: Keys<'a>,
    blocks: Blocks<'a>,
}

/// Keys and blocks differ in number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{keys} keys but {blocks} block indexes")]
pub struct DemandError {
    /// How many keys.
    pub keys: usize,
    /// How many block indexes.
    pub blocks: usize,
}

impl<'a> Demand<'a> {
    /// Pairs the n-th key with the n-th block.
    pub fn new(keys: Keys<'a>, blocks: Blocks<'a>) -> Result<Self, DemandError> {
        match (keys.len(), blocks.len()) {
            (k, b) if k == b => Ok(Self { keys, blocks }),
            (keys, blocks) => Err(DemandError { keys, blocks }),
        }
    }

    /// The blocks' names.
    pub fn keys(&self) -> Keys<'a> {
        self.keys
    }

    /// Indexes in the consumer's region.
    pub fn blocks(&self) -> Blocks<'a> {
        self.blocks
    }

    /// How many blocks are wanted.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether none is wanted.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

/// `fetch_progress`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchProgress<'a> {
    /// Of the fetch.
    pub request: RequestName<'a>,
    /// Of the fetch.
    pub round: Round,
    /// Blocks for which there is supply, landed ones included.
    pub matched: u32,
    /// Blocks that wait for supply.
    pub parked: u32,
    /// Blocks that are written and visible.
    pub landed: u32,
}

/// `transfer_done`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferDone<'a> {
    /// Of the fetch.
    pub request: RequestName<'a>,
    /// Of the fetch.
    pub round: Round,
    /// How it ended.
    pub outcome: Outcome<'a>,
}

/// How a fetch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome<'a> {
    /// Every demanded block is written and visible.
    Ok,
    /// Not every block came.
    Failed {
        /// Why.
        why: Failure,
        /// Whether every WRITE of the round ended in success or was never posted.
        settled: bool,
        /// One bit for each demanded block, in the fetch's order: written and visible, or not.
        landed: Bits<'a>,
    },
}

/// `abort_fetch`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortFetch<'a> {
    /// Of the fetch.
    pub request: RequestName<'a>,
    /// Of the fetch.
    pub round: Round,
}

/// `abort_ack`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortAck<'a> {
    /// Of the fetch.
    pub request: RequestName<'a>,
    /// Of the fetch.
    pub round: Round,
    /// Whether every WRITE of this epoch so far ended in success or was never posted.
    pub settled: bool,
}

/// `release`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release<'a> {
    /// Which request.
    pub request: RequestName<'a>,
}
