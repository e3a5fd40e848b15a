//! Wishes of the engine.

use core::time::Duration;

use alloc::vec::Vec;
use kvpeer_wire::{Keys, PeerName, RequestName};

use super::peers::{Work, is_awaited};
use super::{Conn, Endpoint, Life};
use crate::client::{Accepted, RequestState, Whereabouts};
use crate::cx::Cx;
use crate::server::{Offered, Stored};
use crate::{
    BlockIdx, CloseReason, Command, ConnId, Epoch, JobId, LoadFailure, Misuse, Part, PeerId, RequestId, Role,
    Sink, StoreFailure,
};

impl Endpoint {
    pub(super) fn apply(&mut self, command: Command<'_>, out: &mut dyn Sink) -> Result<(), Misuse> {
        match command {
            Command::Open { request, part } => self.open(request, part, out),
            Command::Load { job, request, keys, blocks } => self.load(job, request, keys, blocks, out),
            Command::Store { job, request, keys, blocks, consumer } => {
                self.store(job, request, keys, blocks, consumer, out)
            }
            Command::Finish { request, role } => {
                self.finish(request, role, out);
                Ok(())
            }
            Command::Abort { job } => self.abort(job, out),
            Command::Withdraw { job } => self.withdraw(job, out),
            Command::FlushLookups => {
                self.flush_lookups(out);
                Ok(())
            }
            Command::ReleaseQuarantine { job } => self.release_quarantine(job, out),
            Command::Connect { peer, address } => self.connect(peer, address, out),
            Command::ClosePeer { peer } => self.close_peer(peer, out),
            Command::Shutdown { within } => {
                self.shutdown(within, out);
                Ok(())
            }
        }
    }

    fn running(&self) -> Result<(), Misuse> {
        match self.life {
            Life::Running => Ok(()),
            Life::ShuttingDown { .. } => Err(Misuse::ShuttingDown),
        }
    }

    /// Whether a load, a store or a pin of this id lives.
    pub(super) fn is_job(&self, job: JobId) -> bool {
        self.client.loads.contains_key(&job) || self.server.jobs.contains_key(&job)
    }

    fn new_job(&self, job: JobId) -> Result<(), Misuse> {
        self.running()?;
        // CMD-5: quarantined loads are among them.
        if self.is_job(job) { Err(Misuse::JobInUse) } else { Ok(()) }
    }

    fn open(&mut self, request: RequestName<'_>, part: Part<'_>, out: &mut dyn Sink) -> Result<(), Misuse> {
        self.running()?;
        match part {
            Part::Consume { source, address, supply } => {
                self.config.identity.check_peer(source).map_err(Misuse::Peer)?;
                let limit = self.config.limits.requests;
                self.client.open(request, PeerId::from(source), address, supply, limit) // CMD-2
            }
            Part::Produce { consumer } => {
                if let Some(consumer) = consumer {
                    self.config.identity.check_peer(consumer).map_err(Misuse::Peer)?;
                }
                let holder = self.holder_of(request);
                let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
                self.server.open(&mut cx, request, consumer.map(PeerId::from), holder)
            }
        }
    }

    /// The peer that a request's supply is bound to.
    fn holder_of(&self, request: RequestName<'_>) -> Option<PeerId> {
        let epoch = self.server.holder(request)?;
        self.links.get(&epoch).map(|link| link.peer.clone())
    }

    fn load(
        &mut self,
        job: JobId,
        request: RequestName<'_>,
        keys: Keys<'_>,
        blocks: &[BlockIdx],
        out: &mut dyn Sink,
    ) -> Result<(), Misuse> {
        self.new_job(job)?;
        let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        match self.client.load(&mut cx, job, request, keys, blocks)? {
            Accepted::Over => {}
            Accepted::Send(peer) => {
                let address = self.address_of(request);
                self.dispatch(&peer, &address, Work::Load(job), out);
            }
        }
        Ok(())
    }

    fn address_of(&self, request: RequestName<'_>) -> alloc::boxed::Box<str> {
        self.client.requests.get(request.as_str()).map(|found| found.address.clone()).unwrap_or_default()
    }

