//! The bytes of vLLM 0.33.0's P2P control plane: msgpack maps, one to a ZeroMQ frame.

mod cursor;
mod decode;
mod encode;
mod error;
mod fields;
mod lists;
mod message;

pub use decode::Decoded;
pub use error::{DecodeError, Field, Shape};
pub use lists::{HitList, IndexList, KeyList};
pub use message::{
    AbortAck, AbortFetch, Connect, ConnectAck, Fetch, Lookup, LookupResp, Message, RoundSeq, Success,
    TransferDone,
};
