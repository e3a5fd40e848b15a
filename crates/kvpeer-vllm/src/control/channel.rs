//! One peer: the DEALER to its ROUTER, what libzmq says about that connection, and the dialect spoken on it.

use std::time::{Duration, Instant};

use kvpeer_core::Epoch;
use kvpeer_wire::PeerId;

use crate::dialect::Dialect;

/// vLLM's own settings: heartbeats every 2 s, dead after 10 s without an answer.
const HEARTBEAT_MS: i32 = 2_000;
const HEARTBEAT_TIMEOUT_MS: i32 = 10_000;
/// Messages that wait for a peer before the connection is given up.
const SEND_QUEUE: i32 = 1_000;
/// How long what was sent last, a goodbye, may take to leave.
const LINGER_MS: i32 = 500;

/// How often a live connection is told to the core.
pub(super) const HEARD_EVERY: Duration = Duration::from_millis(HEARTBEAT_MS as u64);

pub(super) struct Channel {
    pub(super) peer: PeerId,
    pub(super) dealer: zmq::Socket,
    pub(super) monitor: zmq::Socket,
    pub(super) dialect: Dialect,
    pub(super) state: State,
    /// Whether the peer has said `connect` on it.
    pub(super) greeted: Greeted,
    pub(super) heard_at: Instant,
}

pub(super) enum State {
    /// Dialled, and not there yet. What the peer says meanwhile, by its own connection, waits.
    Dialing {
        epoch: Epoch,
        waiting: Vec<Vec<u8>>,
    },
    Open,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeted {
    No,
    Yes,
}

/// What libzmq says about a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sign {
    Up,
    Down,
}

/// A DEALER to `address`, named `ours`, and a socket that tells what becomes of its connection.
pub(super) fn open(
    context: &zmq::Context,
    ours: &PeerId,
    address: &str,
    number: u64,
) -> zmq::Result<(zmq::Socket, zmq::Socket)> {
    let dealer = context.socket(zmq::DEALER)?;
    set_heartbeat(&dealer)?;
    dealer.set_identity(ours.as_str().as_bytes())?;
    dealer.set_sndhwm(SEND_QUEUE)?;
    dealer.set_linger(LINGER_MS)?;
    let events = [
        zmq::SocketEvent::HANDSHAKE_SUCCEEDED,
        zmq::SocketEvent::HANDSHAKE_FAILED_NO_DETAIL,
        zmq::SocketEvent::HANDSHAKE_FAILED_PROTOCOL,
        zmq::SocketEvent::HANDSHAKE_FAILED_AUTH,
        zmq::SocketEvent::CONNECT_RETRIED,
        zmq::SocketEvent::CLOSED,
        zmq::SocketEvent::DISCONNECTED,
    ];
    let mask = events.iter().fold(0, |mask, event| mask | i32::from(event.to_raw()));
    let name = format!("inproc://kvpeer-monitor-{number}");
    dealer.monitor(&name, mask)?;
    let monitor = context.socket(zmq::PAIR)?;
    monitor.set_linger(0)?;
    monitor.connect(&name)?;
    dealer.connect(&format!("tcp://{address}"))?;
    Ok((dealer, monitor))
}

pub(super) fn set_heartbeat(socket: &zmq::Socket) -> zmq::Result<()> {
    socket.set_heartbeat_ivl(HEARTBEAT_MS)?;
    socket.set_heartbeat_timeout(HEARTBEAT_TIMEOUT_MS)?;
    socket.set_heartbeat_ttl(HEARTBEAT_TIMEOUT_MS)
}

impl Channel {
    /// What has happened to the connection since the last time.
    pub(super) fn sign(&self) -> Option<Sign> {
        let event = self.monitor.recv_multipart(zmq::DONTWAIT).ok()?;
        let raw = event.first().and_then(|frame| frame.first_chunk()).map(|le| u16::from_le_bytes(*le))?;
        Some(if raw == zmq::SocketEvent::HANDSHAKE_SUCCEEDED.to_raw() { Sign::Up } else { Sign::Down })
    }
}
