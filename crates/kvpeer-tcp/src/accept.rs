//! Listening sockets.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

use crate::TcpError;
use crate::deadline::after;
use crate::source::{SourceId, SourceIds};

/// How long accepting rests when it failed for a reason that trying again at once would not change.
const PAUSE: Duration = Duration::from_millis(100);

/// How many connections may wait to be accepted, as far as the system allows it.
const BACKLOG: i32 = 1024;

/// The sockets that this node listens on.
pub(crate) struct Listeners {
    /// The one that was asked last comes last.
    listeners: Vec<Listener>,
    addresses: Vec<SocketAddr>,
}

struct Listener {
    id: SourceId,
    socket: TcpListener,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody waits; the poller reports the next one.
    Idle,
    /// Somebody may wait.
    Ready,
    /// Descriptors or memory ran out: the poller would not report again who waits already.
    Paused { until: Instant },
}

/// What trying to accept brought.
pub(crate) enum Accepted {
    Stream(TcpStream, SocketAddr),
    Nobody,
    /// Over before it was accepted; there may be others.
    Gone,
    Failed,
}

impl Listeners {
    pub(crate) fn bind(
        wanted: &[SocketAddr],
        registry: &Registry,
        ids: &mut SourceIds,
    ) -> Result<Self, TcpError> {
        let mut listeners = Vec::with_capacity(wanted.len());
        let mut addresses = Vec::with_capacity(wanted.len());
        for &address in wanted {
            let (listener, bound) = Listener::bind(address, registry, ids.mint())
                .map_err(|source| TcpError::Listen { address, source })?;
            listeners.push(listener);
            addresses.push(bound);
        }
        Ok(Self { listeners, addresses })
    }

    /// Where this node listens, in the configured order, with the ports that were chosen for port 0.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The poller saw something at `id`; returns whether that is a listener.
    pub(crate) fn saw(&mut self, id: SourceId) -> bool {
        match self.listeners.iter_mut().find(|listener| listener.id == id) {
            Some(listener) => {
                if listener.state == State::Idle {
                    listener.state = State::Ready;
                }
                true
            }
            None => false,
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.listeners.iter().any(|listener| listener.state == State::Ready)
    }

    /// The next moment at which a pause ends.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.listeners.iter().filter_map(|listener| listener.state.paused_until()).min()
    }

    /// Ends the pauses that are over.
    pub(crate) fn resume(&mut self, now: Instant) {
        for listener in &mut self.listeners {
            if listener.state.paused_until().is_some_and(|until| until <= now) {
                listener.state = State::Ready;
            }
        }
    }

    /// Accepts one connection where somebody may wait, from each listener in turn.
    pub(crate) fn accept(&mut self, now: Instant) -> Accepted {
        let Some(at) = self.listeners.iter().position(|listener| listener.state == State::Ready) else {
            return Accepted::Nobody;
        };
        self.listeners.rotate_left(at + 1);
        let Some(listener) = self.listeners.last_mut() else { return Accepted::Nobody };
        match listener.socket.accept() {
            Ok((stream, peer)) => Accepted::Stream(stream, peer),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                listener.state = State::Idle;
                Accepted::Gone
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {
                Accepted::Gone
            }
            // EMFILE, ENFILE, ENOBUFS, ENOMEM: trying again at once would spin.
            Err(_) => {
                listener.state = State::Paused { until: after(now, PAUSE) };
                Accepted::Failed
            }
        }
    }
}

impl Listener {
    fn bind(address: SocketAddr, registry: &Registry, id: SourceId) -> io::Result<(Self, SocketAddr)> {
        let mut socket = TcpListener::bind(address)?;
        // Asks again for more than the 128 that mio asks for: what comes in a burst over that waits a second.
        rustix::net::listen(&socket, BACKLOG)?;
        let bound = socket.local_addr()?;
        registry.register(&mut socket, Token(id.0), Interest::READABLE)?;
        Ok((Self { id, socket, state: State::Idle }, bound))
    }
}

impl State {
    fn paused_until(self) -> Option<Instant> {
        match self {
            State::Paused { until } => Some(until),
            State::Idle | State::Ready => None,
        }
    }
}
