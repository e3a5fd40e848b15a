//! The messages of the kvpeer protocol and their bytes.
//!
//! Types here cannot hold an illegal message: keys have 1 to 64 bytes, a fetch has as many block indexes as
//! keys, a bit set has exactly the bytes its count needs. Views ([`Keys`], [`Blocks`], [`Bits`], …) borrow
//! from the frame they were decoded from, so decoding a message of any size allocates nothing.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod bits;
mod blocks;
mod keys;
mod msg;
mod names;

pub use bits::{Bits, BitsBuf};
pub use blocks::Blocks;
pub use keys::{Key, KeyBuf, KeyError, Keys, KeysBuf, MAX_KEY_LEN};
pub use msg::{
    AbortAck, AbortFetch, Compat, Connect, ConnectAck, Demand, DemandError, Disconnect, DisconnectReason, Failure,
    Fetch, FetchProgress, Fingerprint, FingerprintBuf, Kind, Lookup, LookupId, LookupResp, MAX_METADATA_LEN, Msg, Nonce,
    Outcome, RegionInfo, Reject, RejectCode, Release, Round, Supply, TransferDone,
};
pub use names::{MAX_NAME_LEN, NameError, PeerId, PeerName, RequestId, RequestName, Text};
