//! What a node asks for in one call, put down to be carried out.

use std::sync::Arc;

use kvpeer_core::{
    Action, BlockIdx, CloseReason, ConnId, Count, Destination, Epoch, Event, JobId, LoadFailure, LoadOutcome,
    ProbeId, Sink, StoreOutcome, XferId,
};

use crate::names::{Who, keys_of, request_of};

/// The actions and the news of one call, in order.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) list: Vec<Effect>,
    pub(crate) counts: Vec<Count>,
}

pub(crate) enum Effect {
    Dial { epoch: Epoch, peer: Option<Who> },
    CancelDial(Epoch),
    Send { conn: ConnId, frame: Arc<[u8]> },
    Close(ConnId),
    Admit { epoch: Epoch, conn: ConnId },
    Open(Epoch),
    Register { epoch: Epoch, num_blocks: u32, metadata: Vec<u8> },
    CloseRight(Epoch),
    Write { xfer: XferId, src: Vec<BlockIdx>, dst: Vec<BlockIdx> },
    Cancel(XferId),
    Probe { probe: ProbeId, keys: Vec<u8>, open: Vec<u32> },
    EndProbe(ProbeId),
    News(News),
}

/// News for an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum News {
    LoadFinished { job: JobId, request: Option<u8>, end: LoadEnd, destination: Destination },
    Released(JobId),
    StoreFinished { job: JobId, outcome: StoreOutcome },
    LookupAnswered,
    FetchArrived,
    PeerUp(Option<Who>),
    PeerDown { peer: Option<Who>, reason: CloseReason },
    PeerRefused,
    RequestFailed { request: Option<u8>, reason: CloseReason },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LoadEnd {
    Loaded,
    Failed { why: LoadFailure, landed: Vec<bool> },
}

impl Sink for Effects {
    fn act(&mut self, action: Action<'_>) {
        let effect = match action {
            Action::Dial { epoch, peer, .. } => Effect::Dial { epoch, peer: Who::of_peer(peer.as_name()) },
            Action::CancelDial { epoch } => Effect::CancelDial(epoch),
            Action::Send { conn, msg } => {
                let mut frame = Vec::new();
                msg.encode(&mut frame).expect("the core sends what can be encoded");
                Effect::Send { conn, frame: frame.into() }
            }
            Action::Close { conn } => Effect::Close(conn),
            Action::Admit { epoch, conn, .. } => Effect::Admit { epoch, conn },
            Action::OpenRight { epoch } => Effect::Open(epoch),
            Action::Register { epoch, region, metadata } => {
                Effect::Register { epoch, num_blocks: region.num_blocks, metadata: metadata.to_vec() }
            }
            Action::CloseRight { epoch } => Effect::CloseRight(epoch),
            Action::Write { xfer, src, dst } => Effect::Write { xfer, src: src.to_vec(), dst: dst.to_vec() },
            Action::Cancel { xfer } => Effect::Cancel(xfer),
            Action::Probe { probe, keys, open, .. } => {
                Effect::Probe { probe, keys: keys_of(keys), open: open.iter().map(|at| at.0).collect() }
            }
            Action::EndProbe { probe } => Effect::EndProbe(probe),
        };
        self.list.push(effect);
    }

    fn tell(&mut self, event: Event<'_>) {
        let news = match event {
            Event::LoadFinished { job, request, outcome, destination } => News::LoadFinished {
                job,
                request: request_of(request.as_name()),
                end: match outcome {
                    LoadOutcome::Loaded => LoadEnd::Loaded,
                    LoadOutcome::Failed { why, landed } => {
                        LoadEnd::Failed { why, landed: landed.iter().collect() }
                    }
                },
                destination,
            },
            Event::DestinationReleased { job } => News::Released(job),
            Event::StoreFinished { job, outcome } => News::StoreFinished { job, outcome },
            Event::LookupAnswered { .. } => News::LookupAnswered,
            Event::FetchArrived { .. } => News::FetchArrived,
            Event::PeerUp { peer } => News::PeerUp(Who::of_peer(peer.as_name())),
            Event::PeerDown { peer, reason, .. } => {
                News::PeerDown { peer: Who::of_peer(peer.as_name()), reason }
            }
            Event::PeerRefused { .. } => News::PeerRefused,
            Event::RequestFailed { request, reason } => {
                News::RequestFailed { request: request_of(request.as_name()), reason }
            }
        };
        self.list.push(Effect::News(news));
    }

    fn count(&mut self, what: Count) {
        self.counts.push(what);
    }
}
