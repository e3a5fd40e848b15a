//! What comes in on a connection, and from the planes, goes to the role that it concerns.

use core::time::Duration;

use kvpeer_wire::{Disconnect, DisconnectReason, Msg, Text};

use super::link::Phase;
use super::{Conn, Endpoint};
use crate::cx::Cx;
use crate::faults::{Fault, seeded};
use crate::server::{self, Answer, late};
use crate::{Action, CloseReason, ConnId, Count, Epoch, Misbehaved, ProbeId, Sink, TransferEnd, XferId};

/// What a message means for the link it came on.
enum Then {
    GoOn,
    /// A round may have been the last that a draining link waited for.
    LookAtDrain,
    End(CloseReason),
}

impl Endpoint {
    pub(super) fn message(&mut self, conn: ConnId, msg: Msg<'_>, out: &mut dyn Sink) {
        match self.conns.get(&conn) {
            None => out.count(Count::UnknownConn),
            Some(Conn::Stranger { .. }) => self.stranger_says(conn, &msg, out),
            Some(Conn::Link(epoch)) => {
                let epoch = *epoch;
                self.link_says(epoch, &msg, out);
            }
        }
    }

    /// MSG-2: who has not said `connect` has little else to say.
    fn stranger_says(&mut self, conn: ConnId, msg: &Msg<'_>, out: &mut dyn Sink) {
        match msg {
            Msg::Connect(connect) => self.introduced(conn, connect, out),
            Msg::Ping(nonce) => out.act(Action::Send { conn, msg: Msg::Pong(*nonce) }),
            Msg::Pong(_) => {}
            Msg::Reject(_) | Msg::Disconnect(_) => self.drop_stranger(conn, out),
            Msg::ConnectAck(_)
            | Msg::Lookup(_)
            | Msg::LookupResp(_)
            | Msg::Fetch(_)
            | Msg::FetchProgress(_)
            | Msg::TransferDone(_)
            | Msg::AbortFetch(_)
            | Msg::AbortAck(_)
            // MSG-2
            | Msg::Release(_) => self.expel_stranger(conn, Misbehaved::NotConnected, "", out),
        }
    }

    /// A stranger broke the protocol: it is told so, nothing else is at stake.
    fn expel_stranger(&mut self, conn: ConnId, how: Misbehaved, detail: &str, out: &mut dyn Sink) {
        out.count(Count::Misbehaved);
        let detail = match detail {
            "" => alloc::string::ToString::to_string(&how),
            detail => alloc::string::String::from(detail),
        };
        let goodbye = Disconnect { reason: DisconnectReason::Protocol, detail: Text::truncated(&detail) };
        out.act(Action::Send { conn, msg: Msg::Disconnect(goodbye) });
        self.drop_stranger(conn, out);
    }

    fn link_says(&mut self, epoch: Epoch, msg: &Msg<'_>, out: &mut dyn Sink) {
        let Some(link) = self.links.get_mut(&epoch) else { return };
        link.line.received(self.now, msg);
        match &link.phase {
            // END-3
            Phase::Draining { reason, .. } if reason.stops_reading() => out.count(Count::AfterEnd),
            Phase::Dialing { .. } | Phase::Down => out.count(Count::AfterEnd),
            Phase::Handshaking { .. } => self.in_handshake(epoch, msg, out),
            Phase::Up | Phase::Draining { .. } => self.in_session(epoch, msg, out),
        }
    }

    fn in_handshake(&mut self, epoch: Epoch, msg: &Msg<'_>, out: &mut dyn Sink) {
        match msg {
            Msg::Connect(connect) => self.answered(epoch, connect, out),
            Msg::ConnectAck(ack) => self.acknowledged(epoch, *ack, out),
            Msg::Reject(reject) => {
                let wait = Duration::from_millis(u64::from(reject.retry_after_ms));
                self.rejected(epoch, reject.code, wait, out);
            }
            Msg::Disconnect(goodbye) => self.end(epoch, CloseReason::Goodbye(goodbye.reason), out),
            Msg::Ping(_) | Msg::Pong(_) => self.pulse(epoch, msg, out),
            Msg::Lookup(_)
            | Msg::LookupResp(_)
            | Msg::Fetch(_)
            | Msg::FetchProgress(_)
            | Msg::TransferDone(_)
            | Msg::AbortFetch(_)
            | Msg::AbortAck(_)
            | Msg::Release(_) => self.end(epoch, CloseReason::Misbehaved(Misbehaved::EarlyWork), out), // MSG-5
        }
    }

