//! What reaches a node, and what must come of it at once.

use std::collections::BTreeSet;

use kvpeer_core::JobId;
use kvpeer_wire::{Connect, Fetch, Msg};

use super::Promise;
use super::known::Asked;
use super::talk::{Round, Stage, key};
use crate::control::{EndState, Item};
use crate::effects::News;
use crate::names::{ConnKey, Side, Who, keys_of, request_of};
use crate::world::{Told, World};

/// What a message is to the node that it reaches.
#[derive(Default)]
pub(crate) struct Arrival {
    /// The load that it may finish.
    finishes: Option<JobId>,
    /// It breaks the protocol (MSG-2 to MSG-6).
    misbehaves: bool,
    /// It is a fetch that must be refused (MSG-8).
    malformed: bool,
    /// Nobody reads it (END-3).
    unread: bool,
}

impl World {
    /// A message reaches an end.
    pub(crate) fn judge_arrived(&mut self, conn: ConnKey, to: Side, msg: &Msg<'_>) -> Arrival {
        let Some(found) = self.conns.get(&conn) else { return Arrival::default() };
        if found.end(to).deaf {
            return Arrival { unread: true, ..Arrival::default() };
        }
        let (who, from) = (found.process(to).who, found.process(to.other()).who);
        let misbehaves = self.misbehaves(conn, to, msg);
        let malformed = matches!(msg, Msg::Fetch(fetch) if self.is_malformed(from, fetch));
        let was_up = found.is_up(to);
        if let Some(found) = self.conns.get_mut(&conn) {
            let heard = &mut found.edit().end_mut(to).heard;
            heard.ack |= matches!(msg, Msg::ConnectAck(_));
            heard.connect |= matches!(msg, Msg::Connect(_));
            heard.goodbye |= matches!(msg, Msg::Disconnect(_)) || (matches!(msg, Msg::Reject(_)) && !was_up);
        }
        if let Msg::Connect(connect) = msg {
            self.believe(who, from, connect);
        }
        if self.is_rogue(from) {
            self.asked_by_rogue(conn, to, msg);
        }
        Arrival { finishes: self.take_in(conn, to, msg), misbehaves, malformed, unread: false }
    }

    /// What a message changes in what was asked for. Returns the load that it may finish.
    fn take_in(&mut self, conn: ConnKey, to: Side, msg: &Msg<'_>) -> Option<JobId> {
        match msg {
            Msg::Fetch(fetch) => {
                let id = key(fetch.request, fetch.round);
                let round = self.talk(conn, to.other())?.rounds.get_mut(&id)?;
                if round.stage == Stage::Sent {
                    round.stage = Stage::Live;
                }
                None
            }
            Msg::AbortFetch(abort) => {
                let id = key(abort.request, abort.round);
                let talk = self.talk(conn, to.other())?;
                match talk.rounds.get_mut(&id).map(|round| &mut round.stage) {
                    Some(stage @ Stage::Live) => *stage = Stage::Aborted,
                    // MSG-19: its one ack is still to come.
                    Some(Stage::Aborted) => {}
                    Some(Stage::Sent | Stage::Ended) | None => talk.owed.push(id),
                }
                None
            }
            Msg::TransferDone(done) => {
                let id = key(done.request, done.round);
                self.conclude(conn, to, id, |_| true)
            }
            // MSG-12: the ack of a round that was not aborted says nothing.
            Msg::AbortAck(ack) => {
                let id = key(ack.request, ack.round);
                self.conclude(conn, to, id, |round| round.abort_sent)
            }
            Msg::LookupResp(resp) => {
                self.learn(conn, to, resp);
                None
            }
            Msg::Connect(_)
            | Msg::ConnectAck(_)
            | Msg::Reject(_)
            | Msg::Disconnect(_)
            | Msg::Ping(_)
            | Msg::Pong(_)
            | Msg::Lookup(_)
            | Msg::FetchProgress(_)
            | Msg::Release(_) => None,
        }
    }

