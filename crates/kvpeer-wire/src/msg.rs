//! Every message of the protocol.

use alloc::vec::Vec;
use core::fmt;

use crate::{Bits, Blocks, Keys, MAX_NAME_LEN, NameError, PeerName, RequestName, Text};

/// The longest data-plane metadata in a `connect`, in bytes.
pub const MAX_METADATA_LEN: usize = 4096;

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Msg<'a> {
    /// Announces a node; both send it, once a connection.
    Connect(Connect<'a>),
    /// "I registered your region; you may send work."
    ConnectAck(ConnectAck),
    /// Why a connect is refused; the connection closes after it.
    Reject(Reject<'a>),
    /// Goodbye, the last message of a session.
    Disconnect(Disconnect<'a>),
    /// Liveness probe.
    Ping(Nonce),
    /// Its answer.
    Pong(Nonce),
    /// Which of these blocks do you hold?
    Lookup(Lookup<'a>),
    /// A part of the answer.
    LookupResp(LookupResp<'a>),
    /// Write these blocks there.
    Fetch(Fetch<'a>),
    /// How far a fetch has come.
    FetchProgress(FetchProgress<'a>),
    /// The end of a fetch that was not aborted.
    TransferDone(TransferDone<'a>),
    /// Stop a fetch.
    AbortFetch(AbortFetch<'a>),
    /// It stopped and is quiet.
    AbortAck(AbortAck<'a>),
    /// No more work for this request.
    Release(Release<'a>),
}

/// The kinds of messages, with their numbers on the wire (docs/protocol.md, "Kinds"); never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is documented at its message")]
pub enum Kind {
    Connect = 1,
    ConnectAck = 2,
    Reject = 3,
    Disconnect = 4,
    Ping = 5,
    Pong = 6,
    Lookup = 7,
    LookupResp = 8,
    Fetch = 9,
    FetchProgress = 10,
    TransferDone = 11,
    AbortFetch = 12,
    AbortAck = 13,
    Release = 14,
}

impl Msg<'_> {
    /// Which kind of message this is.
    pub fn kind(&self) -> Kind {
        match self {
            Msg::Connect(_) => Kind::Connect,
            Msg::ConnectAck(_) => Kind::ConnectAck,
            Msg::Reject(_) => Kind::Reject,
            Msg::Disconnect(_) => Kind::Disconnect,
            Msg::Ping(_) => Kind::Ping,
            Msg::Pong(_) => Kind::Pong,
            Msg::Lookup(_) => Kind::Lookup,
            Msg::LookupResp(_) => Kind::LookupResp,
            Msg::Fetch(_) => Kind::Fetch,
            Msg::FetchProgress(_) => Kind::FetchProgress,
            Msg::TransferDone(_) => Kind::TransferDone,
            Msg::AbortFetch(_) => Kind::AbortFetch,
            Msg::AbortAck(_) => Kind::AbortAck,
            Msg::Release(_) => Kind::Release,
        }
    }
}

/// The number of a request's round of lookups and fetch; minted by the consumer's session, strictly increasing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Round(pub u64);

/// The number of a lookup; minted by the consumer's session, strictly increasing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LookupId(pub u64);

/// Ties a pong to its ping.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nonce(pub u64);

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

/// Ordered (name, value) pairs that describe what a block holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fingerprint<'a> {
    /// Checked: for every string a length byte, then that much UTF-8; an even number of strings.
    pairs: &'a [u8],
}

impl<'a> Fingerprint<'a> {
    /// `None` unless `pairs` is a sequence of (length byte, UTF-8) strings, an even number of them.
    pub(crate) fn from_bytes(pairs: &'a [u8]) -> Option<Self> {
        let mut strings = Strings(pairs);
        let mut count = 0usize;
        while let Some(string) = strings.next() {
            string?;
            count += 1;
        }
        count.is_multiple_of(2).then_some(Self { pairs })
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut strings = Strings(self.pairs);
        core::iter::from_fn(move || Some((strings.next()??, strings.next()??)))
    }

    /// The pairs as they stand in a frame.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.pairs
    }
}

impl fmt::Debug for Fingerprint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Walks length-prefixed strings; yields `Some(None)` once at the first malformed one.
struct Strings<'a>(&'a [u8]);

impl<'a> Iterator for Strings<'a> {
    type Item = Option<&'a str>;

    fn next(&mut self) -> Option<Self::Item> {
        let (len, rest) = self.0.split_first()?;
        let Some((string, rest)) = rest.split_at_checked(usize::from(*len)) else {
            self.0 = &[];
            return Some(None);
        };
        self.0 = rest;
        Some(core::str::from_utf8(string).ok())
    }
}

/// An owned fingerprint.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct FingerprintBuf(Vec<u8>);

impl FingerprintBuf {
    /// No pairs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a pair; each string has at most [`MAX_NAME_LEN`] bytes.
    pub fn push(&mut self, name: &str, value: &str) -> Result<(), NameError> {
        for string in [name, value] {
            if string.len() > MAX_NAME_LEN {
                return Err(NameError::TooLong { len: string.len() });
            }
        }
        for string in [name, value] {
            self.0.push(string.len() as u8);
            self.0.extend_from_slice(string.as_bytes());
        }
        Ok(())
    }

    /// The fingerprint as a view.
    pub fn as_fingerprint(&self) -> Fingerprint<'_> {
        Fingerprint { pairs: &self.0 }
    }
}

/// `connect_ack`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectAck {
    /// The incarnation of the `connect` that this answers.
    pub incarnation: u64,
}

/// `reject`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reject<'a> {
    /// Why.
    pub code: RejectCode,
    /// Which field differs, where one does.
    pub field: Text<'a>,
    /// The sender's value.
    pub ours: Text<'a>,
    /// The receiver's value, as the sender saw it.
    pub theirs: Text<'a>,
    /// When to try again, in milliseconds; 0 where trying again is pointless or free.
    pub retry_after_ms: u32,
}

/// Why a connect is refused. Numbers on the wire are in docs/protocol.md.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RejectCode {
    /// No protocol version in common.
    Version,
    /// Blocks differ in length.
    BlockLen,
    /// Hash seeds differ: every key would miss.
    HashSeed,
    /// A fingerprint pair differs.
    Fingerprint,
    /// Another peer was expected at this address.
    UnexpectedPeer,
    /// Another connection to this peer is in use.
    Duplicate,
    /// A newer process of this peer is connected.
    StaleIncarnation,
    /// The node has as many peers as it takes.
    TooManyPeers,
    /// Too soon after a fault.
    Backoff,
    /// The node's admission rule says no.
    Unauthorized,
    /// The data plane could not register the region or open a right.
    RegistrationFailed,
    /// A code of a newer version.
    Other(u8),
}

/// `disconnect`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disconnect<'a> {
    /// Why.
    pub reason: DisconnectReason,
    /// For people.
    pub detail: Text<'a>,
}

/// Why a session says goodbye. Numbers on the wire are in docs/protocol.md.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DisconnectReason {
    /// The node shuts down.
    Shutdown,
    /// The engine closed the peer.
    Closed,
    /// Nothing happened for long and the slot is needed.
    Idle,
    /// The receiver broke the protocol.
    Protocol,
    /// The data plane to the receiver failed.
    DataPlane,
    /// A WRITE did not end within its timer.
    WriteStalled,
    /// A fetch or abort ended without proof that its WRITEs are settled.
    Unsettled,
    /// An abort was not acknowledged in time.
    AbortUnacked,
    /// A reason of a newer version.
    Other(u8),
}

