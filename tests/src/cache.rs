//! A node's block cache, which answers lookups: looks up and pins in one step.

use std::collections::{BTreeMap, BTreeSet};

use kvpeer_core::{BlockIdx, Input, JobId, KeyAt, ProbeId};
use kvpeer_wire::KeysBuf;

use crate::names::{REUSED, content};
use crate::{Job, Who, World, key};

/// A pin that a lookup won; its one result comes like a store's.
pub type Pin = Job;

#[derive(Clone, Default)]
pub(crate) struct Cache {
    /// Which block holds a key.
    pub(crate) held: BTreeMap<Vec<u8>, BlockIdx>,
    /// Keys that are on their way into the cache.
    pub(crate) coming: BTreeSet<Vec<u8>>,
    pub(crate) asked: BTreeMap<ProbeId, Asked>,
    pins: u64,
}

/// A lookup that waits for the cache.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) keys: KeysBuf,
    pub(crate) open: Vec<KeyAt>,
    /// The core wants no answer any more; one that is on its way still comes.
    pub(crate) ended: bool,
}

/// The ids of pins start here, those of stories are smaller.
const FIRST_PIN: u64 = 1_000;

impl Asked {
    fn key(&self, at: KeyAt) -> Vec<u8> {
        self.keys.as_keys().get(at.0 as usize).expect("a key of the lookup").as_bytes().into()
    }
}

impl World {
    /// The node's cache holds these keys, in these blocks.
    pub fn caches(&mut self, who: Who, keys: &[u32], blocks: &[BlockIdx]) {
        assert_eq!(keys.len(), blocks.len());
        for (number, block) in keys.iter().zip(blocks) {
            let name = key(*number).into_bytes();
            let node = self.node_mut(who);
            node.memory[*block as usize] = content(&name);
            node.cache.coming.remove(&name);
            node.cache.held.insert(name, *block);
        }
        self.log(format!("{who}: caches {keys:?} in {blocks:?}"));
    }

    /// These keys are on their way into the node's cache: lookups find them pending.
    pub fn expects_keys(&mut self, who: Who, keys: &[u32]) {
        let names = keys.iter().map(|number| key(*number).into_bytes());
        self.node_mut(who).cache.coming.extend(names);
    }

    /// Whether a node's cache holds a key.
    pub fn has_cached(&self, who: Who, number: u32) -> bool {
        self.node(who).cache.held.contains_key(key(number).as_bytes())
    }

    /// The cache drops some key that nothing pins, if there is one.
    pub fn evict_unpinned(&mut self, who: Who) {
        let node = self.node_mut(who);
        let unpinned = node.cache.held.iter().find(|(_, block)| node.books.pins(**block) == 0);
        if let Some((name, block)) = unpinned.map(|(name, block)| (name.clone(), *block)) {
            node.cache.held.remove(&name);
            node.memory[block as usize] = REUSED;
        }
    }

    /// The cache drops a key and uses its block for something else.
    pub fn evict(&mut self, who: Who, number: u32) {
        let name = key(number).into_bytes();
        let node = self.node_mut(who);
        let block = node.cache.held.remove(&name).expect("a cached key");
        assert_eq!(node.books.pins(block), 0, "a pinned block is not evicted");
        node.memory[block as usize] = REUSED;
        self.log(format!("{who}: evicts {} from {block}", key(number)));
    }

    /// How many unfinished jobs pin a block.
    pub fn pins(&self, who: Who, block: BlockIdx) -> usize {
        self.node(who).books.pins(block)
    }

    /// Lookups that wait for a node's cache.
    pub fn probes(&self, who: Who) -> Vec<ProbeId> {
        self.node(who).cache.asked.keys().copied().collect()
    }

    /// The cache will not answer this lookup: the story does.
    pub fn drop_probe(&mut self, who: Who, probe: ProbeId) {
        self.node_mut(who).cache.asked.remove(&probe);
    }

    /// The cache has pinned these blocks for a job that the story has named.
    pub fn books_pin(&mut self, who: Who, job: JobId, blocks: &[BlockIdx]) {
        let since = self.writes.len();
        self.node_mut(who).books.store(job, blocks.into(), since);
    }

    /// The cache answers a lookup of which it has been told that it is over, if there is one.
    pub fn answer_late(&mut self, who: Who) {
        let over = self.node(who).cache.asked.iter().find(|(_, asked)| asked.ended);
        if let Some(probe) = over.map(|(probe, _)| *probe) {
            self.answer(who, probe);
        }
    }

    /// The cache answers a lookup from what it holds now.
    pub fn answer(&mut self, who: Who, probe: ProbeId) -> Option<Pin> {
        let asked = self.node_mut(who).cache.asked.remove(&probe).expect("a lookup that waits");
        let cache = &self.node(who).cache;
        let mut hits = Vec::new();
        let mut misses = Vec::new();
        for at in &asked.open {
            let name = asked.key(*at);
            match cache.held.get(&name) {
                Some(block) => hits.push((*at, *block)),
                None if cache.coming.contains(&name) => {}
                None => misses.push(*at),
            }
        }
        let pin = if hits.is_empty() { None } else { Some(self.pin(who, &hits)) };
        self.log(format!(
            "{who}: probe {}: hits {hits:?}, misses {misses:?}, pin {pin:?}",
            crate::text::probe(probe)
        ));
        self.feed(who, Input::Probed { probe, pin, hits: &hits, misses: &misses });
        pin.map(|id| Job { who, id })
    }

    fn pin(&mut self, who: Who, hits: &[(KeyAt, BlockIdx)]) -> JobId {
        let since = self.writes.len();
        let node = self.node_mut(who);
        node.cache.pins += 1;
        let pin = JobId(FIRST_PIN + node.cache.pins);
        node.books.store(pin, hits.iter().map(|(_, block)| *block).collect(), since);
        pin
    }
}
