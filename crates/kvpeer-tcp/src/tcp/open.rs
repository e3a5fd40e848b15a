//! How connections come to be: accepted, or dialled.

use std::os::fd::AsRawFd;

use kvpeer_wire::Preamble;
use mio::net::TcpStream;
use mio::{Interest, Token};

use super::Tcp;
use super::turn::Work;
use crate::accept::Accepted;
use crate::conn::{Conn, Slot};
use crate::dial::{Dialed, Link};
use crate::inbound::Inbound;
use crate::source::SourceId;
use crate::{ConnToken, Origin, TcpEvent};

/// How many connections are accepted before others get their turn.
const ACCEPTS: usize = 16;

/// How many connections are accepted in one turn; the next turn goes on.
const ACCEPTS_PER_TURN: usize = 1024;

impl Tcp {
    pub(super) fn want_accept(&mut self) {
        if !self.work.iter().any(|work| matches!(work, Work::Accept { .. })) {
            self.work.push_back(Work::Accept { left: ACCEPTS_PER_TURN });
        }
    }

    pub(super) fn accept(&mut self, left: usize) {
        for _ in 0..ACCEPTS.min(left) {
            match self.listeners.accept(self.now) {
                Accepted::Stream(stream, peer) => self.admit(stream, peer),
                Accepted::Gone => {}
                Accepted::Failed => self.counters.accept_errors += 1,
                Accepted::Nobody => return,
            }
        }
        match left.saturating_sub(ACCEPTS) {
            0 => self.later.push(Work::Accept { left: ACCEPTS_PER_TURN }),
            left => self.work.push_back(Work::Accept { left }),
        }
    }

    fn admit(&mut self, mut stream: TcpStream, peer: std::net::SocketAddr) {
        if self.handshaking >= self.config.handshaking {
            self.counters.refused += 1;
            return;
        }
        self.watched.forget(stream.as_raw_fd());
        let id = self.ids.mint();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut stream, Token(id.0), interest).is_err() {
            self.counters.accept_errors += 1;
            return;
        }
        self.counters.accepted += 1;
        self.handshaking += 1;
        self.open(id, stream, peer, Slot::Handshaking);
        self.news.push_back(TcpEvent::Connected { conn: ConnToken::from(id), origin: Origin::Accepted });
    }

    pub(super) fn report_dialed(&mut self, Dialed { dial, end }: Dialed) -> TcpEvent {
        match end {
            Ok(Link { id, stream, peer }) => {
                self.open(id, stream, peer, Slot::None);
                TcpEvent::Connected { conn: ConnToken::from(id), origin: Origin::Dialed(dial) }
            }
            Err(error) => {
                self.counters.dial_failures += 1;
                TcpEvent::DialFailed { dial, error }
            }
        }
    }

    fn open(&mut self, id: SourceId, stream: TcpStream, mut peer: std::net::SocketAddr, slot: Slot) {
        // Without it small messages wait for the acknowledgement of those before; only speed is lost.
        let _ = stream.set_nodelay(true);
        peer.set_ip(peer.ip().to_canonical());
        let mut conn = Conn::new(stream, peer, slot, Inbound::new(&self.config.limits));
        conn.queue.tail(&mut self.buffers).extend_from_slice(&Preamble::OURS.to_bytes()); // FR-1
        self.conns.insert(id, conn);
        self.mark_dirty(id);
        // What the poller said about this socket before it was known as a connection went unheard.
        self.want_read(id);
    }
}
