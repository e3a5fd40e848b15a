//! Finds keys in a run of them, in constant time.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use kvpeer_wire::{Key, Keys};

use crate::KeyBuf;

/// Maps keys to their positions in a run that its owner keeps and passes to every call.
///
/// Keys are hashes, so a part of their bytes serves as their hash; the table is a function of the keys and the order
/// in which they came, nothing else. Keys that were made to collide cost a peer nothing more than an ordered map.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct KeyMap(Table);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Table {
    /// Open addressing: a slot is empty (0), or half a hash above a position counted from 1. At most half full.
    Hashed { slots: Vec<u64>, len: usize },
    /// After too many collisions.
    Ordered(BTreeMap<KeyBuf, u32>),
}

/// How far from its place a key may lie before the table gives up on hashing.
const LONGEST_WALK: usize = 256;
const FEWEST_SLOTS: usize = 8;

/// Two keys of the run are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Doubled;

/// What a walk through the slots found.
enum Walk {
    At(u32),
    Free(usize),
    TooLong,
}

impl KeyMap {
    pub(crate) fn with_room_for(keys: usize) -> Self {
        let slots = (keys.saturating_mul(2)).next_power_of_two().max(FEWEST_SLOTS);
        Self(Table::Hashed { slots: alloc::vec![0; slots], len: 0 })
    }

    /// Maps every key of a run: one allocation, whatever their number.
    pub(crate) fn build(keys: Keys<'_>) -> Result<Self, Doubled> {
        let mut map = Self::with_room_for(keys.len());
        for (at, key) in (0u32..).zip(keys.iter()) {
            if map.insert(keys, key, at).is_some() {
                return Err(Doubled);
            }
        }
        Ok(map)
    }

    /// Maps `key`, which lies at `at` in `keys`. If it is mapped already, nothing changes and its place is returned.
    pub(crate) fn insert(&mut self, keys: Keys<'_>, key: Key<'_>, at: u32) -> Option<u32> {
        self.make_room(keys);
        match &mut self.0 {
            Table::Hashed { slots, len } => {
                let hash = hash(key);
                match walk(slots, keys, key, hash) {
                    Walk::At(found) => return Some(found),
                    Walk::Free(place) => {
                        if let Some(slot) = slots.get_mut(place) {
                            *slot = pack(hash, at);
                            *len += 1;
                        }
                        return None;
                    }
                    Walk::TooLong => {}
                }
                self.0 = Table::Ordered(ordered(slots, keys));
                self.insert(keys, key, at)
            }
            Table::Ordered(map) => match map.get(&KeyBuf::from(key)) {
                Some(found) => Some(*found),
                None => {
                    map.insert(KeyBuf::from(key), at);
                    None
                }
            },
        }
    }

    /// Where in `keys` the key lies, if it was mapped.
    pub(crate) fn find(&self, keys: Keys<'_>, key: Key<'_>) -> Option<u32> {
        match &self.0 {
            Table::Hashed { slots, .. } => match walk(slots, keys, key, hash(key)) {
                Walk::At(found) => Some(found),
                Walk::Free(_) | Walk::TooLong => None,
            },
            Table::Ordered(map) => map.get(&KeyBuf::from(key)).copied(),
        }
    }

    fn make_room(&mut self, keys: Keys<'_>) {
        let Table::Hashed { slots, len } = &self.0 else { return };
        if (len + 1) * 2 <= slots.len() {
            return;
        }
        let mut grown = Self::with_room_for(slots.len());
        for at in positions(slots) {
            if let Some(key) = keys.get(at as usize) {
                grown.insert(keys, key, at);
            }
        }
        *self = grown;
    }
}

impl Default for KeyMap {
    fn default() -> Self {
        Self(Table::Hashed { slots: Vec::new(), len: 0 })
    }
}

fn walk(slots: &[u64], keys: Keys<'_>, key: Key<'_>, hash: u64) -> Walk {
    let mask = slots.len().wrapping_sub(1);
    let start = hash as usize;
    for step in 0..LONGEST_WALK {
        let place = start.wrapping_add(step) & mask;
        match slots.get(place) {
            Some(0) | None => return Walk::Free(place),
            Some(slot) if slot >> 32 == hash >> 32 => {
                let at = position(*slot);
                if keys.get(at as usize) == Some(key) {
                    return Walk::At(at);
                }
            }
            Some(_) => {}
        }
    }
    Walk::TooLong
}

