//! The thread of one right: it owns the agent, and does what may take long.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use kvpeer::Region;
use kvpeer::plane::DataFact;
use kvpeer_core::{BlockIdx, Epoch, TransferEnd, XferId};
use kvpeer_wire::RegionInfo;

use crate::NixlError;
use crate::agent::{Agent, Progress, Request, Run};
use crate::capi::Api;
use crate::plane::Reports;

/// While WRITEs are under way NIXL has to be asked about them. The time between two looks doubles up to the longer
/// of these, and starts again when something has ended.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(1));

/// What a right is told to do. The end of the channel closes it.
pub(crate) enum Order {
    Register(RegionInfo, Vec<u8>),
    Write(XferId, Vec<BlockIdx>, Vec<BlockIdx>),
}

/// What the thread is given.
pub(crate) struct Setup {
    pub(crate) api: Arc<Api>,
    pub(crate) epoch: Epoch,
    pub(crate) name: String,
    pub(crate) transports: String,
    pub(crate) region: Arc<Region>,
    pub(crate) reports: Reports,
    /// Whether nothing lands any more once the agent is gone.
    pub(crate) fenced: bool,
}

/// Runs a right from its opening to its close.
pub(crate) fn run(setup: Setup, orders: &Receiver<Order>) {
    let Setup { api, epoch, name, transports, region, reports, fenced } = setup;
    let opened = Agent::new(&api, &name, &transports, &region)
        .and_then(|agent| agent.metadata().map(|metadata| (agent, metadata)));
    let ended = match opened {
        Ok((agent, metadata)) => {
            reports.tell(DataFact::RightOpened { epoch, metadata: Ok(metadata) });
            let mut right =
                Right { agent, epoch, region, reports: &reports, peer: Peer::Unknown, live: BTreeMap::new() };
            right.work(orders);
            right.close()
        }
        Err(error) => {
            reports.tell(DataFact::RightOpened { epoch, metadata: Err(error.to_string()) });
            // Nothing can be asked of a right that is not there, but its close.
            while let Ok(order) = orders.recv() {
                if let Order::Write(xfer, ..) = order {
                    reports.tell(not_posted(xfer, String::new()));
                }
            }
            Vec::new()
        }
    };
    for xfer in ended {
        reports.tell(DataFact::Transfer { xfer, end: TransferEnd::Fenced, detail: String::new() });
    }
    reports.tell(DataFact::RightClosed { epoch, fenced });
}

struct Right<'a> {
    agent: Agent,
    epoch: Epoch,
    region: Arc<Region>,
    reports: &'a Reports,
    peer: Peer,
    live: BTreeMap<XferId, Request>,
}

enum Peer {
    Unknown,
    Known {
        name: CString,
        region: RegionInfo,
    },
    /// A WRITE failed: nothing more is written.
    Failed,
}

