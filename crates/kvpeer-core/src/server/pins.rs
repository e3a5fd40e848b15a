//! Pins: what the lookups of a round have won, until its fetch takes it or its time is up.

use alloc::vec::Vec;

use kvpeer_wire::{Failure, Key, Keys, KeysBuf};

use super::{Slot, Source};
use crate::key_map::{self, Doubled, KeyMap};
use crate::{JobId, KeyAt};

/// The keys of one lookup, and where those that are held are pinned.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pins {
    keys: KeysBuf,
    map: KeyMap,
    found: Vec<Found>,
    open: usize,
    pinned: usize,
    /// What this keeps, in bytes; rounded up.
    pub(super) kept: usize,
}

/// What a lookup found out about one key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Found {
    /// The block cache has not answered.
    Open,
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
        let per_key = size_of::<Found>() + key_map::MOST_PER_KEY;
        keys.size() + keys.len() * per_key + OVERHEAD
    }

    /// No pins yet, for the keys of a lookup, which are all different.
    pub(super) fn new(keys: Keys<'_>) -> Result<Self, Doubled> {
        let map = KeyMap::build(keys)?;
        let found = alloc::vec![Found::Open; keys.len()];
        Ok(Self { keys: keys.to_buf(), map, found, open: keys.len(), pinned: 0, kept: Self::size(keys) })
    }

    pub(super) fn keys(&self) -> Keys<'_> {
        self.keys.as_keys()
    }

    /// How many keys are pinned.
    pub(crate) fn len(&self) -> usize {
        self.pinned
    }

    /// How many keys have no answer.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// The keys that have no answer, in order.
    pub(super) fn open_keys(&self) -> impl Iterator<Item = KeyAt> {
        let open = self.found.iter().zip(0u32..).filter(|(found, _)| matches!(found, Found::Open));
        open.map(|(_, at)| KeyAt(at))
    }

    /// Answers an open key: where it is pinned, or that it is not. Says whether it was open.
    pub(super) fn answer(&mut self, at: KeyAt, pinned: Option<Source>) -> bool {
        let Some(found @ Found::Open) = self.found.get_mut(at.0 as usize) else { return false };
        *found = pinned.map_or(Found::Nothing, Found::Pinned);
        self.open -= 1;
        self.pinned += usize::from(pinned.is_some());
        true
    }

    /// Keys without an answer get none any more.
    pub(super) fn close(&mut self) {
        let open = self.found.iter_mut().filter(|found| matches!(found, Found::Open));
        open.for_each(|found| *found = Found::Nothing);
        self.open = 0;
    }

    /// Whether each of the answered keys is pinned, from one on to the first that is open.
    pub(super) fn answered_from(&self, told: u32) -> impl Iterator<Item = bool> + Clone {
        let untold = self.found.get(told as usize..).unwrap_or_default().iter();
        untold
            .take_while(|found| !matches!(found, Found::Open))
            .map(|found| matches!(found, Found::Pinned(_)))
    }

    /// The jobs that pin what no fetch has taken.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.found.iter().filter_map(|found| match found {
            Found::Pinned(source) => Some(source.job),
            Found::Open | Found::Nothing | Found::Taken => None,
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

    fn place(&self, key: Key<'_>) -> Option<usize> {
        self.map.find(self.keys.as_keys(), key).map(|at| at as usize)
    }

    /// Takes the pin at `at`, if there is one.
    fn take(&mut self, at: usize) -> Taken {
        match self.found.get_mut(at) {
            Some(found @ Found::Pinned(_)) => match core::mem::replace(found, Found::Taken) {
                Found::Pinned(source) => {
                    self.pinned -= 1;
                    Taken::Pin(source)
                }
                Found::Open | Found::Nothing | Found::Taken => Taken::Nothing,
            },
            Some(Found::Taken) => Taken::Twice,
            Some(Found::Open | Found::Nothing) | None => Taken::Nothing,
        }
    }
}

/// What became of taking one pin.
enum Taken {
    Pin(Source),
    Twice,
    Nothing,
}

/// Takes the pins of all `keys` out of a round's lookups, of each key in the first that has it pinned. If one is
/// missing, those taken so far come back with the failure, for their jobs to be told.
pub(super) fn take_all(pins: &mut [Pins], keys: Keys<'_>) -> Result<Vec<Slot>, (Failure, Vec<Slot>)> {
    let mut slots = Vec::new();
    slots.reserve_exact(keys.len());
    // A fetch demands mostly what its round's first lookup asked for, in that order.
    let (mut next, mut as_asked) = (0, 0);
    for (done, key) in keys.iter().enumerate() {
        let mut taken = Taken::Nothing;
        for (nth, lookup) in pins.iter_mut().enumerate() {
            if nth == 0 && as_asked == 0 {
                as_asked = lookup.keys().common(next, keys, done);
            }
            let at = if nth == 0 && as_asked > 0 { Some(next) } else { lookup.place(key) };
            let Some(at) = at else { continue };
            if nth == 0 {
                (next, as_asked) = (at + 1, as_asked.saturating_sub(1));
            }
            taken = lookup.take(at);
            match taken {
                Taken::Nothing => {}
                Taken::Pin(_) | Taken::Twice => break,
            }
        }
        match taken {
            Taken::Pin(source) => slots.push(Slot::Claimed(source)),
            Taken::Twice => return Err((Failure::Malformed, slots)),
            Taken::Nothing => {
                // Which of two faults a fetch is told must not depend on their order.
                let why = KeyMap::build(keys).map_or(Failure::Malformed, |_| Failure::NoSupply);
                return Err((why, slots));
            }
        }
    }
    Ok(slots)
}
