//! Before a provider carries data it must show that its completions tell the truth.
//!
//! Two endpoints of our own, scratch memory: each write's bytes must be at the target when, and not merely
//! after, its success completion arrives (SUP-5). There are libfabric providers that fail this (see `Provider`).

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::domain::Domain;
use crate::endpoint::{Completed, Endpoint, Posted};
use crate::error::FabricError;
use crate::memory::Memory;
use crate::metadata::{Expected, Metadata};
use crate::runs::{Shape, plan};
use crate::traffic::Ticket;

/// All of it: opening, connecting, writing.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Longest sleep between two polls.
const NAP_MS: i32 = 5;
/// Blocks in either half of the scratch memory; written from the first half to the second, one after the other.
const BLOCKS: u32 = 4;
const BLOCK_LEN: usize = 64 << 10;

pub(crate) fn run(domain: &Arc<Domain>) -> Result<(), FabricError> {
    let scratch = Arc::new(Scratch::new());
    let window = 4;
    let mut writer =
        Endpoint::open(Arc::clone(domain), Arc::<Scratch>::clone(&scratch), scratch.len(), window)?;
    let mut target =
        Endpoint::open(Arc::clone(domain), Arc::<Scratch>::clone(&scratch), scratch.len(), window)?;
    let their_bytes = target.metadata()?;
    let expected = Expected {
        provider: domain.provider(),
        addressing: domain.addressing(),
        format: domain.address_format(),
        region_base: scratch.base().as_ptr().addr() as u64,
    };
    writer.insert(Metadata::decode(&their_bytes, expected)?, scratch.len() as u64)?;

    let deadline = Instant::now() + TIME_LIMIT;
    for block in 0..BLOCKS {
        scratch.fill(block, pattern(block));
        write_block(&mut writer, &mut target, block, deadline)?;
        if !scratch.holds(BLOCKS + block, pattern(block)) {
            return Err(failure(
                domain,
                "a write reported delivery before its data was visible at the target",
            ));
        }
    }
    if !(writer.close() && target.close()) && domain.provider().fences() {
        return Err(failure(domain, "closing an endpoint failed"));
    }
    Ok(())
}

fn write_block(
    writer: &mut Endpoint,
    target: &mut Endpoint,
    block: u32,
    deadline: Instant,
) -> Result<(), FabricError> {
    let shape = Shape { block_len: BLOCK_LEN as u64, max_part: BLOCK_LEN as u64, max_pieces: 1 };
    let mut part = None;
    plan(&[block], &[BLOCKS + block], shape, |planned| part.replace(planned).is_none());
    let ticket = Ticket { index: block, generation: 0 };
    let mut done = None;
    while done.is_none() {
        if Instant::now() > deadline {
            return Err(failure(
                writer.domain(),
                "a write between two endpoints of this process does not complete",
            ));
        }
        if let Some(planned) = &part
            && writer.post(planned, ticket, false)? == Posted::Yes
        {
            part = None;
        }
        // Reading the target's queue is what makes the data land.
        let landed = target.poll(8, |_| {})?;
        let seen = writer.poll(8, |completed| match completed {
            Completed::Write(_, result) => done = Some(result),
            Completed::Unattributed(error) => done = Some(Err(error)),
            Completed::Stale => {}
        })?;
        if landed + seen == 0 && writer.try_wait()? && target.try_wait()? {
            nap(&[writer, target]);
        }
    }
    done.unwrap_or(Ok(()))
}

/// Sleeps until an endpoint's descriptor is readable, but not for long.
fn nap(endpoints: &[&mut Endpoint; 2]) {
    let fd = |endpoint: &Endpoint| endpoint.fd().unwrap_or(-1);
    let mut fds =
        [fd(endpoints[0]), fd(endpoints[1])].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: `fds` is an array of two; negative descriptors are ignored by poll(2).
    unsafe { libc::poll(fds.as_mut_ptr(), 2, NAP_MS) };
}

fn failure(domain: &Domain, reason: &str) -> FabricError {
    FabricError::SelfTest { provider: domain.provider(), reason: reason.to_owned() }
}

fn pattern(block: u32) -> u8 {
    0xa0 | (block as u8 & 0x0f)
}

/// Page-aligned memory that only raw copies touch.
pub(crate) struct Scratch {
    base: NonNull<u8>,
}

impl Scratch {
    const LAYOUT: Layout = match Layout::from_size_align(2 * BLOCKS as usize * BLOCK_LEN, 4096) {
        Ok(layout) => layout,
        Err(_) => panic!("a constant layout"),
    };

    pub(crate) fn new() -> Self {
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(Self::LAYOUT) };
        Self { base: NonNull::new(base).unwrap_or_else(|| handle_alloc_error(Self::LAYOUT)) }
    }

    fn block(&self, index: u32) -> *mut u8 {
        self.base.as_ptr().wrapping_add(index as usize * BLOCK_LEN)
    }

    fn fill(&self, index: u32, byte: u8) {
        // SAFETY: callers name blocks below 2 * BLOCKS, and no write is in flight between two blocks of the test.
        unsafe { self.block(index).write_bytes(byte, BLOCK_LEN) };
    }

    fn holds(&self, index: u32, byte: u8) -> bool {
        let start = self.block(index);
        // SAFETY: as in `fill`; volatile, since libfabric wrote the bytes behind the compiler's back.
        (0..BLOCK_LEN).all(|at| unsafe { start.wrapping_add(at).read_volatile() } == byte)
    }
}

// SAFETY: the allocation lives until the value is dropped, never moves, and is accessed through raw pointers only.
unsafe impl Memory for Scratch {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        Self::LAYOUT.size()
    }
}

// SAFETY: the pointer is owned, and accesses go through raw pointers from the one thread that runs the test.
unsafe impl Send for Scratch {}
// SAFETY: as above.
unsafe impl Sync for Scratch {}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and not used after the drop.
        unsafe { dealloc(self.base.as_ptr(), Self::LAYOUT) };
    }
}
