//! What an endpoint asked for in one call, owned, in order.

use kvpeer_core::{
    Action, BlockIdx, CloseReason, ConnId, Count, Destination, Epoch, Event, JobId, KeyAt, LoadFailure,
    LoadOutcome, ProbeId, Sink, StoreOutcome, XferId,
};
use kvpeer_wire::{KeysBuf, RegionInfo, RejectCode};

use crate::control::encode;

/// How a load ended, with its landed blocks as bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadEnd {
    /// Every block is there.
    Loaded,
    /// Not every block is.
    Failed {
        /// Why.
        why: LoadFailure,
        /// Which are all the same.
        landed: Vec<bool>,
    },
}

/// An [`Event`], owned.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each is documented at the Event of its name")]
pub enum News {
    LoadFinished { job: JobId, request: String, end: LoadEnd, destination: Destination },
    DestinationReleased { job: JobId },
    StoreFinished { job: JobId, outcome: StoreOutcome },
    LookupAnswered { request: String },
    FetchArrived { request: String, peer: String },
    PeerUp { peer: String },
    PeerDown { peer: String, reason: CloseReason, retry_after_ms: Option<u128> },
    PeerRefused { peer: String, code: RejectCode },
    RequestFailed { request: String, reason: CloseReason },
}

impl News {
    /// What it is and how it ends, without names.
    pub(crate) fn label(&self) -> String {
        match self {
            News::LoadFinished { end: LoadEnd::Loaded, .. } => "load Loaded".into(),
            News::LoadFinished { end: LoadEnd::Failed { why, .. }, destination, .. } => {
                format!("load {why:?} {destination:?}")
            }
            News::StoreFinished { outcome: StoreOutcome::Partly { .. }, .. } => "store Partly".into(),
            News::StoreFinished { outcome, .. } => format!("store {outcome:?}"),
            News::PeerDown { reason, .. } => format!("down {reason:?}"),
            News::DestinationReleased { .. } => "DestinationReleased".into(),
            News::LookupAnswered { .. } => "LookupAnswered".into(),
            News::FetchArrived { .. } => "FetchArrived".into(),
            News::PeerUp { .. } => "PeerUp".into(),
            News::PeerRefused { .. } => "PeerRefused".into(),
            News::RequestFailed { .. } => "RequestFailed".into(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    Dial { epoch: Epoch, peer: String, address: String },
    CancelDial { epoch: Epoch },
    Send { conn: ConnId, frame: Vec<u8> },
    Close { conn: ConnId },
    Admit { epoch: Epoch, conn: ConnId, peer: String },
    OpenRight { epoch: Epoch },
    Register { epoch: Epoch, region: RegionInfo, metadata: Vec<u8> },
    CloseRight { epoch: Epoch },
    Write { xfer: XferId, src: Vec<BlockIdx>, dst: Vec<BlockIdx> },
    Cancel { xfer: XferId },
    Probe { probe: ProbeId, keys: KeysBuf, open: Vec<KeyAt> },
    EndProbe { probe: ProbeId },
    Tell(News),
    Count(Count),
}

/// Puts down what an endpoint asks for.
#[derive(Default)]
pub(crate) struct Effects(pub(crate) Vec<Effect>);

impl Sink for Effects {
    fn act(&mut self, action: Action<'_>) {
        self.0.push(match action {
            Action::Dial { epoch, peer, address } => {
                Effect::Dial { epoch, peer: peer.as_str().into(), address: address.into() }
            }
            Action::CancelDial { epoch } => Effect::CancelDial { epoch },
            Action::Send { conn, msg } => Effect::Send { conn, frame: encode(&msg) },
            Action::Close { conn } => Effect::Close { conn },
            Action::Admit { epoch, conn, peer } => Effect::Admit { epoch, conn, peer: peer.as_str().into() },
            Action::OpenRight { epoch } => Effect::OpenRight { epoch },
            Action::Register { epoch, region, metadata } => {
                Effect::Register { epoch, region, metadata: metadata.into() }
            }
            Action::CloseRight { epoch } => Effect::CloseRight { epoch },
            Action::Write { xfer, src, dst } => Effect::Write { xfer, src: src.into(), dst: dst.into() },
            Action::Cancel { xfer } => Effect::Cancel { xfer },
            Action::Probe { probe, keys, open, peer: _, request: _, round: _ } => {
                Effect::Probe { probe, keys: keys.to_buf(), open: open.into() }
            }
            Action::EndProbe { probe } => Effect::EndProbe { probe },
        });
    }

    fn tell(&mut self, event: Event<'_>) {
        self.0.push(Effect::Tell(News::from(event)));
    }

    fn count(&mut self, what: Count) {
        self.0.push(Effect::Count(what));
    }
}

impl From<Event<'_>> for News {
    fn from(event: Event<'_>) -> Self {
        match event {
            Event::LoadFinished { job, request, outcome, destination } => {
                News::LoadFinished { job, request: request.as_str().into(), end: outcome.into(), destination }
            }
            Event::DestinationReleased { job } => News::DestinationReleased { job },
            Event::StoreFinished { job, outcome } => News::StoreFinished { job, outcome },
            Event::LookupAnswered { request } => News::LookupAnswered { request: request.as_str().into() },
            Event::FetchArrived { request, peer } => {
                News::FetchArrived { request: request.as_str().into(), peer: peer.as_str().into() }
            }
            Event::PeerUp { peer } => News::PeerUp { peer: peer.as_str().into() },
            Event::PeerDown { peer, reason, retry_after } => News::PeerDown {
                peer: peer.as_str().into(),
                reason,
                retry_after_ms: retry_after.map(|span| span.as_millis()),
            },
            Event::PeerRefused { peer, code } => News::PeerRefused { peer: peer.as_str().into(), code },
            Event::RequestFailed { request, reason } => {
                News::RequestFailed { request: request.as_str().into(), reason }
            }
        }
    }
}

impl From<LoadOutcome<'_>> for LoadEnd {
    fn from(outcome: LoadOutcome<'_>) -> Self {
        match outcome {
            LoadOutcome::Loaded => LoadEnd::Loaded,
            LoadOutcome::Failed { why, landed } => LoadEnd::Failed { why, landed: landed.iter().collect() },
        }
    }
}
