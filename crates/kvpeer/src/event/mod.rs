//! News for the engine, in a form that it can keep.

#[cfg(feature = "tokio")]
mod claims;
mod queue;

use std::fmt;
use std::time::Duration;

use kvpeer_core::{CloseReason, Destination, JobId, LoadFailure, PeerId, RequestId, StoreOutcome};
use kvpeer_wire::{BitsBuf, RejectCode};

#[cfg(feature = "tokio")]
pub(crate) use claims::{Claims, Wanted};
pub(crate) use queue::{EventQueue, Wait};

/// One piece of news.
///
/// *Results* are never lost. The engine itself bounds how many there can be: one `LoadFinished`,
/// `DestinationReleased` and `StoreFinished` for each job, one `RequestFailed` for each request. All others are
/// *notices*, which are dropped (and counted in `Lagged`) when the engine leaves too many events untaken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The one result of a load.
    LoadFinished {
        /// Which.
        job: JobId,
        /// For which request.
        request: RequestId,
        /// How.
        outcome: LoadOutcome,
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
    /// The peer of this request is gone; its lookups are answered `Miss` until the engine finishes it.
    RequestFailed {
        /// Which.
        request: RequestId,
        /// Why.
        reason: CloseReason,
    },
    /// Notice: some keys of this request's lookups have their answer.
    LookupAnswered {
        /// Which request.
        request: RequestId,
    },
    /// Notice: a peer fetches a request's blocks; the first time that it does.
    FetchArrived {
        /// Which request.
        request: RequestId,
        /// Who.
        peer: PeerId,
    },
    /// Notice: work can be sent to this peer.
    PeerUp {
        /// Who.
        peer: PeerId,
    },
    /// Notice: a session, or the attempt to bring one up, has ended.
    PeerDown {
        /// Whose.
        peer: PeerId,
        /// Why.
        reason: CloseReason,
        /// How long the next attempt waits.
        retry_after: Option<Duration>,
    },
    /// Notice: somebody who says it is this peer was refused. A session with that peer, if there is one, goes on.
    PeerRefused {
        /// Who it says it is.
        peer: PeerId,
        /// Why.
        code: RejectCode,
    },
    /// Notice: something went wrong on a plane. For logs; what it means for jobs is told by the other events.
    Trouble(Trouble),
    /// Notices were dropped, because too many events were not taken: look again at lookups and peers.
    Lagged {
        /// How many.
        missed: u64,
    },
}

/// How a load ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadOutcome {
    /// Every block is written and visible.
    Loaded,
    /// Not every block came.
    Failed {
        /// Why.
        why: LoadFailure,
        /// Blocks that are written and visible all the same, one bit for each in the load's order. They may be
        /// kept only when the destination is reusable.
        landed: BitsBuf,
    },
}

/// Something that went wrong on a plane, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// With whom, where that is known.
    pub peer: Option<PeerId>,
    /// What.
    pub what: TroubleKind,
    /// In the plane's own words: what failed, why, and what helps.
    pub detail: String,
}

/// What went wrong on a plane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum TroubleKind {
    /// A dial came to nothing.
    Dial,
    /// A connection broke.
    Connection,
    /// A peer's bytes are no messages of the protocol.
    Malformed,
    /// No right could be opened for a peer.
    OpenRight,
    /// A peer's region or metadata was refused.
    Register,
    /// A WRITE did not succeed.
    Write,
    /// The data plane lost a peer.
    DataPlane,
    /// A right was closed without proof that nothing lands any more: its blocks stay quarantined.
    NotFenced,
    /// The control plane failed as a whole; the node ends all sessions.
    ControlPlane,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            TroubleKind::Dial => "cannot connect",
            TroubleKind::Connection => "connection lost",
            TroubleKind::Malformed => "malformed bytes",
            TroubleKind::OpenRight => "cannot open a right",
            TroubleKind::Register => "cannot register",
            TroubleKind::Write => "a WRITE failed",
            TroubleKind::DataPlane => "data plane failed",
            TroubleKind::NotFenced => "not fenced",
            TroubleKind::ControlPlane => "control plane failed",
        };
        match &self.peer {
            Some(peer) => write!(f, "{peer}: {what}: {}", self.detail),
            None => write!(f, "{what}: {}", self.detail),
        }
    }
}

/// Whether an event may be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weight {
    Result,
    Notice,
}

impl Event {
    pub(crate) fn weight(&self) -> Weight {
        match self {
            Event::LoadFinished { .. }
            | Event::DestinationReleased { .. }
            | Event::StoreFinished { .. }
            | Event::RequestFailed { .. } => Weight::Result,
            Event::LookupAnswered { .. }
            | Event::FetchArrived { .. }
            | Event::PeerUp { .. }
            | Event::PeerDown { .. }
            | Event::PeerRefused { .. }
            | Event::Trouble(_)
            | Event::Lagged { .. } => Weight::Notice,
        }
    }
}

impl From<kvpeer_core::Event<'_>> for Event {
    fn from(event: kvpeer_core::Event<'_>) -> Self {
        use kvpeer_core::Event as E;
        match event {
            E::LoadFinished { job, request, outcome, destination } => {
                Event::LoadFinished { job, request: request.clone(), outcome: outcome.into(), destination }
            }
            E::DestinationReleased { job } => Event::DestinationReleased { job },
            E::StoreFinished { job, outcome } => Event::StoreFinished { job, outcome },
            E::RequestFailed { request, reason } => Event::RequestFailed { request: request.clone(), reason },
            E::LookupAnswered { request } => Event::LookupAnswered { request: request.clone() },
            E::FetchArrived { request, peer } => {
                Event::FetchArrived { request: request.clone(), peer: peer.clone() }
            }
            E::PeerUp { peer } => Event::PeerUp { peer: peer.clone() },
            E::PeerDown { peer, reason, retry_after } => {
                Event::PeerDown { peer: peer.clone(), reason, retry_after }
            }
            E::PeerRefused { peer, code } => Event::PeerRefused { peer: peer.clone(), code },
        }
    }
}

impl From<kvpeer_core::LoadOutcome<'_>> for LoadOutcome {
    fn from(outcome: kvpeer_core::LoadOutcome<'_>) -> Self {
        use kvpeer_core::LoadOutcome as O;
        match outcome {
            O::Loaded => LoadOutcome::Loaded,
            O::Failed { why, landed } => {
                let mut bits = BitsBuf::zeros(landed.len());
                (0..landed.len()).filter(|at| landed.get(*at)).for_each(|at| bits.set(at));
                LoadOutcome::Failed { why, landed: bits }
            }
        }
    }
}
