//! What an engine is told: once, and true.

use kvpeer_core::{BlockIdx, CloseReason, Destination, JobId, LoadFailure, StoreFailure, StoreOutcome};

use super::Promise;
use crate::effects::{LoadEnd, News};
use crate::names::Who;
use crate::node::{Cell, Load, LoadState, Purpose, Store};
use crate::seen::{Log, Seen};
use crate::world::World;

impl World {
    pub(crate) fn judge_news(&mut self, who: Who, news: &News, log: &mut Log) {
        match news {
            News::LoadFinished { job, request, end, destination } => {
                self.judge_load(who, *job, *request, end, *destination, log);
            }
            News::Released(job) => {
                log.see(Seen::Released);
                let load = self.edit(who).book.loads.remove(job);
                match load.filter(|load| load.state == LoadState::Quarantined) {
                    Some(load) => self.judge_reuse(who, *job, &load.blocks),
                    None => {
                        let how = format!("{who} releases {}, which is not quarantined", job.0);
                        self.blame(who, Promise::OneResult, how);
                    }
                }
            }
            News::StoreFinished { job, outcome } => {
                log.see(Seen::Stored(*outcome));
                match self.edit(who).book.stores.remove(job) {
                    Some(store) => {
                        self.judge_store(who, *job, &store, *outcome);
                        if let StoreOutcome::Failed(StoreFailure::Session(reason)) = outcome {
                            self.judge_lost_work(who, self.reader(&store), *reason);
                        }
                    }
                    None => {
                        let how = format!("{who} tells a result of store {}, which has none to come", job.0);
                        self.blame(who, Promise::OneResult, how);
                    }
                }
            }
            News::PeerDown { peer, reason } => {
                log.see(Seen::Ended(*reason));
                // Work of the peer's that crosses the goodbye of an idle session is lost with it.
                self.disturbed |= *reason == CloseReason::Idle;
                self.judge_session_end(who, *peer, *reason);
            }
            News::RequestFailed { request, reason } => {
                if request.is_none_or(|request| !self.edit(who).book.failed.insert(request)) {
                    self.blame(who, Promise::Law, format!("{who} tells twice that {request:?} failed"));
                }
                let source =
                    request.and_then(|request| self.node(who).book.known.sources.get(&request).copied());
                self.judge_lost_work(who, source, *reason);
            }
            News::LookupAnswered | News::FetchArrived | News::PeerUp(_) | News::PeerRefused => {}
        }
    }

    /// Who may have read a store's blocks, as far as that matters.
    fn reader(&self, store: &Store) -> Option<Who> {
        match store.purpose {
            Purpose::Request(request) => self.setup.rogue.filter(|_| self.tainted.contains(&request)),
            Purpose::Lookup(peer) => peer,
        }
    }

    /// A store's result counts what the consumer was told that it has.
    fn judge_store(&mut self, who: Who, job: JobId, store: &Store, outcome: StoreOutcome) {
        let told = match outcome {
            // Of a pin only those hits count that fit into the producer's cap (LKP-10).
            StoreOutcome::Delivered if store.purpose.is_lookup() => store.delivered.max(1),
            StoreOutcome::Delivered => u32::try_from(store.blocks.len()).unwrap_or(u32::MAX),
            StoreOutcome::Partly { delivered } => delivered,
            StoreOutcome::Unclaimed | StoreOutcome::Failed(_) => 0,
        };
        let tainted = self.reader(store).is_some_and(|reader| self.is_rogue(reader));
        if told != store.delivered && !store.shared && !tainted {
            let how = format!("{who}: store {} ends {outcome:?}, {} blocks arrived", job.0, store.delivered);
            self.blame(who, Promise::Law, how);
        }
    }

