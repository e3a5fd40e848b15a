//! The engine's lookup-and-pin, which answers peers that ask for blocks by key.

mod table;

use kvpeer_core::{BlockIdx, JobId, KeyAt, PeerId, ProbeId, RequestId};
use kvpeer_wire::{Key, Keys, Round};

pub use table::{BlockTable, Pinned};

/// Answers lookups of peers from the engine's own blocks.
///
/// Runs on the node's thread, in the middle of its work: it must not block (a short lock is fine), nor wait for
/// anything on this node.
///
/// All hits of one answer are *pinned* by one job, whose id the cache chooses: their blocks must neither move nor
/// change until that job's one [`StoreFinished`](crate::Event::StoreFinished). So job ids of pins and of the
/// engine's own loads and stores must come from one range; [`BlockTable::mint`] is such a source.
pub trait BlockCache: Send {
    /// Looks up the open keys and pins what is there, in one step. Keys that are neither hit nor missed are
    /// asked for again after a while, and count as missed when the lookup's time is up.
    fn probe(&mut self, probe: &Probe<'_>, answer: &mut Answer);

    /// No more answers are wanted for this lookup; what is pinned stays pinned until its job's result.
    fn end_probe(&mut self, probe: ProbeId) {
        let _ = probe;
    }
}

/// What a peer wants to know.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// Names the lookup.
    pub id: ProbeId,
    /// Who asks.
    pub peer: &'a PeerId,
    /// For which request.
    pub request: &'a RequestId,
    /// In which of its rounds.
    pub round: Round,
    /// All keys of the lookup, in its order: a prefix of a prompt, as a rule.
    pub keys: Keys<'a>,
    /// Those that have no answer yet, in increasing order.
    pub open: &'a [KeyAt],
}

impl<'a> Probe<'a> {
    /// The keys that have no answer yet, with their positions.
    pub fn open_keys(&self) -> impl Iterator<Item = (KeyAt, Key<'a>)> + use<'a> {
        let keys = self.keys;
        self.open.iter().filter_map(move |at| Some((*at, keys.get(at.0 as usize)?)))
    }
}

/// The cache's answer to one probe.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Answer {
    pub(crate) pin: Option<JobId>,
    pub(crate) hits: Vec<(KeyAt, BlockIdx)>,
    pub(crate) misses: Vec<KeyAt>,
}

impl Answer {
    /// The key is held, in this block, which is pinned from now on.
    pub fn hit(&mut self, at: KeyAt, block: BlockIdx) {
        self.hits.push((at, block));
    }

    /// The key is not held.
    pub fn miss(&mut self, at: KeyAt) {
        self.misses.push(at);
    }

    /// The job that pins the hits; needed when there is one. An answer without hits needs none, but one that is
    /// named gets its result all the same.
    pub fn pin(&mut self, job: JobId) {
        self.pin = Some(job);
    }

    /// Nothing is held of all that is asked.
    pub fn miss_all(&mut self, probe: &Probe<'_>) {
        self.misses.extend_from_slice(probe.open);
    }
}

/// Holds nothing: for nodes that only take blocks, or give them by stores only.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoBlocks;

impl BlockCache for NoBlocks {
    fn probe(&mut self, probe: &Probe<'_>, answer: &mut Answer) {
        answer.miss_all(probe);
    }
}
