//! The ways into regions: one for each open right.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kvpeer_core::BlockIdx;

use crate::region::Region;

/// All open doors of one network, by key. Keys are not secrets: whoever is in this process could write anyway.
#[derive(Debug)]
pub(super) struct Doors {
    open: Mutex<BTreeMap<u64, Arc<Door>>>,
    next_key: AtomicU64,
    /// Blocks that may still be copied; `UNLIMITED` for no end.
    allowance: AtomicU64,
}

const UNLIMITED: u64 = u64::MAX;

/// A way into one region.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) key: u64,
    /// `None` once it is closed. Each block is copied under this lock: when it is closed, nothing lands any more.
    region: Mutex<Option<Arc<Region>>>,
}

/// Whether a block went through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Landed {
    Yes,
    /// The door is closed, or has no such block.
    No,
}

impl Doors {
    pub(super) fn new() -> Self {
        Self { open: Mutex::default(), next_key: AtomicU64::new(0), allowance: AtomicU64::new(UNLIMITED) }
    }

    pub(super) fn open(&self, region: &Arc<Region>) -> Arc<Door> {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let door = Arc::new(Door { key, region: Mutex::new(Some(Arc::clone(region))) });
        self.lock().insert(key, Arc::clone(&door));
        door
    }

    pub(super) fn find(&self, key: u64) -> Option<Arc<Door>> {
        self.lock().get(&key).cloned()
    }

    pub(super) fn close(&self, door: &Door) {
        self.lock().remove(&door.key);
        door.lock().take();
    }

    pub(super) fn allow(&self, blocks: Option<u64>) {
        self.allowance.store(blocks.unwrap_or(UNLIMITED), Ordering::SeqCst);
    }

    pub(super) fn allows_some(&self) -> bool {
        self.allowance.load(Ordering::SeqCst) > 0
    }

    /// Takes one block off the allowance, if there is one.
    pub(super) fn take_allowance(&self) -> bool {
        let less = |left: u64| match left {
            UNLIMITED => Some(UNLIMITED),
            left => left.checked_sub(1),
        };
        self.allowance.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Door>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door {
    /// The number and length of the blocks behind it, while it is open.
    pub(super) fn geometry(&self) -> Option<(u32, usize)> {
        self.lock().as_ref().map(|region| (region.num_blocks(), region.block_len()))
    }

    pub(super) fn write(&self, block: BlockIdx, data: &[u8]) -> Landed {
        match &*self.lock() {
            Some(region) if region.write_block(block, data).is_ok() => Landed::Yes,
            Some(_) | None => Landed::No,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Region>>> {
        self.region.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
