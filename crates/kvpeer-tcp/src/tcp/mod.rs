//! The poller with everything on it.

mod close;
mod open;
mod read;
#[cfg(test)]
mod tests;
mod turn;
mod weight;
mod write;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use kvpeer_wire::Msg;
use mio::{Events, Poll, Token};

use self::close::Closings;
use self::read::Chunk;
use self::turn::Work;
use crate::accept::Listeners;
use crate::buffers::Buffers;
use crate::conn::{Conn, Slot};
use crate::dial::{Dialed, Dials, Sockets};
use crate::resolve::Resolver;
use crate::source::{SourceId, SourceIds};
use crate::watch::Watched;
use crate::{ConnToken, DialToken, Frame, TcpConfig, TcpError, TcpEvent, TcpStats, Waker};

/// How many readiness reports one system call brings at most.
const EVENTS: usize = 1024;

/// The control plane of one node: its listeners, dials and connections, on one poller.
///
/// Four kinds of calls, none of which blocks except [`Tcp::poll`], and that no longer than it is told to:
/// wishes ([`dial`](Tcp::dial), [`cancel_dial`](Tcp::cancel_dial), [`send`](Tcp::send), [`close`](Tcp::close)),
/// the wait ([`poll`](Tcp::poll)), reports ([`next_event`](Tcp::next_event)), and questions (`local_addr`,
/// `peer_addr`, `stats`, …). See the [crate's page](crate) for the loop that ties them together.
pub struct Tcp {
    config: TcpConfig,
    poll: Poll,
    events: Events,
    waker: Waker,
    ids: SourceIds,
    listeners: Listeners,
    dials: Dials,
    /// Dials that are over and not reported yet; a cancelled one leaves no trace here.
    dialed: VecDeque<Dialed>,
    conns: BTreeMap<SourceId, Conn>,
    closings: Closings,
    watched: Watched,
    /// Reports that need no more work.
    news: VecDeque<TcpEvent>,
    /// What this poll's readiness asks to be done before `next_event` has no more.
    work: VecDeque<Work>,
    /// Work that has had its share since the last poll.
    later: Vec<Work>,
    /// The one connection that was read and whose messages are being handed out.
    chunk: Option<Chunk>,
    /// The memory that connections are read into, one at a time.
    shared: Option<Vec<u8>>,
    /// Connections with something to flush.
    dirty: Vec<SourceId>,
    buffers: Buffers,
    /// Counts polls.
    turn: u64,
    /// As of when all that had arrived is being reported.
    now: Instant,
    handshaking: usize,
    /// Bytes that all connections hold.
    held: usize,
    counters: TcpStats,
}

impl Tcp {
    /// Listens where `config` says.
    pub fn bind(config: TcpConfig) -> Result<Self, TcpError> {
        let poll = Poll::new().map_err(TcpError::Poller)?;
        let waker = Waker::new(poll.registry(), Token(SourceIds::WAKER.0)).map_err(TcpError::Poller)?;
        let mut ids = SourceIds::new();
        let listeners = Listeners::bind(&config.listen, poll.registry(), &mut ids)?;
        let resolver = Resolver::new(config.resolvers, waker.clone());
        Ok(Self {
            dials: Dials::new(config.connect_timeout, resolver),
            config,
            poll,
            events: Events::with_capacity(EVENTS),
            waker,
            ids,
            listeners,
            dialed: VecDeque::new(),
            conns: BTreeMap::new(),
            closings: Closings::default(),
            watched: Watched::default(),
            news: VecDeque::new(),
            work: VecDeque::new(),
            later: Vec::new(),
            chunk: None,
            shared: None,
            dirty: Vec::new(),
            buffers: Buffers::default(),
            turn: 0,
            now: Instant::now(),
            handshaking: 0,
            held: 0,
            counters: TcpStats::default(),
        })
    }

