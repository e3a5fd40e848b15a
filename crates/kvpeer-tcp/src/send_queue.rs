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

    /// How much memory it holds, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.bytes.capacity()
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

    #[cfg(test)]
    pub(crate) fn holds_memory(&self) -> bool {
        self.bytes.capacity() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a few bytes, then none until asked again.
    struct Slow {
        taken: Vec<u8>,
        room: usize,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match bytes.len().min(self.room) {
                0 => Err(ErrorKind::WouldBlock.into()),
                taken => {
                    self.taken.extend_from_slice(&bytes[..taken]);
                    self.room -= taken;
                    Ok(taken)
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_leave_once_and_in_order_whatever_the_system_takes() {
        let (mut queue, mut buffers) = (SendQueue::default(), Buffers::default());
        let mut to = Slow { taken: Vec::new(), room: 0 };
        let mut expected = Vec::new();
        for step in 0..100u8 {
            let message = vec![step; usize::from(step % 7) + 1];
            queue.tail(&mut buffers).extend_from_slice(&message);
            expected.extend(message);
            to.room = usize::from(step % 4);
            queue.write_to(&mut to, &mut buffers).expect("it only blocks");
            assert_eq!(queue.len() + to.taken.len(), expected.len());
        }
        to.room = usize::MAX;
        assert_eq!(queue.write_to(&mut to, &mut buffers).expect("it takes all"), Flushed::All);
        assert_eq!(to.taken, expected);
        assert!(!queue.holds_memory());
    }

    /// What has left is not kept: a connection that is never quite idle does not grow.
    #[test]
    fn memory_is_bounded_by_what_waits() {
        let (mut queue, mut buffers) = (SendQueue::default(), Buffers::default());
        let mut to = Slow { taken: Vec::new(), room: 0 };
        queue.tail(&mut buffers).extend_from_slice(&[0; 1000]);
        for _ in 0..10_000 {
            queue.tail(&mut buffers).extend_from_slice(&[0; 100]);
            to.room = 100;
            queue.write_to(&mut to, &mut buffers).expect("it only blocks");
        }
        assert_eq!(queue.len(), 1000);
        assert!(queue.bytes.capacity() <= 8 << 10, "{} bytes", queue.bytes.capacity());
    }
}
