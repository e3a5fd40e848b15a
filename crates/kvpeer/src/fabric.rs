//! The data plane on libfabric: [`kvpeer_fabric`] as a [`DataPlane`].

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

use kvpeer_core::{BlockIdx, Epoch, TransferEnd, XferId};
use kvpeer_fabric::{Fabric, FabricConfig, FabricError, FabricEvent, PeerRegion, Provider, RightId};
use kvpeer_wire::RegionInfo;

use crate::plane::{DataFact, DataPlane, Progress, Rest};
use crate::region::Region;

/// WRITEs over libfabric.
#[derive(Debug)]
pub struct FabricData {
    fabric: Fabric,
    base_addr: u64,
    events: Vec<FabricEvent>,
}

impl FabricData {
    /// Opens the provider, and tests that what it reports as written is written.
    ///
    /// The number and length of blocks in `config` are set from `region`.
    ///
    /// # Errors
    /// When the configuration cannot work, libfabric fails, or the test does.
    pub fn open(config: &FabricConfig, region: &Arc<Region>) -> Result<Self, FabricError> {
        let config = FabricConfig {
            block_len: region.block_len() as u64,
            num_blocks: region.num_blocks(),
            ..config.clone()
        };
        let memory: Arc<dyn kvpeer_fabric::Memory> = region.clone();
        let base_addr = match config.provider {
            // Peers count from the region's start.
            Provider::Tcp => 0,
            Provider::Shm => region.base().addr().get() as u64,
        };
        Ok(Self { fabric: Fabric::open(&config, memory)?, base_addr, events: Vec::new() })
    }
}

impl DataPlane for FabricData {
    fn open_right(&mut self, epoch: Epoch) {
        self.fabric.open_right(RightId(epoch.0));
    }

    fn register(&mut self, epoch: Epoch, region: RegionInfo, metadata: &[u8]) {
        let RegionInfo { base_addr, num_blocks, block_len } = region;
        self.fabric.register(RightId(epoch.0), PeerRegion { num_blocks, block_len, base_addr }, metadata);
    }

    fn write(&mut self, xfer: XferId, src: &[BlockIdx], dst: &[BlockIdx]) {
        self.fabric.write(theirs(xfer), src, dst);
    }

    fn cancel(&mut self, xfer: XferId) {
        self.fabric.cancel(theirs(xfer));
    }

    fn close_right(&mut self, epoch: Epoch) {
        self.fabric.close_right(RightId(epoch.0));
    }

    fn progress(&mut self, budget: usize, facts: &mut Vec<DataFact>) -> Progress {
        let steps = self.fabric.progress(budget, &mut self.events);
        facts.extend(self.events.drain(..).filter_map(fact));
        if steps >= budget / 2 { Progress::More } else { Progress::Quiet }
    }

    fn wait_fds(&self) -> &[RawFd] {
        self.fabric.wait_fds()
    }

    fn prepare_wait(&mut self) -> Rest {
        if self.fabric.prepare_wait() { Rest::MaySleep } else { Rest::Busy }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.fabric.next_deadline()
    }

    fn base_addr(&self) -> u64 {
        self.base_addr
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("stale completions", self.fabric.stale_completions())]
    }
}

fn theirs(xfer: XferId) -> kvpeer_fabric::XferId {
    kvpeer_fabric::XferId { right: RightId(xfer.epoch.0), seq: xfer.seq }
}

fn ours(xfer: kvpeer_fabric::XferId) -> XferId {
    XferId { epoch: Epoch(xfer.right.0), seq: xfer.seq }
}

fn fact(event: FabricEvent) -> Option<DataFact> {
    Some(match event {
        FabricEvent::RightOpened { right, metadata } => DataFact::RightOpened {
            epoch: Epoch(right.0),
            metadata: metadata.map_err(|error| error.to_string()),
        },
        FabricEvent::Registered { right, result } => {
            DataFact::Registered { epoch: Epoch(right.0), result: result.map_err(|error| error.to_string()) }
        }
        FabricEvent::Transfer { xfer, end } => {
            let (end, detail) = ended(end);
            DataFact::Transfer { xfer: ours(xfer), end, detail }
        }
        FabricEvent::Fault { right, error } => {
            DataFact::PeerFault { epoch: Epoch(right.0), detail: error.to_string() }
        }
        FabricEvent::RightClosed { right, fenced } => DataFact::RightClosed { epoch: Epoch(right.0), fenced },
        // The endpoint has a write timer of its own, which ends the session.
        FabricEvent::Stalled { .. } => return None,
    })
}

/// The end, and what of it people should know: that a right was closed or a WRITE cancelled is no trouble, and the
/// failure of a right is told once, by its fault.
fn ended(end: kvpeer_fabric::TransferEnd) -> (TransferEnd, String) {
    use kvpeer_fabric::{Refusal, TransferEnd as End};
    match end {
        End::Done => (TransferEnd::Done, String::new()),
        End::NotPosted(Refusal::Cancelled | Refusal::RightFailed) => (TransferEnd::NotPosted, String::new()),
        End::NotPosted(why) => (TransferEnd::NotPosted, why.to_string()),
        End::Errored(error) => (TransferEnd::Errored, error.to_string()),
        End::Fenced => (TransferEnd::Fenced, String::new()),
    }
}
