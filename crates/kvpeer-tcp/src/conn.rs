//! One open connection.

use std::io;
use std::net::SocketAddr;

use mio::net::TcpStream;

use crate::inbound::Inbound;
use crate::send_queue::SendQueue;

/// A connection from `Connected` until `Disconnected` or `close`.
pub(crate) struct Conn {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) slot: Slot,
    pub(crate) inbound: Inbound,
    pub(crate) outbound: Outbound,
    pub(crate) queue: SendQueue,
    pub(crate) reading: Reading,
    /// The peer sends nothing more, or the transport failed.
    pub(crate) hung_up: bool,
    /// Whether it is in the list of those that have something to flush.
    pub(crate) dirty: bool,
    pub(crate) weight: Weight,
}

/// What a connection holds, as it was last looked at.
#[derive(Default)]
pub(crate) struct Weight {
    pub(crate) bytes: usize,
    /// The turn since which that is more than every connection may hold.
    pub(crate) since: Option<u64>,
}

/// Whether it takes one of the places for connections that are still handshaking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    Handshaking,
    None,
}

/// What became of the way out.
pub(crate) enum Outbound {
    /// The system may take bytes.
    Open,
    /// It takes none until it reports writability.
    Blocked,
    /// It failed. What the peer sent before is still read, then the connection ends with this.
    Broken(io::Error),
}

/// Where a connection is in being read.
#[derive(Default)]
pub(crate) struct Reading {
    /// There may be bytes that no read has found yet.
    pub(crate) readable: bool,
    /// It is in the list of work, or what was read of it is being handed out.
    pub(crate) queued: bool,
    pub(crate) share: Share,
    pub(crate) unreported: Unreported,
}

/// How much is read of a connection that sends more than one buffer holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Share {
    #[default]
    Unknown,
    /// Of what had arrived in time for this turn, so many bytes may still be unread.
    Left { turn: u64, bytes: u64 },
}

/// Whether bytes came that no event of this turn tells of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Unreported {
    #[default]
    Nothing,
    Bytes,
    /// A message came, which says enough for this turn.
    Told,
}

impl Conn {
    pub(crate) fn new(stream: TcpStream, peer: SocketAddr, slot: Slot, inbound: Inbound) -> Self {
        Self {
            stream,
            peer,
            slot,
            inbound,
            outbound: Outbound::Open,
            queue: SendQueue::default(),
            reading: Reading::default(),
            hung_up: false,
            dirty: false,
            weight: Weight::default(),
        }
    }

    /// What broke the way out, for the one who ends the connection with it.
    pub(crate) fn take_break(&mut self) -> Option<io::Error> {
        match std::mem::replace(&mut self.outbound, Outbound::Blocked) {
            Outbound::Broken(error) => Some(error),
            same @ (Outbound::Open | Outbound::Blocked) => {
                self.outbound = same;
                None
            }
        }
    }
}
