//! Nodes in this process, and a pump that drives them by their descriptors.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::net::{IpAddr, Ipv4Addr};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvpeer_fabric::{Fabric, FabricConfig, FabricEvent, Memory, PeerRegion, RightId, TransferEnd, XferId};

pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A wait that ends without any descriptor becoming readable counts as idle; so many of them fail a test. Enough
/// for a machine that is busy with other things, and never reached by a test that passes.
const IDLE_WAITS: u32 = 300;
const WAIT_MS: i32 = 100;

/// Plain memory for a plane; read and written by raw accesses only.
pub(crate) struct Region {
    base: NonNull<u8>,
    layout: Layout,
}

impl Region {
    pub(crate) fn new(len: usize) -> Arc<Self> {
        let layout = Layout::from_size_align(len, 4096).expect("layout");
        // SAFETY: tests ask for more than 0 bytes.
        let base = unsafe { alloc_zeroed(layout) };
        Arc::new(Self { base: NonNull::new(base).expect("memory"), layout })
    }

    /// Fills bytes `at..at + len`.
    pub(crate) fn fill(&self, at: usize, len: usize, byte: u8) {
        assert!(at + len <= self.layout.size());
        // SAFETY: in bounds, and no Rust reference to the memory exists.
        unsafe { self.base.as_ptr().wrapping_add(at).write_bytes(byte, len) };
    }

    pub(crate) fn byte(&self, at: usize) -> u8 {
        assert!(at < self.layout.size());
        // SAFETY: in bounds; volatile, since peers write behind the compiler's back.
        unsafe { self.base.as_ptr().wrapping_add(at).read_volatile() }
    }

    /// How many of the bytes `at..at + len` differ from `byte`.
    pub(crate) fn count_other(&self, at: usize, len: usize, byte: u8) -> usize {
        assert!(at + len <= self.layout.size() && at.is_multiple_of(8) && len.is_multiple_of(8));
        let whole = u64::from_ne_bytes([byte; 8]);
        let other = |at: usize| {
            let word = self.base.as_ptr().wrapping_add(at).cast::<u64>();
            // SAFETY: in bounds and aligned, both checked above; volatile as in `byte`.
            let word = unsafe { word.read_volatile() };
            if word == whole { 0 } else { word.to_ne_bytes().iter().filter(|b| **b != byte).count() }
        };
        (at..at + len).step_by(8).map(other).sum()
    }
}

// SAFETY: the allocation lives as long as the value, never moves, and is accessed through raw pointers only.
unsafe impl Memory for Region {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.layout.size()
    }
}

// SAFETY: all access is raw, and tests synchronise by completions.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and dropped once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// A plane, its memory, and the events it reported so far.
pub(crate) struct Node {
    pub(crate) fabric: Fabric,
    pub(crate) region: Arc<Region>,
    pub(crate) events: Vec<FabricEvent>,
    pub(crate) block_len: usize,
    pub(crate) num_blocks: u32,
}

impl Node {
    pub(crate) fn new(block_len: usize, num_blocks: u32) -> Self {
        Self::with(block_len, num_blocks, |_| {})
    }

    pub(crate) fn with(block_len: usize, num_blocks: u32, adjust: impl FnOnce(&mut FabricConfig)) -> Self {
        let region = Region::new(block_len * num_blocks as usize);
        let mut config = FabricConfig::new(LOOPBACK, block_len as u64, num_blocks);
        adjust(&mut config);
        let fabric = Fabric::open(&config, Arc::<Region>::clone(&region)).expect("open");
        Self { fabric, region, events: Vec::new(), block_len, num_blocks }
    }

    pub(crate) fn peer_region(&self) -> PeerRegion {
        PeerRegion {
            num_blocks: self.num_blocks,
            block_len: self.block_len as u64,
            base_addr: self.region.base().as_ptr().addr() as u64,
        }
    }

    pub(crate) fn fill_block(&self, block: u32, byte: u8) {
        self.region.fill(block as usize * self.block_len, self.block_len, byte);
    }

    /// Whether all of the block holds this byte.
    pub(crate) fn block_is(&self, block: u32, byte: u8) -> bool {
        self.region.count_other(block as usize * self.block_len, self.block_len, byte) == 0
    }

