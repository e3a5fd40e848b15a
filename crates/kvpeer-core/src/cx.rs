//! What every handler has at hand during one call, and the line that it sends on.

use kvpeer_wire::{Msg, Nonce};

use crate::deadlines::{Deadlines, Due};
use crate::{Action, Config, ConnId, Count, Event, Sink, Time};

/// One call's time, configuration, deadlines and outlet.
pub(crate) struct Cx<'a> {
    pub(crate) now: Time,
    pub(crate) config: &'a Config,
    pub(crate) deadlines: &'a mut Deadlines,
    pub(crate) out: &'a mut dyn Sink,
}

impl Cx<'_> {
    pub(crate) fn act(&mut self, action: Action<'_>) {
        self.out.act(action);
    }

    pub(crate) fn tell(&mut self, event: Event<'_>) {
        self.out.tell(event);
    }

    pub(crate) fn count(&mut self, what: Count) {
        self.out.count(what);
    }

    pub(crate) fn arm(&mut self, at: Time, due: Due) -> Time {
        self.deadlines.arm(at, due)
    }

    /// Takes a deadline back, if there is one.
    pub(crate) fn disarm(&mut self, slot: &mut Option<Time>, due: Due) {
        if let Some(at) = slot.take() {
            self.deadlines.disarm(at, due);
        }
    }

    /// Moves a deadline.
    pub(crate) fn rearm(&mut self, slot: &mut Option<Time>, at: Time, due: Due) {
        if let Some(old) = slot.replace(at) {
            self.deadlines.disarm(old, due.clone());
        }
        self.deadlines.arm(at, due);
    }
}

/// The connection under a link: all that a link sends goes through here.
///
/// After [`Line::cut`] nothing is sent any more, whatever a handler tries (END-2).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Line {
    conn: Option<ConnId>,
    last_sent: Time,
    last_heard: Time,
    last_activity: Time,
    next_nonce: u64,
}

impl Line {
    pub(crate) fn new(conn: Option<ConnId>, now: Time) -> Self {
        Self { conn, last_sent: now, last_heard: now, last_activity: now, next_nonce: 0 }
    }

    pub(crate) fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    /// Nothing is sent from here on.
    pub(crate) fn cut(&mut self) -> Option<ConnId> {
        self.conn.take()
    }

    pub(crate) fn send(&mut self, cx: &mut Cx<'_>, msg: Msg<'_>) {
        let Some(conn) = self.conn else { return };
        self.last_sent = cx.now;
        if !is_pulse(&msg) {
            self.last_activity = cx.now;
        }
        cx.act(Action::Send { conn, msg });
    }

    pub(crate) fn ping(&mut self, cx: &mut Cx<'_>) {
        let nonce = Nonce(self.next_nonce);
        self.next_nonce = self.next_nonce.wrapping_add(1);
        self.send(cx, Msg::Ping(nonce));
    }

    pub(crate) fn heard(&mut self, now: Time) {
        self.last_heard = now;
    }

    pub(crate) fn received(&mut self, now: Time, msg: &Msg<'_>) {
        self.last_heard = now;
        if !is_pulse(msg) {
            self.last_activity = now;
        }
    }

    pub(crate) fn last_sent(&self) -> Time {
        self.last_sent
    }

    pub(crate) fn last_heard(&self) -> Time {
        self.last_heard
    }

    pub(crate) fn last_activity(&self) -> Time {
        self.last_activity
    }
}

fn is_pulse(msg: &Msg<'_>) -> bool {
    matches!(msg, Msg::Ping(_) | Msg::Pong(_))
}
