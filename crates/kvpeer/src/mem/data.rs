//! One node's data plane: copies blocks through other nodes' doors.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use kvpeer_core::{BlockIdx, Epoch, TransferEnd, XferId};
use kvpeer_wire::RegionInfo;

use super::doors::{Door, Doors, Landed};
use crate::plane::{DataFact, DataPlane, Progress, Rest};
use crate::region::Region;

/// A node's doors, and its WRITEs through others'.
pub(super) struct MemData {
    doors: Arc<Doors>,
    region: Arc<Region>,
    rights: BTreeMap<Epoch, Right>,
    /// Answers that the next `progress` gives.
    pending: Vec<DataFact>,
    block: Vec<u8>,
}

struct Right {
    own: Arc<Door>,
    peer: Option<Arc<Door>>,
    writes: VecDeque<Write>,
    health: Health,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    /// A block did not land: nothing more is written.
    Failed,
}

struct Write {
    xfer: XferId,
    src: Vec<BlockIdx>,
    dst: Vec<BlockIdx>,
    /// How many blocks have landed.
    landed: usize,
    wanted: Wanted,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Yes,
    Cancelled,
}

/// What became of one step.
enum Step {
    Landed,
    Ended(XferId, TransferEnd),
    Failed(XferId),
    Stopped,
}

impl MemData {
    pub(super) fn new(doors: &Arc<Doors>, region: &Arc<Region>) -> Self {
        Self {
            doors: Arc::clone(doors),
            block: vec![0; region.block_len()],
            region: Arc::clone(region),
            rights: BTreeMap::new(),
            pending: Vec::new(),
        }
    }

    fn find_peer(&self, region: RegionInfo, metadata: &[u8]) -> Result<Arc<Door>, String> {
        let key =
            metadata.try_into().map(u64::from_le_bytes).map_err(|_| "its metadata is no key".to_owned())?;
        let door = self.doors.find(key).ok_or("no open right has its key")?;
        let (num_blocks, block_len) = door.geometry().ok_or("its right is closed")?;
        if (num_blocks, block_len as u64) != (region.num_blocks, region.block_len) {
            return Err("its region is not the one that it announced".into());
        }
        if block_len != self.region.block_len() {
            return Err("its blocks have another length than ours".into());
        }
        Ok(door)
    }

    fn check_write(&self, xfer: XferId, src: &[BlockIdx], dst: &[BlockIdx]) -> Result<(), String> {
        let right = self.rights.get(&xfer.epoch).ok_or("the right is not open")?;
        if right.health == Health::Failed {
            return Err("the right failed".into());
        }
        let peer = right.peer.as_ref().ok_or("no peer is registered")?;
        let theirs = peer.geometry().map_or(0, |(num_blocks, _)| num_blocks);
        match (src.iter().max(), dst.iter().max()) {
            _ if src.len() != dst.len() => Err("sources and destinations differ in number".into()),
            (Some(src), _) if *src >= self.region.num_blocks() => Err(format!("no block {src} here")),
            // A closed door is found out by writing, as on a real network.
            (_, Some(dst)) if *dst >= theirs && theirs > 0 => Err(format!("no block {dst} at the peer")),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }
}

impl DataPlane for MemData {
    fn open_right(&mut self, epoch: Epoch) {
        let own = self.doors.open(&self.region);
        let metadata = Ok(own.key.to_le_bytes().to_vec());
        self.rights.insert(epoch, Right { own, peer: None, writes: VecDeque::new(), health: Health::Good });
        self.pending.push(DataFact::RightOpened { epoch, metadata });
    }

    fn register(&mut self, epoch: Epoch, region: RegionInfo, metadata: &[u8]) {
        let found = self.find_peer(region, metadata);
        let result = match (self.rights.get_mut(&epoch), found) {
            (Some(right), Ok(door)) => {
                right.peer = Some(door);
                Ok(())
            }
            (_, Err(why)) => Err(why),
            (None, Ok(_)) => Err("the right is not open".into()),
        };
        self.pending.push(DataFact::Registered { epoch, result });
    }

