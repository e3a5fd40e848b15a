//! Finds keys in a run of them, in constant time.

use alloc::vec::Vec;

use kvpeer_wire::{Key, Keys};

/// Maps keys to their positions in a run that its owner keeps and passes to every call.
///
/// Keys are hashes, so a part of their bytes serves as their hash; the table is a function of the keys and of how they
/// came, nothing else. Keys that were made to collide are searched in their order instead: a run of
/// them costs a sort, and no more memory than any other ([`MOST_PER_KEY`]).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct KeyMap(Table);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Table {
    /// Open addressing: a slot is empty (0), or has a position counted from 1 in as many low bits as the number of slots
    /// needs, and a part of the hash above. At most half full.
    Hashed { slots: Vec<u32>, len: u32 },
    /// After too many collisions: positions in the order of their keys.
    Ordered(Vec<u32>),
}

/// The most that a map takes for one of its keys, in bytes, beside [`FEWEST_SLOTS`].
pub(crate) const MOST_PER_KEY: usize = 4 * size_of::<u32>();

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
    /// Maps every key of a run: one allocation, whatever their number.
    pub(crate) fn build(keys: Keys<'_>) -> Result<Self, Doubled> {
        let mut slots = free_slots(keys.len());
        let mut len = 0;
        for key in keys.iter() {
            let hash = hash(key);
            match walk(&slots, keys, key, hash) {
                Walk::At(_) => return Err(Doubled),
                Walk::Free(place) => take(&mut slots, place, hash, len),
                Walk::TooLong => return Self::sorted(keys),
            }
            len += 1;
        }
        Ok(Self(Table::Hashed { slots, len }))
    }

    fn sorted(keys: Keys<'_>) -> Result<Self, Doubled> {
        let key = |at: &u32| keys.get(*at as usize);
        let mut order: Vec<u32> = (0u32..).take(keys.len()).collect();
        order.sort_unstable_by_key(key);
        let doubled = order.array_windows().any(|[a, b]| key(a) == key(b));
        if doubled { Err(Doubled) } else { Ok(Self(Table::Ordered(order))) }
    }

    /// Maps `key` to the next position: it becomes the next of `keys`. If it is mapped already, nothing changes and its
    /// position is returned.
    #[inline]
    pub(crate) fn insert(&mut self, keys: Keys<'_>, key: Key<'_>) -> Option<u32> {
        if let Table::Hashed { slots, len } = &self.0
            && (*len as usize + 1) * 2 > slots.len()
        {
            self.0 = grown(*len, keys);
        }
        match &mut self.0 {
            Table::Hashed { slots, len } => {
                let hash = hash(key);
                match walk(slots, keys, key, hash) {
                    Walk::At(found) => return Some(found),
                    Walk::Free(place) => {
                        take(slots, place, hash, *len);
                        *len += 1;
                        return None;
                    }
                    Walk::TooLong => {}
                }
                self.0 = ordered(*len, keys);
                self.insert(keys, key)
            }
            Table::Ordered(order) => match search(order, keys, key) {
                Ok(place) => order.get(place).copied(),
                Err(place) => {
                    order.insert(place, order.len() as u32);
                    None
                }
            },
        }
    }

    /// Where in `keys` the key lies, if it was mapped.
    #[inline]
    pub(crate) fn find(&self, keys: Keys<'_>, key: Key<'_>) -> Option<u32> {
        match &self.0 {
            Table::Hashed { slots, .. } => match walk(slots, keys, key, hash(key)) {
                Walk::At(found) => Some(found),
                Walk::Free(_) | Walk::TooLong => None,
            },
            Table::Ordered(order) => order.get(search(order, keys, key).ok()?).copied(),
        }
    }
}

impl Default for KeyMap {
    fn default() -> Self {
        Self(Table::Hashed { slots: Vec::new(), len: 0 })
    }
}

#[inline(always)]
fn walk(slots: &[u32], keys: Keys<'_>, key: Key<'_>, hash: u64) -> Walk {
    let mask = mask(slots);
    let mut place = hash as u32 & mask;
    for _ in 0..LONGEST_WALK {
        let slot = slots.get(place as usize).copied().unwrap_or(0);
        if slot == 0 {
            return Walk::Free(place as usize);
        }
        if (slot ^ mark(hash)) & !mask == 0 {
            let at = (slot & mask) - 1;
            if keys.get(at as usize) == Some(key) {
                return Walk::At(at);
            }
        }
        place = (place + 1) & mask;
    }
    Walk::TooLong
}

/// At least twice as many as there are keys, so that walks are short.
fn free_slots(keys: usize) -> Vec<u32> {
    alloc::vec![0; keys.saturating_mul(2).next_power_of_two().max(FEWEST_SLOTS)]
}

