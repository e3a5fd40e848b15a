//! What is known of a request's keys at its source.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use kvpeer_wire::{Bits, Key, Keys, KeysBuf};

use crate::faults::{Fault, seeded};
use crate::key_map::KeyMap;
use crate::{LookupState, Time};

/// Keys in the order in which the engine asked for them, what is known of each, and which are to be asked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Probes {
    /// Shared with lookups and loads that want all of them.
    keys: Arc<KeysBuf>,
    states: Vec<Probe>,
    map: KeyMap,
    /// Keys from here on were never asked for; those in `again` were, but the answer is no good any more.
    asked: usize,
    again: Vec<u32>,
    life: Life,
}

/// Counts how often all keys were forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Life(u32);

/// Keys to ask the source for, and where they stand in their request's [`Probes`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Fresh {
    pub(crate) keys: Arc<KeysBuf>,
    pub(crate) places: Places,
}

/// Where the keys of one lookup stand in [`Probes`], for as long as these are not forgotten.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Places {
    life: Life,
    at: At,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum At {
    /// One after the other.
    Run(Range<u32>),
    Each(Vec<u32>),
}

/// What is known of one key at the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Probe {
    Pending,
    Hit {
        until: Time,
    },
    Miss,
    /// Not answered in time: a miss once, then unknown again, for unknown is not absent (LKP-3).
    GaveUp,
    /// Not known, and not asked for.
    Unknown,
}

impl Fresh {
    /// What it keeps, in bytes.
    pub(crate) fn size(&self) -> usize {
        let places = match &self.places.at {
            At::Run(_) => 0,
            At::Each(at) => size_of_val(at.as_slice()),
        };
        self.keys.as_keys().size() + places
    }
}

impl Places {
    pub(super) fn len(&self) -> usize {
        match &self.at {
            At::Run(at) => at.len(),
            At::Each(at) => at.len(),
        }
    }
}

impl Probes {
    /// Appends what is known of each key. One that is not known is pending from now on, and to be asked for.
    pub(super) fn look_up(&mut self, now: Time, keys: Keys<'_>, known: &mut Vec<LookupState>) {
        if self.states.is_empty()
            && let Ok(map) = KeyMap::build(keys)
        {
            // A request's first keys, no two of them the same.
            (self.keys, self.map) = (Arc::new(keys.to_buf()), map);
            self.states.resize(keys.len(), Probe::Pending);
            return known.resize(known.len() + keys.len(), LookupState::Pending);
        }
        known.reserve(keys.len());
        let (mut done, mut next) = (0, 0);
        while let Some(key) = keys.get(done) {
            // Keys come mostly in the order in which they came before.
            let mut as_before = match next < self.states.len() {
                true => self.keys.as_keys().common(next, keys, done),
                false => 0,
            };
            if as_before == 0 {
                match self.place(key) {
                    Some(at) => (next, as_before) = (at as usize, 1),
                    None => {
                        known.push(LookupState::Pending);
                        (done, next) = (done + 1, self.states.len());
                        continue;
                    }
                }
            }
            known.extend((next..next + as_before).map(|at| self.known(now, at)));
            (done, next) = (done + as_before, next + as_before);
        }
    }

    /// These keys, if they are all that stand here, and in this order.
    pub(super) fn share(&self, keys: Keys<'_>) -> Option<Arc<KeysBuf>> {
        (self.keys.as_keys().len() == keys.len() && self.hold_in_order(keys)).then(|| self.keys.clone())
    }

    /// Whether these are, in this order, keys that are different and stand here.
    pub(super) fn hold_in_order(&self, keys: Keys<'_>) -> bool {
        !keys.is_empty() && self.keys.as_keys().common(0, keys, 0) == keys.len()
    }

    /// Where the key stands; one that is new is put down.
    fn place(&mut self, key: Key<'_>) -> Option<u32> {
        let found = self.map.insert(self.keys.as_keys(), key);
        if found.is_none() {
            Arc::make_mut(&mut self.keys).push(key);
            self.states.push(Probe::Pending);
        }
        found
    }