    /// The end of a round reaches its consumer. A rogue may have begun the same round again meanwhile.
    fn conclude(
        &mut self,
        conn: ConnKey,
        to: Side,
        id: crate::names::RoundKey,
        counts: impl FnOnce(&Round) -> bool,
    ) -> Option<JobId> {
        let rogue = self.conns.get(&conn).is_some_and(|conn| self.is_rogue(conn.process(to).who));
        let rounds = &mut self.talk(conn, to)?.rounds;
        let round =
            rounds.get(&id).filter(|round| if rogue { round.stage == Stage::Ended } else { counts(round) });
        let job = round?.job;
        rounds.remove(&id);
        Some(job)
    }

    /// A rogue's word counts when it arrives: it may say the same twice.
    fn asked_by_rogue(&mut self, conn: ConnKey, to: Side, msg: &Msg<'_>) {
        if let Msg::Fetch(fetch) = msg {
            self.tainted.extend(request_of(fetch.request));
        }
        let Some(talk) = self.talk(conn, to.other()) else { return };
        match msg {
            Msg::Fetch(fetch) => {
                let id = key(fetch.request, fetch.round);
                let live = talk.rounds.get(&id).is_some_and(|round| round.stage != Stage::Ended);
                if !live {
                    talk.rounds.insert(id, Round::new(JobId(0), fetch));
                }
            }
            Msg::Lookup(lookup) => {
                talk.lookups.insert(lookup.lookup_id.0, Asked::new(lookup));
            }
            Msg::Connect(_)
            | Msg::ConnectAck(_)
            | Msg::Reject(_)
            | Msg::Disconnect(_)
            | Msg::Ping(_)
            | Msg::Pong(_)
            | Msg::LookupResp(_)
            | Msg::FetchProgress(_)
            | Msg::TransferDone(_)
            | Msg::AbortFetch(_)
            | Msg::AbortAck(_)
            | Msg::Release(_) => {}
        }
    }

    /// A name is not proven: who has no session with the peer that a `connect` names may take another for it.
    fn believe(&mut self, who: Who, from: Who, connect: &Connect<'_>) {
        let Some(name) = Who::of_peer(connect.peer_id).filter(|name| *name != from) else { return };
        let process = self.node(who).process;
        let has_session = self.conns.values().any(|conn| {
            let mut sides = Side::BOTH.into_iter();
            sides.any(|side| {
                conn.process(side) == process && conn.process(side.other()).who == name && conn.is_up(side)
            })
        });
        self.suspects.insert((who, name));
        if !has_session {
            self.deceived.insert((who, name));
        }
    }

    /// Whether a message may not be said now.
    fn misbehaves(&self, conn: ConnKey, to: Side, msg: &Msg<'_>) -> bool {
        let Some(found) = self.conns.get(&conn) else { return false };
        let end = found.end(to);
        let (said, heard) = (end.said, end.heard);
        // MSG-2
        let stranger = to == Side::Acceptor && !heard.connect;
        match msg {
            Msg::Ping(_) | Msg::Pong(_) | Msg::Disconnect(_) => false,
            Msg::Connect(_) => heard.connect,
            Msg::ConnectAck(ack) => {
                let ours = u64::from(found.process(to).life);
                stranger || !said.connect || heard.ack || ack.incarnation != ours
            }
            Msg::Reject(_) => said.ack && heard.ack,
            Msg::Lookup(_)
            | Msg::LookupResp(_)
            | Msg::Fetch(_)
            | Msg::FetchProgress(_)
            | Msg::TransferDone(_)
            | Msg::AbortFetch(_)
            | Msg::AbortAck(_)
            | Msg::Release(_) => stranger || !(said.ack && heard.ack),
        }
    }

    fn is_malformed(&self, from: Who, fetch: &Fetch<'_>) -> bool {
        let len = fetch.demand.len();
        let region = self.node(from).endpoint.config().region.num_blocks;
        let keys: BTreeSet<u8> = keys_of(fetch.demand.keys()).into_iter().collect();
        let blocks: BTreeSet<u32> = fetch.demand.blocks().iter().filter(|block| *block < region).collect();
        keys.len() < len || blocks.len() < len
    }