/// The bits of a slot that hold a position: there are fewer than slots.
#[inline]
fn mask(slots: &[u32]) -> u32 {
    (slots.len() as u32).wrapping_sub(1)
}

/// The part of a hash that does not decide on a key's place.
#[inline]
fn mark(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[inline]
fn take(slots: &mut [u32], place: usize, hash: u64, at: u32) {
    let mask = mask(slots);
    if let Some(slot) = slots.get_mut(place) {
        *slot = (mark(hash) & !mask) | (at + 1);
    }
}

/// The same keys in a table with room for more.
#[cold]
fn grown(len: u32, keys: Keys<'_>) -> Table {
    let mut slots = free_slots(len as usize + 1);
    for (at, key) in (0..len).zip(keys.iter()) {
        let hash = hash(key);
        match walk(&slots, keys, key, hash) {
            Walk::Free(place) => take(&mut slots, place, hash, at),
            Walk::At(_) => {}
            Walk::TooLong => return ordered(len, keys),
        }
    }
    Table::Hashed { slots, len }
}

/// Gives up on hashing.
#[cold]
fn ordered(len: u32, keys: Keys<'_>) -> Table {
    let mut order: Vec<u32> = (0..len).collect();
    order.sort_unstable_by_key(|at| keys.get(*at as usize));
    Table::Ordered(order)
}

fn search(order: &[u32], keys: Keys<'_>, key: Key<'_>) -> Result<usize, usize> {
    order.binary_search_by_key(&Some(key), |at| keys.get(*at as usize))
}

/// The first and the last eight bytes, mixed: a hash chain differs in the first, its groups in the last.
#[inline]
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

    use kvpeer_wire::{Key, KeyBuf, KeysBuf};

    use super::{Doubled, FEWEST_SLOTS, KeyMap, MOST_PER_KEY, Table, hash};

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
            assert_eq!(map.insert(keys.as_keys(), key), None);
            keys.push(key);
        }
        let all = keys.as_keys();
        assert!(all.iter().enumerate().all(|(at, key)| map.find(all, key) == Some(at as u32)));
        assert_eq!(map.insert(all, Key::new(&7u32.to_be_bytes()).unwrap()), Some(7));
    }

    /// Keys that are equal in the bytes that are hashed, and different in between.
    fn colliding(count: u16) -> KeysBuf {
        let mut key = [7; 36];
        let keys = (0..count).map(|n| {
            key[16..18].copy_from_slice(&n.to_be_bytes());
            KeyBuf::from(Key::new(&key).unwrap())
        });
        let keys: Vec<KeyBuf> = keys.collect();
        keys.iter().rev().map(KeyBuf::as_key).collect()
    }

    #[test]
    fn keys_made_to_collide_are_found_all_the_same() {
        let keys = colliding(300);
        let all = keys.as_keys();
        assert!(all.iter().all(|key| hash(key) == hash(all.get(0).unwrap())));
        let built = KeyMap::build(all).unwrap();
        let mut grown = KeyMap::default();
        for key in all.iter() {
            assert_eq!(grown.insert(all, key), None);
        }
        assert_eq!(grown.insert(all, all.get(5).unwrap()), Some(5));
        for map in [built, grown] {
            assert!(matches!(map.0, Table::Ordered(_)));
            assert!(all.iter().enumerate().all(|(at, key)| map.find(all, key) == Some(at as u32)));
            assert_eq!(map.find(all, Key::new(b"another").unwrap()), None);
        }
        let doubled: KeysBuf = all.iter().chain(all.get(5)).collect();
        assert_eq!(KeyMap::build(doubled.as_keys()), Err(Doubled));
    }

    // LIM-3
    #[test]
    fn no_map_takes_more_than_is_counted() {
        for count in [1, 4, 5, 255, 256, 257, 300, 4096, 4097, 16384] {
            let plain: KeysBuf = (0..count)
                .map(|n: u16| KeyBuf::from(Key::new(&n.to_be_bytes()).unwrap()))
                .collect::<Vec<_>>()
                .iter()
                .map(KeyBuf::as_key)
                .collect();
            for keys in [plain, colliding(count)] {
                let taken = match KeyMap::build(keys.as_keys()).unwrap().0 {
                    Table::Hashed { slots, .. } => slots.capacity() * size_of::<u32>(),
                    Table::Ordered(order) => order.capacity() * size_of::<u32>(),
                };
                let counted = usize::from(count) * MOST_PER_KEY + FEWEST_SLOTS * size_of::<u32>();
                assert!(taken <= counted, "{count} keys take {taken}");
            }
        }
    }
}
