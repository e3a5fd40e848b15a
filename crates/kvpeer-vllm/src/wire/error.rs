//! What can be wrong with a payload.

use std::fmt;

/// Why bytes are no message of vLLM's: one variant for every way to be malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// A payload longer than allowed.
    #[error("a message of {len} bytes; {limit} are allowed")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// What is allowed, in bytes.
        limit: u32,
    },
    /// The payload ends before its last value does.
    #[error("the message is cut off")]
    CutOff,
    /// Bytes after the message.
    #[error("{bytes} bytes after the message")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// The one byte that msgpack never uses.
    #[error("a byte that begins no msgpack value")]
    ReservedMarker,
    /// Every message is a map.
    #[error("the message is a {found}, not a map")]
    NotAMap {
        /// What it is.
        found: Shape,
    },
    /// A field's name that is not a string.
    #[error("a field whose name is a {found}, not a string")]
    FieldName {
        /// What it is.
        found: Shape,
    },
    /// A field that stands twice in the message.
    #[error("{field} stands twice")]
    Doubled {
        /// Which.
        field: Field,
    },
    /// A field that every message of this type has.
    #[error("{field} is missing")]
    Missing {
        /// Which.
        field: Field,
    },
    /// A field of another type than it must have.
    #[error("{field} is a {found}, not a {expected}")]
    Type {
        /// Which.
        field: Field,
        /// What it must be.
        expected: Shape,
        /// What it is.
        found: Shape,
    },
    /// A number outside of what the field may hold.
    #[error("{field} is {value}, which is out of range")]
    Range {
        /// Which.
        field: Field,
        /// The number.
        value: u64,
    },
    /// A string that is not UTF-8.
    #[error("{field} is not UTF-8")]
    NotUtf8 {
        /// Which.
        field: Field,
    },
    /// A name without a byte.
    #[error("{field} is empty")]
    Empty {
        /// Which.
        field: Field,
    },
    /// A string or byte string that is longer than allowed.
    #[error("{field} has {len} bytes; {limit} are allowed")]
    FieldTooLong {
        /// Which.
        field: Field,
        /// Its length in bytes.
        len: usize,
        /// What is allowed, in bytes.
        limit: usize,
    },
    /// More elements than a list may have.
    #[error("{field} has {count} elements; {limit} are allowed")]
    TooMany {
        /// Which.
        field: Field,
        /// How many.
        count: u32,
        /// What is allowed.
        limit: u32,
    },
    /// A key without a byte or longer than allowed.
    #[error("a key of {len} bytes; 1 to {limit} are allowed")]
    KeyLength {
        /// Its length in bytes.
        len: usize,
        /// What is allowed, in bytes.
        limit: usize,
    },
    /// Two lists that belong together differ in length.
    #[error("{keys} keys but {others} in {field}")]
    Uneven {
        /// How many keys.
        keys: u32,
        /// The other list.
        field: Field,
        /// How many elements it has.
        others: u32,
    },
}

/// What a msgpack value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names of msgpack")]
pub enum Shape {
    Nil,
    Bool,
    Integer,
    NegativeInteger,
    Float,
    Str,
    Bin,
    Array,
    Map,
    Ext,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nil => "nil",
            Self::Bool => "boolean",
            Self::Integer => "non-negative integer",
            Self::NegativeInteger => "negative integer",
            Self::Float => "float",
            Self::Str => "string",
            Self::Bin => "byte string",
            Self::Array => "array",
            Self::Map => "map",
            Self::Ext => "extension",
        })
    }
}

/// The fields of vLLM's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each is described at the message that has it")]
pub enum Field {
    Type,
    PeerId,
    AgentMetadata,
    BaseAddr,
    NumBlocks,
    BlockLen,
    ConfigFingerprint,
    HashSeed,
    KvRequestId,
    Keys,
    BlockIndexes,
    Hits,
    Success,
    RoundSeq,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Type,
        Self::PeerId,
        Self::AgentMetadata,
        Self::BaseAddr,
        Self::NumBlocks,
        Self::BlockLen,
        Self::ConfigFingerprint,
        Self::HashSeed,
        Self::KvRequestId,
        Self::Keys,
        Self::BlockIndexes,
        Self::Hits,
        Self::Success,
        Self::RoundSeq,
    ];

    /// Its name in the map.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::PeerId => "peer_id",
            Self::AgentMetadata => "agent_metadata",
            Self::BaseAddr => "base_addr",
            Self::NumBlocks => "num_blocks",
            Self::BlockLen => "block_len",
            Self::ConfigFingerprint => "config_fingerprint",
            Self::HashSeed => "hash_seed",
            Self::KvRequestId => "kv_request_id",
            Self::Keys => "keys",
            Self::BlockIndexes => "block_indexes",
            Self::Hits => "hits",
            Self::Success => "success",
            Self::RoundSeq => "round_seq",
        }
    }

    pub(super) fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name().as_bytes() == name)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