    fn store(
        &mut self,
        job: JobId,
        request: RequestName<'_>,
        keys: Keys<'_>,
        blocks: &[BlockIdx],
        consumer: Option<PeerName<'_>>,
        out: &mut dyn Sink,
    ) -> Result<(), Misuse> {
        self.new_job(job)?;
        let holder = self.holder_of(request);
        let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        let consumer = consumer.map(PeerId::from);
        let offered = Offered { job, request, keys, blocks, consumer, holder };
        match self.server.store(&mut cx, offered)? {
            Stored::Over | Stored::Parked => {}
            Stored::Bound(epoch) => {
                let id = RequestId::from(request);
                self.producer(epoch, out, |producer, cx| producer.stored(cx, &id, job, keys));
                self.finish_drain(epoch, out);
            }
        }
        Ok(())
    }

    fn finish(&mut self, request: RequestName<'_>, role: Role, out: &mut dyn Sink) {
        let (consumes, produces) = match role {
            Role::Consumer => (true, false),
            Role::Producer => (false, true),
            Role::Both => (true, true),
        };
        let consumed = consumes && self.finish_consuming(&RequestId::from(request), out);
        // A request that was only consumed here leaves no memory as a producer's (CMD-6).
        let produced = self.server.pools.contains_key(request.as_str());
        if produces && (produced || !consumed) {
            self.finish_producing(request, out);
        }
    }

    /// Loads are aborted, lookups closed, the source is told. Says whether the request was consumed here.
    fn finish_consuming(&mut self, id: &RequestId, out: &mut dyn Sink) -> bool {
        let Some(found) = self.client.requests.get(id) else { return false };
        let (source, address) = (found.source.clone(), found.address.clone());
        let (supply, told, state) = (found.supply, found.told, found.state);
        for job in found.loads.iter().copied().collect::<Vec<_>>() {
            self.stop(job, out);
        }
        if let Some(record) = self.peers.get_mut(&source) {
            record.drop_lookups(id);
        }
        if let Some(epoch) = told {
            self.consumer(epoch, out, |consumer, cx| consumer.close_round(cx, id));
        }
        self.client.fresh.remove(id);
        self.client.requests.remove(id);
        let up = self.up_link(&source);
        // Of a request whose session is gone nothing is left at the source (SUP-19).
        let awaited = is_awaited(supply) && state == RequestState::Open;
        if awaited || (told.is_some() && told == up) {
            self.dispatch(&source, &address, Work::Release(id.clone()), out);
        }
        true
    }

    fn finish_producing(&mut self, request: RequestName<'_>, out: &mut dyn Sink) {
        let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        let Some((epoch, rounds)) = self.server.finish(&mut cx, request) else { return };
        let id = RequestId::from(request);
        self.producer(epoch, out, |producer, cx| {
            rounds.into_iter().for_each(|round| producer.producer_finished(cx, &id, round));
        });
        self.finish_drain(epoch, out);
    }

    /// Stops a load (CMD-7).
    fn abort(&mut self, job: JobId, out: &mut dyn Sink) -> Result<(), Misuse> {
        match self.client.whereabouts(job) {
            Some(Whereabouts::Quarantined(_)) | None => Err(Misuse::UnknownJob),
            Some(Whereabouts::Held(_) | Whereabouts::Fetching(_) | Whereabouts::Aborting(..)) => {
                self.stop(job, out);
                Ok(())
            }
        }
    }

    /// Ends a load that is held, or asks the producer to stop one that is sent, once (LOAD-6).
    fn stop(&mut self, job: JobId, out: &mut dyn Sink) {
        match self.client.whereabouts(job) {
            Some(Whereabouts::Held(request)) => {
                let bytes = self.client.held_bytes(job);
                let source = self.client.requests.get(&request).map(|found| found.source.clone());
                if let Some(record) = source.and_then(|source| self.peers.get_mut(&source)) {
                    record.drop_load(job, bytes);
                }
                let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
                self.client.fail_held(&mut cx, job, LoadFailure::Aborted);
            }
            Some(Whereabouts::Fetching(epoch)) => {
                self.consumer(epoch, out, |consumer, cx| consumer.abort(cx, job, LoadFailure::Aborted));
            }
            Some(Whereabouts::Aborting(..) | Whereabouts::Quarantined(_)) | None => {}
        }
    }