    fn judge_load(
        &mut self,
        who: Who,
        job: JobId,
        request: Option<u8>,
        end: &LoadEnd,
        destination: Destination,
        log: &mut Log,
    ) {
        let load = self.edit(who).book.loads.remove(&job);
        let Some(load) = load.filter(|load| load.state == LoadState::Asked && Some(load.request) == request)
        else {
            let how = format!("{who} tells a result of load {}, which has none to come", job.0);
            return self.blame(who, Promise::OneResult, how);
        };
        match end {
            LoadEnd::Loaded => {
                log.see(Seen::Loaded);
                self.judge_visible(who, job, &load, &vec![true; load.blocks.len()]);
            }
            LoadEnd::Failed { why, landed } => {
                log.see(Seen::LoadFailed(*why, destination));
                self.judge_failure(who, job, &load, *why);
                if destination == Destination::Reusable {
                    self.judge_visible(who, job, &load, landed);
                }
            }
        }
        match destination {
            Destination::Reusable => self.judge_reuse(who, job, &load.blocks),
            Destination::Quarantined => {
                let load = Load { state: LoadState::Quarantined, ..load };
                self.edit(who).book.loads.insert(job, load);
            }
        }
    }

    /// I4: what is said to be there is there.
    fn judge_visible(&mut self, who: Who, job: JobId, load: &Load, landed: &[bool]) {
        if load.source.is_some_and(|source| self.is_rogue(source)) {
            return;
        }
        let cells = &self.node(who).cells;
        let missing =
            load.blocks.iter().zip(&load.keys).zip(landed).find(|((block, key), landed)| {
                **landed && cells.get(**block as usize) != Some(&Cell::Of(**key))
            });
        if let Some(((block, key), _)) = missing {
            let how = format!("{who}: block {block} of load {} does not hold key {key}", job.0);
            self.blame(who, Promise::Visible, how);
        }
    }

    /// I1: from now on the blocks may be used for anything.
    fn judge_reuse(&mut self, who: Who, job: JobId, blocks: &[BlockIdx]) {
        let node = self.node(who);
        let late = self.writes.iter().find(|(key, write)| {
            let ours = !self.is_rogue(key.writer.who)
                && write.target.owner == node.process
                && node.lets_land(write.target);
            ours && write.dst.iter().any(|block| blocks.contains(block))
        });
        if let Some((key, write)) = late {
            let how =
                format!("{who} frees the blocks of load {}, but {key} ({:?}) may land", job.0, write.state);
            self.blame(who, Promise::NoLateWrite, how);
        }
        let node = self.edit(who);
        for block in blocks {
            if let Some(cell) = node.cells.get_mut(*block as usize) {
                *cell = Cell::Blank;
            }
        }
    }

    fn judge_failure(&mut self, who: Who, job: JobId, load: &Load, why: LoadFailure) {
        match why {
            LoadFailure::Aborted if !load.unwanted => {
                self.blame(who, Promise::Law, format!("{who}: nobody has aborted load {}", job.0));
            }
            LoadFailure::Session(reason) => self.judge_lost_work(who, load.source, reason),
            LoadFailure::Aborted
            | LoadFailure::Producer(_)
            | LoadFailure::Timeout
            | LoadFailure::Overloaded => {}
        }
    }

    /// Work is lost with a session: it was not idle then.
    fn judge_lost_work(&mut self, who: Who, peer: Option<Who>, reason: CloseReason) {
        if reason == CloseReason::Idle {
            self.blame(who, Promise::BlastRadius, format!("{who} gives up a session as idle that has work"));
        }
        self.judge_session_end(who, peer, reason);
    }

    /// I9: a session ends only when something has happened that may cost one.
    fn judge_session_end(&mut self, who: Who, peer: Option<Who>, reason: CloseReason) {
        let rogue = peer.is_some_and(|peer| self.is_rogue(peer) || self.deceived.contains(&(who, peer)));
        match reason {
            _ if rogue => {}
            CloseReason::Misbehaved(_) if self.may_find(who, peer) => {}
            CloseReason::Misbehaved(how) => {
                self.blame(who, Promise::Law, format!("among honest peers, {who} finds: {how}"));
            }
            CloseReason::Lost
            | CloseReason::Silent
            | CloseReason::Superseded
            | CloseReason::Goodbye(_)
            | CloseReason::RejectedByPeer(_)
            | CloseReason::RejectedByUs(_)
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
            | CloseReason::Duplicate => {
                if !self.disturbed {
                    let how = format!("{who} loses a session ({reason:?}), though nothing has disturbed it");
                    self.blame(who, Promise::BlastRadius, how);
                }
            }
        }
    }
}
