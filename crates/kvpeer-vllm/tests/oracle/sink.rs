//! The core's effects, put down to be carried out one after the other.

use std::collections::VecDeque;

use kvpeer_core::{
    Action, CloseReason, Count, Epoch, Event, KeyAt, LoadFailure, LoadOutcome, ProbeId, Sink, StoreOutcome,
    XferId,
};

/// One effect, owned.
#[derive(Debug)]
pub(crate) enum Effect {
    Dial(Epoch),
    /// A message, as kvpeer's own frame.
    Send(Vec<u8>),
    Close,
    Admit(Epoch),
    OpenRight(Epoch),
    Register(Epoch),
    CloseRight(Epoch),
    Write {
        xfer: XferId,
        src: Vec<u32>,
        dst: Vec<u32>,
    },
    Cancel,
    Probe {
        probe: ProbeId,
        request: String,
        keys: Vec<Vec<u8>>,
        open: Vec<KeyAt>,
    },
    EndProbe(ProbeId),
    Loaded {
        job: u64,
        ok: bool,
        why: Option<LoadFailure>,
    },
    Stored {
        job: u64,
        outcome: StoreOutcome,
    },
    Down(CloseReason),
    Counted(Count),
}

#[derive(Default, Debug)]
pub(crate) struct Effects(pub(crate) VecDeque<Effect>);

impl Sink for Effects {
    fn act(&mut self, action: Action<'_>) {
        self.0.push_back(match action {
            Action::Dial { epoch, .. } => Effect::Dial(epoch),
            Action::CancelDial { .. } => return,
            Action::Send { msg, .. } => {
                let mut frame = Vec::new();
                msg.encode(&mut frame).unwrap();
                Effect::Send(frame)
            }
            Action::Close { .. } => Effect::Close,
            Action::Admit { epoch, .. } => Effect::Admit(epoch),
            Action::OpenRight { epoch } => Effect::OpenRight(epoch),
            Action::Register { epoch, .. } => Effect::Register(epoch),
            Action::CloseRight { epoch } => Effect::CloseRight(epoch),
            Action::Write { xfer, src, dst } => Effect::Write { xfer, src: src.to_vec(), dst: dst.to_vec() },
            Action::Cancel { .. } => Effect::Cancel,
            Action::Probe { probe, request, keys, open, .. } => Effect::Probe {
                probe,
                request: request.as_str().to_owned(),
                keys: keys.iter().map(|key| key.as_bytes().to_vec()).collect(),
                open: open.to_vec(),
            },
            Action::EndProbe { probe } => Effect::EndProbe(probe),
        });
    }

    fn tell(&mut self, event: Event<'_>) {
        self.0.push_back(match event {
            Event::LoadFinished { job, outcome, .. } => {
                let why = match outcome {
                    LoadOutcome::Loaded => None,
                    LoadOutcome::Failed { why, .. } => Some(why),
                };
                Effect::Loaded { job: job.0, ok: why.is_none(), why }
            }
            Event::StoreFinished { job, outcome } => Effect::Stored { job: job.0, outcome },
            Event::PeerDown { reason, .. } => Effect::Down(reason),
            Event::DestinationReleased { .. }
            | Event::LookupAnswered { .. }
            | Event::FetchArrived { .. }
            | Event::PeerUp { .. }
            | Event::PeerRefused { .. }
            | Event::RequestFailed { .. } => return,
        });
    }

    fn count(&mut self, what: Count) {
        self.0.push_back(Effect::Counted(what));
    }
}
