//! One attempt to have a session with a peer, from the dial to the fence.

use alloc::vec::Vec;

use kvpeer_wire::RegionInfo;

use crate::cx::Line;
use crate::{CloseReason, PeerId, Time, client, server};

/// A link attempt: a right of its own (DUP-8), a connection, and both roles' sessions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Link {
    pub(super) peer: PeerId,
    pub(super) dialler: Dialler,
    pub(super) phase: Phase,
    pub(super) right: Right,
    /// From the peer's `connect`.
    pub(super) announced: Option<Announced>,
    pub(super) line: Line,
    pub(super) pulse: Pulse,
    pub(super) client: client::Session,
    pub(super) server: server::Session,
}

/// Who opened the connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Dialler {
    Us,
    Them,
}

/// The life of a link. `Handshaking` is two halves that must both be through.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Phase {
    Dialing { due: Option<Time> },
    Handshaking { ours: Ours, theirs: Theirs, due: Option<Time> },
    Up,
    Draining { reason: CloseReason, due: Option<Time> },
    Down,
}

/// Our half: from "may this peer have a memory key" to "the peer has registered us".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Ours {
    Admitting,
    OpeningRight,
    ConnectSent,
    Acked,
}

/// Their half: from silence to "we have registered the peer and said so".
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Theirs {
    Awaited,
    /// Their `connect` is here, but our right, which registering uses, is not open yet.
    Announced {
        metadata: Vec<u8>,
    },
    Registering,
    Registered,
}

/// The endpoint, queue and memory key of this link.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Right {
    None,
    Opening,
    Open,
    Closing {
        due: Option<Time>,
    },
    /// Closed, or taking too long to close, without proof that nothing lands any more.
    Unfenced,
}

/// What a peer has said about itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Announced {
    pub(super) incarnation: u64,
    pub(super) region: RegionInfo,
    pub(super) heartbeat: core::time::Duration,
}

/// When something must be said, and when silence is death.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Pulse {
    pub(super) heartbeat_due: Option<Time>,
    pub(super) dead_due: Option<Time>,
    pub(super) idle_due: Option<Time>,
}

impl Link {
    pub(super) fn new(peer: PeerId, dialler: Dialler, phase: Phase, line: Line) -> Self {
        Self {
            peer,
            dialler,
            phase,
            right: Right::None,
            announced: None,
            line,
            pulse: Pulse::default(),
            client: client::Session::default(),
            server: server::Session::default(),
        }
    }

    /// Whether it can still come up, or is up.
    pub(super) fn is_hopeful(&self) -> bool {
        match self.phase {
            Phase::Dialing { .. } | Phase::Handshaking { .. } | Phase::Up => true,
            Phase::Draining { .. } | Phase::Down => false,
        }
    }

    /// Whether the peer is who it says it is, as far as the embedder decides: we dialled it, or admitted it.
    pub(super) fn is_trusted(&self) -> bool {
        match self.phase {
            Phase::Handshaking { ours: Ours::Admitting, .. } => self.dialler == Dialler::Us,
            Phase::Dialing { .. }
            | Phase::Handshaking { .. }
            | Phase::Up
            | Phase::Draining { .. }
            | Phase::Down => true,
        }
    }

    /// Whether its connection is, or may yet be, there.
    pub(super) fn is_live(&self) -> bool {
        self.phase != Phase::Down
    }

    pub(super) fn is_up(&self) -> bool {
        self.phase == Phase::Up
    }

    /// Whether our `connect` has left.
    pub(super) fn has_introduced_us(&self) -> bool {
        match self.phase {
            Phase::Dialing { .. } => false,
            Phase::Handshaking { ours, .. } => ours >= Ours::ConnectSent,
            Phase::Up | Phase::Draining { .. } | Phase::Down => true,
        }
    }

    /// What it means that this link did not come up in time.
    pub(super) fn too_late(&self) -> CloseReason {
        match self.phase {
            Phase::Dialing { .. } => CloseReason::Unreachable,
            Phase::Handshaking { .. } | Phase::Up | Phase::Draining { .. } | Phase::Down => {
                CloseReason::HandshakeTimeout
            }
        }
    }

    /// The peer's region; of no blocks while it is not known.
    pub(super) fn region(&self) -> RegionInfo {
        let unknown = RegionInfo { base_addr: 0, num_blocks: 0, block_len: 0 };
        self.announced.as_ref().map_or(unknown, |announced| announced.region)
    }
}

impl CloseReason {
    /// Whether a session ends in order for this reason: posted WRITEs finish and report, goodbye goes last.
    pub(super) fn is_voluntary(self) -> bool {
        match self {
            CloseReason::Misbehaved(_)
            | CloseReason::DataPlane
            | CloseReason::WriteStalled
            | CloseReason::Unsettled
            | CloseReason::AbortUnacked
            | CloseReason::Idle
            | CloseReason::Closed
            | CloseReason::Shutdown => true,
            CloseReason::Lost
            | CloseReason::Silent
            | CloseReason::Superseded
            | CloseReason::Goodbye(_)
            | CloseReason::RejectedByPeer(_)
            | CloseReason::RejectedByUs(_)
            | CloseReason::HandshakeTimeout
            | CloseReason::Unreachable
            | CloseReason::TooManyPeers
            | CloseReason::Duplicate => false,
        }
    }

    /// Whether nothing more is read from the peer.
    pub(super) fn stops_reading(self) -> bool {
        matches!(self, CloseReason::Misbehaved(_))
    }

    /// Whether the next attempt should wait, the longer the more often this happens.
    pub(super) fn is_fault(self) -> bool {
        match self {
            CloseReason::Misbehaved(_)
            | CloseReason::DataPlane
            | CloseReason::WriteStalled
            | CloseReason::Unsettled
            | CloseReason::AbortUnacked => true,
            CloseReason::Idle
            | CloseReason::Closed
            | CloseReason::Shutdown
            | CloseReason::Lost
            | CloseReason::Silent
            | CloseReason::Superseded
            | CloseReason::Goodbye(_)
            | CloseReason::RejectedByPeer(_)
            | CloseReason::RejectedByUs(_)
            | CloseReason::HandshakeTimeout
            | CloseReason::Unreachable
            | CloseReason::TooManyPeers
            | CloseReason::Duplicate => false,
        }
    }
}
