//! How a link ends: one path for every reason.
//!
//! [`Endpoint::end`] is the only entrance. A session that ends voluntarily drains first: posted WRITEs finish and
//! report. Then, and for every involuntary reason at once, the link goes down: goodbye (if there is somebody to say
//! it to), the right is closed, loads fail with their destinations in quarantine. The fence releases what is left.

use alloc::string::{String, ToString};
use core::time::Duration;

use kvpeer_wire::{Disconnect, DisconnectReason, Msg, RejectCode, Text};

use super::link::{Dialler, Phase, Right};
use super::{Conn, Endpoint, Life};
use crate::cx::Cx;
use crate::deadlines::Due;
use crate::faults::{Fault, seeded};
use crate::{Action, CloseReason, ConnId, Count, Epoch, Event, LoadFailure, Sink, Time};

impl Endpoint {
    /// Ends a link, in order if it is a session and the reason allows, else at once.
    pub(super) fn end(&mut self, epoch: Epoch, reason: CloseReason, out: &mut dyn Sink) {
        if let CloseReason::Misbehaved(_) = reason {
            out.count(Count::Misbehaved);
        }
        let Some(link) = self.links.get(&epoch) else { return };
        match link.phase {
            Phase::Up if reason.is_voluntary() => self.drain(epoch, reason, out),
            Phase::Draining { .. } if reason.stops_reading() => self.stop_reading(epoch, reason, out),
            Phase::Draining { .. } if reason.is_voluntary() => {}
            // END-4: whatever ends a drain early, its own reason is told.
            Phase::Draining { reason: first, .. } => self.go_down(epoch, first, out),
            Phase::Dialing { .. } => {
                out.act(Action::CancelDial { epoch });
                self.go_down(epoch, reason, out);
            }
            Phase::Handshaking { .. } | Phase::Up => self.go_down(epoch, reason, out),
            Phase::Down => {}
        }
    }

    /// END-1: nothing new begins, what is posted finishes.
    fn drain(&mut self, epoch: Epoch, reason: CloseReason, out: &mut dyn Sink) {
        let by = match self.life {
            Life::ShuttingDown { by } => by,
            Life::Running => self.now + self.config.timing.drain,
        };
        let due = Some(self.deadlines.arm(by, Due::Drain(epoch)));
        if let Some(link) = self.links.get_mut(&epoch) {
            link.phase = Phase::Draining { reason, due };
        }
        self.producer(epoch, out, |producer, cx| producer.begin_closing(cx, reason));
        self.consumer(epoch, out, |consumer, cx| consumer.abort_all(cx, LoadFailure::Session(reason)));
        self.finish_drain(epoch, out);
    }

    /// A peer that breaks the protocol while its session drains is not read any more either (END-3).
    fn stop_reading(&mut self, epoch: Epoch, verdict: CloseReason, out: &mut dyn Sink) {
        if let Some(link) = self.links.get_mut(&epoch)
            && let Phase::Draining { reason, .. } = &mut link.phase
        {
            *reason = verdict;
        }
        self.finish_drain(epoch, out);
    }

    /// A drain that began before the shutdown must not outlast it (END-8).
    pub(super) fn hasten_drain(&mut self, epoch: Epoch, by: Time, out: &mut dyn Sink) {
        if let Some(link) = self.links.get_mut(&epoch)
            && let Phase::Draining { due, .. } = &mut link.phase
            && due.is_some_and(|at| at > by)
        {
            let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
            cx.rearm(due, by, Due::Drain(epoch));
        }
    }

    /// Takes a draining link down once its rounds have ended (END-2).
    pub(super) fn finish_drain(&mut self, epoch: Epoch, out: &mut dyn Sink) {
        let Some(link) = self.links.get(&epoch) else { return };
        let Phase::Draining { reason, .. } = link.phase else { return };
        // From a peer that is not read any more no answer comes.
        let quiet = link.server.is_quiet() && (link.client.rounds.is_empty() || reason.stops_reading());
        let quiet = quiet || seeded(Fault::DisconnectOverWrites);
        if quiet {
            self.go_down(epoch, reason, out);
        }
    }

