//! Lookups that vLLM owes an answer: which of them does an answer without a name belong to?

use std::collections::BTreeMap;

use kvpeer_wire::{Bits, BitsBuf, Key, KeysBuf, LookupId, Msg, RequestId, RequestName};

use super::{Ignored, Terms};
use crate::wire::LookupResp;

/// Lookups of one request that are remembered after their round was closed. vLLM answers each of them once, and
/// mostly in order; one that it never answers must not be kept for ever.
const MOST_OWED: usize = 64;

/// By request, oldest first. vLLM answers a lookup in one message with the lookup's own keys.
#[derive(Clone, Default, Debug)]
pub(super) struct AskedLookups(BTreeMap<RequestId, Vec<Owed>>);

#[derive(Clone, Debug)]
struct Owed {
    lookup_id: LookupId,
    keys: KeysBuf,
    /// Positions of the keys, sorted by key; made when an answer is not simply the lookup's own keys.
    sorted: Option<Vec<u32>>,
    answered: BitsBuf,
    left: usize,
    interest: Interest,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Interest {
    Wanted,
    /// A fetch has closed its round: an answer must not be taken for the next round's.
    Closed,
}

impl AskedLookups {
    pub(super) fn ask(&mut self, lookup: &kvpeer_wire::Lookup<'_>) {
        let owed = self.0.entry(RequestId::from(lookup.request)).or_default();
        if owed.len() >= MOST_OWED {
            owed.remove(0);
        }
        let left = lookup.keys.len();
        owed.push(Owed {
            lookup_id: lookup.lookup_id,
            keys: lookup.keys.to_buf(),
            sorted: None,
            answered: BitsBuf::zeros(u32::try_from(left).unwrap_or(u32::MAX)),
            left,
            interest: Interest::Wanted,
        });
    }

    /// A fetch closes its request's lookups. vLLM answers those that are open all the same.
    pub(super) fn close(&mut self, request: RequestName<'_>) {
        if let Some(owed) = self.0.get_mut(request.as_str()) {
            owed.iter_mut().for_each(|lookup| lookup.interest = Interest::Closed);
        }
    }

    /// vLLM does not answer what is open when the request ends.
    pub(super) fn release(&mut self, request: RequestName<'_>) {
        self.0.remove(request.as_str());
    }

    pub(super) fn answered(
        &mut self,
        resp: &LookupResp<'_>,
        terms: &Terms,
        core: &mut dyn FnMut(Msg<'_>),
    ) -> Result<(), Ignored> {
        let request = resp.kv_request_id.as_str();
        let owed = self.0.get_mut(request).ok_or(Ignored::UnknownLookup)?;
        let whole = owed.iter().position(|lookup| lookup.is_answered_by(resp));
        let told = match whole {
            Some(at) => {
                let lookup = owed.remove(at);
                let mut hits = BitsBuf::zeros(u32::try_from(resp.hits.len()).unwrap_or(u32::MAX));
                (0..).zip(resp.hits.iter()).filter(|(_, hit)| *hit).for_each(|(at, _)| hits.set(at));
                lookup.tell(0, hits.as_bits(), terms, core)
            }
            None => answer_by_key(owed, resp, terms, core),
        };
        if owed.is_empty() {
            self.0.remove(request);
        }
        if told { Ok(()) } else { Err(Ignored::UnknownLookup) }
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

/// An answer that was split or coalesced, as vLLM's protocol allows. Each key belongs to the oldest lookup that
/// still owes it. Says whether the core was told anything.
fn answer_by_key(
    owed: &mut Vec<Owed>,
    resp: &LookupResp<'_>,
    terms: &Terms,
    core: &mut dyn FnMut(Msg<'_>),
) -> bool {
    let mut answers: BTreeMap<usize, Vec<(u32, bool)>> = BTreeMap::new();
    for (key, hit) in resp.keys.iter().zip(resp.hits.iter()) {
        let found = (0..).zip(owed.iter_mut()).find_map(|(which, lookup)| Some((which, lookup.take(key)?)));
        if let Some((which, at)) = found {
            answers.entry(which).or_default().push((at, hit));
        }
    }
    let mut told = false;
    for (which, mut answers) in answers {
        answers.sort_unstable();
        let Some(lookup) = owed.get(which) else { continue };
        for run in answers.chunk_by(|(a, _), (b, _)| a + 1 == *b) {
            let Some((offset, _)) = run.first() else { continue };
            let mut hits = BitsBuf::zeros(u32::try_from(run.len()).unwrap_or(u32::MAX));
            (0..).zip(run).filter(|(_, (_, hit))| *hit).for_each(|(at, _)| hits.set(at));
            told |= lookup.tell(*offset, hits.as_bits(), terms, core);
        }
    }
    owed.retain(|lookup| lookup.left > 0);
    told
}

impl Owed {
    /// Whether this is vLLM's usual answer to this lookup: its keys, all of them, in order.
    fn is_answered_by(&self, resp: &LookupResp<'_>) -> bool {
        let keys = self.keys.as_keys();
        self.left == resp.keys.len() && keys.len() == self.left && keys.iter().eq(resp.keys.iter())
    }

    /// Takes the answer for a key, if it is owed; returns the key's position.
    fn take(&mut self, key: Key<'_>) -> Option<u32> {
        let keys = self.keys.as_keys();
        let key_at = |at: &u32| keys.get(*at as usize);
        let sorted = self.sorted.get_or_insert_with(|| {
            let mut all: Vec<u32> = (0u32..).take(keys.len()).collect();
            all.sort_by_key(|at| key_at(at));
            all
        });
        let found = sorted.binary_search_by_key(&Some(key), key_at).ok()?;
        let at = *sorted.get(found)?;
        if self.answered.as_bits().get(at) {
            return None;
        }
        self.answered.set(at);
        self.left -= 1;
        Some(at)
    }

    fn tell(&self, offset: u32, hits: Bits<'_>, terms: &Terms, core: &mut dyn FnMut(Msg<'_>)) -> bool {
        match self.interest {
            Interest::Wanted => {
                let lookup_id = self.lookup_id;
                core(Msg::LookupResp(kvpeer_wire::LookupResp {
                    lookup_id,
                    offset,
                    hits,
                    pin_ms: terms.pin_ms,
                }));
                true
            }
            Interest::Closed => false,
        }
    }
}
