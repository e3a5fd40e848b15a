//! How two nodes introduce themselves.

use crate::{Fingerprint, PeerName, Text};

/// The longest data-plane metadata in a `connect`, in bytes.
pub const MAX_METADATA_LEN: usize = 4096;

/// `connect`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect<'a> {
    /// Who the sender is.
    pub peer_id: PeerName<'a>,
    /// Larger is newer: tells a restart from a duplicate.
    pub incarnation: u64,
    /// The sender's region.
    pub region: RegionInfo,
    /// Opaque to all but the data plane; at most [`MAX_METADATA_LEN`] bytes.
    pub metadata: &'a [u8],
    /// What must agree for blocks to mean the same on both sides.
    pub compat: Compat<'a>,
    /// Bit set of optional abilities; version 1 defines none.
    pub capabilities: u64,
    /// How often the sender says something at least, in milliseconds.
    pub heartbeat_ms: u32,
}

/// Where a node's blocks lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegionInfo {
    /// The address of block 0 in the sender's memory; only a data plane reads it.
    pub base_addr: u64,
    /// How many blocks.
    pub num_blocks: u32,
    /// The length of one, in bytes.
    pub block_len: u64,
}

/// What must agree for blocks to mean the same on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compat<'a> {
    /// Names the hash chain's seed.
    pub hash_seed: Text<'a>,
    /// Model, weights revision, layout, …: ordered pairs.
    pub fingerprint: Fingerprint<'a>,
}

/// `connect_ack`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectAck {
    /// The incarnation of the `connect` that this answers.
    pub incarnation: u64,
}
