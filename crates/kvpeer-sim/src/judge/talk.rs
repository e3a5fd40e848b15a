//! What is said on a connection: who may say it, and what it promises.

use std::collections::{BTreeMap, BTreeSet};

use kvpeer_core::JobId;
use kvpeer_wire::{Fetch, Msg, Outcome, Supply};

use super::Promise;
use super::known::Asked;
use crate::control::EndState;
use crate::names::{ConnKey, RoundKey, Side, Who, keys_of, request_of};
use crate::node::Cell;
use crate::seen::{Log, Seen};
use crate::world::World;

type Verdict<T = ()> = Result<T, (Promise, String)>;

/// The work that one end of a connection has asked the other for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Talk {
    fetched: BTreeSet<u64>,
    pub(crate) rounds: BTreeMap<RoundKey, Round>,
    /// Acks that an abort of an unknown round must bring at once.
    pub(crate) owed: Vec<RoundKey>,
    /// By lookup id.
    pub(crate) lookups: BTreeMap<u64, Asked>,
}

/// A fetched round whose end has not arrived.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Round {
    pub(crate) job: JobId,
    pub(crate) keys: Vec<u8>,
    pub(crate) dst: Vec<u32>,
    /// The producer's job that each block was read from.
    pub(crate) sources: Vec<Option<JobId>>,
    pub(crate) stage: Stage,
    pub(crate) abort_sent: bool,
    pub(crate) supply: Supply,
    /// How much of it waited for supply when the producer last spoke of it.
    pub(crate) parked: Option<u32>,
    /// One of its WRITEs has ended in error.
    errored: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stage {
    /// Its fetch is on its way.
    Sent,
    Live,
    /// Its abort has arrived.
    Aborted,
    /// Its one end is on its way back.
    Ended,
}

fn demand(holds: bool, promise: Promise, how: &str) -> Verdict {
    if holds { Ok(()) } else { Err((promise, how.to_owned())) }
}

impl Talk {
    /// One of the lookups, whichever.
    pub(crate) fn some_lookup(&self, which: u64) -> Option<(u64, Asked)> {
        let at = usize::try_from(which).unwrap_or(0) % self.lookups.len().max(1);
        self.lookups.iter().nth(at).map(|(id, asked)| (*id, asked.clone()))
    }

    pub(crate) fn close_lookups(&mut self, request: u8) {
        let asked = self.lookups.values_mut();
        asked.filter(|asked| asked.request == request).for_each(|asked| asked.open = false);
    }

    pub(crate) fn errored(&mut self, round: RoundKey) {
        if let Some(round) = self.rounds.get_mut(&round) {
            round.errored = true;
        }
    }
}

impl Round {
    pub(crate) fn new(job: JobId, fetch: &Fetch<'_>) -> Self {
        Self {
            job,
            sources: vec![None; fetch.demand.len()],
            keys: keys_of(fetch.demand.keys()),
            dst: fetch.demand.blocks().iter().collect(),
            stage: Stage::Sent,
            abort_sent: false,
            supply: fetch.supply,
            parked: None,
            errored: false,
        }
    }

    pub(crate) fn is_of(&self, fetch: &Fetch<'_>) -> bool {
        self.keys == keys_of(fetch.demand.keys()) && fetch.demand.blocks().iter().eq(self.dst.iter().copied())
    }
}

pub(super) fn key(request: kvpeer_wire::RequestName<'_>, round: kvpeer_wire::Round) -> RoundKey {
    RoundKey { request: request_of(request).unwrap_or(u8::MAX), round: round.0 }
}

impl World {
    /// A node says something.
    pub(crate) fn judge_sent(&mut self, who: Who, conn: ConnKey, side: Side, msg: &Msg<'_>, log: &mut Log) {
        if self.is_rogue(who) {
            return self.rogue_says(conn, side, msg);
        }
        let verdict = self.may_say(conn, side, msg).and_then(|()| self.say(who, conn, side, msg, log));
        if let Err((promise, how)) = verdict {
            self.blame(who, promise, format!("{who} says {:?} on {conn}: {how}", msg.kind()));
        }
    }

    /// What a rogue's endpoint says; what it asks for counts when it arrives.
    fn rogue_says(&mut self, conn: ConnKey, side: Side, msg: &Msg<'_>) {
        self.edit_conn(conn, |conn| {
            let said = &mut conn.end_mut(side).said;
            said.connect |= matches!(msg, Msg::Connect(_));
            said.ack |= matches!(msg, Msg::ConnectAck(_));
            said.goodbye |= matches!(msg, Msg::Reject(_) | Msg::Disconnect(_));
        });
    }

