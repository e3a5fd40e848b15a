//! What is known of a request's keys at its source.

use alloc::vec::Vec;

use kvpeer_wire::{Key, Keys, KeysBuf};

use crate::faults::{Fault, seeded};
use crate::key_map::KeyMap;
use crate::{LookupState, Time};

/// Keys in the order in which the engine asked for them, what is known of each, and which are to be asked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Probes {
    keys: KeysBuf,
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
    pub(crate) keys: KeysBuf,
    pub(crate) places: Places,
}

/// Where the keys of one lookup stand in [`Probes`], for as long as these are not forgotten.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Places {
    life: Life,
    at: Vec<u32>,
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
        self.keys.as_keys().size() + size_of_val(self.places.at.as_slice())
    }
}

impl Places {
    pub(super) fn len(&self) -> usize {
        self.at.len()
    }
}

impl Probes {
    /// Appends what is known of each key. One that is not known is pending from now on, and to be asked for.
    pub(super) fn look_up(&mut self, now: Time, keys: Keys<'_>, known: &mut Vec<LookupState>) {
        if self.states.is_empty()
            && let Ok(map) = KeyMap::build(keys)
        {
            // A request's first keys, no two of them the same.
            (self.keys, self.map) = (keys.to_buf(), map);
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

    /// Whether these are, in this order, keys that are different and stand here.
    pub(super) fn hold_in_order(&self, keys: Keys<'_>) -> bool {
        !keys.is_empty() && self.keys.as_keys().common(0, keys, 0) == keys.len()
    }

    /// Where the key stands; one that is new is put down.
    fn place(&mut self, key: Key<'_>) -> Option<u32> {
        let found = self.map.insert(self.keys.as_keys(), key);
        if found.is_none() {
            self.keys.push(key);
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

    /// Takes the keys to ask for, at most `most` in one lookup.
    pub(super) fn take_fresh(&mut self, most: usize) -> Vec<Fresh> {
        let mut at = core::mem::take(&mut self.again);
        let from = core::mem::replace(&mut self.asked, self.states.len());
        at.extend(from as u32..self.states.len() as u32);
        let (all, life) = (self.keys.as_keys(), self.life);
        if at.len() <= most && from == 0 && at.len() == all.len() {
            return alloc::vec![Fresh { keys: self.keys.clone(), places: Places { life, at } }];
        }
        let parts = at.chunks(most.max(1)).map(|at| Fresh {
            keys: at.iter().filter_map(|at| all.get(*at as usize)).collect(),
            places: Places { life, at: at.to_vec() },
        });
        parts.collect()
    }

    /// The source has answered for keys of a lookup: of which, and whether it holds them, until when.
    pub(super) fn answer(
        &mut self,
        places: &Places,
        until: Time,
        answers: impl Iterator<Item = (usize, bool)>,
    ) {
        let hit = Probe::Hit { until };
        self.resolve(places, answers.map(|(index, is_hit)| (index, if is_hit { hit } else { Probe::Miss })));
    }

    /// The source will not answer for these keys.
    pub(super) fn give_up(&mut self, places: &Places) {
        self.resolve(places, (0..places.at.len()).map(|index| (index, Probe::GaveUp)));
    }

    fn resolve(&mut self, places: &Places, results: impl Iterator<Item = (usize, Probe)>) {
        // LKP-5: the keys of an earlier round are not those of this one.
        let ours = places.life == self.life || seeded(Fault::LateAnswers);
        for (index, to) in results {
            let at = places.at.get(index).filter(|_| ours);
            if let Some(state @ Probe::Pending) = at.and_then(|at| self.states.get_mut(*at as usize)) {
                *state = to;
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
