//! Deadlines that have passed.

use super::link::Phase;
use super::{Conn, Endpoint};
use crate::client::Whereabouts;
use crate::cx::Cx;
use crate::deadlines::Due;
use crate::faults::{Fault, seeded};
use crate::server::{Origin, RoundId};
use crate::{CloseReason, ConnId, Epoch, JobId, LoadFailure, Sink, StoreFailure, Time};

impl Endpoint {
    /// Handles what was due by `by`, a bounded number at a time; the rest stays due (TMR-4).
    pub(super) fn tick(&mut self, by: Time, out: &mut dyn Sink) {
        for _ in 0..self.config.limits.timers_per_tick {
            let Some(due) = self.deadlines.pop(by) else { return };
            self.fire(due, by, out);
        }
    }

    fn fire(&mut self, due: Due, by: Time, out: &mut dyn Sink) {
        match due {
            Due::Stranger(conn) => self.stranger_timed_out(conn, out),
            Due::Handshake(epoch) => self.handshake_timed_out(epoch, out),
            Due::Wanted(peer) => self.unreachable(&peer, out),
            Due::Redial(peer) => self.redial(&peer, out),
            Due::Load(job) => self.load_timed_out(job, out),
            Due::AbortAck(job) => self.abort_unacked(job, out),
            Due::Lookup(request) => {
                if let Some(epoch) = self.client.requests.get(&request).and_then(|found| found.told) {
                    self.consumer(epoch, out, |consumer, cx| consumer.lookups_timed_out(cx, &request));
                }
            }
            Due::Probe(probe) => {
                self.producer(probe.epoch, out, |producer, cx| producer.probe_timed_out(cx, probe));
            }
            Due::ProbeRetry(probe) => {
                self.producer(probe.epoch, out, |producer, cx| producer.probe_again(cx, probe));
            }
            Due::Parked(epoch, request, round) => {
                let id = RoundId { request, round };
                self.producer(epoch, out, |producer, cx| producer.parked_timed_out(cx, &id));
                self.finish_drain(epoch, out);
            }
            Due::Write(xfer) => {
                // SUP-10: a stall ends the session, not the WRITE.
                self.producer(xfer.epoch, out, |producer, _| producer.write_timed_out(xfer.seq));
                self.end(xfer.epoch, CloseReason::WriteStalled, out);
            }
            Due::CancelRetry(epoch, request, round) => {
                let id = RoundId { request, round };
                self.producer(epoch, out, |producer, cx| producer.cancel(cx, &id));
            }
            Due::Store(job) => self.store_timed_out(job, out),
            Due::Unbound(request) => {
                let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
                self.server.reap(&mut cx, &request);
            }
            Due::Pin(job) => self.pin_timed_out(job, out),
            Due::Remembered(request) => self.server.memory_timed_out(&request),
            Due::Drain(epoch) => self.drain_timed_out(epoch, out),
            Due::CloseRight(epoch) => self.close_right_timed_out(epoch, out),
            Due::Heartbeat(epoch) => self.heartbeat(epoch, out),
            Due::Dead(epoch) => self.dead(epoch, by, out),
            Due::Idle(epoch) => self.idle(epoch, out),
        }
    }

    fn stranger_timed_out(&mut self, conn: ConnId, out: &mut dyn Sink) {
        if let Some(Conn::Stranger { due }) = self.conns.get_mut(&conn) {
            *due = None;
            self.drop_stranger(conn, out);
        }
    }

    fn handshake_timed_out(&mut self, epoch: Epoch, out: &mut dyn Sink) {
        let Some(link) = self.links.get_mut(&epoch) else { return };
        let reason = link.too_late();
        match &mut link.phase {
            Phase::Dialing { due } | Phase::Handshaking { due, .. } => *due = None,
            Phase::Up | Phase::Draining { .. } | Phase::Down => return,
        }
        self.end(epoch, reason, out);
    }

    fn load_timed_out(&mut self, job: JobId, out: &mut dyn Sink) {
        match self.client.whereabouts(job) {
            Some(Whereabouts::Fetching(epoch)) => {
                self.consumer(epoch, out, |consumer, cx| consumer.abort(cx, job, LoadFailure::Timeout));
            }
            Some(Whereabouts::Held(_) | Whereabouts::Aborting(..) | Whereabouts::Quarantined(_)) | None => {}
        }
    }