fn pack(hash: u64, at: u32) -> u64 {
    (hash >> 32 << 32) | u64::from(at.saturating_add(1))
}

fn position(slot: u64) -> u32 {
    (slot as u32).wrapping_sub(1)
}

fn positions(slots: &[u64]) -> impl Iterator<Item = u32> {
    slots.iter().filter(|slot| **slot != 0).map(|slot| position(*slot))
}

fn ordered(slots: &[u64], keys: Keys<'_>) -> BTreeMap<KeyBuf, u32> {
    positions(slots).filter_map(|at| Some((KeyBuf::from(keys.get(at as usize)?), at))).collect()
}

/// The first and the last eight bytes, mixed: a hash chain differs in the first, its groups in the last.
fn hash(key: Key<'_>) -> u64 {
    let bytes = key.as_bytes();
    let (first, last) = match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        (Some(_) | None, _) => {
            (bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)), bytes.len() as u64)
        }
    };
    let mixed = (first ^ last.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use kvpeer_wire::{Key, KeysBuf};

    use super::{Doubled, KeyMap, Table, hash};

    fn run(keys: &[&[u8]]) -> KeysBuf {
        keys.iter().map(|key| Key::new(key).unwrap()).collect()
    }

    #[test]
    fn finds_every_key_of_a_run_and_no_other() {
        let names: [&[u8]; 6] = [b"block-0001", b"block-0000", b"b", b"block-00", b"z\0", b"z"];
        let keys = run(&names);
        let map = KeyMap::build(keys.as_keys()).unwrap();
        let found: Vec<_> = names.iter().map(|k| map.find(keys.as_keys(), Key::new(k).unwrap())).collect();
        assert_eq!(found, (0..6).map(Some).collect::<Vec<_>>());
        assert_eq!(map.find(keys.as_keys(), Key::new(b"block-0002").unwrap()), None);
        assert_eq!(KeyMap::default().find(keys.as_keys(), Key::new(b"b").unwrap()), None);
    }

    #[test]
    fn refuses_a_doubled_key_wherever_it_stands() {
        for keys in [run(&[b"a", b"b", b"a"]), run(&[b"block-0001", b"block-0002", b"block-0002"])] {
            assert_eq!(KeyMap::build(keys.as_keys()), Err(Doubled));
        }
    }

    #[test]
    fn grows_as_keys_come() {
        let mut keys = KeysBuf::new();
        let mut map = KeyMap::default();
        for at in 0..1000u32 {
            let bytes = at.to_be_bytes();
            let key = Key::new(&bytes).unwrap();
            keys.push(key);
            assert_eq!(map.insert(keys.as_keys(), key, at), None);
        }
        let all = keys.as_keys();
        assert!(all.iter().enumerate().all(|(at, key)| map.find(all, key) == Some(at as u32)));
        assert_eq!(map.insert(all, Key::new(&7u32.to_be_bytes()).unwrap(), 2000), Some(7));
    }

    #[test]
    fn keys_made_to_collide_are_found_all_the_same() {
        // Equal in the bytes that are hashed, different in between.
        let colliding: Vec<[u8; 36]> = (0..300u16)
            .map(|n| {
                let mut key = [7; 36];
                key[16..18].copy_from_slice(&n.to_le_bytes());
                key
            })
            .collect();
        let keys: KeysBuf = colliding.iter().map(|key| Key::new(key).unwrap()).collect();
        let all = keys.as_keys();
        assert!(all.iter().all(|key| hash(key) == hash(all.get(0).unwrap())));
        let map = KeyMap::build(all).unwrap();
        assert!(matches!(map.0, Table::Ordered(_)));
        assert!(all.iter().enumerate().all(|(at, key)| map.find(all, key) == Some(at as u32)));
        let doubled: KeysBuf = all.iter().chain(all.get(5)).collect();
        assert_eq!(KeyMap::build(doubled.as_keys()), Err(Doubled));
    }
}