    /// The end of a link. Everything that was promised on it is answered here or by the fence.
    pub(super) fn go_down(&mut self, epoch: Epoch, reason: CloseReason, out: &mut dyn Sink) {
        let Some(link) = self.links.get_mut(&epoch) else { return };
        let was = core::mem::replace(&mut link.phase, Phase::Down);
        let peer = link.peer.clone();
        let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        if let Some(goodbye) = goodbye(reason) {
            let mut detail = String::new();
            if let CloseReason::Misbehaved(how) = reason {
                detail = how.to_string();
            }
            let detail = Text::truncated(&detail);
            link.line.send(&mut cx, Msg::Disconnect(Disconnect { reason: goodbye, detail }));
        }
        cx.disarm(&mut link.pulse.heartbeat_due, Due::Heartbeat(epoch));
        cx.disarm(&mut link.pulse.dead_due, Due::Dead(epoch));
        cx.disarm(&mut link.pulse.idle_due, Due::Idle(epoch));
        let was_session = match was {
            Phase::Dialing { mut due } | Phase::Handshaking { mut due, .. } => {
                cx.disarm(&mut due, Due::Handshake(epoch));
                false
            }
            Phase::Draining { mut due, .. } => {
                cx.disarm(&mut due, Due::Drain(epoch));
                true
            }
            Phase::Up | Phase::Down => true,
        };
        // END-2: nothing leaves after the goodbye. END-5, I8: nor does a WRITE after the peer's.
        let conn = link.line.cut();
        match link.right {
            Right::Opening | Right::Open => {
                cx.act(Action::CloseRight { epoch }); // END-4, END-9
                let at = cx.now + cx.config.timing.close_right;
                link.right = Right::Closing { due: Some(cx.arm(at, Due::CloseRight(epoch))) };
            }
            Right::None | Right::Closing { .. } | Right::Unfenced => {}
        }
        if let Some(conn) = conn {
            self.conns.remove(&conn);
            out.act(Action::Close { conn });
        }
        if was_session {
            self.producer(epoch, out, |producer, cx| producer.end(cx, reason));
            self.consumer(epoch, out, |consumer, cx| consumer.end(cx, reason));
        }
        self.account(epoch, reason, was_session, out);
        self.remove_if_empty(epoch);
        self.reconsider(&peer, out);
    }

    /// What the end of a link means for the next one.
    fn account(&mut self, epoch: Epoch, reason: CloseReason, was_session: bool, out: &mut dyn Sink) {
        let (now, redial, backoff) = (self.now, self.config.timing.redial, self.config.timing.backoff);
        let Some(link) = self.links.get(&epoch) else { return };
        let (peer, dialled) = (link.peer.clone(), link.dialler == Dialler::Us);
        let impostor = !was_session && !dialled && self.up_link(&peer).is_some();
        let Some(record) = self.peers.get_mut(&peer) else { return };
        let peer = &peer;
        let waits = record.wanted.is_some();
        // Who dials us may only claim to be this peer: what becomes of that says nothing about our own dials.
        let refusal = is_final(reason) && !was_session && dialled;
        if was_session && reason.is_fault() {
            record.patience.fault(now, backoff);
        } else if refusal {
            record.patience.refusal(now, backoff, reason);
        } else if !was_session && dialled && reason != CloseReason::Duplicate {
            record.patience.refused(now, redial, Duration::ZERO);
        }
        if reason != CloseReason::Duplicate && (was_session || dialled) {
            record.last_end = Some(reason);
        }
        let wait = record.patience.until.since(now);
        // Of a dial that is tried again nobody needs to hear.
        let news = was_session || refusal || !waits;
        if impostor {
            // Somebody came under the name of a peer whose session goes on (HS-23).
            if let CloseReason::RejectedByUs(code) = reason {
                out.tell(Event::PeerRefused { peer, code });
            }
        } else if news && reason != CloseReason::Duplicate {
            let retry_after = (!wait.is_zero()).then_some(wait);
            out.tell(Event::PeerDown { peer, reason, retry_after });
        }
        if refusal {
            self.give_up(peer, reason, out);
        }
    }

    /// The peer refuses us, for now or for good (HS-18); what it says about the time is bounded (HS-19).
    pub(super) fn rejected(
        &mut self,
        epoch: Epoch,
        code: RejectCode,
        retry_after: Duration,
        out: &mut dyn Sink,
    ) {
        out.count(Count::Rejected);
        let Some(link) = self.links.get(&epoch) else { return };
        let at_least = retry_after.min(self.config.timing.backoff.1);
        if let Some(record) = self.peers.get_mut(&link.peer)
            && !super::peers::is_final(code)
        {
            record.patience.until = record.patience.until.max(self.now + at_least);
        }
        self.end(epoch, CloseReason::RejectedByPeer(code), out);
    }

    pub(super) fn dial_failed(&mut self, epoch: Epoch, out: &mut dyn Sink) {
        let Some(link) = self.link_or_count(epoch, out) else { return };
        match link.phase {
            Phase::Dialing { .. } => self.go_down(epoch, CloseReason::Unreachable, out),
            Phase::Handshaking { .. } | Phase::Up | Phase::Draining { .. } | Phase::Down => {
                out.count(Count::StaleEpoch);
            }
        }
    }

