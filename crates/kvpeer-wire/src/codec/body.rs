//! What each kind of message looks like in a frame: the fields of version 1, in order. Never change one of these
//! structs; a later minor version appends a struct of its own (see [`Fields`](super::fields::Fields)).

use serde::{Deserialize, Serialize};

use super::fields::Run;

#[derive(Serialize, Deserialize)]
pub(super) struct Connect<'a> {
    #[serde(borrow)]
    pub(super) peer_id: Run<'a>,
    pub(super) incarnation: u64,
    pub(super) base_addr: u64,
    pub(super) num_blocks: u32,
    pub(super) block_len: u64,
    pub(super) metadata: Run<'a>,
    pub(super) hash_seed: Run<'a>,
    /// For every string a length byte, then that much UTF-8: name, value, name, value, ….
    pub(super) fingerprint: Run<'a>,
    pub(super) capabilities: u64,
    pub(super) heartbeat_ms: u32,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ConnectAck {
    pub(super) incarnation: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Reject<'a> {
    pub(super) code: u8,
    #[serde(borrow)]
    pub(super) field: Run<'a>,
    pub(super) ours: Run<'a>,
    pub(super) theirs: Run<'a>,
    pub(super) retry_after_ms: u32,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Disconnect<'a> {
    pub(super) reason: u8,
    #[serde(borrow)]
    pub(super) detail: Run<'a>,
}

/// `ping` and `pong`.
#[derive(Serialize, Deserialize)]
pub(super) struct Nonce {
    pub(super) nonce: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Lookup<'a> {
    pub(super) lookup_id: u64,
    #[serde(borrow)]
    pub(super) request: Run<'a>,
    pub(super) round: u64,
    pub(super) keys: Keys<'a>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct LookupResp<'a> {
    pub(super) lookup_id: u64,
    pub(super) offset: u32,
    #[serde(borrow)]
    pub(super) hits: Bits<'a>,
    pub(super) pin_ms: u32,
}

/// A fetch up to its block indexes, which follow as a run of four bytes each, little-endian.
#[derive(Serialize, Deserialize)]
pub(super) struct Fetch<'a> {
    #[serde(borrow)]
    pub(super) request: Run<'a>,
    pub(super) round: u64,
    pub(super) supply: u8,
    pub(super) keys: Keys<'a>,
}

/// What follows a fetch's block indexes.
#[derive(Serialize, Deserialize)]
pub(super) struct FetchEnd {
    pub(super) wait_ms: u32,
}

#[derive(Serialize, Deserialize)]
pub(super) struct FetchProgress<'a> {
    #[serde(borrow)]
    pub(super) request: Run<'a>,
    pub(super) round: u64,
    pub(super) matched: u32,
    pub(super) parked: u32,
    pub(super) landed: u32,
}

#[derive(Serialize, Deserialize)]
pub(super) struct TransferDone<'a> {
    #[serde(borrow)]
    pub(super) request: Run<'a>,
    pub(super) round: u64,
    /// 0 is ok, settled and without bits; else the number of a failure.
    pub(super) outcome: u8,
    pub(super) settled: bool,
    pub(super) landed: Bits<'a>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct AbortFetch<'a> {
    #[serde(borrow)]
    pub(super) request: Run<'a>,
    pub(super) round: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct AbortAck<'a> {
    #[serde(borrow)]
    pub(super) request: Run<'a>,
    pub(super) round: u64,
    pub(super) settled: bool,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Release<'a> {
    #[serde(borrow)]
    pub(super) request: Run<'a>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Keys<'a> {
    /// The length of every key, and there are no ends; or 0, and there is one end for every key.
    pub(super) key_len: u8,
    /// Little-endian, four bytes an end: where the key stops in `bytes`.
    #[serde(borrow)]
    pub(super) ends: Run<'a>,
    pub(super) bytes: Run<'a>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Bits<'a> {
    pub(super) count: u32,
    /// Least significant bit first.
    #[serde(borrow)]
    pub(super) bytes: Run<'a>,
}
