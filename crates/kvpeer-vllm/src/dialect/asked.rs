//! We consume, vLLM produces: rounds on the wire, and their ends.

use std::collections::BTreeMap;
use std::num::NonZeroU8;

use kvpeer_wire::{Bits, Failure, Msg, Outcome, Release, RequestId, RequestName, Round, Supply};

use super::asked_lookups::AskedLookups;
use super::{Answer, Ignored, Said, Terms};
use crate::wire::{
    AbortAck, AbortFetch, Fetch, IndexList, KeyList, Lookup, LookupResp, Message, RoundSeq, Success,
    TransferDone,
};

/// The only round in which vLLM meets what it stores for a request with a fetch.
const AWAIT_SEQ: RoundSeq = RoundSeq(0);

/// What the core's names stand for on the wire.
#[derive(Clone, Default, Debug)]
pub(super) struct Asked {
    /// Fetches from pins. Their rounds on the wire are never used again.
    pinned: BTreeMap<Round, Pinned>,
    /// Fetches of what is stored, one for each request.
    awaits: BTreeMap<RequestId, Awaiting>,
    lookups: AskedLookups,
    /// The largest round on the wire so far.
    last_seq: u64,
}

#[derive(Clone, Debug)]
struct Pinned {
    request: RequestId,
    abort: Abort,
}

/// Round 0 is used again by the next fetch of its request, so no message of the last one may be outstanding.
#[derive(Clone, Copy, Debug)]
enum Awaiting {
    Live {
        round: Round,
        abort: Abort,
    },
    /// It ended while our abort was on its way, which will be acknowledged all the same.
    AckOwed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Abort {
    No,
    Sent,
}

impl Asked {
    pub(super) fn say_lookup(&mut self, lookup: &kvpeer_wire::Lookup<'_>, out: &mut Vec<u8>) -> Said {
        self.lookups.ask(lookup);
        let round_seq = self.pinned_seq(lookup.round);
        Message::Lookup(Lookup {
            kv_request_id: lookup.request,
            keys: KeyList::from(lookup.keys),
            round_seq,
        })
        .encode(out);
        Said::Payload
    }

    pub(super) fn say_fetch(&mut self, fetch: &kvpeer_wire::Fetch<'_>, out: &mut Vec<u8>) -> Said {
        let (id, round) = (RequestId::from(fetch.request), fetch.round);
        self.lookups.close(fetch.request);
        let (said, round_seq) = match fetch.supply {
            Supply::Pinned => {
                self.pinned.insert(round, Pinned { request: id, abort: Abort::No });
                (Said::Payload, self.pinned_seq(round))
            }
            Supply::Await if self.awaits.contains_key(&id) => {
                return Said::Instead(Answer::Refused { request: id, round });
            }
            Supply::Await => {
                self.awaits.insert(id.clone(), Awaiting::Live { round, abort: Abort::No });
                let blocks = u32::try_from(fetch.demand.len()).unwrap_or(u32::MAX);
                (Said::PayloadAnd(Answer::Parked { request: id, round, blocks }), AWAIT_SEQ)
            }
        };
        Message::Fetch(Fetch {
            kv_request_id: fetch.request,
            keys: KeyList::from(fetch.demand.keys()),
            block_indexes: IndexList::from(fetch.demand.blocks()),
            round_seq,
        })
        .encode(out);
        said
    }

    pub(super) fn say_abort(&mut self, msg: &kvpeer_wire::AbortFetch<'_>, out: &mut Vec<u8>) -> Said {
        let round_seq = match (self.pinned.get_mut(&msg.round), self.awaits.get_mut(msg.request.as_str())) {
            (Some(pinned), _) if pinned.request.as_name() == msg.request => {
                pinned.abort = Abort::Sent;
                pinned_seq(msg.round)
            }
            (_, Some(Awaiting::Live { round, abort })) if *round == msg.round => {
                *abort = Abort::Sent;
                AWAIT_SEQ
            }
            // It was refused here; the answer is on its way.
            (Some(_) | None, Some(Awaiting::Live { .. } | Awaiting::AckOwed) | None) => return Said::Nothing,
        };
        Message::AbortFetch(AbortFetch { kv_request_id: msg.request, round_seq }).encode(out);
        Said::Payload
    }

    fn pinned_seq(&mut self, round: Round) -> RoundSeq {
        let seq = pinned_seq(round);
        self.last_seq = self.last_seq.max(seq.0);
        seq
    }

