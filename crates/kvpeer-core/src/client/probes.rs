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

impl Probes {
    /// What is known of a key. One that is not known is pending from now on, and to be asked for.
    pub(super) fn look_up(&mut self, now: Time, key: Key<'_>) -> LookupState {
        let Some(at) = self.map.find(self.keys.as_keys(), key) else {
            let at = self.states.len() as u32;
            self.keys.push(key);
            self.states.push(Probe::Pending);
            self.map.insert(self.keys.as_keys(), key, at);
            return LookupState::Pending;
        };
        let Some(state) = self.states.get_mut(at as usize) else { return LookupState::Miss };
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
                self.again.push(at);
                LookupState::Pending
            }
        }
    }

    /// Whether there is anything to ask for.
    pub(super) fn is_fresh(&self) -> bool {
        self.asked < self.states.len() || !self.again.is_empty()
    }

    /// Takes the keys to ask for.
    pub(super) fn take_fresh(&mut self) -> KeysBuf {
        let all = self.keys.as_keys();
        let again = core::mem::take(&mut self.again);
        let from = core::mem::replace(&mut self.asked, self.states.len());
        match (from, again.as_slice()) {
            (0, []) => self.keys.clone(),
            (from, again) => {
                let again = again.iter().filter_map(|at| all.get(*at as usize));
                again.chain((from..all.len()).filter_map(|at| all.get(at))).collect()
            }
        }
    }

    /// The source has answered for one key.
    pub(super) fn answer(&mut self, key: Key<'_>, hit: Option<Time>) {
        self.resolve(key, hit.map_or(Probe::Miss, |until| Probe::Hit { until }));
    }

    /// The source will not answer for these keys.
    pub(super) fn give_up(&mut self, keys: Keys<'_>) {
        keys.iter().for_each(|key| self.resolve(key, Probe::GaveUp));
    }

    fn resolve(&mut self, key: Key<'_>, to: Probe) {
        let at = self.map.find(self.keys.as_keys(), key);
        if let Some(state @ Probe::Pending) = at.and_then(|at| self.states.get_mut(at as usize)) {
            *state = to;
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
        *self = Self::default();
    }
}
