//! Reports that wait to be asked for.

use kvpeer::plane::{ControlFact, Scratch};
use kvpeer_core::{ConnId, Epoch, Origin};
use kvpeer_wire::{Decoded, Limits, Msg};

/// One report.
pub(super) enum Fact {
    Connected {
        conn: ConnId,
        origin: Origin,
    },
    DialFailed {
        epoch: Epoch,
        detail: String,
    },
    Disconnected {
        conn: ConnId,
        detail: String,
    },
    Heard {
        conn: ConnId,
    },
    Skipped {
        conn: ConnId,
    },
    /// A message, as kvpeer's own frame.
    Message {
        conn: ConnId,
        frame: Vec<u8>,
    },
    Malformed {
        conn: ConnId,
        detail: String,
    },
}

/// Where a frame's kind stands, after its length.
const KIND_AT: usize = 4;

impl Fact {
    /// `None` when the message cannot be written, which no message of the dialect's is.
    pub(super) fn message(conn: ConnId, msg: &Msg<'_>) -> Option<Self> {
        let mut frame = Vec::new();
        msg.encode(&mut frame).ok()?;
        Some(Self::Message { conn, frame })
    }

    pub(super) fn conn(&self) -> Option<ConnId> {
        match self {
            Self::Connected { conn, .. }
            | Self::Disconnected { conn, .. }
            | Self::Heard { conn }
            | Self::Skipped { conn }
            | Self::Message { conn, .. }
            | Self::Malformed { conn, .. } => Some(*conn),
            Self::DialFailed { .. } => None,
        }
    }

    pub(super) fn report<'f>(self, scratch: &'f mut Scratch, limits: &Limits) -> ControlFact<'f> {
        let Scratch { frame: _, body, detail: words } = scratch;
        match self {
            Self::Connected { conn, origin } => ControlFact::Connected { conn, origin },
            Self::Heard { conn } => ControlFact::Heard { conn },
            Self::Skipped { conn } => ControlFact::Skipped { conn },
            Self::DialFailed { epoch, detail } => {
                *words = detail;
                ControlFact::DialFailed { epoch, detail: words }
            }
            Self::Disconnected { conn, detail } => {
                *words = detail;
                ControlFact::Disconnected { conn, detail: words }
            }
            Self::Malformed { conn, detail } => {
                *words = detail;
                ControlFact::Malformed { conn, detail: words }
            }
            Self::Message { conn, frame } => {
                let kind = frame.get(KIND_AT).copied().unwrap_or_default();
                body.clear();
                body.extend_from_slice(frame.get(KIND_AT + 1..).unwrap_or_default());
                match Msg::decode(kind, body, limits) {
                    Ok(Decoded::Msg(msg)) => ControlFact::Message { conn, msg },
                    // It was written by this process a moment ago.
                    Ok(Decoded::Skipped { .. }) | Err(_) => ControlFact::Heard { conn },
                }
            }
        }
    }
}