    /// Opens a right and answers its metadata.
    pub(crate) fn open_right(&mut self, right: RightId) -> Vec<u8> {
        self.fabric.open_right(right);
        pump(&mut [self], |nodes| nodes[0].opened(right).is_some());
        self.opened(right).expect("pumped")
    }

    fn opened(&self, right: RightId) -> Option<Vec<u8>> {
        let mut metadata = None;
        for event in &self.events {
            if let FabricEvent::RightOpened { right: of, metadata: told } = event
                && *of == right
            {
                metadata = Some(told.clone().expect("opened"));
            }
        }
        metadata
    }

    pub(crate) fn register(&mut self, right: RightId, region: PeerRegion, metadata: &[u8]) {
        self.fabric.register(right, region, metadata);
        let registered = FabricEvent::Registered { right, result: Ok(()) };
        pump(&mut [self], |nodes| nodes[0].events.contains(&registered));
    }

    /// How the transfer ended, if it has. Fails when it ended twice.
    pub(crate) fn end_of(&self, xfer: XferId) -> Option<&TransferEnd> {
        let mut found = None;
        for event in &self.events {
            if let FabricEvent::Transfer { xfer: of, end } = event
                && *of == xfer
            {
                assert_eq!(found, None, "{xfer:?} ended twice");
                found = Some(end);
            }
        }
        found
    }

    /// The answer to `close_right`, if it came. Fails when it came twice.
    pub(crate) fn closed(&self, right: RightId) -> Option<bool> {
        let mut found = None;
        for event in &self.events {
            if let FabricEvent::RightClosed { right: of, fenced } = event
                && *of == right
            {
                assert_eq!(found, None, "{right:?} closed twice");
                found = Some(*fenced);
            }
        }
        found
    }

    pub(crate) fn faults(&self, right: RightId) -> usize {
        let is_fault =
            |event: &&FabricEvent| matches!(event, FabricEvent::Fault { right: of, .. } if *of == right);
        self.events.iter().filter(is_fault).count()
    }
}

/// Opens a right on each node and introduces them to each other.
pub(crate) fn link(a: &mut Node, right_a: RightId, b: &mut Node, right_b: RightId) {
    let (of_a, of_b) = (a.open_right(right_a), b.open_right(right_b));
    a.register(right_a, b.peer_region(), &of_b);
    b.register(right_b, a.peer_region(), &of_a);
}

pub(crate) fn xfer(right: RightId, seq: u64) -> XferId {
    XferId { right, seq }
}

/// What a pump saw.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Pumped {
    /// Waits that ended without a readable descriptor.
    pub(crate) idle: u32,
    /// Waits in all.
    pub(crate) waits: u32,
}

/// Drives the nodes until `until` holds, sleeping on their descriptors whenever all of them allow it.
pub(crate) fn pump(nodes: &mut [&mut Node], mut until: impl FnMut(&[&mut Node]) -> bool) -> Pumped {
    let mut pumped = Pumped::default();
    loop {
        for node in nodes.iter_mut() {
            let Node { fabric, events, .. } = &mut **node;
            fabric.progress(256, events);
        }
        if until(nodes) {
            return pumped;
        }
        if nodes.iter_mut().fold(true, |quiet, node| quiet & node.fabric.prepare_wait()) {
            pumped.waits += 1;
            if !wait_on(nodes) {
                pumped.idle += 1;
            }
        }
        let last: Vec<_> = nodes.iter().map(|node| node.events.last()).collect();
        assert!(pumped.idle < IDLE_WAITS, "nothing happens any more; last events: {last:#?}");
    }
}

/// Whether a descriptor became readable before the nodes' own deadlines.
fn wait_on(nodes: &[&mut Node]) -> bool {
    let next = nodes.iter().filter_map(|node| node.fabric.next_deadline()).min();
    let left = next.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
    let timeout = i32::try_from(left.as_millis() + 1).unwrap_or(WAIT_MS).min(WAIT_MS);
    let fds = nodes.iter().flat_map(|node| node.fabric.wait_fds());
    let mut fds: Vec<_> = fds.map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: the vector holds that many entries.
    unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout) > 0 }
}