    pub(super) fn disconnected(&mut self, conn: ConnId, out: &mut dyn Sink) {
        match self.conns.get(&conn) {
            None => out.count(Count::UnknownConn),
            Some(Conn::Stranger { .. }) => self.forget_stranger(conn),
            Some(Conn::Link(epoch)) => {
                let epoch = *epoch;
                self.conns.remove(&conn);
                if let Some(link) = self.links.get_mut(&epoch) {
                    link.line.cut();
                }
                self.end(epoch, CloseReason::Lost, out);
            }
        }
    }

    /// The right is closed. Only a fence proves that nothing lands any more.
    pub(super) fn right_closed(&mut self, epoch: Epoch, fenced: bool, out: &mut dyn Sink) {
        let Some(link) = self.link_or_count(epoch, out) else { return };
        match &mut link.right {
            Right::Closing { due } => {
                let due: Option<Time> = due.take();
                if let Some(at) = due {
                    self.deadlines.disarm(at, Due::CloseRight(epoch));
                }
            }
            // It took longer than it may, but proof is proof (END-13).
            Right::Unfenced if fenced => {}
            Right::None | Right::Opening | Right::Open | Right::Unfenced => {
                return out.count(Count::StaleEpoch);
            }
        }
        if fenced || seeded(Fault::TrustUnfenced) {
            self.producer(epoch, out, |producer, cx| producer.fenced(cx));
            self.consumer(epoch, out, |consumer, cx| consumer.fenced(cx));
            if let Some(link) = self.links.get_mut(&epoch) {
                link.right = Right::None;
            }
        } else {
            self.unfenced(epoch);
        }
        self.tidy(epoch, out);
    }

    /// The right could not be closed in time: for all we know it is open (END-13).
    pub(super) fn close_right_timed_out(&mut self, epoch: Epoch, out: &mut dyn Sink) {
        if seeded(Fault::FreeOnCloseTimer) {
            return self.right_closed(epoch, true, out);
        }
        self.unfenced(epoch);
        self.tidy(epoch, out);
    }

    /// END-14: what might still be written or read stays as it is, until the engine knows better.
    fn unfenced(&mut self, epoch: Epoch) {
        if let Some(link) = self.links.get_mut(&epoch) {
            link.right = Right::Unfenced;
        }
    }

    /// Forgets a link that holds nothing any more.
    pub(super) fn tidy(&mut self, epoch: Epoch, out: &mut dyn Sink) {
        let Some(peer) = self.links.get(&epoch).map(|link| link.peer.clone()) else { return };
        self.remove_if_empty(epoch);
        self.reconsider(&peer, out);
    }

    fn remove_if_empty(&mut self, epoch: Epoch) {
        let over = self.links.get(&epoch).is_some_and(|link| {
            let closed = matches!(link.right, Right::None | Right::Unfenced);
            link.phase == Phase::Down
                && closed
                && link.client.quarantined.is_empty()
                && link.server.is_empty()
        });
        if over {
            self.links.remove(&epoch);
        }
    }
}

/// What a peer is told when we end a link for this reason.
fn goodbye(reason: CloseReason) -> Option<DisconnectReason> {
    match reason {
        CloseReason::Misbehaved(_) => Some(DisconnectReason::Protocol),
        CloseReason::DataPlane => Some(DisconnectReason::DataPlane),
        CloseReason::WriteStalled => Some(DisconnectReason::WriteStalled),
        CloseReason::Unsettled => Some(DisconnectReason::Unsettled),
        CloseReason::AbortUnacked => Some(DisconnectReason::AbortUnacked),
        CloseReason::Idle => Some(DisconnectReason::Idle),
        CloseReason::Closed => Some(DisconnectReason::Closed),
        CloseReason::Shutdown => Some(DisconnectReason::Shutdown),
        // A reject was said, the peer said goodbye itself, or there is nobody to hear it.
        CloseReason::Lost
        | CloseReason::Silent
        | CloseReason::Superseded
        | CloseReason::Goodbye(_)
        | CloseReason::RejectedByPeer(_)
        | CloseReason::RejectedByUs(_)
        | CloseReason::HandshakeTimeout
        | CloseReason::Unreachable
        | CloseReason::TooManyPeers
        | CloseReason::Duplicate => None,
    }
}

fn is_final(reason: CloseReason) -> bool {
    match reason {
        CloseReason::RejectedByPeer(code) | CloseReason::RejectedByUs(code) => super::peers::is_final(code),
        CloseReason::Lost
        | CloseReason::Silent
        | CloseReason::Superseded
        | CloseReason::Goodbye(_)
        | CloseReason::Misbehaved(_)
        | CloseReason::DataPlane
        | CloseReason::WriteStalled
        | CloseReason::Unsettled
        | CloseReason::AbortUnacked
        | CloseReason::Idle
        | CloseReason::Closed
        | CloseReason::Shutdown
        | CloseReason::HandshakeTimeout
        | CloseReason::Unreachable
        | CloseReason::TooManyPeers
        | CloseReason::Duplicate => false,
    }
}
