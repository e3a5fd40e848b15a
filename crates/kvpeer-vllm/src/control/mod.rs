//! The control plane that vLLM's nodes have: a ROUTER for what others say, and a DEALER to each of them.
//!
//! A connection of the core's is a pair of ZeroMQ connections here, one by each side's DEALER, and ends with ours. A
//! peer that we dial and that dials us is one connection. libzmq keeps it alive and finds out when the peer is gone
//! (heartbeats every 2 s, 10 s of patience, as vLLM sets them); the core hears that it lives.
//!
//! Nothing blocks. What is not from a peer is dropped and counted ([`ZmqStats`]): identities that cannot be dialled,
//! messages of other than one part, and whatever a stranger says before its `connect`.

mod channel;
mod fact;
mod identity;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use kvpeer::plane::{ConnInfo, ControlFact, ControlPlane, Scratch};
use kvpeer_core::{ConnId, Epoch, Origin};
use kvpeer_wire::{Limits, Msg, PeerId, PeerName};

use crate::dialect::{Dialect, Heard, Ignored, Said, Terms};
use crate::wire::{Decoded, Message};
use channel::{Channel, Greeted, HEARD_EVERY, Sign, State};
use fact::Fact;

/// Messages that are taken in by one `poll`.
const MOST_A_POLL: usize = 4_096;
/// Messages of a peer that wait until our own connection to it is there.
const MOST_WAITING: usize = 256;

/// Where a node listens, and as whom.
#[derive(Clone, Debug)]
pub struct ZmqConfig {
    /// `host:port` to bind to; port 0 takes any.
    pub listen: String,
    /// Our identity, at which peers can dial us; `None` is the address that was bound.
    pub advertised: Option<PeerId>,
    /// Bounds on what peers send.
    pub limits: Limits,
    /// What is made of vLLM's silence.
    pub terms: Terms,
    /// Connections at most.
    pub peers: usize,
}

impl ZmqConfig {
    /// Listens at `host:port`, with the bounds of the protocol.
    pub fn new(listen: impl Into<String>) -> Self {
        Self {
            listen: listen.into(),
            advertised: None,
            limits: Limits::DEFAULT,
            terms: Terms::default(),
            peers: 160,
        }
    }
}

/// What was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ZmqStats {
    /// Messages whose identity is no `host:port`.
    pub bad_identities: u64,
    /// Messages of other than one part.
    pub bad_parts: u64,
    /// Messages of somebody unknown that are no `connect` under its own name.
    pub strangers: u64,
    /// Strangers over [`ZmqConfig::peers`].
    pub refused: u64,
}

/// Why there is no control plane.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ZmqError {
    /// libzmq says no.
    #[error("ZeroMQ cannot listen at {listen}: {error}")]
    Listen {
        /// Where.
        listen: String,
        /// What it says.
        error: zmq::Error,
    },
    /// The advertised identity is nothing that a vLLM node could dial.
    #[error("{0} is not host:port, which vLLM nodes need to dial back")]
    Identity(String),
    /// No waker.
    #[error("no pair of sockets for the waker: {0}")]
    Waker(io::ErrorKind),
}

/// Messages to and from vLLM's nodes.
pub struct ZmqControl {
    ours: PeerId,
    config: ZmqConfig,
    channels: BTreeMap<ConnId, Channel>,
    by_peer: BTreeMap<PeerId, ConnId>,
    facts: VecDeque<Fact>,
    next: u64,
    /// Until when everything that had arrived was reported.
    drained: Instant,
    stats: ZmqStats,
    rung: UnixStream,
    waker: Waker,
    router: zmq::Socket,
    context: zmq::Context,
}

