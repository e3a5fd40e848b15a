//! vLLM consumes, we produce: its rounds, which start again with each request, and its lookups.

use std::collections::{BTreeMap, BTreeSet};

use kvpeer_wire::{
    Bits, Blocks, Demand, KeysBuf, LookupId, Msg, Outcome, Release, RequestId, RequestName, Round, Supply,
};

use super::{Ignored, Said, Terms};
use crate::wire::{
    AbortAck, AbortFetch, Fetch, HitList, KeyList, Lookup, LookupResp, Message, RoundSeq, Success,
    TransferDone,
};

/// What vLLM's names stand for in the core.
#[derive(Clone, Default, Debug)]
pub(super) struct Served {
    requests: BTreeMap<RequestId, BTreeMap<RoundSeq, Life>>,
    rounds: BTreeMap<Round, (RequestId, RoundSeq)>,
    /// Rounds that wait for their fetch, oldest first: the peer's to keep, so they are bounded.
    probed: BTreeSet<Round>,
    lookups: BTreeMap<LookupId, OpenLookup>,
    next_round: u64,
    next_lookup: u64,
}

/// One life of a (request, round): the same pair later is another round to the core, so that I6 holds.
#[derive(Clone, Copy, Debug)]
struct Life {
    round: Round,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It was looked up; its fetch may come.
    Probed { open: u32, hits: Hits },
    /// Its terminal is to come.
    Fetching,
}

/// Whether the peer was told of any hit in this round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hits {
    None,
    Told,
}

/// A lookup that the core has not answered in full. vLLM's answer repeats the keys.
#[derive(Clone, Debug)]
struct OpenLookup {
    request: RequestId,
    seq: RoundSeq,
    keys: KeysBuf,
    left: usize,
}

