//! A stream of bytes as frames (FR-4).

mod reader;

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

pub use reader::{FrameReader, Incoming};

use crate::{DecodeError, Decoded, Limits, Msg, PreambleError};

/// One frame, with the memory that it lies in: a message, not decoded yet.
pub struct Frame {
    kind: u8,
    buffer: Vec<u8>,
    /// Where the body lies in `buffer`.
    body: Range<usize>,
}

impl Frame {
    /// The number of the message's kind.
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// The message's body.
    pub fn body(&self) -> &[u8] {
        self.buffer.get(self.body.clone()).unwrap_or_default()
    }

    /// Reads the message; it borrows from this frame.
    ///
    /// # Errors
    /// [`DecodeError`] names what is wrong.
    pub fn decode(&self, limits: &Limits) -> Result<Decoded<'_>, DecodeError> {
        Msg::decode(self.kind, self.body(), limits)
    }

    /// The frame's memory, for the next one. What is in it has no meaning.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.body()) == (other.kind, other.body())
    }
}

impl Eq for Frame {}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame {{ kind: {}, body: {} bytes }}", self.kind, self.body.len())
    }
}

/// Why bytes are no stream of frames. Nothing can be read after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream begins with no preamble.
    #[error(transparent)]
    Preamble(#[from] PreambleError),
    /// A frame without a kind.
    #[error("a frame of no bytes: it has no kind")]
    Empty,
    /// A frame longer than the limit.
    #[error("a frame of {len} bytes; {limit} are allowed")]
    TooLong {
        /// What its length field says, in bytes.
        len: u32,
        /// What is allowed now, in bytes.
        limit: u32,
    },
}