impl ZmqControl {
    /// Listens where `config` says.
    ///
    /// # Errors
    /// When the address is not to be had, or our identity could not be dialled.
    pub fn bind(config: ZmqConfig) -> Result<Self, ZmqError> {
        let context = zmq::Context::new();
        let (router, bound) = listen(&context, &config)
            .map_err(|error| ZmqError::Listen { listen: config.listen.clone(), error })?;
        let ours = match &config.advertised {
            Some(ours) => ours.as_str().to_owned(),
            None => bound,
        };
        let ours = identity::peer_of(ours.as_bytes()).ok_or(ZmqError::Identity(ours))?;
        let pair = || -> io::Result<(UnixStream, UnixStream)> {
            let (rung, bell) = UnixStream::pair()?;
            rung.set_nonblocking(true)?;
            bell.set_nonblocking(true)?;
            Ok((rung, bell))
        };
        let (rung, bell) = pair().map_err(|error| ZmqError::Waker(error.kind()))?;
        Ok(Self {
            ours,
            config,
            channels: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            facts: VecDeque::new(),
            next: 1,
            drained: Instant::now(),
            stats: ZmqStats::default(),
            rung,
            waker: Waker::from(Arc::new(Bell(bell))),
            router,
            context,
        })
    }

    /// As whom peers know us.
    pub fn identity(&self) -> PeerName<'_> {
        self.ours.as_name()
    }

    /// What was dropped so far.
    pub fn stats(&self) -> ZmqStats {
        self.stats
    }

    fn open(&mut self, peer: &PeerId, address: &str, state: State) -> zmq::Result<ConnId> {
        let number = self.next;
        self.next += 1;
        let (dealer, monitor) = channel::open(&self.context, &self.ours, address, number)?;
        let conn = ConnId(number);
        // Each connection is a newer life of the peer: vLLM does not say which of its processes it is.
        let dialect = Dialect::new(peer.clone(), number, self.config.limits, self.config.terms.clone());
        let channel = Channel {
            peer: peer.clone(),
            dealer,
            monitor,
            dialect,
            state,
            greeted: Greeted::No,
            heard_at: Instant::now(),
        };
        self.channels.insert(conn, channel);
        self.by_peer.insert(peer.clone(), conn);
        Ok(conn)
    }

    fn forget(&mut self, conn: ConnId) -> Option<Channel> {
        let channel = self.channels.remove(&conn)?;
        if self.by_peer.get(&channel.peer) == Some(&conn) {
            self.by_peer.remove(&channel.peer);
        }
        Some(channel)
    }

    /// A connection is gone, or never came.
    fn lose(&mut self, conn: ConnId, why: &str) {
        let Some(channel) = self.forget(conn) else { return };
        let detail = why.to_owned();
        self.facts.push_back(match channel.state {
            State::Dialing { epoch, .. } => Fact::DialFailed { epoch, detail },
            State::Open => Fact::Disconnected { conn, detail },
        });
    }

    /// Takes in what has arrived; says whether that was all.
    fn receive_all(&mut self) -> bool {
        for _ in 0..MOST_A_POLL {
            let Ok(parts) = self.router.recv_multipart(zmq::DONTWAIT) else { return true };
            match parts.as_slice() {
                [identity, payload] => match identity::peer_of(identity) {
                    Some(peer) => self.receive(&peer, payload),
                    None => self.stats.bad_identities += 1,
                },
                _ => self.stats.bad_parts += 1,
            }
        }
        false
    }

    fn receive(&mut self, peer: &PeerId, payload: &[u8]) {
        if let Some(conn) = self.by_peer.get(peer).copied() {
            let greeted = self.channels.get(&conn).is_some_and(|channel| channel.greeted == Greeted::Yes);
            if !(greeted && self.is_connect(peer, payload)) {
                return self.hear(conn, payload);
            }
            // Another process of this peer, before libzmq has noticed that the last one is gone.
            self.lose(conn, "the peer introduced itself anew");
        }
        if !self.is_connect(peer, payload) {
            self.stats.strangers += 1;
            return;
        }
        if self.channels.len() >= self.config.peers {
            self.stats.refused += 1;
            return;
        }
        if let Ok(conn) = self.open(peer, peer.as_str(), State::Open) {
            self.facts.push_back(Fact::Connected { conn, origin: Origin::Accepted });
            self.hear(conn, payload);
        }
    }

    /// Whether this is `connect` under the name of its connection: only that makes us dial somebody.
    fn is_connect(&self, peer: &PeerId, payload: &[u8]) -> bool {
        let early = Limits { frame: self.config.limits.early_frame, ..self.config.limits };
        let read = Message::decode(payload, &early);
        matches!(read, Ok(Decoded::Message(Message::Connect(connect))) if connect.peer_id == peer.as_name())
    }

    fn hear(&mut self, conn: ConnId, payload: &[u8]) {
        let Some(channel) = self.channels.get_mut(&conn) else { return };
        if let State::Dialing { waiting, .. } = &mut channel.state {
            if waiting.len() < MOST_WAITING {
                return waiting.push(payload.to_vec());
            }
            return self.lose(conn, "the peer says too much before it can be reached");
        }
        let (facts, greeted) = (&mut self.facts, &mut channel.greeted);
        let heard = channel.dialect.hear(payload, &mut |msg| {
            if let Msg::Connect(_) = msg {
                *greeted = Greeted::Yes;
            }
            facts.extend(Fact::message(conn, &msg));
        });
        match heard {
            Ok(Heard::Told) => {}
            Ok(Heard::Ignored(Ignored::UnknownType)) => facts.push_back(Fact::Skipped { conn }),
            Ok(Heard::Held | Heard::Ignored(_)) => facts.push_back(Fact::Heard { conn }),
            Err(violation) => facts.push_back(Fact::Malformed { conn, detail: violation.to_string() }),
        }
    }

    fn look_at_connections(&mut self) {
        let conns: Vec<ConnId> = self.channels.keys().copied().collect();
        for conn in conns {
            while let Some(sign) = self.channels.get(&conn).and_then(Channel::sign) {
                match sign {
                    Sign::Up => self.came_up(conn),
                    Sign::Down => self.lose(conn, "ZeroMQ lost the connection, or could not open it"),
                }
            }
        }
        let now = Instant::now();
        for (conn, channel) in &mut self.channels {
            let open = matches!(channel.state, State::Open);
            if open && now.duration_since(channel.heard_at) >= HEARD_EVERY {
                channel.heard_at = now;
                self.facts.push_back(Fact::Heard { conn: *conn });
            }
        }
    }

    fn came_up(&mut self, conn: ConnId) {
        let Some(channel) = self.channels.get_mut(&conn) else { return };
        let State::Dialing { epoch, waiting } = std::mem::replace(&mut channel.state, State::Open) else {
            return;
        };
        self.facts.push_back(Fact::Connected { conn, origin: Origin::Dialed(epoch) });
        waiting.iter().for_each(|payload| self.hear(conn, payload));
    }

    /// How long a `poll` may sleep.
    fn patience(&self, timeout: Option<Duration>) -> i64 {
        let pulse = (!self.channels.is_empty()).then_some(HEARD_EVERY / 2);
        let sleep = match (timeout, pulse) {
            _ if !self.facts.is_empty() => Some(Duration::ZERO),
            (Some(timeout), Some(pulse)) => Some(timeout.min(pulse)),
            (timeout, pulse) => timeout.or(pulse),
        };
        // Rounded up: a sleep that ends too early is a turn for nothing.
        let millis = |sleep: Duration| i64::try_from(sleep.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX);
        sleep.map_or(-1, millis)
    }
}

