//! Pins: what the lookups of a round have won, until its fetch takes it or its time is up.

use alloc::vec::Vec;

use kvpeer_wire::{Failure, Key, Keys, KeysBuf};

use super::{Slot, Source};
use crate::key_map::{Doubled, KeyMap};
use crate::{JobId, KeyAt};

/// The keys of one lookup, and where those that are held are pinned.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pins {
    keys: KeysBuf,
    map: KeyMap,
    found: Vec<Found>,
    pinned: usize,
    /// What this keeps, in bytes; rounded up.
    pub(super) kept: usize,
}

/// What a lookup found out about one key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Found {
    /// Not held, not known, or not pinned any more.
    Nothing,
    Pinned(Source),
    /// A fetch demands it.
    Taken,
}

/// What a lookup keeps beside its keys, in bytes; rounded up.
const OVERHEAD: usize = 1024;

impl Pins {
    /// What a lookup of these keys will keep, in bytes.
    pub(super) fn size(keys: Keys<'_>) -> usize {
        let per_key = size_of::<Found>() + size_of::<KeyAt>() + 4 * size_of::<u64>();
        keys.size() + keys.len() * per_key + OVERHEAD
    }

    /// No pins yet, for the keys of a lookup, which are all different.
    pub(super) fn new(keys: Keys<'_>) -> Result<Self, Doubled> {
        let map = KeyMap::build(keys)?;
        let found = alloc::vec![Found::Nothing; keys.len()];
        Ok(Self { keys: keys.to_buf(), map, found, pinned: 0, kept: Self::size(keys) })
    }

    pub(super) fn keys(&self) -> Keys<'_> {
        self.keys.as_keys()
    }

    /// How many keys are pinned.
    pub(crate) fn len(&self) -> usize {
        self.pinned
    }

    pub(super) fn put(&mut self, at: KeyAt, source: Source) {
        if let Some(found @ Found::Nothing) = self.found.get_mut(at.0 as usize) {
            *found = Found::Pinned(source);
            self.pinned += 1;
        }
    }

    /// Whether each key is pinned.
    pub(super) fn hits(&self) -> impl Iterator<Item = bool> {
        self.found.iter().map(|found| matches!(found, Found::Pinned(_)))
    }

    /// The jobs that pin what no fetch has taken.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.found.iter().filter_map(|found| match found {
            Found::Pinned(source) => Some(source.job),
            Found::Nothing | Found::Taken => None,
        })
    }

    /// Gives up the pins of one job; says how many there were.
    pub(super) fn drop_job(&mut self, job: JobId) -> usize {
        let mut dropped = 0;
        for found in &mut self.found {
            if matches!(found, Found::Pinned(source) if source.job == job) {
                *found = Found::Nothing;
                dropped += 1;
            }
        }
        self.pinned -= dropped;
        dropped
    }

    fn find(&mut self, key: Key<'_>) -> Option<&mut Found> {
        let at = self.map.find(self.keys.as_keys(), key)?;
        self.found.get_mut(at as usize)
    }
}

/// Takes the pins of all `keys` out of a round's lookups. If one is missing, those taken so far come back with the
/// failure, for their jobs to be told.
pub(super) fn take_all(pins: &mut [Pins], keys: Keys<'_>) -> Result<Vec<Slot>, (Failure, Vec<Slot>)> {
    let mut slots = Vec::new();
    slots.reserve_exact(keys.len());
    for key in keys.iter() {
        match take(pins, key) {
            Ok(source) => slots.push(Slot::Claimed(source)),
            Err(Failure::NoSupply) => {
                // Which of two faults a fetch is told must not depend on their order.
                let why = KeyMap::build(keys).map_or(Failure::Malformed, |_| Failure::NoSupply);
                return Err((why, slots));
            }
            Err(why) => return Err((why, slots)),
        }
    }
    Ok(slots)
}

fn take(pins: &mut [Pins], key: Key<'_>) -> Result<Source, Failure> {
    for lookup in pins {
        match lookup.find(key) {
            Some(found @ Found::Pinned(_)) => {
                let before = core::mem::replace(found, Found::Taken);
                if let Found::Pinned(source) = before {
                    lookup.pinned -= 1;
                    return Ok(source);
                }
            }
            Some(Found::Taken) => return Err(Failure::Malformed),
            Some(Found::Nothing) | None => {}
        }
    }
    Err(Failure::NoSupply)
}
