//! Closed connections: their last bytes leave, and what the peer still sends is thrown away.
//!
//! A socket that is closed while it holds unread bytes resets the connection, and what was on its way to the
//! peer may be lost: the very message that says why. So the peer is waited for, within bounds.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::time::Instant;

use mio::net::TcpStream;

use super::Tcp;
use super::turn::Work;
use crate::conn::{Conn, Outbound};
use crate::deadline::after;
use crate::send_queue::{Flushed, SendQueue};
use crate::source::SourceId;

/// How much of a closed connection's input is thrown away before it is cut off: what an honest peer may have
/// had under way.
const DISCARDED_BYTES: usize = 32 << 20;

/// How much of it in one turn.
const DISCARDED_PER_TURN: usize = 1 << 20;

/// Connections that are closing.
#[derive(Default)]
pub(super) struct Closings {
    closing: BTreeMap<SourceId, Closing>,
    /// In the order they began, which is the order they end in at the latest.
    deadlines: VecDeque<(Instant, SourceId)>,
}

struct Closing {
    stream: TcpStream,
    last: LastBytes,
    discarded: usize,
}

/// The way out of a closing connection.
enum LastBytes {
    Leaving(SendQueue),
    /// All have left, and the peer was told that no more will come.
    Gone,
}

/// Whether a closing connection is still needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Wait,
    /// There may be more to throw away.
    Again,
    Over,
    CutOff,
}

impl Closings {
    pub(super) fn len(&self) -> usize {
        self.closing.len()
    }

    /// Bytes that still have to leave, with the memory around them.
    fn held(&self) -> usize {
        self.closing.values().map(Closing::held).sum()
    }

    pub(super) fn contains(&self, id: SourceId) -> bool {
        self.closing.contains_key(&id)
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|(at, _)| *at)
    }

    /// Forgets the oldest; with `due`, only when its time is over. `None` when there is none such.
    fn pop_oldest(&mut self, due: Option<Instant>) -> Option<Option<Closing>> {
        let (at, id) = self.deadlines.front().copied()?;
        if due.is_some_and(|now| now < at) {
            return None;
        }
        self.deadlines.pop_front();
        Some(self.closing.remove(&id))
    }
}

impl Tcp {
    pub(super) fn start_closing(&mut self, id: SourceId) {
        let Some(Conn { stream, outbound, mut queue, .. }) = self.remove(id) else {
            return self.forget_news_of(id);
        };
        match outbound {
            Outbound::Broken(_) => queue.discard(&mut self.buffers),
            Outbound::Open | Outbound::Blocked => {
                let room = self.config.buffered_bytes.saturating_sub(queue.held());
                while (self.closings.len() >= self.config.closing.max(1) || self.closings.held() > room)
                    && let Some(oldest) = self.closings.pop_oldest(None)
                {
                    self.counters.cut_off += u64::from(oldest.is_some());
                }
                let closing = Closing { stream, last: LastBytes::Leaving(queue), discarded: 0 };
                self.closings.closing.insert(id, closing);
                self.closings.deadlines.push_back((after(Instant::now(), self.config.linger), id));
                self.advance_closing(id);
            }
        }
    }

    /// Sends and discards what can be sent and discarded now.
    pub(super) fn advance_closing(&mut self, id: SourceId) {
        let Some(closing) = self.closings.closing.get_mut(&id) else { return };
        let before = closing.waiting();
        let mut verdict = closing.send(&mut self.buffers);
        self.counters.bytes_out += (before - closing.waiting()) as u64;
        if verdict == Verdict::Wait {
            verdict = closing.discard();
        }
        match verdict {
            Verdict::Wait => {}
            Verdict::Again => self.later.push(Work::Drain(id)),
            Verdict::Over => drop(self.closings.closing.remove(&id)),
            Verdict::CutOff => {
                self.counters.cut_off += 1;
                drop(self.closings.closing.remove(&id));
            }
        }
    }

    /// Ends the closings whose time is over.
    pub(super) fn cut_off_late(&mut self) {
        while let Some(late) = self.closings.pop_oldest(Some(self.now)) {
            self.counters.cut_off += u64::from(late.is_some());
        }
    }
}

impl Closing {
    fn held(&self) -> usize {
        match &self.last {
            LastBytes::Leaving(queue) => queue.held(),
            LastBytes::Gone => 0,
        }
    }

    fn waiting(&self) -> usize {
        match &self.last {
            LastBytes::Leaving(queue) => queue.len(),
            LastBytes::Gone => 0,
        }
    }

    fn send(&mut self, buffers: &mut crate::buffers::Buffers) -> Verdict {
        let LastBytes::Leaving(queue) = &mut self.last else { return Verdict::Wait };
        match queue.write_to(&mut self.stream, buffers) {
            Ok(Flushed::All) => {
                self.last = LastBytes::Gone;
                // Fails only when the connection is gone already, which reading will find.
                let _ = self.stream.shutdown(Shutdown::Write);
                Verdict::Wait
            }
            Ok(Flushed::Blocked) => Verdict::Wait,
            Err(_) => Verdict::Over,
        }
    }

    fn discard(&mut self) -> Verdict {
        let mut bin = [0; 16 << 10];
        let until = self.discarded + DISCARDED_PER_TURN;
        while self.discarded < until.min(DISCARDED_BYTES) {
            match self.stream.read(&mut bin) {
                // The peer has closed too. It may have done so only one way, so what waits is still sent.
                Ok(0) if self.waiting() > 0 => return Verdict::Wait,
                Ok(0) => return Verdict::Over,
                Ok(read) => self.discarded += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Verdict::Wait,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Verdict::Over,
            }
        }
        if self.discarded < DISCARDED_BYTES { Verdict::Again } else { Verdict::CutOff }
    }
}
