//! Numbers that name things on this node; none of them is ever sent (ID-13) or reused.

pub use kvpeer_wire::{KeyBuf, PeerId, RequestId};

/// An index of a block in a region, counted from 0.
pub type BlockIdx = u32;

/// The engine's name for one load or store job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobId(pub u64);

/// The control plane's name for one connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// One link attempt and all that hangs on it: its right, its session, its WRITEs.
///
/// Every late fact is fenced by the epoch that it names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Epoch(pub u32);

/// One WRITE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct XferId {
    /// The link it belongs to.
    pub epoch: Epoch,
    /// Counts the WRITEs of that link.
    pub seq: u64,
}

/// One lookup that the block cache is asked to answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProbeId {
    /// The link it belongs to.
    pub epoch: Epoch,
    /// Counts the lookups of that link.
    pub seq: u64,
}

/// The position of a key in its probe, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyAt(pub u32);