impl Right<'_> {
    /// Until the channel ends.
    fn work(&mut self, orders: &Receiver<Order>) {
        let mut patience = LOOK_AGAIN.0;
        loop {
            let order = match self.live.is_empty() {
                true => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => orders.recv_timeout(patience),
            };
            match order {
                Ok(order) => self.obey(order),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            patience = if self.look() > 0 { LOOK_AGAIN.0 } else { LOOK_AGAIN.1.min(patience * 2) };
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Register(region, metadata) => {
                let met = self.agent.meet(&metadata).and_then(|name| fits(region).map(|()| name));
                let result = met.map(|name| self.peer = Peer::Known { name, region });
                let result = result.map_err(|error| error.to_string());
                self.reports.tell(DataFact::Registered { epoch: self.epoch, result });
            }
            Order::Write(xfer, src, dst) => self.write(xfer, &src, &dst),
        }
    }

    fn write(&mut self, xfer: XferId, src: &[BlockIdx], dst: &[BlockIdx]) {
        let Peer::Known { name, region } = &self.peer else {
            return self.reports.tell(not_posted(xfer, String::new()));
        };
        let Some(runs) = runs(&self.region, *region, src, dst) else {
            return self.reports.tell(not_posted(xfer, "a block outside of a region".into()));
        };
        let request = match self.agent.prepare(name, &runs) {
            Ok(request) => request,
            Err(error) => return self.reports.tell(not_posted(xfer, error.to_string())),
        };
        match self.agent.post(&request) {
            Ok(Progress::UnderWay) => drop(self.live.insert(xfer, request)),
            Ok(Progress::Done) => self.end(xfer, request, Ok(())),
            // A part of it may have left.
            Err(error) => self.end(xfer, request, Err(error)),
        }
    }

    /// Asks about every WRITE; says how many have ended.
    fn look(&mut self) -> usize {
        let asked = self.live.iter().map(|(xfer, request)| (*xfer, self.agent.progress(request)));
        let ended: Vec<_> = asked.filter(|(_, progress)| *progress != Ok(Progress::UnderWay)).collect();
        let count = ended.len();
        for (xfer, progress) in ended {
            if let Some(request) = self.live.remove(&xfer) {
                self.end(xfer, request, progress.map(|_| ()));
            }
        }
        count
    }

    fn end(&mut self, xfer: XferId, request: Request, result: Result<(), NixlError>) {
        self.agent.release(request);
        let (end, detail) = match result {
            Ok(()) => (TransferEnd::Done, String::new()),
            Err(error) => (TransferEnd::Errored, error.to_string()),
        };
        let failed = !detail.is_empty();
        self.reports.tell(DataFact::Transfer { xfer, end, detail: detail.clone() });
        if failed && !matches!(self.peer, Peer::Failed) {
            self.peer = Peer::Failed;
            self.reports.tell(DataFact::PeerFault { epoch: self.epoch, detail });
        }
    }

    /// Ends the agent. Only then are its WRITEs over: these are the ones that had not ended.
    fn close(self) -> Vec<XferId> {
        let Self { agent, live, .. } = self;
        let mut ended = Vec::with_capacity(live.len());
        for (xfer, request) in live {
            ended.push(xfer);
            agent.release(request);
        }
        drop(agent);
        ended
    }
}

fn not_posted(xfer: XferId, detail: String) -> DataFact {
    DataFact::Transfer { xfer, end: TransferEnd::NotPosted, detail }
}

/// The region's last byte has an address.
fn fits(region: RegionInfo) -> Result<(), NixlError> {
    let len = region.block_len.checked_mul(u64::from(region.num_blocks));
    let end = len.and_then(|len| region.base_addr.checked_add(len));
    end.and_then(|end| usize::try_from(end).ok()).map(|_| ()).ok_or(NixlError::Region)
}

/// The parts of memory behind these blocks; blocks that are neighbours on both sides are one.
fn runs(ours: &Region, theirs: RegionInfo, src: &[BlockIdx], dst: &[BlockIdx]) -> Option<Vec<Run>> {
    let len = ours.block_len();
    let base = usize::try_from(theirs.base_addr).ok()?;
    let mut runs: Vec<Run> = Vec::new();
    for (from, to) in src.iter().zip(dst) {
        let from = ours.block_ptr(*from)?.addr().get();
        let to = (*to < theirs.num_blocks).then_some(*to)?;
        let to = base.checked_add(len.checked_mul(usize::try_from(to).ok()?)?)?;
        match runs.last_mut() {
            Some(last) if last.from + last.len == from && last.to + last.len == to => last.len += len,
            Some(_) | None => runs.push(Run { from, to, len }),
        }
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_written_as_one() {
        let ours = Region::new(8, 16).expect("memory");
        let theirs = RegionInfo { base_addr: 1000, num_blocks: 8, block_len: 16 };
        let base = ours.base().addr().get();
        let found = runs(&ours, theirs, &[0, 1, 2, 5], &[4, 5, 0, 7]);
        let expected = [
            Run { from: base, to: 1064, len: 32 },
            Run { from: base + 32, to: 1000, len: 16 },
            Run { from: base + 80, to: 1112, len: 16 },
        ];
        assert_eq!(found.as_deref(), Some(&expected[..]));
    }

    #[test]
    fn blocks_outside_of_either_region_are_refused() {
        let ours = Region::new(8, 16).expect("memory");
        let theirs = RegionInfo { base_addr: 1000, num_blocks: 4, block_len: 16 };
        assert_eq!(runs(&ours, theirs, &[8], &[0]), None);
        assert_eq!(runs(&ours, theirs, &[0], &[4]), None);
        let high = RegionInfo { base_addr: u64::MAX - 8, ..theirs };
        assert_eq!(fits(high), Err(NixlError::Region));
        assert_eq!(fits(theirs), Ok(()));
    }
}
