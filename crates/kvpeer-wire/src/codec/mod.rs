//! Messages to bytes and back.

mod body;
mod decode;
mod encode;
mod error;
mod fields;

pub use decode::Decoded;
pub use error::{DecodeError, EncodeError, Field};
