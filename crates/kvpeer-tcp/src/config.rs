//! What a control plane is told once.

use std::net::SocketAddr;
use std::time::Duration;

use kvpeer_wire::Limits;

/// Configuration of a [`Tcp`](crate::Tcp).
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Where to listen; port 0 takes any free port. Empty: this node only dials. Whether `[::]` also takes
    /// IPv4 is the system's setting.
    pub listen: Vec<SocketAddr>,
    /// How long one dial may take in all: resolving a name, and trying each of its addresses in turn.
    pub connect_timeout: Duration,
    /// How many bytes may wait to be sent to one peer. Over it the connection dies with
    /// [`CloseReason::SendQueueFull`](crate::CloseReason::SendQueueFull).
    pub send_queue_bytes: usize,
    /// How many bytes all connections together may hold, of messages that have come in part and of what waits to
    /// be sent. Over it, the one that has held some for the longest dies with
    /// [`CloseReason::Crowded`](crate::CloseReason::Crowded): honest peers end their messages, and read ours, soon.
    /// What closed connections still have to send is bounded by the same number.
    pub buffered_bytes: usize,
    /// How many accepted connections may wait for our `connect_ack` at a time. Over it new ones are accepted
    /// and closed at once. Keep it above the core's own limit, which refuses with a reason.
    pub handshaking: usize,
    /// How many connections may be in closing, that is sending their last bytes, at a time. Over it the oldest
    /// is cut off. Keep it above the core's number of peers.
    pub closing: usize,
    /// How long a closed connection may take to send its last bytes and to see the peer close.
    pub linger: Duration,
    /// How many host names are resolved at a time, each on a thread of its own; more wait.
    pub resolvers: usize,
    /// Limits of frames and what they hold, before and after our `connect_ack`.
    pub limits: Limits,
}

impl Default for TcpConfig {
    /// Dials only, with the limits of the protocol page.
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            send_queue_bytes: 8 << 20,
            buffered_bytes: 64 << 20,
            handshaking: 64,
            closing: 256,
            linger: Duration::from_secs(5),
            resolvers: 4,
            limits: Limits::default(),
        }
    }
}

impl TcpConfig {
    /// The defaults, listening at `address`.
    pub fn listening(address: SocketAddr) -> Self {
        Self { listen: vec![address], ..Self::default() }
    }
}