/// The ROUTER, and the `host:port` that it is bound to.
fn listen(context: &zmq::Context, config: &ZmqConfig) -> zmq::Result<(zmq::Socket, String)> {
    let router = context.socket(zmq::ROUTER)?;
    channel::set_heartbeat(&router)?;
    router.set_linger(0)?;
    // A restarted peer has its old identity. libzmq would ignore it until the old connection is found dead.
    router.set_router_handover(true)?;
    router.set_maxmsgsize(i64::from(config.limits.frame))?;
    router.bind(&format!("tcp://{}", config.listen))?;
    let bound = router.get_last_endpoint()?.unwrap_or_default();
    Ok((router, bound.trim_start_matches("tcp://").to_owned()))
}

struct Bell(UnixStream);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Full means that it has been rung; closed means that nobody sleeps any more.
        let _ = (&self.0).write(&[1]);
    }
}

impl ControlPlane for ZmqControl {
    fn dial(&mut self, epoch: Epoch, peer: PeerName<'_>, address: &str) {
        let peer = PeerId::from(peer);
        let dialling = State::Dialing { epoch, waiting: Vec::new() };
        let fail = |detail: String| Fact::DialFailed { epoch, detail };
        if self.by_peer.contains_key(&peer) {
            return self.facts.push_back(fail("there is a connection to this peer".into()));
        }
        if identity::peer_of(address.as_bytes()).is_none() {
            return self.facts.push_back(fail(format!("{address} is not host:port")));
        }
        if let Err(error) = self.open(&peer, address, dialling) {
            self.facts.push_back(fail(error.to_string()));
        }
    }

