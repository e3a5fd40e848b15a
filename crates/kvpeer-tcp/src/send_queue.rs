//! Bytes on their way out of one connection.

use std::io::{self, ErrorKind, Write};

use crate::buffers::Buffers;

/// Encoded messages in order. Holds no memory while it is empty.
#[derive(Default)]
pub(crate) struct SendQueue {
    bytes: Vec<u8>,
    /// How many of `bytes` have left.
    sent: usize,
}

/// How far a write came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flushed {
    All,
    /// The system takes no more for now; writability will be reported.
    Blocked,
}

impl SendQueue {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// The buffer to append a message to.
    pub(crate) fn tail(&mut self, buffers: &mut Buffers) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = buffers.take();
        } else if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        &mut self.bytes
    }

    /// Writes until the queue is empty or the system takes no more.
    pub(crate) fn write_to(&mut self, mut to: impl Write, buffers: &mut Buffers) -> io::Result<Flushed> {
        while let Some(rest @ [_, ..]) = self.bytes.get(self.sent..) {
            match to.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Flushed::Blocked),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.discard(buffers);
        Ok(Flushed::All)
    }

    pub(crate) fn discard(&mut self, buffers: &mut Buffers) {
        buffers.give(std::mem::take(&mut self.bytes));
        self.sent = 0;
    }
}
