//! News for the engine, and the reasons in it.

use core::time::Duration;

use kvpeer_wire::{Bits, DisconnectReason, Failure, RejectCode};

use crate::{JobId, Misbehaved, PeerId, RequestId};

/// One piece of news.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// The one result of a load.
    LoadFinished {
        /// Which.
        job: JobId,
        /// For which request.
        request: &'a RequestId,
        /// How.
        outcome: LoadOutcome<'a>,
        /// Whether its blocks may be used again.
        destination: Destination,
    },
    /// The blocks of a quarantined load may be used again.
    DestinationReleased {
        /// Which load.
        job: JobId,
    },
    /// The one result of a store, or of a lookup's pin: its blocks are not read any more.
    StoreFinished {
        /// Which.
        job: JobId,
        /// How.
        outcome: StoreOutcome,
    },
    /// Some keys of this request's lookups have their answer.
    LookupAnswered {
        /// Which request.
        request: &'a RequestId,
    },
    /// A peer fetches a request's blocks; the first time that it does.
    FetchArrived {
        /// Which request.
        request: &'a RequestId,
        /// Who.
        peer: &'a PeerId,
    },
    /// Work can be sent to this peer.
    PeerUp {
        /// Who.
        peer: &'a PeerId,
    },
    /// A session, or the attempt to bring one up, has ended.
    PeerDown {
        /// Whose.
        peer: &'a PeerId,
        /// Why.
        reason: CloseReason,
        /// How long the next attempt waits.
        retry_after: Option<Duration>,
    },
    /// Somebody who says it is this peer was refused. A session with that peer, if there is one, goes on.
    PeerRefused {
        /// Who it says it is.
        peer: &'a PeerId,
        /// Why.
        code: RejectCode,
    },
    /// The peer of this request is gone. Told once; its lookups are answered `Miss` until the engine finishes it.
    RequestFailed {
        /// Which.
        request: &'a RequestId,
        /// Why.
        reason: CloseReason,
    },
}

/// How a load ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadOutcome<'a> {
    /// Every block is written and visible.
    Loaded,
    /// Not every block came.
    Failed {
        /// Why.
        why: LoadFailure,
        /// Blocks that are written and visible all the same, one bit for each in the load's order; no bits at all
        /// when nothing is known to have landed. They may be kept only when the destination is reusable (LOAD-11).
        landed: Bits<'a>,
    },
}

/// Why a load failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LoadFailure {
    /// The producer says so.
    Producer(Failure),
    /// The engine aborted it, or finished its request.
    Aborted,
    /// The load timer passed.
    Timeout,
    /// Too much work waits for this peer already.
    Overloaded,
    /// The session ended, or could not be brought up.
    Session(CloseReason),
}

/// Whether a finished load's blocks may be used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Destination {
    /// Nothing can land in them any more.
    Reusable,
    /// Something might: wait for [`Event::DestinationReleased`].
    Quarantined,
}

/// How a store ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StoreOutcome {
    /// Every block reached the consumer.
    Delivered,
    /// Some did.
    Partly {
        /// How many.
        delivered: u32,
    },
    /// Nobody took any: released, reaped, withdrawn, or its time was up.
    Unclaimed,
    /// None arrived.
    Failed(StoreFailure),
}

/// Why a store failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StoreFailure {
    /// Its WRITEs failed.
    WriteFailed,
    /// The consumer aborted the fetch that read it.
    Aborted,
    /// Nobody read all of it in time.
    Timeout,
    /// The supply of its request is over; `Open` starts a new one.
    SupplyOver,
    /// The consumer's session ended.
    Session(CloseReason),
}

/// Why a session, or the attempt to bring one up, ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CloseReason {
    /// The connection broke.
    Lost,
    /// Nothing was heard for too long.
    Silent,
    /// A newer process of the peer took its place.
    Superseded,
    /// The peer said goodbye.
    Goodbye(DisconnectReason),
    /// The peer refused us.
    RejectedByPeer(RejectCode),
    /// We refused the peer.
    RejectedByUs(RejectCode),
    /// The peer broke the protocol.
    Misbehaved(Misbehaved),
    /// The data plane lost the peer, or a WRITE to it failed.
    DataPlane,
    /// A WRITE did not end in time.
    WriteStalled,
    /// A fetch or abort of ours ended without proof that its WRITEs are settled.
    Unsettled,
    /// The peer did not acknowledge an abort in time.
    AbortUnacked,
    /// Nothing happened for long, and the slot is needed.
    Idle,
    /// The engine closed the peer.
    Closed,
    /// This node shuts down.
    Shutdown,
    /// The handshake did not end in time.
    HandshakeTimeout,
    /// No connection could be opened in time.
    Unreachable,
    /// This node has as many peers as it may.
    TooManyPeers,
    /// Another link to the same peer is used.
    Duplicate,
}