    fn may_say(&self, conn: ConnKey, side: Side, msg: &Msg<'_>) -> Verdict {
        let end = self.conns.get(&conn).map(|conn| conn.end(side));
        let open = end.is_some_and(|end| end.state == EndState::Open);
        demand(open, Promise::Law, "it is closed")?;
        demand(end.is_some_and(|end| !end.said.goodbye), Promise::Law, "after its goodbye")?;
        // Two sessions that drain at the same time both say goodbye (END-4).
        let alone = end.is_some_and(|end| !end.heard.goodbye) || matches!(msg, Msg::Disconnect(_));
        demand(alone, Promise::Law, "after the peer's goodbye")
    }

    fn say(&mut self, who: Who, conn: ConnKey, side: Side, msg: &Msg<'_>, log: &mut Log) -> Verdict {
        match msg {
            Msg::Connect(_) => self.milestone(conn, side, |said| (&mut said.connect, "a second connect")),
            Msg::ConnectAck(_) => {
                self.milestone(conn, side, |said| (&mut said.ack, "a second ack"))?;
                let peer = self.conns.get(&conn).map(|conn| conn.process(side.other()).who);
                let fits = peer.is_some_and(|peer| self.setup.fit(who, peer));
                demand(fits, Promise::Law, "the peer's blocks mean something else (HS-5)")
            }
            Msg::Reject(_) | Msg::Disconnect(_) => {
                self.milestone(conn, side, |said| (&mut said.goodbye, "a second goodbye"))
            }
            Msg::Ping(_) | Msg::Pong(_) => Ok(()),
            Msg::Lookup(_) | Msg::Fetch(_) | Msg::AbortFetch(_) | Msg::Release(_) => {
                self.may_work(conn, side)?;
                self.ask_for_work(who, conn, side, msg)
            }
            Msg::LookupResp(_) | Msg::FetchProgress(_) | Msg::TransferDone(_) | Msg::AbortAck(_) => {
                self.may_work(conn, side)?;
                self.answer_work(who, conn, side, msg, log)
            }
        }
    }

