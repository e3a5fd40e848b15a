//! What the control plane reports.

use std::os::fd::RawFd;

use kvpeer_wire::FrameError;

use crate::source::SourceId;
use crate::{CloseReason, DialError, Frame};

/// Names one connection; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnToken(pub u64);

impl ConnToken {
    /// No connection of this poller has a number that does not fit.
    pub(crate) fn source(self) -> SourceId {
        SourceId(usize::try_from(self.0).unwrap_or(usize::MAX))
    }
}

impl From<SourceId> for ConnToken {
    fn from(id: SourceId) -> Self {
        Self(id.0 as u64)
    }
}

/// The caller's name for one dial.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DialToken(pub u32);

/// Who opened a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// We did, for this dial.
    Dialed(DialToken),
    /// The other side did.
    Accepted,
}

/// One report. Those of one connection come in order, the first is `Connected`, the last `Disconnected`; after
/// [`Tcp::close`](crate::Tcp::close) none comes.
#[derive(Debug)]
pub enum TcpEvent {
    /// A connection is there. Nothing is known yet about who is at the other end.
    Connected {
        /// Its name from here on.
        conn: ConnToken,
        /// Who opened it.
        origin: Origin,
    },
    /// A dial came to nothing.
    DialFailed {
        /// Which.
        dial: DialToken,
        /// Why.
        error: DialError,
    },
    /// A frame came whole: a message, not decoded yet. Decoding may find that it is malformed, or of an unknown
    /// kind that is skipped.
    Frame {
        /// On which connection.
        conn: ConnToken,
        /// [`Frame::decode`] it, then give it back with [`Tcp::recycle`](crate::Tcp::recycle).
        frame: Frame,
    },
    /// Bytes came in this turn, and no frame of this connection was complete: the peer lives. At most once a turn.
    Heard {
        /// On which connection.
        conn: ConnToken,
    },
    /// Bytes came that are no preamble or no frame. Nothing more is read from this connection.
    Malformed {
        /// On which connection.
        conn: ConnToken,
        /// What is wrong with them.
        error: FrameError,
    },
    /// The preambles have no version in common. Nothing more is read from this connection.
    NoCommonVersion {
        /// On which connection.
        conn: ConnToken,
        /// The lowest and the highest version that we speak.
        ours: (u8, u8),
        /// The lowest and the highest version that the peer speaks.
        theirs: (u8, u8),
    },
    /// A connection is gone that was not closed by us.
    Disconnected {
        /// Which.
        conn: ConnToken,
        /// Why.
        reason: CloseReason,
    },
    /// A watched descriptor is readable. Reported at every poll while it is.
    FdReady {
        /// Which.
        fd: RawFd,
    },
}

impl TcpEvent {
    /// Which connection this is about, if any.
    pub fn conn(&self) -> Option<ConnToken> {
        match self {
            TcpEvent::Connected { conn, .. }
            | TcpEvent::Frame { conn, .. }
            | TcpEvent::Heard { conn }
            | TcpEvent::Malformed { conn, .. }
            | TcpEvent::NoCommonVersion { conn, .. }
            | TcpEvent::Disconnected { conn, .. } => Some(*conn),
            TcpEvent::DialFailed { .. } | TcpEvent::FdReady { .. } => None,
        }
    }
}
