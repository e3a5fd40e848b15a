//! Finds keys in a run of them.

use alloc::vec::Vec;
use core::cmp::Ordering;

use kvpeer_wire::{Key, Keys};

/// The order of a run's keys: one allocation, whatever the number of keys.
///
/// Entries start with the key's first eight bytes, which decide nearly every comparison: keys are hashes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct KeyIndex(Vec<(u64, u32)>);

/// Two keys of the run are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Doubled;

impl KeyIndex {
    pub(crate) fn build(keys: Keys<'_>) -> Result<Self, Doubled> {
        let mut order: Vec<_> = (0u32..).zip(keys.iter()).map(|(at, key)| (prefix(key), at)).collect();
        order.sort_unstable();
        let ties = order.as_mut_slice().chunk_by_mut(|a, b| a.0 == b.0).filter(|run| run.len() > 1);
        for run in ties {
            run.sort_unstable_by_key(|(_, at)| keys.get(*at as usize));
            if run.array_windows().any(|[(_, a), (_, b)]| keys.get(*a as usize) == keys.get(*b as usize)) {
                return Err(Doubled);
            }
        }
        Ok(Self(order))
    }

    /// The position in `keys`, the run that this index was built from.
    pub(crate) fn find(&self, keys: Keys<'_>, key: Key<'_>) -> Option<usize> {
        let wanted = prefix(key);
        let found = self.0.binary_search_by(|(prefix, at)| {
            prefix.cmp(&wanted).then_with(|| keys.get(*at as usize).map_or(Ordering::Less, |k| k.cmp(&key)))
        });
        found.ok().and_then(|order| self.0.get(order)).map(|(_, at)| *at as usize)
    }
}

fn prefix(key: Key<'_>) -> u64 {
    let bytes = key.as_bytes();
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            bytes.iter().fold(0, |prefix, byte| prefix << 8 | u64::from(*byte)) << (8 * (8 - bytes.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use kvpeer_wire::{Key, KeysBuf};

    use super::{Doubled, KeyIndex};

    fn run(keys: &[&[u8]]) -> KeysBuf {
        keys.iter().map(|key| Key::new(key).unwrap()).collect()
    }

    #[test]
    fn finds_every_key_of_a_run_with_common_prefixes() {
        let names: [&[u8]; 6] = [b"block-0001", b"block-0000", b"b", b"block-00", b"z\0", b"z"];
        let keys = run(&names);
        let index = KeyIndex::build(keys.as_keys()).unwrap();
        let found: Vec<_> = names.iter().map(|k| index.find(keys.as_keys(), Key::new(k).unwrap())).collect();
        assert_eq!(found, (0..6).map(Some).collect::<Vec<_>>());
        assert_eq!(index.find(keys.as_keys(), Key::new(b"block-0002").unwrap()), None);
    }

    #[test]
    fn refuses_a_doubled_key_wherever_it_stands() {
        for keys in [run(&[b"a", b"b", b"a"]), run(&[b"block-0001", b"block-0002", b"block-0002"])] {
            assert_eq!(KeyIndex::build(keys.as_keys()), Err(Doubled));
        }
    }
}