    /// vLLM's terminal empty fetch. It must not name a round that is live, which vLLM would take for a mistake of
    /// ours, so it names the next one.
    pub(super) fn say_release(&mut self, release: &Release<'_>, out: &mut Vec<u8>) -> Said {
        self.lookups.release(release.request);
        Message::Fetch(Fetch {
            kv_request_id: release.request,
            keys: KeyList::EMPTY,
            block_indexes: IndexList::EMPTY,
            round_seq: RoundSeq(self.last_seq.saturating_add(1)),
        })
        .encode(out);
        Said::Payload
    }

    pub(super) fn lookup_resp(
        &mut self,
        resp: &LookupResp<'_>,
        terms: &Terms,
        core: &mut dyn FnMut(Msg<'_>),
    ) -> Result<(), Ignored> {
        self.lookups.answered(resp, terms, core)
    }

    pub(super) fn transfer_done(
        &mut self,
        done: &TransferDone<'_>,
        terms: &Terms,
        core: &mut dyn FnMut(Msg<'_>),
    ) -> Result<(), Ignored> {
        let request = done.kv_request_id;
        let round = self.done(request, done.round_seq).ok_or(Ignored::UnknownRound)?;
        let outcome = match done.success {
            Success::Yes => Outcome::Ok,
            Success::No => Outcome::Failed {
                why: unsaid(),
                settled: terms.stop_word.is_settled(),
                landed: Bits::default(),
            },
        };
        core(Msg::TransferDone(kvpeer_wire::TransferDone { request, round, outcome }));
        Ok(())
    }

    /// The round that ends with a `transfer_done`.
    fn done(&mut self, request: RequestName<'_>, seq: RoundSeq) -> Option<Round> {
        let Some(round) = round_of(seq) else {
            let awaiting = self.awaits.get_mut(request.as_str())?;
            let Awaiting::Live { round, abort } = *awaiting else { return None };
            match abort {
                Abort::No => drop(self.awaits.remove(request.as_str())),
                Abort::Sent => *awaiting = Awaiting::AckOwed,
            }
            return Some(round);
        };
        let found = self.pinned.get(&round).is_some_and(|pinned| pinned.request.as_name() == request);
        found.then(|| self.pinned.remove(&round)).map(|_| round)
    }

    pub(super) fn abort_ack(
        &mut self,
        ack: &AbortAck<'_>,
        terms: &Terms,
        core: &mut dyn FnMut(Msg<'_>),
    ) -> Result<(), Ignored> {
        let request = ack.kv_request_id;
        let round = self.acked(request, ack.round_seq).ok_or(Ignored::UnknownRound)?;
        let settled = terms.stop_word.is_settled();
        core(Msg::AbortAck(kvpeer_wire::AbortAck { request, round, settled }));
        Ok(())
    }

    /// The round that ends with an `abort_ack`: one whose abort was sent.
    fn acked(&mut self, request: RequestName<'_>, seq: RoundSeq) -> Option<Round> {
        let Some(round) = round_of(seq) else {
            let round = match self.awaits.get(request.as_str())? {
                Awaiting::Live { round, abort: Abort::Sent } => Some(*round),
                Awaiting::AckOwed => None,
                Awaiting::Live { abort: Abort::No, .. } => return None,
            };
            self.awaits.remove(request.as_str());
            return round;
        };
        let asked = |pinned: &Pinned| pinned.request.as_name() == request && pinned.abort == Abort::Sent;
        let found = self.pinned.get(&round).is_some_and(asked);
        found.then(|| self.pinned.remove(&round)).map(|_| round)
    }
}

/// Rounds of lookups and their fetches on the wire: the core's, which never come back, after [`AWAIT_SEQ`].
fn pinned_seq(round: Round) -> RoundSeq {
    RoundSeq(round.0.saturating_add(1))
}

/// The core's round; `None` is [`AWAIT_SEQ`].
fn round_of(seq: RoundSeq) -> Option<Round> {
    seq.0.checked_sub(1).map(Round)
}

/// vLLM does not say why. This number has no name in the protocol, so it is nobody's reason.
fn unsaid() -> Failure {
    Failure::from_code(NonZeroU8::MAX)
}

#[cfg(test)]
impl Asked {
    /// How much is kept, for tests of what is left when all is over.
    pub(super) fn kept(&self) -> usize {
        self.pinned.len() + self.awaits.len() + self.lookups.kept()
    }
}