    fn write(&mut self, xfer: XferId, src: &[BlockIdx], dst: &[BlockIdx]) {
        let refused = self.check_write(xfer, src, dst);
        match (self.rights.get_mut(&xfer.epoch), refused) {
            (Some(right), Ok(())) => {
                let (src, dst) = (src.to_vec(), dst.to_vec());
                right.writes.push_back(Write { xfer, src, dst, landed: 0, wanted: Wanted::Yes });
            }
            (_, refused) => {
                let detail = refused.err().unwrap_or_default();
                self.pending.push(DataFact::Transfer { xfer, end: TransferEnd::NotPosted, detail });
            }
        }
    }

    fn cancel(&mut self, xfer: XferId) {
        let Some(right) = self.rights.get_mut(&xfer.epoch) else { return };
        for write in right.writes.iter_mut().filter(|write| write.xfer == xfer) {
            write.wanted = Wanted::Cancelled;
        }
    }

    fn close_right(&mut self, epoch: Epoch) {
        if let Some(right) = self.rights.remove(&epoch) {
            self.doors.close(&right.own);
            let fenced = |write: Write| DataFact::Transfer {
                xfer: write.xfer,
                end: TransferEnd::Fenced,
                detail: String::new(),
            };
            self.pending.extend(right.writes.into_iter().map(fenced));
        }
        self.pending.push(DataFact::RightClosed { epoch, fenced: true });
    }

    fn progress(&mut self, budget: usize, facts: &mut Vec<DataFact>) -> Progress {
        facts.append(&mut self.pending);
        // Every right gets a fair part; what one leaves is left for the next call.
        let share = (budget / self.rights.len().max(1)).max(1);
        let mut progress = Progress::Quiet;
        for (epoch, right) in &mut self.rights {
            for step in 0.. {
                if step == share {
                    progress = Progress::More;
                    break;
                }
                match right.step(&self.doors, &self.region, &mut self.block) {
                    Step::Landed => {}
                    Step::Ended(xfer, end) => {
                        facts.push(DataFact::Transfer { xfer, end, detail: String::new() });
                    }
                    Step::Failed(xfer) => right.fail(*epoch, xfer, facts),
                    Step::Stopped => break,
                }
            }
        }
        progress
    }

    fn prepare_wait(&mut self) -> Rest {
        let cancelled = |write: &Write| write.wanted == Wanted::Cancelled;
        let busy = |right: &Right| match right.writes.front() {
            Some(_) if self.doors.allows_some() => true,
            Some(_) => right.writes.iter().any(cancelled),
            None => false,
        };
        let quiet = self.pending.is_empty() && !self.rights.values().any(busy);
        if quiet { Rest::MaySleep } else { Rest::Busy }
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

impl Right {
    /// Ends one WRITE, or copies one block.
    fn step(&mut self, doors: &Doors, region: &Region, block: &mut [u8]) -> Step {
        if let Some(at) = self.writes.iter().position(Write::is_over)
            && let Some(write) = self.writes.remove(at)
        {
            return Step::Ended(write.xfer, write.end());
        }
        let (Some(write), Some(peer)) = (self.writes.front_mut(), &self.peer) else { return Step::Stopped };
        let (Some(src), Some(dst)) = (write.src.get(write.landed), write.dst.get(write.landed)) else {
            return Step::Stopped;
        };
        if !doors.take_allowance() {
            return Step::Stopped;
        }
        if region.read_block(*src, block).is_err() || peer.write(*dst, block) == Landed::No {
            return Step::Failed(write.xfer);
        }
        write.landed += 1;
        Step::Landed
    }

    /// One block of `failed` did not land: nothing else of this right will.
    fn fail(&mut self, epoch: Epoch, failed: XferId, facts: &mut Vec<DataFact>) {
        self.health = Health::Failed;
        let detail = "the peer's right is closed";
        facts.push(DataFact::PeerFault { epoch, detail: detail.into() });
        for write in self.writes.drain(..) {
            let end = if write.xfer == failed { TransferEnd::Errored } else { TransferEnd::NotPosted };
            facts.push(DataFact::Transfer { xfer: write.xfer, end, detail: String::new() });
        }
    }
}

impl Write {
    fn is_over(&self) -> bool {
        self.wanted == Wanted::Cancelled || self.landed == self.src.len()
    }

    /// Whatever was copied has landed; so a cancelled WRITE leaves nothing in doubt.
    fn end(&self) -> TransferEnd {
        if self.landed == self.src.len() { TransferEnd::Done } else { TransferEnd::NotPosted }
    }
}

impl Drop for MemData {
    fn drop(&mut self) {
        for right in self.rights.values() {
            self.doors.close(&right.own);
        }
    }
}
