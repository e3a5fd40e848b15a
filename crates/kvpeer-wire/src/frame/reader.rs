//! Cuts a stream into its preamble and frames.

use alloc::vec::Vec;

use super::{Frame, FrameError};
use crate::preamble::{MAGIC, PREAMBLE_LEN};
use crate::{Preamble, PreambleError};

/// Bytes of a frame's length field, and of that and the kind.
const LENGTH_LEN: usize = 4;
const HEADER_LEN: usize = LENGTH_LEN + 1;

/// The least length of a frame, in bytes, that takes the reader's memory with it instead of being copied.
const TAKEN_LEN: usize = 4 << 10;

/// The most memory that a reader without unread bytes keeps.
const KEPT_LEN: usize = 256 << 10;

/// The reading half of a connection, without the connection.
///
/// Bytes go in, in any pieces: [`spare`](Self::spare) gives memory to read into, [`advance`](Self::advance) says
/// how much came ([`feed`](Self::feed) does both). Out comes, by [`next`](Self::next), first the peer's preamble,
/// then frames. Call `next` until it gives nothing, then read again.
///
/// ```
/// # use kvpeer_wire::{Decoded, FrameReader, Incoming, Limits, Msg, Nonce, Preamble};
/// # use std::{error::Error, io::Read};
/// # fn on(_: Msg<'_>) {}
/// fn serve(mut socket: impl Read) -> Result<(), Box<dyn Error>> {
///     let limits = Limits::DEFAULT;
///     let mut reader = FrameReader::new(limits.early_frame);
///     let mut storage = Vec::new();
///     loop {
///         let count = socket.read(reader.spare(64 << 10))?;
///         if count == 0 {
///             return if reader.unread() == 0 { Ok(()) } else { Err("closed inside a frame".into()) };
///         }
///         reader.advance(count);
///         while let Some(incoming) = reader.next(|| std::mem::take(&mut storage))? {
///             match incoming {
///                 Incoming::Preamble(theirs) => {
///                     let version = Preamble::OURS.negotiate(theirs)?;
///                     // … once our `connect_ack` was sent: reader.set_limit(limits.frame)
///                 }
///                 Incoming::Frame(frame) => {
///                     match frame.decode(&limits)? {
///                         Decoded::Msg(msg) => on(msg),
///                         Decoded::Skipped { kind } => eprintln!("skipped a message of kind {kind}"),
///                     }
///                     storage = frame.into_buffer();
///                 }
///             }
///         }
///     }
/// }
/// # let mut stream = Preamble::OURS.to_bytes().to_vec();
/// # Msg::Ping(Nonce(1)).encode(&mut stream).unwrap();
/// # serve(stream.as_slice()).unwrap();
/// # assert!(serve(&stream[..stream.len() - 1]).is_err());
/// ```
///
/// # Memory
/// A frame comes out with memory of its own, so that it can be handed on while the next bytes are read. Whichever
/// is shorter is copied: a small frame into memory that the caller gives, or, when a large frame fills most of
/// what was read, the bytes after it, while the frame takes the reader's memory. So no byte is copied more than
/// about twice, large bodies not at all, and a reader is small again after a large frame.
///
/// Memory grows with the bytes that have come, never with the length that a frame claims: at most twice
/// (unread bytes + the largest `at_least`). A claim over the limit is refused as soon as its four bytes are there.
#[derive(Debug)]
pub struct FrameReader {
    /// Initialised in full; `start..filled` has come and was not taken out yet.
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
    limit: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Preamble,
    Frames,
    /// Where the next frame begins is not known any more.
    Failed(FrameError),
}

/// What comes out of a stream.
#[derive(PartialEq, Eq, Debug)]
pub enum Incoming {
    /// The versions that the peer speaks; first, and once.
    Preamble(Preamble),
    /// A frame.
    Frame(Frame),
}

impl FrameReader {
    /// A reader at the beginning of a stream, whose frames have at most `limit` bytes after their length field.
    /// It holds no memory yet.
    pub const fn new(limit: u32) -> Self {
        Self { buffer: Vec::new(), start: 0, filled: 0, limit, state: State::Preamble }
    }

