//! Every moment at which something has to happen, with its reason (I7, TMR-1).

use alloc::collections::BTreeSet;

use kvpeer_wire::Round;

use crate::{ConnId, Epoch, JobId, PeerId, ProbeId, RequestId, Time, XferId};

/// Why the endpoint wants to be woken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// A connection or link whose handshake is not over, or work that waits for a link.
    Handshake,
    /// The next attempt to dial a peer, or the end of a refusal.
    Redial,
    /// A load without growth.
    Load,
    /// A load whose abort is not acknowledged.
    AbortAck,
    /// A request whose open lookups are not answered.
    Lookup,
    /// A lookup of a peer whose pending keys become misses.
    Probe,
    /// Pending keys are asked for again.
    ProbeRetry,
    /// Demand that waits for supply.
    Parked,
    /// A WRITE that does not end.
    Write,
    /// WRITEs of an aborted round are cancelled again.
    CancelRetry,
    /// A store nobody has read.
    Store,
    /// Supply nobody has claimed, or a binding without demand and supply.
    Unbound,
    /// Pins of a lookup nobody has fetched.
    Pin,
    /// An id is forgotten.
    Remembered,
    /// A session that drains.
    Drain,
    /// A right that does not close.
    CloseRight,
    /// Something must be said.
    Heartbeat,
    /// Nothing is heard.
    Dead,
    /// Nothing happens.
    Idle,
}

/// When and why the endpoint wants to be woken with a `Tick`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Deadline {
    /// When.
    pub at: Time,
    /// Why.
    pub why: Timer,
}

/// What a deadline belongs to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Due {
    Stranger(ConnId),
    Handshake(Epoch),
    Wanted(PeerId),
    Redial(PeerId),
    Load(JobId),
    AbortAck(JobId),
    Lookup(RequestId),
    Probe(ProbeId),
    ProbeRetry(ProbeId),
    Parked(Epoch, RequestId, Round),
    Write(XferId),
    CancelRetry(Epoch, RequestId, Round),
    Store(JobId),
    Unbound(RequestId),
    Pin(JobId),
    Remembered(RequestId),
    Drain(Epoch),
    CloseRight(Epoch),
    Heartbeat(Epoch),
    Dead(Epoch),
    Idle(Epoch),
}

impl Due {
    fn timer(&self) -> Timer {
        match self {
            Due::Stranger(_) | Due::Handshake(_) | Due::Wanted(_) => Timer::Handshake,
            Due::Redial(_) => Timer::Redial,
            Due::Load(_) => Timer::Load,
            Due::AbortAck(_) => Timer::AbortAck,
            Due::Lookup(_) => Timer::Lookup,
            Due::Probe(_) => Timer::Probe,
            Due::ProbeRetry(_) => Timer::ProbeRetry,
            Due::Parked(..) => Timer::Parked,
            Due::Write(_) => Timer::Write,
            Due::CancelRetry(..) => Timer::CancelRetry,
            Due::Store(_) => Timer::Store,
            Due::Unbound(_) => Timer::Unbound,
            Due::Pin(_) => Timer::Pin,
            Due::Remembered(_) => Timer::Remembered,
            Due::Drain(_) => Timer::Drain,
            Due::CloseRight(_) => Timer::CloseRight,
            Due::Heartbeat(_) => Timer::Heartbeat,
            Due::Dead(_) => Timer::Dead,
            Due::Idle(_) => Timer::Idle,
        }
    }
}

/// All deadlines, in order. Whoever arms one keeps its [`Time`], and disarms it with that.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Deadlines(BTreeSet<(Time, Due)>);

impl Deadlines {
    /// Sets a deadline and returns when it is, for the owner to keep.
    pub(crate) fn arm(&mut self, at: Time, due: Due) -> Time {
        self.0.insert((at, due));
        at
    }

    pub(crate) fn disarm(&mut self, at: Time, due: Due) {
        self.0.remove(&(at, due));
    }

    /// Takes out the first deadline that has passed.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Due> {
        match self.0.first() {
            Some((at, _)) if *at <= now => self.0.pop_first().map(|(_, due)| due),
            Some(_) | None => None,
        }
    }

    pub(crate) fn next(&self) -> Option<Deadline> {
        self.0.first().map(|(at, due)| Deadline { at: *at, why: due.timer() })
    }

    pub(crate) fn contains(&self, at: Time, due: &Due) -> bool {
        // A set of pairs is searched by a pair of its own; `check()` only, so the clone does not matter.
        self.0.contains(&(at, due.clone()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
