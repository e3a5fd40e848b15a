//! Messages to bytes and back.

#[cfg(test)]
mod append_tests;
mod body;
mod decode;
mod encode;
mod error;
mod fields;

pub use decode::Decoded;
pub use error::{DecodeError, EncodeError, Field};
