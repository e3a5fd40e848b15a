//! One turn: from a poll to the last report that follows it.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use super::{EVENTS, Tcp};
use crate::TcpEvent;
use crate::dial::Sockets;
use crate::source::SourceId;

/// Something that this turn still has to do.
pub(super) enum Work {
    Accept {
        /// How many this turn may still take.
        left: usize,
    },
    Read(SourceId),
    Drain(SourceId),
}

impl Tcp {
    pub(super) fn begin_turn(&mut self, timeout: Option<Duration>) -> io::Result<Instant> {
        self.flush_dirty();
        self.watched.rearm(self.poll.registry());
        self.work.extend(self.later.drain(..));
        self.turn += 1;
        let patience = self.patience(timeout);
        if patience != Some(Duration::ZERO) {
            self.collect(patience)?;
        }
        // Whatever the sleep ended with, look once more from a known moment on: the process may have been
        // stopped between the two, and a deadline must not be judged before what arrived meanwhile.
        self.now = Instant::now();
        self.collect(Some(Duration::ZERO))?;
        self.waker.seen();
        self.expire();
        Ok(self.now)
    }

    /// How long this poll may sleep.
    fn patience(&self, timeout: Option<Duration>) -> Option<Duration> {
        let busy =
            self.chunk.is_some() || !self.work.is_empty() || !self.news.is_empty() || !self.dialed.is_empty();
        if busy {
            return Some(Duration::ZERO);
        }
        let deadlines =
            [self.dials.next_deadline(), self.listeners.next_deadline(), self.closings.next_deadline()];
        let now = Instant::now();
        let own = deadlines.into_iter().flatten().min().map(|at| at.saturating_duration_since(now));
        own.into_iter().chain(timeout).min()
    }

    /// Takes in what the poller reports, until it has no more.
    fn collect(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let mut timeout = timeout;
        // A report comes again only when something new happens, so this many rounds see everything once.
        let rounds = (self.conns.len() + self.closings.len()) / EVENTS + 2;
        for _ in 0..rounds {
            match self.poll.poll(&mut self.events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
                Err(error) => return Err(error),
            }
            let events = std::mem::replace(&mut self.events, mio::Events::with_capacity(0));
            let count = events.iter().map(|event| self.saw(event)).count();
            self.events = events;
            if count < EVENTS {
                break;
            }
            timeout = Some(Duration::ZERO);
        }
        Ok(())
    }

    fn saw(&mut self, event: &mio::event::Event) {
        let id = SourceId(event.token().0);
        let hung_up = event.is_read_closed() || event.is_write_closed() || event.is_error();
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.hung_up |= hung_up;
            if event.is_readable() || hung_up {
                self.want_read(id);
            }
            if event.is_writable() {
                self.unblock(id);
            }
        } else if self.closings.contains(id) {
            self.work.push_back(Work::Drain(id));
        } else if self.dials.owns(id) {
            let on = &mut Sockets {
                registry: self.poll.registry(),
                ids: &mut self.ids,
                watched: &mut self.watched,
                now: Instant::now(),
            };
            let ended = self.dials.look(id, on);
            self.dialed.extend(ended);
        } else if self.listeners.saw(id) {
            self.want_accept();
        } else if let Some(fd) = self.watched.saw(id) {
            self.news.push_back(TcpEvent::FdReady { fd });
        }
    }

    /// Does what time has come for. Readiness came first: what is there in time is not late.
    fn expire(&mut self) {
        let on = &mut Sockets {
            registry: self.poll.registry(),
            ids: &mut self.ids,
            watched: &mut self.watched,
            now: self.now,
        };
        while let Some(ended) = self.dials.take_answer(on) {
            self.dialed.push_back(ended);
        }
        let expired = self.dials.expire(on);
        self.dialed.extend(expired);
        self.listeners.resume(self.now);
        if self.listeners.has_ready() {
            self.want_accept();
        }
        self.cut_off_late();
    }

    pub(super) fn next_report(&mut self) -> Option<TcpEvent> {
        loop {
            if let Some(event) = self.news.pop_front() {
                return Some(event);
            }
            if let Some(event) = self.next_of_chunk() {
                return Some(event);
            }
            if let Some(ended) = self.dialed.pop_front() {
                return Some(self.report_dialed(ended));
            }
            // A chunk that has come to an end may have left a report.
            if !self.news.is_empty() {
                continue;
            }
            match self.work.pop_front()? {
                Work::Accept { left } => self.accept(left),
                Work::Read(id) => self.read(id),
                Work::Drain(id) => self.advance_closing(id),
            }
        }
    }
}
