//! What an engine can know of its requests' keys: what answers have brought, until a fetch voids it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kvpeer_core::{LookupState, Time};
use kvpeer_wire::{Lookup, LookupResp};

use super::Promise;
use crate::names::{ConnKey, Side, Who, keys_of, request_of};
use crate::world::World;

/// By request and key.
type Of = (u8, u8);

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Known {
    /// The requests that this node consumes, and from whom.
    pub(crate) sources: BTreeMap<u8, Who>,
    answers: BTreeMap<Of, Answer>,
    /// Keys that were said to be missing without an answer, when they were last asked about.
    guessed: BTreeSet<Of>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Answer {
    Hit { until: Time, conn: ConnKey, side: Side },
    Miss,
}

/// A lookup on the wire.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Asked {
    pub(crate) request: u8,
    pub(crate) keys: Vec<u8>,
    /// How many of them are answered.
    pub(crate) answered: u32,
    /// Which of them the asker has an answer for.
    pub(crate) told: Vec<bool>,
    /// No fetch has closed its round.
    pub(crate) open: bool,
}

impl Asked {
    pub(crate) fn new(lookup: &Lookup<'_>) -> Self {
        Self {
            request: request_of(lookup.request).unwrap_or(u8::MAX),
            keys: keys_of(lookup.keys),
            told: vec![false; lookup.keys.len()],
            answered: 0,
            open: true,
        }
    }
}

impl Known {
    /// A fetch, or the end of its request, voids what was known (LOAD-7).
    pub(crate) fn forget(&mut self, request: u8) {
        self.answers.retain(|(of, _), _| *of != request);
        self.guessed.retain(|(of, _)| *of != request);
    }
}

impl World {
    /// A load was taken, or its request is over: what was known is void, and so are answers under way (LKP-5).
    pub(crate) fn forget_answers(&mut self, who: Who, request: u8) {
        self.edit(who).book.known.forget(request);
        let process = self.node(who).process;
        let conns: Vec<ConnKey> = self.conns.keys().copied().collect();
        for (conn, side) in conns.into_iter().flat_map(|conn| Side::BOTH.map(|side| (conn, side))) {
            if self.conns.get(&conn).is_some_and(|conn| conn.process(side) == process)
                && let Some(talk) = self.talk(conn, side)
            {
                talk.close_lookups(request);
            }
        }
    }

    /// An answer has reached the node that asked.
    pub(crate) fn learn(&mut self, conn: ConnKey, side: Side, resp: &LookupResp<'_>) {
        let Some(who) = self.conns.get(&conn).map(|conn| conn.process(side).who) else { return };
        let longest = self.node(who).endpoint.config().timing.pin;
        let until = self.now + Duration::from_millis(u64::from(resp.pin_ms)).min(longest);
        let Some(asked) = self.talk(conn, side).and_then(|talk| talk.lookups.get_mut(&resp.lookup_id.0))
        else {
            return;
        };
        if !asked.open {
            return;
        }
        let from = usize::try_from(resp.offset).unwrap_or(usize::MAX);
        let mut answers: Vec<(Of, Answer)> = Vec::new();
        for ((key, told), hit) in asked.keys.iter().zip(&mut asked.told).skip(from).zip(resp.hits.iter()) {
            // MSG-13: the first answer counts.
            if !std::mem::replace(told, true) {
                let answer = if hit { Answer::Hit { until, conn, side } } else { Answer::Miss };
                answers.push(((asked.request, *key), answer));
            }
        }
        self.edit(who).book.known.answers.extend(answers);
    }

    /// What an endpoint says about a key is what it was told, or that it does not know.
    pub(crate) fn judge_lookup(&mut self, who: Who, request: u8, key: u8, found: LookupState) {
        let of = (request, key);
        let book = &self.node(who).book;
        let open = book.known.sources.contains_key(&request) && !book.failed.contains(&request);
        let answer = book.known.answers.get(&of).copied();
        match found {
            LookupState::Hit => {
                let good = answer.is_some_and(|answer| match answer {
                    Answer::Hit { until, conn, side } => self.now < until && self.has_session(conn, side),
                    Answer::Miss => false,
                });
                if !good {
                    let how =
                        format!("{who} says that key {key} of request {request} is a hit: no answer says so");
                    self.blame(who, Promise::RoundIsolation, how);
                }
                self.edit(who).book.known.guessed.remove(&of);
            }
            LookupState::Miss if open && answer != Some(Answer::Miss) => {
                // LKP-3: once, and then it is unknown again.
                if !self.edit(who).book.known.guessed.insert(of) {
                    let how =
                        format!("{who} takes key {key} of request {request} for missing: no answer says so");
                    self.blame(who, Promise::Law, how);
                }
            }
            LookupState::Miss => {}
            LookupState::Pending => {
                self.edit(who).book.known.guessed.remove(&of);
            }
        }
    }

    fn has_session(&self, conn: ConnKey, side: Side) -> bool {
        self.conns.get(&conn).is_some_and(|conn| conn.is_up(side))
    }
}