    fn milestone(
        &mut self,
        conn: ConnKey,
        side: Side,
        of: fn(&mut crate::control::Milestones) -> (&mut bool, &'static str),
    ) -> Verdict {
        let Some(conn) = self.conns.get_mut(&conn) else { return Ok(()) };
        let (said, again) = of(&mut conn.edit().end_mut(side).said);
        let first = !std::mem::replace(said, true);
        demand(first, Promise::Law, again)
    }

    fn may_work(&self, conn: ConnKey, side: Side) -> Verdict {
        let up = self.conns.get(&conn).is_some_and(|conn| {
            let end = conn.end(side);
            end.said.ack && end.heard.ack
        });
        demand(up, Promise::Law, "work before both acks are through")
    }

    fn ask_for_work(&mut self, who: Who, conn: ConnKey, side: Side, msg: &Msg<'_>) -> Verdict {
        let epoch = self.node(who).right(conn, side).map(|(epoch, _)| epoch);
        let mut job = None;
        if let Msg::Fetch(fetch) = msg {
            let blocks: Vec<u32> = fetch.demand.blocks().iter().collect();
            let request = request_of(fetch.request);
            let loads = &mut self.edit(who).book.loads;
            let found = loads.iter_mut().find(|(_, load)| {
                Some(load.request) == request && load.blocks == blocks && load.epoch.is_none()
            });
            let Some((found, load)) = found else {
                return demand(false, Promise::OneResult, "no load wants that, or it was sent before");
            };
            load.epoch = epoch;
            job = Some(*found);
        }
        let Some(conn) = self.conns.get_mut(&conn) else { return Ok(()) };
        let talk = &mut conn.edit().end_mut(side).talk;
        match (msg, job) {
            (Msg::Fetch(fetch), Some(job)) => {
                let fresh = talk.fetched.insert(fetch.round.0);
                demand(fresh, Promise::RoundIsolation, "the round was fetched before")?;
                talk.rounds.insert(key(fetch.request, fetch.round), Round::new(job, fetch));
            }
            (Msg::AbortFetch(abort), _) => {
                let Some(round) = talk.rounds.get_mut(&key(abort.request, abort.round)) else {
                    return demand(false, Promise::RoundIsolation, "no such round is live");
                };
                let first = !std::mem::replace(&mut round.abort_sent, true);
                demand(first, Promise::Law, "a second abort")?;
            }
            (Msg::Lookup(lookup), _) => {
                let used = talk.fetched.contains(&lookup.round.0);
                demand(!used, Promise::RoundIsolation, "the round's fetch was sent")?;
                let fresh = talk.lookups.insert(lookup.lookup_id.0, Asked::new(lookup)).is_none();
                demand(fresh, Promise::RoundIsolation, "the lookup id was used before")?;
            }
            (
                Msg::Fetch(_)
                | Msg::Release(_)
                | Msg::Connect(_)
                | Msg::ConnectAck(_)
                | Msg::Reject(_)
                | Msg::Disconnect(_)
                | Msg::Ping(_)
                | Msg::Pong(_)
                | Msg::LookupResp(_)
                | Msg::FetchProgress(_)
                | Msg::TransferDone(_)
                | Msg::AbortAck(_),
                _,
            ) => {}
        }
        Ok(())
    }

    fn answer_work(&mut self, who: Who, conn: ConnKey, side: Side, msg: &Msg<'_>, log: &mut Log) -> Verdict {
        match msg {
            Msg::LookupResp(resp) => {
                let talk = self.talk(conn, side.other());
                let Some(asked) = talk.and_then(|talk| talk.lookups.get_mut(&resp.lookup_id.0)) else {
                    return demand(false, Promise::Law, "no such lookup");
                };
                demand(resp.offset == asked.answered, Promise::Law, "out of order, or a second time")?;
                asked.answered += resp.hits.len();
                let within =
                    usize::try_from(asked.answered).is_ok_and(|answered| answered <= asked.keys.len());
                demand(within, Promise::Law, "more answers than keys")
            }
            Msg::FetchProgress(progress) => {
                let round = key(progress.request, progress.round);
                let talk = self.talk(conn, side.other());
                let live = talk.and_then(|talk| talk.rounds.get_mut(&round));
                let Some(live) = live.filter(|round| round.stage == Stage::Live) else {
                    return demand(false, Promise::Law, "the round is not live");
                };
                live.parked = Some(progress.parked);
                let supply = live.supply;
                let alone = supply == Supply::Pinned || !self.is_bound_elsewhere(who, conn, round.request);
                demand(alone, Promise::Law, "the request is bound to another peer (PD-12)")
            }
            Msg::TransferDone(done) => {
                let id = key(done.request, done.round);
                let Some(round) = self.end_round(conn, side.other(), id) else {
                    return demand(false, Promise::Law, "the round has its end, or never was");
                };
                demand(round.stage == Stage::Live, Promise::Law, "the round is not live, or aborted")?;
                demand(!self.is_read(conn, side, id), Promise::AckMeansQuiesced, "a WRITE is not terminal")?;
                let landed: Vec<bool> = match done.outcome {
                    Outcome::Ok => vec![true; round.dst.len()],
                    Outcome::Failed { settled, landed, .. } => {
                        log.see(Seen::Settled(settled));
                        let honest = !settled || !round.errored;
                        demand(honest, Promise::AckMeansQuiesced, "settled, but a WRITE ended in error")?;
                        landed.iter().collect()
                    }
                };
                self.deliver_blocks(who, &round, &landed);
                self.judge_landed(who, conn, side, &round, &landed)
            }
            Msg::AbortAck(ack) => {
                log.see(Seen::Settled(ack.settled));
                let id = key(ack.request, ack.round);
                let errored = self.node(who).right(conn, side).is_some_and(|(_, right)| right.errored);
                let honest = !ack.settled || !errored;
                demand(
                    honest,
                    Promise::AckMeansQuiesced,
                    "settled, but a WRITE of the epoch ended in error",
                )?;
                let Some(talk) = self.talk(conn, side.other()) else { return Ok(()) };
                if let Some(at) = talk.owed.iter().position(|owed| *owed == id) {
                    talk.owed.remove(at);
                    return Ok(());
                }
                let round = self.end_round(conn, side.other(), id);
                let aborted = round.is_some_and(|round| round.stage == Stage::Aborted);
                demand(aborted, Promise::Law, "the round was not aborted, or has its end")?;
                demand(!self.is_read(conn, side, id), Promise::AckMeansQuiesced, "a WRITE is not terminal")
            }
            Msg::Connect(_)
            | Msg::ConnectAck(_)
            | Msg::Reject(_)
            | Msg::Disconnect(_)
            | Msg::Ping(_)
            | Msg::Pong(_)
            | Msg::Lookup(_)
            | Msg::Fetch(_)
            | Msg::AbortFetch(_)
            | Msg::Release(_) => Ok(()),
        }
    }

    pub(crate) fn talk(&mut self, conn: ConnKey, side: Side) -> Option<&mut Talk> {
        self.conns.get_mut(&conn).map(|conn| &mut conn.edit().end_mut(side).talk)
    }

    /// The round as it was before it got its end.
    fn end_round(&mut self, conn: ConnKey, side: Side, id: RoundKey) -> Option<Round> {
        let round = self.talk(conn, side)?.rounds.get_mut(&id)?;
        let before = round.clone();
        round.stage = Stage::Ended;
        Some(before)
    }

    /// Whether a WRITE of this producer for this round is not terminal.
    fn is_read(&self, conn: ConnKey, side: Side, round: RoundKey) -> bool {
        let mut writes = self.writes.values();
        writes.any(|write| (write.conn, write.side, write.round) == (conn, side, round) && write.reads())
    }

    /// Whether demand for this request waits on another connection: its peer is the one that the request is bound to.
    fn is_bound_elsewhere(&self, who: Who, conn: ConnKey, request: u8) -> bool {
        let process = self.node(who).process;
        self.conns.iter().filter(|(key, _)| **key != conn).any(|(_, other)| {
            Side::BOTH.into_iter().any(|side| {
                let mut rounds = other.end(side.other()).talk.rounds.iter();
                let ours = other.process(side) == process && other.end(side).state == EndState::Open;
                ours && rounds.any(|(key, round)| {
                    let waits = round.stage == Stage::Live && round.parked.is_some_and(|parked| parked > 0);
                    key.request == request && round.supply == Supply::Await && waits
                })
            })
        })
    }

    /// The producer has finished a request: demand that nothing was stored for is told so at once, unless its round
    /// has WRITEs out (PD-9).
    pub(crate) fn judge_finished(&mut self, who: Who, request: u8) {
        let process = self.node(who).process;
        let left = self.conns.iter().find_map(|(key, conn)| {
            Side::BOTH.into_iter().find_map(|side| {
                let ours = conn.process(side) == process && conn.is_up(side);
                let mut rounds = conn.end(side.other()).talk.rounds.iter().filter(|_| ours);
                let waits = rounds.find(|(id, round)| {
                    let unmet = round.stage == Stage::Live && round.parked.is_some_and(|parked| parked > 0);
                    id.request == request && unmet && !self.is_read(*key, side, **id)
                });
                waits.map(|(id, _)| (*key, id.round))
            })
        });
        if let Some((conn, round)) = left {
            let how =
                format!("{who} finishes request {request}, but round {round} on {conn} goes on waiting");
            self.blame(who, Promise::Bounded, how);
        }
    }

    fn deliver_blocks(&mut self, who: Who, round: &Round, landed: &[bool]) {
        let stores = &mut self.edit(who).book.stores;
        for job in round.sources.iter().zip(landed).filter(|(_, landed)| **landed).filter_map(|(job, _)| *job)
        {
            if let Some(store) = stores.get_mut(&job) {
                store.delivered += 1;
            }
        }
    }

    /// Blocks that are said to have landed are in the consumer's memory.
    fn judge_landed(&self, who: Who, conn: ConnKey, side: Side, round: &Round, landed: &[bool]) -> Verdict {
        let target = self.node(who).right(conn, side).and_then(|(_, right)| right.target);
        let target = target.filter(|target| !self.is_rogue(target.right.owner.who));
        let Some(target) = target.filter(|target| self.node(target.right.owner.who).lets_land(target.right))
        else {
            return Ok(());
        };
        let cells = &self.node(target.right.owner.who).cells;
        let there = landed
            .iter()
            .zip(round.dst.iter().zip(&round.keys))
            .all(|(landed, (block, key))| !landed || cells.get(*block as usize) == Some(&Cell::Of(*key)));
        demand(there, Promise::Visible, "a block that landed is not there")
    }
}