    fn cancel_dial(&mut self, epoch: Epoch) {
        let dialled = self.channels.iter().find(|(_, channel)| {
            matches!(&channel.state, State::Dialing { epoch: dialled, .. } if *dialled == epoch)
        });
        if let Some(conn) = dialled.map(|(conn, _)| *conn) {
            self.forget(conn);
        }
        self.facts.retain(|fact| !matches!(fact, Fact::DialFailed { epoch: failed, .. } if *failed == epoch));
    }

    fn send(&mut self, conn: ConnId, msg: &Msg<'_>) {
        let Some(channel) = self.channels.get_mut(&conn) else { return };
        let mut payload = Vec::new();
        let answer = match channel.dialect.say(msg, &mut payload) {
            Said::Payload | Said::Nothing => None,
            Said::PayloadAnd(answer) | Said::Instead(answer) => Some(answer),
        };
        if !payload.is_empty() && channel.dealer.send(payload, zmq::DONTWAIT).is_err() {
            return self.lose(conn, "the peer does not read: too many messages wait for it");
        }
        if let Some(answer) = answer {
            self.facts.extend(Fact::message(conn, &answer.as_msg()));
        }
    }

    fn close(&mut self, conn: ConnId) {
        // Its last words linger for half a second inside of libzmq.
        self.forget(conn);
        self.facts.retain(|fact| fact.conn() != Some(conn));
    }

    fn poll(&mut self, wake_on: &[RawFd], timeout: Option<Duration>) -> io::Result<Instant> {
        let patience = self.patience(timeout);
        let mut items = vec![self.router.as_poll_item(zmq::POLLIN)];
        items.push(zmq::PollItem::from_fd(self.rung.as_raw_fd(), zmq::POLLIN));
        items.extend(wake_on.iter().map(|fd| zmq::PollItem::from_fd(*fd, zmq::POLLIN)));
        items.extend(self.channels.values().map(|channel| channel.monitor.as_poll_item(zmq::POLLIN)));
        match zmq::poll(&mut items, patience) {
            Ok(_) | Err(zmq::Error::EINTR) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
        let mut rung = [0; 64];
        while (&self.rung).read(&mut rung).is_ok_and(|read| read == rung.len()) {}
        let now = Instant::now();
        // Connections first: a peer's first words may have come by its own, faster than ours.
        self.look_at_connections();
        if self.receive_all() {
            self.drained = now;
        }
        Ok(self.drained)
    }

    fn next_fact<'f>(&mut self, scratch: &'f mut Scratch) -> Option<ControlFact<'f>> {
        let fact = self.facts.pop_front()?;
        Some(fact.report(scratch, &self.config.limits))
    }

    fn conn_info(&self, _: ConnId) -> ConnInfo {
        ConnInfo::default()
    }

    fn address(&self) -> Option<String> {
        Some(self.ours.as_str().to_owned())
    }

    fn lingering(&self) -> usize {
        0
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl std::fmt::Debug for ZmqControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZmqControl")
            .field("ours", &self.ours)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
