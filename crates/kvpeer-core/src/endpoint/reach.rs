//! Getting work to a peer: at once on its session, else held until a link is up or cannot be had.

use kvpeer_wire::{Msg, Release};

use super::link::{Dialler, Link, Phase};
use super::peers::{Peer, Work};
use super::{Endpoint, Life};
use crate::cx::{Cx, Line};
use crate::deadlines::Due;
use crate::faults::{Fault, seeded};
use crate::{Action, CloseReason, Count, Epoch, Event, LoadFailure, PeerId, Sink};

impl Endpoint {
    /// Sends work to a peer, or holds it until there is a session.
    pub(super) fn dispatch(&mut self, peer: &PeerId, address: &str, work: Work, out: &mut dyn Sink) {
        if let Some(epoch) = self.up_link(peer) {
            return self.perform(epoch, work, out);
        }
        if self.life != Life::Running {
            return self.fail_work(work, LoadFailure::Session(CloseReason::Shutdown), out);
        }
        let draining = self.draining(peer);
        let bytes = self.held_bytes(&work);
        let limits = &self.config.limits;
        let record = self.peers.entry(peer.clone()).or_default();
        record.address = Some(address.into());
        if let Some(reason) = draining.or_else(|| record.patience.refuses(self.now)) {
            return self.fail_work(work, LoadFailure::Session(reason), out); // END-1, HS-18
        }
        // HS-16: of what waits the newest fails.
        let full = record.held.len() >= limits.held || record.held_bytes + bytes > limits.held_bytes;
        if full && !seeded(Fault::UnboundedHeld) {
            out.count(Count::HeldOverflow);
            return self.fail_work(work, LoadFailure::Overloaded, out);
        }
        record.hold(work, bytes); // HS-15
        self.want(peer, out);
    }

    fn held_bytes(&self, work: &Work) -> usize {
        match work {
            Work::Lookup { fresh, .. } => fresh.size(),
            Work::Load(job) => self.client.held_bytes(*job),
            Work::Release(_) => 0,
        }
    }

    /// From now on a link to this peer is wanted, for as long as a handshake may take (HS-21).
    pub(super) fn want(&mut self, peer: &PeerId, out: &mut dyn Sink) {
        let Some(record) = self.peers.get_mut(peer) else { return };
        if record.wanted.is_none() {
            let at = self.now + self.config.timing.handshake;
            record.wanted = Some(self.deadlines.arm(at, Due::Wanted(peer.clone())));
        }
        self.reach(peer, out);
    }

    /// Dials a peer that is wanted and has no link, as soon as its back-off allows (HS-19, HS-20, HS-22).
    pub(super) fn reach(&mut self, peer: &PeerId, out: &mut dyn Sink) {
        let has_link = self.has_live_link(peer);
        let full = self.live_peers() >= self.config.limits.peers;
        let Some(record) = self.peers.get_mut(peer) else { return };
        let Some(wanted) = record.wanted.filter(|_| !has_link) else { return };
        if record.patience.until > self.now {
            let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
            let until = record.patience.until;
            return cx.rearm(&mut record.due, until, Due::Redial(peer.clone()));
        }
        if full {
            self.give_up(peer, CloseReason::TooManyPeers, out);
            return self.retire(peer, out);
        }
        // A peer that only ever dialled us has no address; its own dial may still come.
        let Some(address) = record.address.clone() else { return };
        let Some(epoch) = self.mint_epoch() else { return };
        let due = Some(self.deadlines.arm(wanted, Due::Handshake(epoch)));
        let line = Line::new(None, self.now);
        self.links.insert(epoch, Link::new(peer.clone(), Dialler::Us, Phase::Dialing { due }, line));
        out.act(Action::Dial { epoch, peer, address: &address });
    }

    /// No link could be had: held work fails, nothing is wanted any more.
    pub(super) fn give_up(&mut self, peer: &PeerId, reason: CloseReason, out: &mut dyn Sink) {
        let Some(record) = self.peers.get_mut(peer) else { return };
        if let Some(at) = record.wanted.take() {
            self.deadlines.disarm(at, Due::Wanted(peer.clone()));
        }
        let held = core::mem::take(&mut record.held);
        record.held_bytes = 0;
        record.last_end = Some(reason);
        held.into_iter().for_each(|work| self.fail_work(work, LoadFailure::Session(reason), out));
    }