/// `lookup`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lookup<'a> {
    /// Echoed by the answer.
    pub lookup_id: LookupId,
    /// For which request.
    pub request: RequestName<'a>,
    /// In which of its rounds.
    pub round: Round,
    /// Which blocks.
    pub keys: Keys<'a>,
}

/// `lookup_resp`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupResp<'a> {
    /// Of the lookup.
    pub lookup_id: LookupId,
    /// Index of the first key that this part answers.
    pub offset: u32,
    /// One bit for each answered key, in the lookup's order: held and pinned, or not.
    pub hits: Bits<'a>,
    /// How long the hits stay pinned, in milliseconds.
    pub pin_ms: u32,
}

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

/// Where a fetch's blocks come from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Supply {
    /// From the pins that this round's lookups won.
    Pinned,
    /// From what the producer stores for the request, now or later.
    Await,
}

/// Keys and their destination blocks, as many of the one as of the other.
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

/// Why a fetch failed. Numbers on the wire are in docs/protocol.md.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Failure {
    /// A `pinned` fetch named a block that is not pinned for its round.
    NoSupply,
    /// Supply did not come in time, or is over.
    SupplyTimeout,
    /// The producer finished the request without storing all of it.
    ProducerFinished,
    /// A WRITE failed.
    WriteFailed,
    /// Over a cap of the producer.
    Overloaded,
    /// The producer is ending the session.
    Closing,
    /// The request's supply belongs to another peer.
    NotYours,
    /// Keys or destinations are doubled or out of range.
    Malformed,
    /// A reason of a newer version; never success.
    Other(u8),
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
