//! Connections: in order in each direction, until they break.

use std::collections::VecDeque;
use std::sync::Arc;

use kvpeer_core::Time;

use crate::judge::Talk;
use crate::names::{ConnKey, Process, Side};

/// A connection from the moment it is dialled until both ends know that it is gone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Conn {
    pub(crate) key: ConnKey,
    pub(crate) acceptor: Process,
    pub(crate) cut: bool,
    ends: [End; 2],
}

/// One end of a connection.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct End {
    pub(crate) state: EndState,
    /// What is on its way to this end.
    pub(crate) queue: VecDeque<Item>,
    pub(crate) flow: Flow,
    /// What this end has said, and what it was told.
    pub(crate) said: Milestones,
    pub(crate) heard: Milestones,
    /// The work that this end has asked the other for.
    pub(crate) talk: Talk,
    /// When this end last heard anything, or was opened.
    pub(crate) heard_at: Time,
    /// It has found that the other end breaks the protocol, and takes no more messages (END-3).
    pub(crate) deaf: bool,
}

/// Something that a control plane reports of the bytes of a connection.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Item {
    Frame(Arc<[u8]>),
    /// Bytes that complete nothing.
    Part,
    /// Bytes that are no message.
    Garbage,
    /// A preamble with versions that nobody here speaks.
    Versions,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum EndState {
    /// The node that was dialled does not know of it.
    #[default]
    Waiting,
    Open,
    Closed,
}

/// How messages reach an end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Flow {
    #[default]
    Prompt,
    /// At any time.
    Late,
    /// Not at all.
    Muted,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Milestones {
    pub(crate) connect: bool,
    pub(crate) ack: bool,
    /// `disconnect` or `reject`.
    pub(crate) goodbye: bool,
}

impl Conn {
    pub(crate) fn new(key: ConnKey, acceptor: Process, now: Time) -> Self {
        let mut ends = [End::default(), End::default()];
        ends.iter_mut().for_each(|end| end.heard_at = now);
        ends[Side::Dialler.at()].state = EndState::Open;
        Self { key, acceptor, cut: false, ends }
    }

    pub(crate) fn end(&self, side: Side) -> &End {
        &self.ends[side.at()]
    }

    pub(crate) fn end_mut(&mut self, side: Side) -> &mut End {
        &mut self.ends[side.at()]
    }

    pub(crate) fn process(&self, side: Side) -> Process {
        match side {
            Side::Dialler => self.key.dialler,
            Side::Acceptor => self.acceptor,
        }
    }

    /// An end is gone: nothing more is read there.
    pub(crate) fn close(&mut self, side: Side) {
        let end = self.end_mut(side);
        end.state = EndState::Closed;
        end.queue.clear();
    }

    /// Whether an end has a session on it, for all that it knows.
    pub(crate) fn is_up(&self, at: Side) -> bool {
        let end = self.end(at);
        let goodbye = end.said.goodbye || end.heard.goodbye;
        end.state == EndState::Open && end.said.ack && end.heard.ack && !goodbye
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.ends.iter().all(|end| end.state == EndState::Closed)
    }

    pub(crate) fn can_deliver(&self, to: Side) -> bool {
        let end = self.end(to);
        end.state == EndState::Open && end.flow != Flow::Muted && !end.queue.is_empty()
    }

    /// Whether an end may learn that the connection is gone.
    pub(crate) fn can_hang_up(&self, at: Side) -> bool {
        let (end, other) = (self.end(at), self.end(at.other()));
        let over = self.cut || (other.state == EndState::Closed && end.queue.is_empty());
        end.state == EndState::Open && end.flow != Flow::Muted && over
    }

    /// The connection breaks inside of a message: `whole` of those under way to this end arrive, and a part of the
    /// next.
    pub(crate) fn tear(&mut self, to: Side, whole: usize) {
        self.cut = true;
        let queue = &mut self.end_mut(to).queue;
        queue.truncate(whole);
        queue.push_back(Item::Part);
    }

    /// Something leaves an end.
    pub(crate) fn put(&mut self, from: Side, item: Item) {
        let cut = self.cut;
        let end = self.end_mut(from.other());
        if end.state != EndState::Closed && end.flow != Flow::Muted && !cut {
            end.queue.push_back(item);
        }
    }
}
