//! The way in of one connection: bytes to preamble and frames.

use std::io::{self, ErrorKind, Read};

use kvpeer_wire::{Frame, FrameError, FrameReader, Incoming, Limits, NoCommonVersion, Preamble};

use crate::buffers::Buffers;

/// How much is read from one connection before the next has its turn.
const SHARE_BYTES: usize = 64 << 10;

/// The same for one that was not acked yet. It may keep that much memory, with bytes that complete nothing.
const STRANGERS_SHARE_BYTES: usize = 4 << 10;

/// The least room that a read gets, whatever is in the buffer already.
const LEAST_ROOM_BYTES: usize = 4 << 10;

/// Reads a connection, until something in it is not of this protocol.
pub(crate) enum Inbound {
    Stranger(FrameReader),
    Trusted(FrameReader),
    /// Nothing more is read.
    Deaf,
}

/// How a read ended.
pub(crate) enum Then {
    /// The socket was read dry.
    Dry,
    /// The share was used up; there may be more.
    More,
    /// The peer's end of stream.
    EndOfStream,
    Failure(io::Error),
}

/// What comes out of the bytes that were read.
pub(crate) enum Step {
    Frame(Frame),
    /// All that is complete was handed out.
    Dry,
    Malformed(FrameError),
    NoCommonVersion(NoCommonVersion),
}

impl Inbound {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self::Stranger(FrameReader::new(limits.early_frame))
    }

    /// Our `connect_ack` is on its way: the peer may send large frames (FR-6).
    pub(crate) fn trust(&mut self, limits: &Limits) {
        *self = match std::mem::replace(self, Self::Deaf) {
            Self::Stranger(mut reader) => {
                reader.set_limit(limits.frame);
                Self::Trusted(reader)
            }
            same @ (Self::Trusted(_) | Self::Deaf) => same,
        };
    }

    pub(crate) fn deafen(&mut self) {
        *self = Self::Deaf;
    }

    pub(crate) fn is_deaf(&self) -> bool {
        matches!(self, Self::Deaf)
    }

    /// How much memory waits here for the rest of a message, in bytes.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Stranger(reader) | Self::Trusted(reader) => reader.held(),
            Self::Deaf => 0,
        }
    }

    /// Whether the stream could end here without anything being cut off.
    pub(crate) fn is_between_frames(&self) -> bool {
        match self {
            Self::Stranger(reader) | Self::Trusted(reader) => reader.unread() == 0,
            Self::Deaf => true,
        }
    }

    /// Reads one share. `shared` is memory that readers use in turn: who is acked and in the middle of nothing
    /// keeps none.
    pub(crate) fn fill(&mut self, from: &mut impl Read, shared: &mut Option<Vec<u8>>) -> (usize, Then) {
        let (reader, share) = match self {
            Self::Stranger(reader) => (reader, STRANGERS_SHARE_BYTES),
            Self::Trusted(reader) => {
                if !reader.has_buffer() {
                    reader.give_buffer(shared.take().unwrap_or_else(|| vec![0; SHARE_BYTES]));
                }
                (reader, SHARE_BYTES)
            }
            Self::Deaf => return (0, Then::Dry),
        };
        let room = reader.spare(LEAST_ROOM_BYTES);
        let share = room.len().min(share);
        let (filled, then) = read_until_full(from, room.get_mut(..share).unwrap_or_default());
        reader.advance(filled);
        (filled, then)
    }

    /// The next thing that is complete.
    pub(crate) fn step(&mut self, buffers: &mut Buffers) -> Step {
        let (Self::Stranger(reader) | Self::Trusted(reader)) = self else { return Step::Dry };
        loop {
            return match reader.next(|| buffers.take()) {
                Ok(Some(Incoming::Frame(frame))) => Step::Frame(frame),
                Ok(Some(Incoming::Preamble(theirs))) => match Preamble::OURS.negotiate(theirs) {
                    Ok(_) => continue,
                    Err(none) => Step::NoCommonVersion(none),
                },
                Ok(None) => Step::Dry,
                Err(error) => Step::Malformed(error),
            };
        }
    }

    #[cfg(test)]
    pub(crate) fn unread(&self) -> usize {
        match self {
            Self::Stranger(reader) | Self::Trusted(reader) => reader.unread(),
            Self::Deaf => 0,
        }
    }

    #[cfg(test)]
    pub(crate) fn holds_memory(&self) -> bool {
        match self {
            Self::Stranger(reader) | Self::Trusted(reader) => reader.has_buffer(),
            Self::Deaf => false,
        }
    }

    /// Gives memory back that is not needed between two reads.
    pub(crate) fn rest(&mut self, shared: &mut Option<Vec<u8>>) {
        match self {
            Self::Stranger(reader) => drop(reader.take_buffer()),
            Self::Trusted(reader) => {
                if let Some(buffer) = reader.take_buffer()
                    && buffer.len() >= SHARE_BYTES
                {
                    *shared = Some(buffer);
                }
            }
            Self::Deaf => {}
        }
    }
}

fn read_until_full(from: &mut impl Read, buffer: &mut [u8]) -> (usize, Then) {
    let mut filled = 0;
    loop {
        let Some(free @ [_, ..]) = buffer.get_mut(filled..) else { return (filled, Then::More) };
        match from.read(free) {
            Ok(0) => return (filled, Then::EndOfStream),
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (filled, Then::Dry),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (filled, Then::Failure(error)),
        }
    }
}