impl Served {
    pub(super) fn lookup(
        &mut self,
        msg: &Lookup<'_>,
        terms: &Terms,
        core: &mut dyn FnMut(Msg<'_>),
    ) -> Result<(), Ignored> {
        if msg.keys.is_empty() {
            return Err(Ignored::EmptyLookup);
        }
        let round = self.round(msg.kv_request_id, msg.round_seq, terms);
        if let Some(State::Probed { open, .. }) = self.state(msg.kv_request_id, msg.round_seq) {
            *open += 1;
        }
        let lookup_id = LookupId(self.next_lookup);
        self.next_lookup = self.next_lookup.saturating_add(1);
        let keys = msg.keys.to_buf();
        let lookup =
            kvpeer_wire::Lookup { lookup_id, request: msg.kv_request_id, round, keys: keys.as_keys() };
        core(Msg::Lookup(lookup));
        let request = RequestId::from(msg.kv_request_id);
        let left = keys.as_keys().len();
        self.lookups.insert(lookup_id, OpenLookup { request, seq: msg.round_seq, keys, left });
        Ok(())
    }

    /// The core answers in parts; vLLM takes any part.
    pub(super) fn say_lookup_resp(&mut self, resp: &kvpeer_wire::LookupResp<'_>, out: &mut Vec<u8>) -> Said {
        let Some(lookup) = self.lookups.get_mut(&resp.lookup_id) else { return Said::Nothing };
        let part: KeysBuf;
        let (offset, count) = (resp.offset as usize, resp.hits.len() as usize);
        let all = lookup.keys.as_keys();
        let keys = if offset == 0 && count == all.len() {
            all
        } else {
            part = (offset..).map_while(|at| all.get(at)).take(count).collect();
            part.as_keys()
        };
        if keys.len() != count || keys.is_empty() {
            return Said::Nothing;
        }
        Message::LookupResp(LookupResp {
            kv_request_id: lookup.request.as_name(),
            keys: KeyList::from(keys),
            hits: HitList::from(resp.hits),
        })
        .encode(out);
        lookup.left = lookup.left.saturating_sub(count);
        let (request, seq, left) = (lookup.request.clone(), lookup.seq, lookup.left);
        self.told(&request, seq, resp.hits, left);
        if left == 0 {
            self.lookups.remove(&resp.lookup_id);
        }
        Said::Payload
    }

    /// A part of a lookup is answered; a round in which nothing was found is forgotten, as vLLM forgets it.
    fn told(&mut self, request: &RequestId, seq: RoundSeq, answers: Bits<'_>, left: usize) {
        let Some(State::Probed { open, hits }) = self.state(request.as_name(), seq) else { return };
        if answers.ones() > 0 {
            *hits = Hits::Told;
        }
        if left == 0 {
            *open = open.saturating_sub(1);
        }
        if (*open, *hits) == (0, Hits::None) {
            self.forget(request, seq);
        }
    }

    pub(super) fn fetch(
        &mut self,
        msg: &Fetch<'_>,
        terms: &Terms,
        core: &mut dyn FnMut(Msg<'_>),
    ) -> Result<(), Ignored> {
        let request = msg.kv_request_id;
        if msg.keys.is_empty() {
            self.release(request);
            core(Msg::Release(Release { request }));
            return Ok(());
        }
        let supply = match self.state(request, msg.round_seq) {
            Some(State::Probed { .. }) => Supply::Pinned,
            // A live round's second fetch is ignored by the core, whatever its supply.
            Some(State::Fetching) | None => Supply::Await,
        };
        let round = self.round(request, msg.round_seq, terms);
        self.set_fetching(request, msg.round_seq);
        self.drop_lookups(|lookup| lookup.request.as_name() == request && lookup.seq == msg.round_seq);
        let (keys, blocks) = (msg.keys.to_buf(), msg.block_indexes.iter().collect::<Vec<u32>>());
        // There are as many of the one as of the other: the payload was checked.
        if let Ok(demand) = Demand::new(keys.as_keys(), Blocks::new(&blocks)) {
            core(Msg::Fetch(kvpeer_wire::Fetch { request, round, supply, demand, wait_ms: u32::MAX }));
        }
        Ok(())
    }

    pub(super) fn abort(
        &mut self,
        msg: &AbortFetch<'_>,
        terms: &Terms,
        core: &mut dyn FnMut(Msg<'_>),
    ) -> Result<(), Ignored> {
        let request = msg.kv_request_id;
        // An abort of a round that is over, or never was, is acknowledged too: it needs a name until then.
        let round = self.round(request, msg.round_seq, terms);
        self.set_fetching(request, msg.round_seq);
        core(Msg::AbortFetch(kvpeer_wire::AbortFetch { request, round }));
        Ok(())
    }

    /// vLLM frees its blocks at `success = false`. What is not settled is not told: I5 is not ours to break.
    pub(super) fn say_done(&mut self, done: &kvpeer_wire::TransferDone<'_>, out: &mut Vec<u8>) -> Said {
        let Some(seq) = self.end(done.request, done.round) else { return Said::Nothing };
        let success = match done.outcome {
            Outcome::Ok => Success::Yes,
            Outcome::Failed { settled: true, .. } => Success::No,
            Outcome::Failed { settled: false, .. } => return Said::Nothing,
        };
        let kv_request_id = done.request;
        Message::TransferDone(TransferDone { kv_request_id, success, round_seq: seq }).encode(out);
        Said::Payload
    }

    pub(super) fn say_ack(&mut self, ack: &kvpeer_wire::AbortAck<'_>, out: &mut Vec<u8>) -> Said {
        let Some(seq) = self.end(ack.request, ack.round) else { return Said::Nothing };
        if !ack.settled {
            return Said::Nothing;
        }
        Message::AbortAck(AbortAck { kv_request_id: ack.request, round_seq: seq }).encode(out);
        Said::Payload
    }

    /// The core's name for a round, minted when it has none.
    fn round(&mut self, request: RequestName<'_>, seq: RoundSeq, terms: &Terms) -> Round {
        if let Some(found) = self.requests.get(request.as_str()).and_then(|rounds| rounds.get(&seq)) {
            return found.round;
        }
        if self.probed.len() >= terms.probed_rounds
            && let Some((oldest, seq)) = self.probed.first().and_then(|round| self.rounds.get(round)).cloned()
        {
            // Its fetch, if it still comes, waits for supply like one that was never looked up.
            self.forget(&oldest, seq);
        }
        let round = Round(self.next_round);
        self.next_round = self.next_round.saturating_add(1);
        let request = RequestId::from(request);
        let state = State::Probed { open: 0, hits: Hits::None };
        self.requests.entry(request.clone()).or_default().insert(seq, Life { round, state });
        self.rounds.insert(round, (request, seq));
        self.probed.insert(round);
        round
    }

    fn state(&mut self, request: RequestName<'_>, seq: RoundSeq) -> Option<&mut State> {
        let served = self.requests.get_mut(request.as_str())?.get_mut(&seq)?;
        Some(&mut served.state)
    }

    fn set_fetching(&mut self, request: RequestName<'_>, seq: RoundSeq) {
        let Some(rounds) = self.requests.get_mut(request.as_str()) else { return };
        if let Some(served) = rounds.get_mut(&seq) {
            served.state = State::Fetching;
            self.probed.remove(&served.round);
        }
    }

    /// The one terminal of a round; its pair may be used again after it.
    fn end(&mut self, request: RequestName<'_>, round: Round) -> Option<RoundSeq> {
        let (id, seq) = self.rounds.get(&round).filter(|(id, _)| id.as_name() == request).cloned()?;
        self.forget(&id, seq);
        Some(seq)
    }

    fn forget(&mut self, request: &RequestId, seq: RoundSeq) {
        let Some(rounds) = self.requests.get_mut(request) else { return };
        if let Some(served) = rounds.remove(&seq) {
            self.rounds.remove(&served.round);
            self.probed.remove(&served.round);
        }
        if rounds.is_empty() {
            self.requests.remove(request);
        }
    }

    /// Lookups and what they found are over; rounds that are fetched run to their own terminal.
    fn release(&mut self, request: RequestName<'_>) {
        self.drop_lookups(|lookup| lookup.request.as_name() == request);
        let Some(rounds) = self.requests.get(request.as_str()) else { return };
        let probed = rounds.iter().filter(|(_, served)| served.state != State::Fetching);
        let probed: Vec<RoundSeq> = probed.map(|(seq, _)| *seq).collect();
        probed.into_iter().for_each(|seq| self.forget(&RequestId::from(request), seq));
    }

    fn drop_lookups(&mut self, over: impl Fn(&OpenLookup) -> bool) {
        self.lookups.retain(|_, lookup| !over(lookup));
    }
}

#[cfg(test)]
impl Served {
    /// How much is kept, for tests of what is left when all is over.
    pub(super) fn kept(&self) -> usize {
        self.requests.len() + self.rounds.len() + self.probed.len() + self.lookups.len()
    }
}