    /// An abort is not acknowledged: its load fails, in quarantine, and the session with it (LOAD-10).
    fn abort_unacked(&mut self, job: JobId, out: &mut dyn Sink) {
        match self.client.whereabouts(job) {
            Some(Whereabouts::Aborting(epoch, round)) => {
                self.consumer(epoch, out, |consumer, cx| consumer.abort_unacked(cx, job, round));
                self.end(epoch, CloseReason::AbortUnacked, out);
                self.finish_drain(epoch, out);
            }
            Some(Whereabouts::Held(_) | Whereabouts::Fetching(_) | Whereabouts::Quarantined(_)) | None => {}
        }
    }

    fn store_timed_out(&mut self, job: JobId, out: &mut dyn Sink) {
        let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        self.server.withdraw(&mut cx, job, Some(StoreFailure::Timeout));
    }

    fn pin_timed_out(&mut self, job: JobId, out: &mut dyn Sink) {
        let Some(found) = self.server.jobs.get(&job) else { return };
        match found.origin {
            Origin::Store => {}
            Origin::Pin(epoch, round) => {
                let id = RoundId { request: found.request.clone(), round };
                self.producer(epoch, out, |producer, cx| producer.pin_timed_out(cx, job, &id));
            }
        }
    }

    /// The drain took as long as it may: what is left is fenced (END-2).
    fn drain_timed_out(&mut self, epoch: Epoch, out: &mut dyn Sink) {
        if let Some(link) = self.links.get_mut(&epoch)
            && let Phase::Draining { reason, due } = &mut link.phase
        {
            *due = None;
            let reason = *reason;
            self.go_down(epoch, reason, out);
        }
    }

    fn heartbeat(&mut self, epoch: Epoch, out: &mut dyn Sink) {
        let Some(link) = self.links.get_mut(&epoch) else { return };
        let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        let every = cx.config.timing.heartbeat;
        if cx.now.since(link.line.last_sent()) >= every && !seeded(Fault::NoHeartbeat) {
            link.line.ping(&mut cx); // LIV-1
        }
        let since = if seeded(Fault::NoHeartbeat) { cx.now } else { link.line.last_sent() };
        let at = since + every;
        link.pulse.heartbeat_due = Some(cx.arm(at, Due::Heartbeat(epoch)));
    }

    /// LIV-2: our patience follows the peer's own heartbeat, which was bounded when it was announced.
    fn dead(&mut self, epoch: Epoch, by: Time, out: &mut dyn Sink) {
        let Some(link) = self.links.get_mut(&epoch) else { return };
        link.pulse.dead_due = None;
        let theirs = link.announced.as_ref().map_or(core::time::Duration::ZERO, |it| it.heartbeat);
        let at = link.line.last_heard() + self.config.timing.dead.max(theirs * 5);
        // LIV-3, TMR-2: what came after this Tick's moment is not read yet, and is no silence.
        let at = if seeded(Fault::DeadNeverNoticed) { by + self.config.timing.dead } else { at };
        if at > by {
            link.pulse.dead_due = Some(self.deadlines.arm(at, Due::Dead(epoch)));
        } else {
            self.end(epoch, CloseReason::Silent, out);
        }
    }

    /// An idle session is ended only when slots are short (LIV-5).
    fn idle(&mut self, epoch: Epoch, out: &mut dyn Sink) {
        let short = self.live_peers() + self.config.limits.spare_peers >= self.config.limits.peers;
        let rests = self.rests(epoch);
        let Some(link) = self.links.get_mut(&epoch) else { return };
        link.pulse.idle_due = None;
        let at = link.line.last_activity() + self.config.timing.idle;
        if at <= self.now && short && rests {
            return self.end(epoch, CloseReason::Idle, out);
        }
        let again = if at <= self.now { self.now + self.config.timing.heartbeat } else { at };
        link.pulse.idle_due = Some(self.deadlines.arm(again, Due::Idle(epoch)));
    }

    /// Whether nothing at all is pending on a session, or for its peer.
    fn rests(&self, epoch: Epoch) -> bool {
        let Some(link) = self.links.get(&epoch) else { return false };
        let hits = self.client.requests.values().any(|request| request.told == Some(epoch));
        let pools = self.server.pools.values().any(|pool| pool.holder == crate::server::Holder::Bound(epoch));
        link.client.rounds.is_empty()
            && link.client.lookups.is_empty()
            && link.client.quarantined.is_empty()
            && link.server.is_empty()
            && !hits
            && !pools
            && self.peers.get(&link.peer).is_none_or(super::peers::Peer::is_at_rest)
    }
}
