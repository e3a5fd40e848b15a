//! The messages of the kvpeer protocol and their bytes.
//!
//! Types here cannot hold an illegal message: keys have 1 to 64 bytes, a fetch has as many block indexes as
//! keys, a bit set has exactly the bytes its count needs. Views ([`Keys`], [`Blocks`], [`Bits`], …) borrow
//! from the frame they were decoded from, so decoding a message of any size allocates nothing. (A `connect` built
//! by hand may have too much metadata; [`Msg::encode`] refuses it.)
//!
//! A stream begins with a [`Preamble`], then come frames: a length, a [`Kind`], a body. [`Msg::encode`] writes a
//! frame, [`FrameReader`] finds frames in what has come, [`Frame::decode`] or [`Msg::decode`] reads one. Bytes of
//! a peer are hostile until then: each is a legal message or an error with a name, within [`Limits`].
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod bits;
mod blocks;
mod codec;
mod codes;
mod fingerprint;
mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod keys;
mod limits;
mod msg;
mod names;
mod preamble;
#[cfg(feature = "proptest")]
pub mod strategies;

pub use bits::{Bits, BitsBuf};
pub use blocks::Blocks;
pub use codec::{DecodeError, Decoded, EncodeError, Field};
pub use codes::{
    DisconnectReason, FIRST_SKIPPABLE_KIND, Failure, Kind, RejectCode, Supply, UnknownDisconnectReason,
    UnknownFailure, UnknownRejectCode,
};
pub(crate) use fingerprint::FingerprintError;
pub use fingerprint::{Fingerprint, FingerprintBuf};
pub use frame::{Frame, FrameError, FrameReader, Incoming};
pub use keys::{Key, KeyBuf, KeyError, Keys, KeysBuf, MAX_KEY_LEN};
pub use limits::Limits;
pub use msg::{
    AbortAck, AbortFetch, Compat, Connect, ConnectAck, Demand, DemandError, Disconnect, Fetch, FetchProgress,
    Lookup, LookupId, LookupResp, MAX_METADATA_LEN, Msg, Nonce, Outcome, RegionInfo, Reject, Release, Round,
    TransferDone,
};
pub use names::{MAX_NAME_LEN, NameError, PeerId, PeerName, RequestId, RequestName, Text};
pub use preamble::{MAGIC, NoCommonVersion, PREAMBLE_LEN, Preamble, PreambleError, Version};