    fn withdraw(&mut self, job: JobId, out: &mut dyn Sink) -> Result<(), Misuse> {
        let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        self.server.withdraw(&mut cx, job, None).map(|_| ()).ok_or(Misuse::UnknownJob)
    }

    /// CMD-9, LKP-1: all new keys, in order, in as few messages as possible.
    fn flush_lookups(&mut self, out: &mut dyn Sink) {
        let most = self.config.limits.keys;
        for request in core::mem::take(&mut self.client.fresh) {
            let Some(found) = self.client.requests.get(&request) else { continue };
            let (source, address) = (found.source.clone(), found.address.clone());
            while let Some(fresh) = self.client.take_fresh(&request, most) {
                self.dispatch(&source, &address, Work::Lookup { request: request.clone(), fresh }, out);
            }
        }
    }

    /// CMD-11: the engine has a proof of its own.
    fn release_quarantine(&mut self, job: JobId, out: &mut dyn Sink) -> Result<(), Misuse> {
        if let Some(Whereabouts::Quarantined(epoch)) = self.client.whereabouts(job) {
            self.consumer(epoch, out, |consumer, cx| {
                consumer.session.quarantined.remove(&job);
                consumer.tables.release_destination(cx, job);
            });
            self.tidy(epoch, out);
            return Ok(());
        }
        let unfenced = self.links.iter().filter(|(_, link)| link.right == super::link::Right::Unfenced);
        let unfenced: Vec<Epoch> = unfenced.map(|(epoch, _)| *epoch).collect();
        let mut held = false;
        for epoch in unfenced {
            if self.producer(epoch, out, |producer, cx| producer.release_held(cx, job)) == Some(true) {
                held = true;
                self.tidy(epoch, out);
            }
        }
        if held { Ok(()) } else { Err(Misuse::NotQuarantined) }
    }

    /// Brings a session up before there is work for it (CMD-10).
    fn connect(&mut self, peer: PeerName<'_>, address: &str, out: &mut dyn Sink) -> Result<(), Misuse> {
        self.running()?;
        self.config.identity.check_peer(peer).map_err(Misuse::Peer)?;
        let peer = PeerId::from(peer);
        let record = self.peers.entry(peer.clone()).or_default();
        record.address = Some(address.into());
        if self.up_link(&peer).is_none() {
            self.want(&peer, out);
        }
        Ok(())
    }

    fn close_peer(&mut self, peer: PeerName<'_>, out: &mut dyn Sink) -> Result<(), Misuse> {
        let (peer, _) = self.peers.get_key_value(peer.as_str()).ok_or(Misuse::UnknownPeer)?;
        let peer = peer.clone();
        self.give_up(&peer, CloseReason::Closed, out);
        let links = self.links.iter().filter(|(_, link)| link.peer == peer && link.is_live());
        let links: Vec<Epoch> = links.map(|(epoch, _)| *epoch).collect();
        links.into_iter().for_each(|epoch| self.end(epoch, CloseReason::Closed, out));
        self.reconsider(&peer, out);
        Ok(())
    }

    /// Nothing new begins; sessions drain until the deadline; what no session holds ends at once (END-8).
    fn shutdown(&mut self, within: Duration, out: &mut dyn Sink) {
        let by = self.now + within;
        let by = match self.life {
            Life::Running => by,
            Life::ShuttingDown { by: before } => before.min(by),
        };
        self.life = Life::ShuttingDown { by };
        let strangers = self.conns.iter().filter(|(_, conn)| matches!(conn, Conn::Stranger { .. }));
        let strangers: Vec<ConnId> = strangers.map(|(conn, _)| *conn).collect();
        strangers.into_iter().for_each(|conn| self.drop_stranger(conn, out));
        for peer in self.peers.keys().cloned().collect::<Vec<_>>() {
            self.give_up(&peer, CloseReason::Shutdown, out);
        }
        for epoch in self.links.keys().copied().collect::<Vec<_>>() {
            self.hasten_drain(epoch, by, out);
            self.end(epoch, CloseReason::Shutdown, out);
        }
        let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        self.server.end_unbound(&mut cx, StoreFailure::Session(CloseReason::Shutdown));
        for peer in self.peers.keys().cloned().collect::<Vec<_>>() {
            self.reconsider(&peer, out);
        }
    }
}