    /// Changes the limit, also for a frame that has come in part.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Room for at least `at_least` more bytes; after writing to its front, call [`advance`](Self::advance).
    /// What is in it has no meaning.
    pub fn spare(&mut self, at_least: usize) -> &mut [u8] {
        if self.start > 0 && self.buffer.len() - self.filled < at_least {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.filled < at_least {
            self.buffer.resize(self.filled + at_least, 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// The first `count` bytes of [`spare`](Self::spare) have come.
    ///
    /// # Panics
    /// When `spare` was shorter.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.buffer.len() - self.filled, "advanced past the spare bytes");
        self.filled += count;
    }

    /// Copies bytes that have come elsewhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.spare(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len());
    }

    /// The next thing that has come in full, if any. `storage` gives memory for a frame, such as
    /// [`Frame::into_buffer`] of an earlier one, or none (`Vec::new`); it is called at most once.
    ///
    /// # Errors
    /// [`FrameError`] when the bytes are no preamble or no frame; from then on always the same.
    pub fn next(&mut self, storage: impl FnOnce() -> Vec<u8>) -> Result<Option<Incoming>, FrameError> {
        let found = match self.state {
            State::Preamble => self.take_preamble(),
            State::Frames => self.take_frame(storage),
            State::Failed(error) => Err(error),
        };
        if let Err(error) = found {
            self.state = State::Failed(error);
        }
        found
    }

    /// How many bytes have come that [`next`](Self::next) has not given out. When it gives nothing and this is not
    /// 0, the stream is in the middle of something.
    pub fn unread(&self) -> usize {
        self.filled - self.start
    }

    /// How much memory the reader holds, in bytes.
    pub fn held(&self) -> usize {
        self.buffer.capacity()
    }

    /// Whether the reader holds memory.
    pub fn has_buffer(&self) -> bool {
        self.buffer.capacity() > 0
    }

    /// Gives the reader memory to use, so that [`spare`](Self::spare) need not allocate. A reader that
    /// [has some](Self::has_buffer) drops it.
    pub fn give_buffer(&mut self, buffer: Vec<u8>) {
        if !self.has_buffer() {
            self.buffer = buffer;
        }
    }

    /// Takes the reader's memory away, for another connection; `None` while there are unread bytes in it.
    pub fn take_buffer(&mut self) -> Option<Vec<u8>> {
        if !self.has_buffer() || self.unread() > 0 {
            return None;
        }
        (self.start, self.filled) = (0, 0);
        Some(core::mem::take(&mut self.buffer))
    }

    fn take_preamble(&mut self) -> Result<Option<Incoming>, FrameError> {
        let arrived = &self.buffer[self.start..self.filled];
        let Some((preamble, _)) = arrived.split_first_chunk::<PREAMBLE_LEN>() else {
            // Another protocol's greeting may be shorter than a preamble, and wait for an answer.
            let alike = arrived.iter().zip(MAGIC).all(|(byte, magic)| *byte == magic);
            return if alike { Ok(None) } else { Err(PreambleError::Magic.into()) };
        };
        let preamble = Preamble::from_bytes(*preamble)?;
        self.state = State::Frames;
        self.consume(PREAMBLE_LEN);
        Ok(Some(Incoming::Preamble(preamble)))
    }

    fn take_frame(&mut self, storage: impl FnOnce() -> Vec<u8>) -> Result<Option<Incoming>, FrameError> {
        let arrived = &self.buffer[self.start..self.filled];
        let Some((length, content)) = arrived.split_first_chunk::<LENGTH_LEN>() else { return Ok(None) };
        let len = u32::from_le_bytes(*length);
        // FR-5: refused by its claim, before it takes memory.
        if len > self.limit {
            return Err(FrameError::TooLong { len, limit: self.limit });
        }
        if len == 0 {
            return Err(FrameError::Empty);
        }
        let Some(&[kind, ref body @ ..]) = content.get(..len as usize) else { return Ok(None) };

        let total = HEADER_LEN + body.len();
        let after = arrived.len() - total;
        let mut buffer = storage();
        if total < TAKEN_LEN || total < after || total < self.buffer.len() / 4 {
            put_in_front(&mut buffer, body);
            let body = 0..body.len();
            self.consume(total);
            return Ok(Some(Incoming::Frame(Frame { kind, buffer, body })));
        }
        let end = self.start + total;
        put_in_front(&mut buffer, &self.buffer[end..self.filled]);
        let taken = core::mem::replace(&mut self.buffer, buffer);
        let body = self.start + HEADER_LEN..end;
        (self.start, self.filled) = (0, after);
        Ok(Some(Incoming::Frame(Frame { kind, buffer: taken, body })))
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.filled {
            (self.start, self.filled) = (0, 0);
            if self.buffer.capacity() > KEPT_LEN {
                self.buffer = Vec::new();
            }
        }
    }
}

/// Makes `buffer` begin with `bytes`. What it has after them stays: it need not be initialised again.
fn put_in_front(buffer: &mut Vec<u8>, bytes: &[u8]) {
    match buffer.get_mut(..bytes.len()) {
        Some(front) => front.copy_from_slice(bytes),
        None => {
            buffer.clear();
            buffer.extend_from_slice(bytes);
        }
    }
}