    fn in_session(&mut self, epoch: Epoch, msg: &Msg<'_>, out: &mut dyn Sink) {
        let then = match msg {
            // MSG-3, MSG-4, MSG-6: these belong to the handshake.
            Msg::Connect(_) => Some(Then::End(CloseReason::Misbehaved(Misbehaved::SecondConnect))),
            Msg::ConnectAck(_) => Some(Then::End(CloseReason::Misbehaved(Misbehaved::SecondAck))),
            Msg::Reject(_) => Some(Then::End(CloseReason::Misbehaved(Misbehaved::LateReject))),
            Msg::Disconnect(goodbye) => Some(Then::End(CloseReason::Goodbye(goodbye.reason))),
            Msg::Ping(_) | Msg::Pong(_) => {
                self.pulse(epoch, msg, out);
                None
            }
            Msg::Lookup(msg) => self.serve(epoch, out, |producer, cx| producer.lookup(cx, msg)),
            Msg::Fetch(msg) if seeded(Fault::DuplicateEndsSession) && self.is_live(epoch, msg) => {
                Some(Then::End(CloseReason::Misbehaved(Misbehaved::Malformed)))
            }
            Msg::Fetch(msg) => self.serve(epoch, out, |producer, cx| producer.fetch(cx, msg)),
            Msg::AbortFetch(msg) => self.serve(epoch, out, |producer, cx| producer.abort_fetch(cx, msg)),
            Msg::Release(msg) => self.serve(epoch, out, |producer, cx| producer.release(cx, msg)),
            Msg::LookupResp(msg) => self.consumer(epoch, out, |consumer, cx| {
                consumer.lookup_resp(cx, msg);
                Then::GoOn
            }),
            Msg::FetchProgress(msg) => self.consumer(epoch, out, |consumer, cx| {
                consumer.progress(cx, msg);
                Then::GoOn
            }),
            Msg::TransferDone(msg) => self.consumer(epoch, out, |consumer, cx| {
                consumer.transfer_done(cx, msg).map_or(Then::LookAtDrain, Then::End)
            }),
            Msg::AbortAck(msg) => self.consumer(epoch, out, |consumer, cx| {
                consumer.abort_ack(cx, msg).map_or(Then::LookAtDrain, Then::End)
            }),
        };
        match then {
            None | Some(Then::GoOn) => {}
            Some(Then::LookAtDrain) => self.finish_drain(epoch, out),
            Some(Then::End(reason)) => {
                self.end(epoch, reason, out);
                self.finish_drain(epoch, out);
            }
        }
    }

    #[cfg_attr(not(feature = "seeded-faults"), allow(dead_code))]
    fn is_live(&self, epoch: Epoch, msg: &kvpeer_wire::Fetch<'_>) -> bool {
        let id = server::RoundId { request: msg.request.into(), round: msg.round };
        let rounds = self.links.get(&epoch).map(|link| &link.server.rounds);
        rounds.and_then(|rounds| rounds.get(&id)).is_some_and(|it| matches!(it, server::Serving::Fetching(_)))
    }

    fn serve(
        &mut self,
        epoch: Epoch,
        out: &mut dyn Sink,
        run: impl FnOnce(&mut server::Producer<'_>, &mut Cx<'_>),
    ) -> Option<Then> {
        self.producer(epoch, out, run).map(|()| Then::LookAtDrain)
    }

    fn pulse(&mut self, epoch: Epoch, msg: &Msg<'_>, out: &mut dyn Sink) {
        if let (Msg::Ping(nonce), Some(link)) = (msg, self.links.get_mut(&epoch)) {
            let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
            link.line.send(&mut cx, Msg::Pong(*nonce)); // MSG-14
        }
    }

    pub(super) fn heard(&mut self, conn: ConnId, out: &mut dyn Sink) {
        match self.conns.get(&conn) {
            None => out.count(Count::UnknownConn),
            // A stranger has its deadline, however much it says.
            Some(Conn::Stranger { .. }) => {}
            Some(Conn::Link(epoch)) => {
                if let Some(link) = self.links.get_mut(epoch) {
                    link.line.heard(self.now); // LIV-3
                }
            }
        }
    }

    /// MSG-7: bytes that are no message cost the connection that they came on.
    pub(super) fn malformed(&mut self, conn: ConnId, detail: &str, out: &mut dyn Sink) {
        match self.conns.get(&conn) {
            None => out.count(Count::UnknownConn),
            Some(Conn::Stranger { .. }) => self.expel_stranger(conn, Misbehaved::Malformed, detail, out),
            Some(Conn::Link(epoch)) => {
                let epoch = *epoch;
                self.end(epoch, CloseReason::Misbehaved(Misbehaved::Malformed), out);
            }
        }
    }

    pub(super) fn peer_fault(&mut self, epoch: Epoch, out: &mut dyn Sink) {
        if self.link_or_count(epoch, out).is_some() {
            self.end(epoch, CloseReason::DataPlane, out);
        }
    }

    pub(super) fn transfer(&mut self, xfer: XferId, end: TransferEnd, out: &mut dyn Sink) {
        let verdict = self.producer(xfer.epoch, out, |producer, cx| producer.transfer(cx, xfer.seq, end));
        match verdict {
            None => return out.count(Count::StaleTransfer),
            Some(None) => {}
            Some(Some(reason)) => self.end(xfer.epoch, reason, out),
        }
        self.finish_drain(xfer.epoch, out);
        // It may have been the last thing that a link without a fence was kept for.
        if self.links.get(&xfer.epoch).is_some_and(|link| !link.is_live()) {
            self.tidy(xfer.epoch, out);
        }
    }

    pub(super) fn probed(&mut self, probe: ProbeId, answer: Answer<'_>, out: &mut dyn Sink) {
        // A live job's id cannot be a pin's: it would get two results (LKP-11). Another pin gets its one, even if its link
        // is gone (ID-7).
        let in_use = answer.pin.is_some_and(|job| self.is_job(job));
        let answer = if in_use { Answer { pin: None, ..answer } } else { answer };
        let asked =
            self.links.get(&probe.epoch).is_some_and(|link| link.server.lookups.contains_key(&probe.seq));
        if in_use && (answer.hits.is_empty() || !asked) {
            // Hits without a pin on a live lookup count as well, where they become misses.
            out.count(Count::BadAnswer);
        }
        let known = self.producer(probe.epoch, out, |producer, cx| producer.probed(cx, probe.seq, answer));
        if known.is_none() {
            late(&mut self.cx(out), answer.pin);
        }
    }
}
