//! Control connections: two ends, each with what is on its way to it.

use std::collections::{BTreeMap, VecDeque};

use kvpeer_core::ConnId;
use kvpeer_wire::{Decoded, Limits, Msg};

use crate::Who;

/// What is on its way to one end of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// The connection itself, for the end that did not dial.
    Accept,
    /// A message's bytes.
    Frame(Vec<u8>),
    /// Bytes that complete nothing.
    Trickle,
    /// Bytes that are no message.
    Garbage(String),
    /// A preamble without a version in common.
    Versions { theirs: (u8, u8) },
    /// The end of the connection.
    Eof,
}

#[derive(Clone)]
pub(crate) struct End {
    pub(crate) who: Who,
    pub(crate) conn: ConnId,
    pub(crate) inbox: VecDeque<Item>,
    pub(crate) open: bool,
    /// Closed by the endpoint itself: it must not use it any more.
    pub(crate) closed: bool,
    pub(crate) said_goodbye: bool,
    pub(crate) heard_goodbye: bool,
    pub(crate) said_ack: bool,
    pub(crate) heard_ack: bool,
    /// What came in, for an end that is no node.
    pub(crate) heard: Vec<String>,
    /// The pongs among it.
    pub(crate) pongs: Vec<u64>,
}

impl End {
    fn new(who: Who, conn: ConnId) -> Self {
        Self {
            who,
            conn,
            inbox: VecDeque::new(),
            open: true,
            closed: false,
            said_goodbye: false,
            heard_goodbye: false,
            said_ack: false,
            heard_ack: false,
            heard: Vec::new(),
            pongs: Vec::new(),
        }
    }
}

/// All connections that ever were.
#[derive(Clone, Default)]
pub(crate) struct Wires {
    ends: BTreeMap<ConnId, End>,
}

impl Wires {
    /// Connects `from` to `to`; returns the dialling end. The other learns of it as the first thing it hears.
    pub(crate) fn connect(&mut self, from: Who, to: Who) -> ConnId {
        let near = ConnId(self.ends.len() as u64);
        let far = other(near);
        self.ends.insert(near, End::new(from, near));
        self.ends.insert(far, End::new(to, far));
        self.ends.get_mut(&far).expect("just made").inbox.push_back(Item::Accept);
        near
    }

    pub(crate) fn end(&self, conn: ConnId) -> Option<&End> {
        self.ends.get(&conn)
    }

    pub(crate) fn end_mut(&mut self, conn: ConnId) -> Option<&mut End> {
        self.ends.get_mut(&conn)
    }

    pub(crate) fn peer_of(&self, conn: ConnId) -> Option<&End> {
        self.ends.get(&other(conn))
    }

    pub(crate) fn peer_of_mut(&mut self, conn: ConnId) -> Option<&mut End> {
        self.ends.get_mut(&other(conn))
    }

    pub(crate) fn ends(&self) -> impl Iterator<Item = &End> {
        self.ends.values()
    }

    /// Open connections from `from` to `to`, as the ends of `from`.
    pub(crate) fn between(&self, from: Who, to: Who) -> Vec<ConnId> {
        let far = |end: &&End| self.ends.get(&other(end.conn)).is_some_and(|peer| peer.who == to);
        self.ends.values().filter(|end| end.who == from && end.open).filter(far).map(|end| end.conn).collect()
    }
}

/// The other end's name.
pub(crate) fn other(conn: ConnId) -> ConnId {
    ConnId(conn.0 ^ 1)
}

/// A message's frame, by the real codec.
pub(crate) fn encode(msg: &Msg<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    msg.encode(&mut frame).expect("a message that can be sent");
    frame
}

/// A frame's message, by the real codec.
pub(crate) fn decode(frame: &[u8]) -> Msg<'_> {
    match Msg::decode(frame[4], &frame[5..], &Limits::DEFAULT) {
        Ok(Decoded::Msg(msg)) => msg,
        other => panic!("the codec does not read what it has written: {other:?}"),
    }
}