    /// A message has been applied: it has brought no other load's result, and what it must bring at once.
    pub(crate) fn judge_delivered(
        &mut self,
        conn: ConnKey,
        to: Side,
        msg: &Msg<'_>,
        arrival: &Arrival,
        told: &Told,
    ) {
        let Some(who) = self.conns.get(&conn).map(|conn| conn.process(to).who) else { return };
        if arrival.unread {
            return;
        }
        self.judge_verdict(who, conn, to, &format!("{:?}", msg.kind()), arrival.misbehaves, told);
        let open = self.conns.get(&conn).is_some_and(|conn| {
            let end = conn.end(to);
            end.state == EndState::Open && !end.deaf
        });
        if !open {
            return;
        }
        let about_one = matches!(
            msg,
            Msg::TransferDone(_) | Msg::AbortAck(_) | Msg::FetchProgress(_) | Msg::LookupResp(_)
        );
        let other = told.news.iter().find_map(|news| match news {
            News::LoadFinished { job, .. } if about_one && Some(*job) != arrival.finishes => Some(*job),
            News::LoadFinished { .. }
            | News::Released(_)
            | News::StoreFinished { .. }
            | News::LookupAnswered
            | News::FetchArrived
            | News::PeerUp(_)
            | News::PeerDown { .. }
            | News::PeerRefused
            | News::RequestFailed { .. } => None,
        });
        if let Some(job) = other {
            let how = format!("{:?} of another round finishes load {}", msg.kind(), job.0);
            self.blame(who, Promise::RoundIsolation, how);
        }
        if let Msg::Fetch(fetch) = msg {
            self.judge_fetched(who, conn, to, fetch, arrival.malformed);
        }
        if let Some(talk) = self.talk(conn, to.other())
            && !talk.owed.is_empty()
        {
            let how = format!("on {conn} an abort of an unknown round is not acknowledged");
            self.blame(who, Promise::Law, how);
        }
    }

    /// A fetch ends, or is told how far it is, in the step that brings it (MSG-16); a malformed one ends (MSG-8).
    fn judge_fetched(&mut self, who: Who, conn: ConnKey, to: Side, fetch: &Fetch<'_>, malformed: bool) {
        let id = key(fetch.request, fetch.round);
        let Some(round) = self.talk(conn, to.other()).and_then(|talk| talk.rounds.get(&id)) else { return };
        let live = round.stage == Stage::Live;
        let (silent, id) = (live && round.parked.is_none(), id.round);
        // Of a round that is live already the second fetch is ignored, whatever it says.
        let taken = live && malformed && round.is_of(fetch);
        if silent {
            self.blame(who, Promise::Law, format!("{who} says nothing to the fetch of round {id} on {conn}"));
        }
        if taken {
            self.blame(
                who,
                Promise::Gate,
                format!("{who} takes the malformed fetch of round {id} on {conn}"),
            );
        }
    }

    /// What breaks the protocol is found, once; nothing else is (I9).
    fn judge_verdict(
        &mut self,
        who: Who,
        conn: ConnKey,
        to: Side,
        what: &str,
        misbehaves: bool,
        told: &Told,
    ) {
        match (misbehaves, told.verdicts) {
            (true, 1) | (false, 0) => {}
            (true, _) => {
                self.blame(who, Promise::Law, format!("{who} lets {what} pass on {conn}"));
            }
            (false, _) => {
                let how = format!("{who} takes {what} on {conn} for misbehaviour, which it is not");
                self.blame(who, Promise::BlastRadius, how);
            }
        }
        if told.verdicts > 0 {
            self.edit_conn(conn, |conn| conn.end_mut(to).deaf = true);
        }
    }

    /// Bytes that are no message have been applied (MSG-7, FR-2).
    pub(crate) fn judge_bytes(&mut self, conn: ConnKey, to: Side, item: &Item, told: &Told) {
        let Some(who) = self.conns.get(&conn).map(|conn| conn.process(to).who) else { return };
        match item {
            Item::Frame(_) => {}
            Item::Part => {
                self.judge_verdict(who, conn, to, "a part of a message", false, told);
                if !told.news.is_empty() {
                    self.blame(who, Promise::Law, format!("{who} makes news of a part of a message"));
                }
            }
            Item::Garbage => self.judge_verdict(who, conn, to, "garbage", true, told),
            Item::Versions => {
                let refused = self.conns.get(&conn).is_some_and(|conn| {
                    let end = conn.end(to);
                    end.state == EndState::Closed && end.said.goodbye
                });
                if !refused {
                    self.blame(who, Promise::Law, format!("{who} does not refuse another version on {conn}"));
                }
            }
        }
    }
}
