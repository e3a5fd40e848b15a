//! The plane that carries messages.

use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::task::Waker;
use std::time::{Duration, Instant};

use kvpeer_core::{ConnId, Epoch, Input, Origin};
use kvpeer_wire::{Frame, Msg, PeerName};

/// Connections to other nodes, on which messages arrive whole and in order.
///
/// Four kinds of calls, all from one thread at a time; only [`poll`](Self::poll) may sleep:
/// - wishes: `dial`, `cancel_dial`, `send`, `close`. They come while the node takes in a fact, so what they bring
///   about is reported later, never from inside of them;
/// - the wait: `poll`;
/// - reports: `next_fact`;
/// - questions: `conn_info`, `address`, `lingering`, `waker`.
///
/// Bounded by itself: a connection to a peer that does not read dies when too much waits to be sent on it, and
/// what is not asked for by `next_fact` stays in the transport.
pub trait ControlPlane: Send {
    /// Opens a connection. Answered by `Connected` or `DialFailed`.
    fn dial(&mut self, epoch: Epoch, peer: PeerName<'_>, address: &str);

    /// Gives up a dial. Nothing is reported about it any more, unless it is `Connected` already.
    fn cancel_dial(&mut self, epoch: Epoch);

    /// Sends a message. What cannot be sent ends the connection, reported as `Disconnected`.
    fn send(&mut self, conn: ConnId, msg: &Msg<'_>);

    /// Closes a connection once what was sent on it has left, within a time of the plane's own choice. Nothing
    /// more is reported about it.
    fn close(&mut self, conn: ConnId);

    /// Sleeps until there is something to report, one of `wake_on` is readable, the waker was used, or `timeout`
    /// has passed; `None` sleeps without limit, zero does not sleep. May return early.
    ///
    /// Returns a moment T: once [`next_fact`](Self::next_fact) has answered `None`, everything that had arrived
    /// by T was reported. There is an end to that, however much a peer sends meanwhile.
    ///
    /// Fails only when nothing works any more; the node then ends all sessions.
    fn poll(&mut self, wake_on: &[RawFd], timeout: Option<Duration>) -> io::Result<Instant>;

    /// The next report; `None` until the next poll. It borrows from `scratch`, not from the plane, which can be
    /// told to send while the node takes the report in.
    fn next_fact<'f>(&mut self, scratch: &'f mut Scratch) -> Option<ControlFact<'f>>;

    /// What is known, or proved, about the other end of a connection.
    fn conn_info(&self, conn: ConnId) -> ConnInfo;

    /// How others reach this node, for [`Part::Consume`](crate::Part::Consume) and `Connect` over there; `None`
    /// when it only dials.
    fn address(&self) -> Option<String>;

    /// How many closed connections still send their last bytes.
    fn lingering(&self) -> usize;

    /// Ends a `poll` that sleeps, or else the next one, from any thread.
    fn waker(&self) -> Waker;

    /// What the plane counts, by name, for statistics.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Where a control plane puts what a report borrows. The node keeps it, and hands in the same one each time.
#[derive(Default, Debug)]
pub struct Scratch {
    /// A message that came with memory of its own.
    pub frame: Option<Frame>,
    /// A message's body that has none: [`Msg::decode`](kvpeer_wire::Msg::decode) it from here.
    pub body: Vec<u8>,
    /// Words for people.
    pub detail: String,
}

/// What a control plane reports. See [`Input`] for what each means to the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlFact<'f> {
    /// A connection is there.
    Connected {
        /// The new connection; ids are never reused.
        conn: ConnId,
        /// Who opened it.
        origin: Origin,
    },
    /// A dial came to nothing.
    DialFailed {
        /// As in [`ControlPlane::dial`].
        epoch: Epoch,
        /// Why, for people.
        detail: &'f str,
    },
    /// A connection is gone that was not closed by this node. Nothing more comes from it.
    Disconnected {
        /// Which.
        conn: ConnId,
        /// Why, for people.
        detail: &'f str,
    },
    /// Bytes came that do not complete a message.
    Heard {
        /// On which connection.
        conn: ConnId,
    },
    /// A message of an unknown kind came that may be skipped; counted.
    Skipped {
        /// On which connection.
        conn: ConnId,
    },
    /// A message came.
    Message {
        /// On which connection.
        conn: ConnId,
        /// The message.
        msg: Msg<'f>,
    },
    /// Bytes came that are no message.
    Malformed {
        /// On which connection.
        conn: ConnId,
        /// What is wrong with them, for people.
        detail: &'f str,
    },
    /// No protocol version in common.
    NoCommonVersion {
        /// On which connection.
        conn: ConnId,
        /// The lowest and the highest version that we speak.
        ours: (u8, u8),
        /// The lowest and the highest version that the peer speaks.
        theirs: (u8, u8),
    },
}

impl<'f> ControlFact<'f> {
    pub(crate) fn as_input(self) -> Input<'f> {
        match self {
            Self::Connected { conn, origin } => Input::Connected { conn, origin },
            Self::DialFailed { epoch, detail: _ } => Input::DialFailed { epoch },
            Self::Disconnected { conn, detail: _ } => Input::Disconnected { conn },
            Self::Heard { conn } | Self::Skipped { conn } => Input::Heard { conn },
            Self::Message { conn, msg } => Input::Message { conn, msg },
            Self::Malformed { conn, detail } => Input::Malformed { conn, detail },
            Self::NoCommonVersion { conn, ours, theirs } => Input::NoCommonVersion { conn, ours, theirs },
        }
    }
}

/// What a control plane knows about the other end of a connection.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ConnInfo {
    /// Its network address.
    pub remote: Option<SocketAddr>,
    /// Who it has proved to be (a certificate's subject, say); `None` where the plane does not authenticate.
    pub proved: Option<String>,
}

impl ConnInfo {
    /// Only a network address is known.
    pub fn remote(remote: SocketAddr) -> Self {
        Self { remote: Some(remote), proved: None }
    }
}
