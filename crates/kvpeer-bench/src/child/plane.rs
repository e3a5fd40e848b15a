//! kvpeer's data plane alone, through its trait, driven as a node drives it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvpeer::core::{Epoch, TransferEnd, XferId};
use kvpeer::plane::{DataFact, DataPlane, Progress, Rest};
use kvpeer::{FabricConfig, FabricData, Region};

use super::{Until, nap};
use crate::cut::Cut;
use crate::memory::Memory;
use crate::stop::{Outcome, stop};

/// The one link of each plane.
const EPOCH: Epoch = Epoch(1);
/// As a node does it.
const STEPS: usize = 1024;
/// Bytes of one WRITE at most, as the core cuts them.
const WRITE: usize = 1 << 20;
/// Only a run that hangs waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// One plane for each length of blocks.
#[derive(Default)]
pub(super) struct Planes(BTreeMap<usize, Plane>);

struct Plane {
    data: FabricData,
    region: Arc<Region>,
    facts: Vec<DataFact>,
    seq: u64,
}

impl Planes {
    pub(super) fn open(&mut self, memory: &Arc<Memory>, block_len: usize) -> Outcome<Vec<u8>> {
        let region = memory.region(block_len as u64)?;
        let config = FabricConfig::new(Ipv4Addr::LOCALHOST.into(), 0, 0);
        let mut plane =
            Plane { data: FabricData::open(&config, &region)?, region, facts: Vec::new(), seq: 0 };
        plane.data.open_right(EPOCH);
        let metadata = plane.answer(|fact| match fact {
            DataFact::RightOpened { metadata, .. } => Some(metadata.map_err(stop)),
            DataFact::Registered { .. }
            | DataFact::Transfer { .. }
            | DataFact::PeerFault { .. }
            | DataFact::RightClosed { .. } => None,
        })?;
        self.0.insert(block_len, plane);
        metadata
    }

    pub(super) fn connect(&mut self, block_len: usize, metadata: &[u8]) -> Outcome<()> {
        let plane = self.of(block_len)?;
        // Both sides have a region of the same shape.
        plane.data.register(EPOCH, plane.region.info(), metadata);
        plane.answer(|fact| match fact {
            DataFact::Registered { result, .. } => Some(result.map_err(stop)),
            DataFact::RightOpened { .. }
            | DataFact::Transfer { .. }
            | DataFact::PeerFault { .. }
            | DataFact::RightClosed { .. } => None,
        })?
    }

    /// Seconds from the first WRITE until the last has ended.
    pub(super) fn write(&mut self, cut: &Cut, in_flight: u64) -> Outcome<f64> {
        let plane = self.of(cut.block_len)?;
        let (from, to) = cut.blocks();
        let blocks = (WRITE / cut.block_len).max(1);
        let most = usize::try_from(in_flight)? / (blocks * cut.block_len);
        let mut writes = from.chunks(blocks).zip(to.chunks(blocks));
        let begun = Instant::now();
        let (mut open, mut late) = (0usize, begun + PATIENCE);
        loop {
            while open < most.max(1)
                && let Some((from, to)) = writes.next()
            {
                plane.seq += 1;
                plane.data.write(XferId { epoch: EPOCH, seq: plane.seq }, from, to);
                open += 1;
            }
            if open == 0 {
                return Ok(begun.elapsed().as_secs_f64());
            }
            let progress = plane.data.progress(STEPS, &mut plane.facts);
            let before = open;
            for fact in plane.facts.drain(..) {
                match fact {
                    DataFact::Transfer { end: TransferEnd::Done, .. } => open -= 1,
                    other @ (DataFact::Transfer { .. }
                    | DataFact::RightOpened { .. }
                    | DataFact::Registered { .. }
                    | DataFact::PeerFault { .. }
                    | DataFact::RightClosed { .. }) => return Err(wrong(&other)),
                }
            }
            if open < before {
                late = Instant::now() + PATIENCE;
            } else if Instant::now() > late {
                return Err(stop("kvpeer's data plane has not moved anything for a minute"));
            } else if progress == Progress::Quiet {
                plane.rest(|fds| nap(fds.iter().copied()))?;
            }
        }
    }

    /// Lets WRITEs land.
    pub(super) fn serve(&mut self, block_len: usize, until: Until<'_>) -> Outcome<()> {
        let plane = self.of(block_len)?;
        while !until.is_over()? {
            let progress = plane.data.progress(STEPS, &mut plane.facts);
            if let Some(fact) = plane.facts.drain(..).next() {
                return Err(wrong(&fact));
            }
            if progress == Progress::Quiet {
                plane.rest(|fds| until.nap(fds))?;
            }
        }
        Ok(())
    }

    fn of(&mut self, block_len: usize) -> Outcome<&mut Plane> {
        self.0.get_mut(&block_len).ok_or_else(|| stop("there is no plane of this block length yet"))
    }
}

impl Plane {
    fn answer<T>(&mut self, mut find: impl FnMut(DataFact) -> Option<T>) -> Outcome<T> {
        let late = Instant::now() + PATIENCE;
        while Instant::now() < late {
            self.data.progress(STEPS, &mut self.facts);
            if let Some(found) = self.facts.drain(..).find_map(&mut find) {
                return Ok(found);
            }
        }
        Err(stop("kvpeer's data plane does not answer"))
    }

    #[allow(unsafe_code, reason = "the trait names descriptors by number")]
    fn rest(&mut self, sleep: impl FnOnce(&[BorrowedFd<'_>]) -> Outcome<()>) -> Outcome<()> {
        if self.data.prepare_wait() == Rest::Busy {
            return Ok(());
        }
        // SAFETY: the plane keeps its descriptors open as long as it lives.
        let fds = self.data.wait_fds().iter().map(|fd| unsafe { BorrowedFd::borrow_raw(*fd) });
        sleep(&fds.collect::<Vec<_>>())
    }
}

fn wrong(fact: &DataFact) -> crate::stop::Stop {
    stop(format!("kvpeer's data plane failed: {fact:?}"))
}