    fn known(&mut self, now: Time, at: usize) -> LookupState {
        let Some(state) = self.states.get_mut(at) else { return LookupState::Miss };
        match state {
            Probe::Pending => LookupState::Pending,
            Probe::Hit { until } if now < *until => LookupState::Hit, // LKP-2
            Probe::Miss => LookupState::Miss,
            Probe::GaveUp if seeded(Fault::UnknownIsAbsent) => LookupState::Miss,
            Probe::GaveUp => {
                *state = Probe::Unknown;
                LookupState::Miss
            }
            Probe::Hit { .. } | Probe::Unknown => {
                *state = Probe::Pending;
                self.again.push(at as u32);
                LookupState::Pending
            }
        }
    }

    /// Whether there is anything to ask for.
    pub(super) fn is_fresh(&self) -> bool {
        self.asked < self.states.len() || !self.again.is_empty()
    }

    /// Takes keys to ask for, as many as fit into one lookup.
    pub(super) fn take_fresh(&mut self, most: usize) -> Option<Fresh> {
        let (most, all) = (most.max(1), self.states.len());
        let at = if self.again.is_empty() {
            let from = self.asked;
            self.asked = all.min(from + most);
            At::Run(from as u32..self.asked as u32)
        } else {
            let mut at = core::mem::take(&mut self.again);
            at.extend(self.asked as u32..all as u32);
            self.asked = all;
            if at.len() > most {
                self.again = at.split_off(most);
            }
            At::Each(at)
        };
        let keys = self.keys.as_keys();
        let key = |at: u32| keys.get(at as usize);
        let keys = match &at {
            At::Run(at) if at.is_empty() => return None,
            At::Run(at) if at.len() == all => self.keys.clone(),
            At::Run(at) => Arc::new(at.clone().filter_map(key).collect()),
            At::Each(at) => Arc::new(at.iter().copied().filter_map(key).collect()),
        };
        Some(Fresh { keys, places: Places { life: self.life, at } })
    }

    /// The source has answered for keys of a lookup, from one on: whether it holds them, until when.
    pub(super) fn answer(&mut self, places: &Places, until: Time, from: u32, hits: Bits<'_>) {
        let mut from = from as usize;
        for (hit, len) in hits.runs() {
            let to = from + len as usize;
            self.resolve(places, from..to, if hit { Probe::Hit { until } } else { Probe::Miss });
            from = to;
        }
    }

    /// The source will not answer for these keys.
    pub(super) fn give_up(&mut self, places: &Places) {
        self.resolve(places, 0..places.len(), Probe::GaveUp);
    }

    fn resolve(&mut self, places: &Places, part: Range<usize>, to: Probe) {
        // LKP-5: the keys of an earlier round are not those of this one.
        if places.life != self.life && !seeded(Fault::LateAnswers) {
            return;
        }
        let settle = |state: &mut Probe| {
            if *state == Probe::Pending {
                *state = to;
            }
        };
        match &places.at {
            At::Run(run) => {
                let part = part.start + run.start as usize..run.end.min(part.end as u32 + run.start) as usize;
                let most = self.states.len();
                let part = part.start.min(most)..part.end.min(most);
                self.states.get_mut(part).unwrap_or_default().iter_mut().for_each(settle);
            }
            At::Each(at) => {
                for at in at.get(part).unwrap_or_default() {
                    self.states.get_mut(*at as usize).into_iter().for_each(settle);
                }
            }
        }
    }

    /// The session is gone, and its pins with it: what it said is void, what it was not asked is still to be asked.
    pub(super) fn forget_answers(&mut self) {
        self.states
            .iter_mut()
            .filter(|state| **state != Probe::Pending)
            .for_each(|state| *state = Probe::Unknown);
    }

    /// Nothing is known any more, nothing is to be asked for.
    pub(super) fn clear(&mut self) {
        *self = Self { life: Life(self.life.0.wrapping_add(1)), ..Self::default() };
    }
}
