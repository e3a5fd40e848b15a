//! What can go wrong: at the start, with a dial, with a connection.

use std::io;
use std::net::SocketAddr;

use kvpeer_wire::EncodeError;

/// The control plane could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TcpError {
    /// An address to listen at is not to be had.
    #[error(
        "cannot listen at {address}: {source}; choose a free port, or port 0, and an address of this machine"
    )]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The system gives no poller.
    #[error("cannot set up polling: {0}; is the limit of open files (ulimit -n) too low?")]
    Poller(#[source] io::Error),
}

/// Why a dial came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Not `host:port`.
    #[error("{address:?} is no address to dial; write host:port, IPv6 addresses as [address]:port")]
    BadAddress {
        /// As given.
        address: String,
    },
    /// The host's name has no address, as far as the resolver knows.
    #[error("cannot resolve {host:?}: {source}")]
    Resolve {
        /// The name, without its port.
        host: String,
        /// What the system's resolver says.
        source: io::Error,
    },
    /// No connection in time.
    #[error("no connection within the connect timeout")]
    TimedOut,
    /// The last of the addresses tried did not answer, or refused.
    #[error("cannot connect to {address}: {source}; is a node listening there?")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The socket was connected to itself: nobody listens at this port, and it is in the range that the system
    /// takes the ports of outgoing connections from.
    #[error("{address} connected to itself; no node is listening there")]
    SelfConnected {
        /// The address.
        address: SocketAddr,
    },
}

/// Why a connection ended that we did not close.
#[derive(Debug, thiserror::Error)]
pub enum CloseReason {
    /// The peer closed it, between two messages.
    #[error("the peer closed the connection")]
    PeerClosed,
    /// The peer closed it inside a message.
    #[error("the peer closed the connection in the middle of a message")]
    PeerClosedInFrame,
    /// The transport failed.
    #[error("the connection was lost: {0}")]
    Lost(#[source] io::Error),
    /// The peer does not read: what waited to be sent to it went over the limit.
    #[error("the peer does not read: more than {limit} bytes wait to be sent to it")]
    SendQueueFull {
        /// [`TcpConfig::send_queue_bytes`](crate::TcpConfig::send_queue_bytes).
        limit: usize,
    },
    /// All connections together held too much, and this one for the longest.
    #[error(
        "the peer does not end its message, or does not read, and all connections hold more than {limit} bytes"
    )]
    Crowded {
        /// [`TcpConfig::buffered_bytes`](crate::TcpConfig::buffered_bytes).
        limit: usize,
    },
    /// A message of ours has no legal encoding. The stream would miss it, so it ends here.
    #[error("a message to the peer cannot be encoded: {0}")]
    Unsendable(#[source] EncodeError),
}
