//! What can be wrong with a message.

use core::fmt;

use crate::{Kind, MAX_METADATA_LEN};

/// Why bytes are no message: one variant for every way to be malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// A frame longer than [`Limits::frame`](crate::Limits::frame).
    #[error("a frame of {len} bytes; {limit} are allowed")]
    FrameTooLong {
        /// Its length after the length field, in bytes.
        len: usize,
        /// What is allowed, in bytes.
        limit: u32,
    },
    /// A kind that this version does not know and must not skip.
    #[error("unknown kind {kind}")]
    UnknownKind {
        /// Its number.
        kind: u8,
    },
    /// A body ends before its last field does.
    #[error("a {kind:?} is cut off")]
    CutOff {
        /// Of what.
        kind: Kind,
    },
    /// An integer or a length that is too long for its type.
    #[error("a {kind:?} with an integer out of range")]
    Integer {
        /// In what.
        kind: Kind,
    },
    /// A boolean that is neither 0 nor 1.
    #[error("a {kind:?} with a boolean that is neither 0 nor 1")]
    Boolean {
        /// In what.
        kind: Kind,
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
    /// A name, text or run that is longer than allowed.
    #[error("{field} has {len} bytes; {limit} are allowed")]
    TooLong {
        /// Which.
        field: Field,
        /// Its length in bytes.
        len: usize,
        /// What is allowed, in bytes.
        limit: usize,
    },
    /// A string of a fingerprint that ends after the fingerprint does.
    #[error("a fingerprint ends inside a string")]
    FingerprintCutOff,
    /// A fingerprint with a name that has no value.
    #[error("a fingerprint ends with a name that has no value")]
    FingerprintUnpaired,
    /// More keys, or bits that stand for keys, than [`Limits::keys`](crate::Limits::keys).
    #[error("{count} keys; {limit} are allowed")]
    TooManyKeys {
        /// How many.
        count: u64,
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
    /// Keys of one length whose bytes are no multiple of it.
    #[error("{bytes} bytes of keys of {key_len} bytes")]
    KeysRagged {
        /// The length of each, in bytes.
        key_len: u8,
        /// The length of all, in bytes.
        bytes: usize,
    },
    /// Keys of one length, and ends of keys all the same.
    #[error("{bytes} bytes of key ends although all keys have one length")]
    KeyEndsUnneeded {
        /// The length of the ends, in bytes.
        bytes: usize,
    },
    /// Ends of keys whose bytes are no multiple of four.
    #[error("{bytes} bytes of key ends; each has four")]
    KeyEndsRagged {
        /// Their length in bytes.
        bytes: usize,
    },
    /// A key that ends before it begins.
    #[error("key {at} ends at {end}, before the key in front of it")]
    KeyEndsFall {
        /// Which key, counted from 0.
        at: usize,
        /// Where it ends.
        end: u32,
    },
    /// Bytes after the last key, or too few for it.
    #[error("the last key ends at {end} of {bytes} bytes")]
    KeysEnd {
        /// Where it ends.
        end: usize,
        /// The length of all keys, in bytes.
        bytes: usize,
    },
    /// Block indexes whose bytes are no multiple of four.
    #[error("{bytes} bytes of block indexes; each has four")]
    BlocksRagged {
        /// Their length in bytes.
        bytes: usize,
    },
    /// Keys and blocks differ in number.
    #[error("{keys} keys but {blocks} block indexes")]
    DemandUneven {
        /// How many keys.
        keys: usize,
        /// How many block indexes.
        blocks: usize,
    },
    /// A [`Supply`](crate::Supply) that this version does not know.
    #[error("unknown supply {code}")]
    UnknownSupply {
        /// Its number.
        code: u8,
    },
    /// A bit set with more or fewer bytes than its count needs.
    #[error("{count} bits in {bytes} bytes")]
    BitsLength {
        /// How many bits.
        count: u32,
        /// In how many bytes.
        bytes: usize,
    },
    /// A bit set with a bit set after its last.
    #[error("a bit is set past the last of {count}")]
    BitsPastEnd {
        /// How many bits it has.
        count: u32,
    },
    /// The number 0 where a reason must stand.
    #[error("{field} is 0, which is no reason")]
    NoReason {
        /// Which.
        field: Field,
    },
    /// Success that is not settled.
    #[error("a transfer_done that says ok but not settled")]
    OkUnsettled,
    /// Success with bits of landed blocks, where it means all.
    #[error("a transfer_done that says ok and lists landed blocks")]
    OkWithBits,
}

/// A field that an error is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "each is documented at its message")]
pub enum Field {
    PeerId,
    Metadata,
    HashSeed,
    Fingerprint,
    RejectCode,
    RejectField,
    RejectOurs,
    RejectTheirs,
    DisconnectReason,
    DisconnectDetail,
    Request,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Field::PeerId => "peer_id",
            Field::Metadata => "metadata",
            Field::HashSeed => "hash_seed",
            Field::Fingerprint => "fingerprint",
            Field::RejectCode => "the code of a reject",
            Field::RejectField => "the field of a reject",
            Field::RejectOurs => "the sender's value in a reject",
            Field::RejectTheirs => "the receiver's value in a reject",
            Field::DisconnectReason => "the reason of a disconnect",
            Field::DisconnectDetail => "the detail of a disconnect",
            Field::Request => "request_id",
        })
    }
}

/// Why a message has no encoding. Nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncodeError {
    /// Data-plane metadata longer than [`MAX_METADATA_LEN`].
    #[error("metadata of {len} bytes; {MAX_METADATA_LEN} are allowed")]
    MetadataTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A frame longer than its length field can say.
    #[error("a frame of {len} bytes; its length must fit in 32 bits")]
    FrameTooLong {
        /// Its length after the length field, in bytes.
        len: usize,
    },
    /// The serialiser refused the body. It has no reason to: bodies hold integers, booleans and byte runs.
    #[error("the body of a {kind:?} cannot be serialised")]
    Body {
        /// Of what.
        kind: Kind,
    },
}
