//! The messages of vLLM's P2P nodes.

use kvpeer_wire::{PeerName, RequestName, Text};

use super::{HitList, IndexList, KeyList};

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// Announces a node.
    Connect(Connect<'a>),
    /// "I registered your region; you may send work."
    ConnectAck(ConnectAck<'a>),
    /// Goodbye. Says nothing else.
    Disconnect,
    /// Write these blocks there; without keys: no more work for this request.
    Fetch(Fetch<'a>),
    /// Which of these blocks do you hold?
    Lookup(Lookup<'a>),
    /// The answer.
    LookupResp(LookupResp<'a>),
    /// The end of a fetch.
    TransferDone(TransferDone<'a>),
    /// Stop a fetch.
    AbortFetch(AbortFetch<'a>),
    /// It stopped.
    AbortAck(AbortAck<'a>),
}

impl Message<'_> {
    /// What stands in its `type` field.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::ConnectAck(_) => "connect_ack",
            Self::Disconnect => "disconnect",
            Self::Fetch(_) => "fetch",
            Self::Lookup(_) => "lookup",
            Self::LookupResp(_) => "lookup_resp",
            Self::TransferDone(_) => "transfer_done",
            Self::AbortFetch(_) => "abort_fetch",
            Self::AbortAck(_) => "abort_ack",
        }
    }
}

/// A request's round of lookups and one fetch. vLLM counts from 0 for each request, and anew when an id comes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RoundSeq(pub u64);

/// `connect`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect<'a> {
    /// Where the sender's ROUTER can be dialled, `host:port`.
    pub peer_id: PeerName<'a>,
    /// NIXL's description of the sender's agent, opaque here.
    pub agent_metadata: &'a [u8],
    /// The address of block 0 in the sender's memory.
    pub base_addr: u64,
    /// How many blocks, at least one.
    pub num_blocks: u32,
    /// The length of one in bytes, at least one.
    pub block_len: u64,
    /// A digest of what a block holds. May be missing; vLLM reads that as empty.
    pub config_fingerprint: Text<'a>,
    /// Names the hash chain's seed.
    pub hash_seed: Text<'a>,
}

/// `connect_ack`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectAck<'a> {
    /// Who acknowledges.
    pub peer_id: PeerName<'a>,
}

/// `fetch`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch<'a> {
    /// For which request.
    pub kv_request_id: RequestName<'a>,
    /// Which blocks.
    pub keys: KeyList<'a>,
    /// Indexes in the sender's region, as many as keys.
    pub block_indexes: IndexList<'a>,
    /// The round that it closes.
    pub round_seq: RoundSeq,
}

/// `lookup`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lookup<'a> {
    /// For which request.
    pub kv_request_id: RequestName<'a>,
    /// Which blocks.
    pub keys: KeyList<'a>,
    /// In which of its rounds.
    pub round_seq: RoundSeq,
}

/// `lookup_resp`, which names no round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupResp<'a> {
    /// Of the lookup.
    pub kv_request_id: RequestName<'a>,
    /// Which blocks.
    pub keys: KeyList<'a>,
    /// Whether each is held, as many as keys.
    pub hits: HitList<'a>,
}

/// `transfer_done`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferDone<'a> {
    /// Of the fetch.
    pub kv_request_id: RequestName<'a>,
    /// Whether every block is written.
    pub success: Success,
    /// Of the fetch.
    pub round_seq: RoundSeq,
}

/// All that `transfer_done` says about how it went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Success {
    /// Every block is written.
    Yes,
    /// Not every block came; vLLM does not say which, nor why.
    No,
}

/// `abort_fetch`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortFetch<'a> {
    /// Of the fetch.
    pub kv_request_id: RequestName<'a>,
    /// Of the fetch.
    pub round_seq: RoundSeq,
}

/// `abort_ack`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortAck<'a> {
    /// Of the abort.
    pub kv_request_id: RequestName<'a>,
    /// Of the abort.
    pub round_seq: RoundSeq,
}
