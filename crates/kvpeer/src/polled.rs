//! A buffered front of the bare endpoint, for those who have IO of their own and prefer to poll.

use std::collections::{BTreeMap, VecDeque};

use kvpeer_core::wire::{EncodeError, Key, KeysBuf, PeerId, RegionInfo, RequestId, RequestName, Round};
use kvpeer_core::{
    Action, BlockIdx, Command, ConnId, Count, Deadline, Endpoint, Epoch, Input, KeyAt, LookupState, Misuse,
    ProbeId, Sink, Time, XferId,
};

use crate::event::Event;

/// An endpoint whose effects wait in a queue.
///
/// After each [`handle`](Self::handle) and [`command`](Self::command) call [`poll_output`](Self::poll_output) and carry
/// out what it says, until it says `Timeout`: then wait for the next fact, at most until that deadline, at which the
/// fact is [`Input::Tick`]. Facts that answer an action may be handed in at any later time.
///
/// It costs copies that a [`Sink`] of one's own avoids. A [`Node`](crate::Node) does all of this itself.
#[derive(Debug)]
pub struct Polled {
    endpoint: Endpoint,
    queue: Queue,
}

/// What to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Bring this about.
    Action(OwnedAction),
    /// Tell the engine.
    Event(Event),
    /// Wait; `None`: for a fact or a command only.
    Timeout(Option<Deadline>),
}

/// [`Action`], owned. See there for what each means.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant and field is documented at Action")]
pub enum OwnedAction {
    Dial {
        epoch: Epoch,
        peer: PeerId,
        address: String,
    },
    CancelDial {
        epoch: Epoch,
    },
    /// Send these bytes: a whole frame, length included.
    Send {
        conn: ConnId,
        frame: Vec<u8>,
    },
    /// A message that has no legal encoding; close the connection and report it as `Disconnected`.
    Unsendable {
        conn: ConnId,
        error: EncodeError,
    },
    Close {
        conn: ConnId,
    },
    Admit {
        epoch: Epoch,
        conn: ConnId,
        peer: PeerId,
    },
    OpenRight {
        epoch: Epoch,
    },
    Register {
        epoch: Epoch,
        region: RegionInfo,
        metadata: Vec<u8>,
    },
    CloseRight {
        epoch: Epoch,
    },
    Write {
        xfer: XferId,
        src: Vec<BlockIdx>,
        dst: Vec<BlockIdx>,
    },
    Cancel {
        xfer: XferId,
    },
    Probe {
        probe: ProbeId,
        peer: PeerId,
        request: RequestId,
        round: Round,
        keys: KeysBuf,
        open: Vec<KeyAt>,
    },
    EndProbe {
        probe: ProbeId,
    },
}

impl Polled {
    /// Wraps an endpoint.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, queue: Queue::default() }
    }

    /// Applies one fact.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        self.endpoint.handle(now, input, &mut self.queue);
    }

    /// Applies one wish of the engine, or refuses it and changes nothing.
    ///
    /// # Errors
    /// When the wish is a mistake.
    pub fn command(&mut self, now: Time, command: Command<'_>) -> Result<(), Misuse> {
        self.endpoint.command(now, command, &mut self.queue)
    }

    /// What is known about a key: [`Endpoint::lookup`].
    pub fn lookup(&mut self, now: Time, request: RequestName<'_>, key: Key<'_>) -> LookupState {
        self.endpoint.lookup(now, request, key)
    }

    /// The next thing to do, in the order in which the endpoint wants them.
    pub fn poll_output(&mut self) -> Output {
        match self.queue.outputs.pop_front() {
            Some(output) => output,
            None => Output::Timeout(self.endpoint.next_deadline()),
        }
    }

    /// What was ignored or refused so far, and how often.
    pub fn counts(&self) -> &BTreeMap<Count, u64> {
        &self.queue.counts
    }

    /// The endpoint, for its queries.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

#[derive(Default, Debug)]
struct Queue {
    outputs: VecDeque<Output>,
    counts: BTreeMap<Count, u64>,
}

impl Sink for Queue {
    fn act(&mut self, action: Action<'_>) {
        self.outputs.push_back(Output::Action(action.into()));
    }

    fn tell(&mut self, event: kvpeer_core::Event<'_>) {
        self.outputs.push_back(Output::Event(event.into()));
    }

    fn count(&mut self, what: Count) {
        let count = self.counts.entry(what).or_default();
        *count = count.saturating_add(1);
    }
}

impl From<Action<'_>> for OwnedAction {
    fn from(action: Action<'_>) -> Self {
        match action {
            Action::Dial { epoch, peer, address } => {
                Self::Dial { epoch, peer: peer.clone(), address: address.to_owned() }
            }
            Action::CancelDial { epoch } => Self::CancelDial { epoch },
            Action::Send { conn, msg } => {
                let mut frame = Vec::new();
                match msg.encode(&mut frame) {
                    Ok(()) => Self::Send { conn, frame },
                    Err(error) => Self::Unsendable { conn, error },
                }
            }
            Action::Close { conn } => Self::Close { conn },
            Action::Admit { epoch, conn, peer } => Self::Admit { epoch, conn, peer: peer.into() },
            Action::OpenRight { epoch } => Self::OpenRight { epoch },
            Action::Register { epoch, region, metadata } => {
                Self::Register { epoch, region, metadata: metadata.to_vec() }
            }
            Action::CloseRight { epoch } => Self::CloseRight { epoch },
            Action::Write { xfer, src, dst } => Self::Write { xfer, src: src.to_vec(), dst: dst.to_vec() },
            Action::Cancel { xfer } => Self::Cancel { xfer },
            Action::Probe { probe, peer, request, round, keys, open } => Self::Probe {
                probe,
                peer: peer.clone(),
                request: request.clone(),
                round,
                keys: keys.to_buf(),
                open: open.to_vec(),
            },
            Action::EndProbe { probe } => Self::EndProbe { probe },
        }
    }
}

#[cfg(test)]
mod tests;
