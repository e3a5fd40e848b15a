//! A block cache for those who have none of their own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kvpeer_core::{BlockIdx, JobId};
use kvpeer_wire::{Key, KeyBuf};

use super::{Answer, BlockCache, Probe};

/// Which key lies in which block, and which of them are pinned. Cheap to clone; clones are one table.
///
/// Enough for tools, tests and small engines. It does not evict: the engine inserts and removes, and passes the
/// results of pins on to [`finished`](Self::finished).
#[derive(Clone, Default, Debug)]
pub struct BlockTable(Arc<Mutex<Table>>);

#[derive(Default, Debug)]
struct Table {
    blocks: HashMap<KeyBuf, Held>,
    pins: BTreeMap<JobId, Vec<KeyBuf>>,
    next_job: u64,
}

#[derive(Debug)]
struct Held {
    block: BlockIdx,
    pins: usize,
}

/// The block is read by peers; its key stays until they are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the block is pinned by {pins} lookups; try again when they are finished")]
pub struct Pinned {
    /// By how many lookups' jobs.
    pub pins: usize,
}

impl BlockTable {
    /// Holds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A job id that this table has not given out before: for the engine's own jobs, so that they do not meet
    /// those of pins.
    pub fn mint(&self) -> JobId {
        self.table().mint()
    }

    /// From now on `key` is held in `block`. Answers where it lay before; refused while that is pinned.
    pub fn insert(&self, key: Key<'_>, block: BlockIdx) -> Result<Option<BlockIdx>, Pinned> {
        let mut table = self.table();
        let before = table.remove(key)?;
        table.blocks.insert(key.into(), Held { block, pins: 0 });
        Ok(before)
    }

    /// `key` is not held any more. Answers where it lay; refused while that is pinned.
    pub fn remove(&self, key: Key<'_>) -> Result<Option<BlockIdx>, Pinned> {
        self.table().remove(key)
    }

    /// Where `key` is held.
    pub fn get(&self, key: Key<'_>) -> Option<BlockIdx> {
        self.table().blocks.get(&KeyBuf::from(key)).map(|held| held.block)
    }

    /// How many keys are held.
    pub fn len(&self) -> usize {
        self.table().blocks.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A [`StoreFinished`](crate::Event::StoreFinished) came: if `job` was a pin, its blocks are not pinned by
    /// it any more. Other jobs are ignored.
    pub fn finished(&self, job: JobId) {
        let mut table = self.table();
        for key in table.pins.remove(&job).unwrap_or_default() {
            if let Some(held) = table.blocks.get_mut(&key) {
                held.pins = held.pins.saturating_sub(1);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change of the table is complete before the lock is let go, also when its holder panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn mint(&mut self) -> JobId {
        let job = JobId(self.next_job);
        self.next_job = self.next_job.wrapping_add(1);
        job
    }

    fn remove(&mut self, key: Key<'_>) -> Result<Option<BlockIdx>, Pinned> {
        let key = KeyBuf::from(key);
        match self.blocks.get(&key) {
            Some(Held { pins: 0, .. }) => Ok(self.blocks.remove(&key).map(|held| held.block)),
            Some(Held { pins, .. }) => Err(Pinned { pins: *pins }),
            None => Ok(None),
        }
    }
}

impl BlockCache for BlockTable {
    fn probe(&mut self, probe: &Probe<'_>, answer: &mut Answer) {
        let mut table = self.table();
        let mut pinned = Vec::new();
        for (at, key) in probe.open_keys() {
            let key = KeyBuf::from(key);
            match table.blocks.get_mut(&key) {
                Some(held) => {
                    held.pins += 1;
                    answer.hit(at, held.block);
                    pinned.push(key);
                }
                None => answer.miss(at),
            }
        }
        if !pinned.is_empty() {
            let job = table.mint();
            answer.pin(job);
            table.pins.insert(job, pinned);
        }
    }
}

#[cfg(test)]
mod tests {
    use kvpeer_core::{Epoch, KeyAt, ProbeId};
    use kvpeer_wire::{KeysBuf, PeerName, RequestName, Round};

    use super::*;

    fn key(byte: &[u8; 1]) -> Key<'_> {
        Key::new(byte).unwrap()
    }

    fn ask(table: &mut BlockTable, names: &[u8; 3], open: &[KeyAt]) -> Answer {
        let keys: KeysBuf = names.chunks(1).map(|name| Key::new(name).unwrap()).collect();
        let mut answer = Answer::default();
        let probe = Probe {
            id: ProbeId { epoch: Epoch(0), seq: 0 },
            peer: &PeerName::new("peer").unwrap().into(),
            request: &RequestName::new("request").unwrap().into(),
            round: Round(0),
            keys: keys.as_keys(),
            open,
        };
        table.probe(&probe, &mut answer);
        answer
    }

    #[test]
    fn hits_are_pinned_until_their_job_is_finished() {
        let mut table = BlockTable::new();
        table.insert(key(b"a"), 10).unwrap();
        table.insert(key(b"c"), 30).unwrap();

        let answer = ask(&mut table, b"abc", &[KeyAt(0), KeyAt(1), KeyAt(2)]);
        assert_eq!(answer.hits, [(KeyAt(0), 10), (KeyAt(2), 30)]);
        assert_eq!(answer.misses, [KeyAt(1)]);
        let job = answer.pin.unwrap();
        let again = ask(&mut table, b"abc", &[KeyAt(0)]).pin.unwrap();
        assert_ne!(job, again);
        assert_ne!(table.mint(), again);

        assert_eq!(table.remove(key(b"a")), Err(Pinned { pins: 2 }));
        assert_eq!(table.insert(key(b"a"), 11), Err(Pinned { pins: 2 }));
        table.finished(job);
        assert_eq!(table.remove(key(b"c")), Ok(Some(30)));
        assert_eq!(table.remove(key(b"a")), Err(Pinned { pins: 1 }));
        table.finished(again);
        table.finished(again);
        assert_eq!(table.insert(key(b"a"), 11), Ok(Some(10)));
        assert_eq!(table.get(key(b"a")), Some(11));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn only_open_keys_are_answered_and_misses_pin_nothing() {
        let mut table = BlockTable::new();
        table.insert(key(b"a"), 1).unwrap();
        let answer = ask(&mut table, b"abc", &[KeyAt(1)]);
        assert_eq!(answer, Answer { pin: None, hits: vec![], misses: vec![KeyAt(1)] });
        assert_eq!(table.remove(key(b"a")), Ok(Some(1)));
    }
}