    /// Where the first listener listens; `None` when this node only dials.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addrs().first().copied()
    }

    /// Where this node listens, in the configured order, with the ports that were chosen for port 0.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        self.listeners.addresses()
    }

    /// A handle that ends a sleeping [`Tcp::poll`] from any thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Opens a connection to `address`: `host:port`, `1.2.3.4:port` or `[v6]:port`. Answered by exactly one
    /// `Connected` or `DialFailed` that names `dial`, unless it is cancelled before.
    ///
    /// Literal addresses are dialled at once. A name is resolved by the system on a short-lived thread (the
    /// system has no call that does not block); its addresses are tried in turn. `dial` must not name another
    /// dial that is under way: that one would be cancelled.
    pub fn dial(&mut self, dial: DialToken, address: &str) {
        self.cancel_dial(dial);
        self.counters.dials += 1;
        let on = &mut Sockets {
            registry: self.poll.registry(),
            ids: &mut self.ids,
            watched: &mut self.watched,
            now: Instant::now(),
        };
        let ended = self.dials.start(dial, address, on);
        self.dialed.extend(ended);
    }

    /// Gives a dial up; nothing is reported about it any more. Unknown ones are ignored, and so is one whose
    /// end was reported: close its connection instead.
    pub fn cancel_dial(&mut self, dial: DialToken) {
        self.dials.cancel(dial, self.poll.registry());
        self.dialed.retain(|ended| ended.dial != dial);
    }

    /// Queues a message. Never blocks and never fails here: a connection that cannot take it ends, which is
    /// reported as `Disconnected`. Unknown and ended connections are ignored.
    ///
    /// Messages leave together, in few system calls, at the next [`Tcp::flush`] or [`Tcp::poll`], or before
    /// that when many bytes have gathered. A `connect_ack` raises the limit of the frames that this peer may
    /// send.
    pub fn send(&mut self, conn: ConnToken, msg: &Msg<'_>) {
        self.enqueue(conn.source(), msg);
    }

    /// Writes what is queued, as far as it goes without blocking. [`Tcp::poll`] does this first; call it when
    /// the driver does other long work before that.
    pub fn flush(&mut self) {
        self.flush_dirty();
    }

    /// Closes a connection. Nothing more is read or reported from it; what was sent on it still leaves, within
    /// [`TcpConfig::linger`], while the driver goes on polling. Unknown and ended connections are ignored.
    pub fn close(&mut self, conn: ConnToken) {
        self.start_closing(conn.source());
    }

    /// Sleeps until there is something to report, a timer of this plane ran out, the [`Waker`] was used, or
    /// `timeout` has passed; `None` sleeps without limit, and what `next_event` still has to give is not slept
    /// on. Ends early on a signal. Flushes first.
    ///
    /// Returns a moment T: once [`Tcp::next_event`] has returned `None`, everything that had arrived by T was
    /// reported. A core's Tick that follows must carry T, not a later time.
    ///
    /// Fails only when the poller itself does, after which nothing works any more.
    pub fn poll(&mut self, timeout: Option<Duration>) -> io::Result<Instant> {
        self.begin_turn(timeout)
    }

    /// The next report; `None` when there is nothing more until the next poll. Reading happens here, so a
    /// driver that does not ask slows the peers down and costs no memory.
    pub fn next_event(&mut self) -> Option<TcpEvent> {
        self.next_report()
    }

    /// Gives back a frame's memory. Forgetting to only costs allocations.
    pub fn recycle(&mut self, frame: Frame) {
        self.buffers.give(frame.into_buffer());
    }

    /// The address at the other end of an open connection; IPv4 is reported as such also where it came in on
    /// an IPv6 socket.
    pub fn peer_addr(&self, conn: ConnToken) -> Option<SocketAddr> {
        self.conns.get(&conn.source()).map(|conn| conn.peer)
    }

    /// Reports `FdReady` while `fd` is readable, and wakes up for it. Fails for what cannot be polled, files for
    /// example.
    ///
    /// Take it out with [`Tcp::unwatch`] before it is closed. Where closing cannot be seen in time, watch it again
    /// before each poll instead (one system call): that does nothing while the number names what it named before, and
    /// watches the new one where it was closed and given to another.
    pub fn watch(&mut self, fd: RawFd) -> io::Result<()> {
        self.watched.watch(fd, self.poll.registry(), &mut self.ids)
    }

    /// Stops watching `fd`; unknown ones are ignored.
    pub fn unwatch(&mut self, fd: RawFd) {
        self.watched.unwatch(fd, self.poll.registry());
        self.news.retain(|event| !matches!(event, TcpEvent::FdReady { fd: ready } if *ready == fd));
    }

    /// How many closed connections still send their last bytes. A node that shuts down polls until this is 0.
    pub fn closing(&self) -> usize {
        self.closings.len()
    }

    /// Counters and what is held now.
    pub fn stats(&self) -> TcpStats {
        TcpStats {
            open: self.conns.len(),
            handshaking: self.handshaking,
            closing: self.closings.len(),
            ..self.counters
        }
    }

    /// Takes a connection out, with all that hangs on it. Its socket is still open.
    fn remove(&mut self, id: SourceId) -> Option<Conn> {
        let conn = self.conns.remove(&id)?;
        if self.chunk.as_ref().is_some_and(|chunk| chunk.id == id) {
            self.chunk = None;
        }
        self.free_slot(conn.slot);
        self.held -= conn.weight.bytes;
        Some(conn)
    }

    /// What was to be reported about a connection that has ended is not wanted any more.
    fn forget_news_of(&mut self, id: SourceId) {
        let of = ConnToken::from(id);
        self.news.retain(|event| event.conn() != Some(of));
    }

    fn free_slot(&mut self, slot: Slot) {
        match slot {
            Slot::Handshaking => self.handshaking = self.handshaking.saturating_sub(1),
            Slot::None => {}
        }
    }
}

impl std::fmt::Debug for Tcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tcp").field("listening", &self.local_addrs()).field("stats", &self.stats()).finish()
    }
}