    fn fail_work(&mut self, work: Work, why: LoadFailure, out: &mut dyn Sink) {
        let reason = match why {
            LoadFailure::Session(reason) => Some(reason),
            LoadFailure::Producer(_)
            | LoadFailure::Aborted
            | LoadFailure::Timeout
            | LoadFailure::Overloaded => None,
        };
        let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        let request = match work {
            Work::Lookup { request, fresh } => {
                self.client.give_up(&mut cx, &request, &fresh.places);
                Some(request)
            }
            Work::Load(job) => {
                let request = self.client.loads.get(&job).map(|load| load.request.clone());
                self.client.fail_held(&mut cx, job, why);
                request
            }
            Work::Release(_) => None,
        };
        if let (Some(request), Some(reason)) = (request, reason) {
            self.client.fail_request(&mut cx, &request, reason);
        }
    }

    /// The session is up: what was held goes out, in order (HS-15), once: nothing was sent before (DUP-7).
    pub(super) fn send_held(&mut self, peer: &PeerId, epoch: Epoch, out: &mut dyn Sink) {
        let Some(record) = self.peers.get_mut(peer) else { return };
        record.patience.succeeded();
        if let Some(at) = record.wanted.take() {
            self.deadlines.disarm(at, Due::Wanted(peer.clone()));
        }
        if let Some(at) = record.due.take() {
            self.deadlines.disarm(at, Due::Redial(peer.clone()));
        }
        let held = core::mem::take(&mut record.held);
        record.held_bytes = 0;
        held.into_iter().for_each(|work| self.perform(epoch, work, out));
    }

    fn perform(&mut self, epoch: Epoch, work: Work, out: &mut dyn Sink) {
        self.consumer(epoch, out, |consumer, cx| match work {
            Work::Lookup { request, fresh } => consumer.ask(cx, &request, fresh),
            Work::Load(job) => consumer.fetch(cx, job),
            Work::Release(request) => {
                consumer.line.send(cx, Msg::Release(Release { request: request.as_name() }));
            }
        });
    }

    /// After the end of a link: dial again if work waits, else the peer may be forgotten.
    pub(super) fn reconsider(&mut self, peer: &PeerId, out: &mut dyn Sink) {
        if self.has_live_link(peer) {
            return;
        }
        self.reach(peer, out);
        self.retire(peer, out);
    }

    /// Keeps the record of a peer that has no link and no work only for a while.
    fn retire(&mut self, peer: &PeerId, out: &mut dyn Sink) {
        let known = self.links.values().any(|link| link.peer == *peer);
        let crowded = self.peers.len() > self.config.limits.peers.saturating_mul(4);
        let Some(record) = self.peers.get_mut(peer) else { return };
        if record.wanted.is_some() || known {
            return;
        }
        let worth = record.last_end.is_some() && self.life == Life::Running && !crowded;
        let until = record.patience.until.max(self.now + self.config.timing.remembered);
        let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        if worth {
            cx.rearm(&mut record.due, until, Due::Redial(peer.clone()));
        } else {
            cx.disarm(&mut record.due, Due::Redial(peer.clone()));
            self.peers.remove(peer);
        }
    }

    /// The moment for the next dial, or for forgetting the peer.
    pub(super) fn redial(&mut self, peer: &PeerId, out: &mut dyn Sink) {
        let Some(record) = self.peers.get_mut(peer) else { return };
        record.due = None;
        if record.wanted.is_some() {
            return self.reach(peer, out);
        }
        if !self.links.values().any(|link| link.peer == *peer) {
            self.peers.remove(peer);
        }
    }

    /// The time in which a link was wanted is over.
    pub(super) fn unreachable(&mut self, peer: &PeerId, out: &mut dyn Sink) {
        let Some(record) = self.peers.get_mut(peer) else { return };
        record.wanted = None;
        let last_end = record.last_end;
        let waiting =
            self.links.iter().filter(|(_, link)| link.peer == *peer && link.is_hopeful() && !link.is_up());
        let waiting: alloc::vec::Vec<(Epoch, CloseReason)> =
            waiting.map(|(epoch, link)| (*epoch, link.too_late())).collect();
        let reason = match waiting.last() {
            Some((_, reason)) => *reason,
            None => last_end.unwrap_or(CloseReason::Unreachable),
        };
        self.give_up(peer, reason, out);
        if waiting.is_empty() {
            out.tell(Event::PeerDown { peer, reason, retry_after: None });
        }
        waiting.into_iter().for_each(|(epoch, reason)| self.end(epoch, reason, out));
        self.reconsider(peer, out);
    }
}

impl Peer {
    /// Whether anything of it must be kept.
    pub(super) fn is_at_rest(&self) -> bool {
        self.held.is_empty() && self.wanted.is_none()
    }
}
