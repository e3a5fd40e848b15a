//! One right: what one peer may do to our region and we to its, from opening to the fence.

use std::fmt;
use std::time::Instant;

use crate::endpoint::{Completed, Endpoint, Posted};
use crate::error::FabricError;
use crate::event::{FabricEvent, Refusal, TransferEnd};
use crate::faults::{Fault, seeded};
use crate::metadata::Metadata;
use crate::runs::Shape;
use crate::traffic::{Ended, Traffic};

/// Names a right. Chosen by the caller; to be used again only after its `RightClosed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RightId(pub u32);

impl fmt::Display for RightId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a transfer: the right it goes through, and a number that the caller chooses and does not use again
/// while that transfer has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XferId {
    /// The right.
    pub right: RightId,
    /// The number within the right.
    pub seq: u64,
}

/// Writes posted in a row with the hint that more follow.
const MORE_BATCH: usize = 8;

/// Where a right is in its life.
pub(crate) enum Stage {
    /// Asked for; its endpoint will be made by a later `progress`.
    Opening,
    /// Its endpoint listens.
    Open(Lane),
    /// Its endpoint, if it had one, will be closed by a later `progress`; until then it is left alone.
    Closing(Option<Lane>),
}

/// An open endpoint, and what is known of the way to its peer.
pub(crate) struct Lane {
    endpoint: Endpoint,
    /// The number of blocks in the registered peer's region.
    peer_blocks: Option<u32>,
    /// Nothing new is posted after the first error.
    failed: bool,
    /// The queue itself failed: reading it again would only fail again.
    deaf: bool,
    /// The last post was refused by flow control.
    busy: bool,
}

/// A right and the accounts of its transfers.
pub(crate) struct Right {
    id: RightId,
    pub(crate) stage: Stage,
    traffic: Traffic,
}

/// How a plane moves transfers; the same for all of its rights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) shape: Shape,
    pub(crate) num_blocks: u32,
    pub(crate) queue_limit: usize,
}

impl Right {
    pub(crate) fn new(id: RightId) -> Self {
        Self { id, stage: Stage::Opening, traffic: Traffic::default() }
    }

    /// The endpoint was made.
    pub(crate) fn opened(&mut self, endpoint: Endpoint) {
        self.stage =
            Stage::Open(Lane { endpoint, peer_blocks: None, failed: false, deaf: false, busy: false });
    }

    /// Admits the peer, with a region of `blocks` blocks and `len` bytes.
    pub(crate) fn register(
        &mut self,
        metadata: Metadata<'_>,
        blocks: u32,
        len: u64,
    ) -> Result<(), FabricError> {
        let state = |reason| Err(FabricError::RightState { right: self.id, reason });
        match &mut self.stage {
            Stage::Opening => state("is still opening"),
            Stage::Closing(_) => state("is closing"),
            Stage::Open(lane) if lane.peer_blocks.is_some() => state("already has a registered peer"),
            Stage::Open(lane) => {
                lane.endpoint.insert(metadata, len)?;
                lane.peer_blocks = Some(blocks);
                Ok(())
            }
        }
    }

    /// Takes a transfer on, to be posted by later `progress`. `Ok(Some(..))`: it is over already.
    pub(crate) fn admit(
        &mut self,
        seq: u64,
        (src, dst): (&[u32], &[u32]),
        rules: Rules,
        deadline: Instant,
    ) -> Result<Option<Ended>, Refusal> {
        let lane = match &self.stage {
            Stage::Open(lane) => lane,
            Stage::Opening | Stage::Closing(_) => return Err(Refusal::NotOpen),
        };
        let peer_blocks = lane.peer_blocks.ok_or(Refusal::NotRegistered)?;
        if lane.failed {
            return Err(Refusal::RightFailed);
        }
        if src.len() != dst.len() {
            return Err(Refusal::LengthMismatch { src: src.len(), dst: dst.len() });
        }
        // SUP-4
        if let Some(&index) = src.iter().find(|index| **index >= rules.num_blocks) {
            return Err(Refusal::SourceOutOfRange { index });
        }
        if let Some(&index) = dst.iter().find(|index| **index >= peer_blocks)
            && !seeded(Fault::ForeignBlocksPosted)
        {
            return Err(Refusal::DestinationOutOfRange { index });
        }
        self.traffic.admit(seq, (src, dst), rules.shape, rules.queue_limit, deadline)
    }

    pub(crate) fn cancel(&mut self, seq: u64, out: &mut Vec<FabricEvent>) {
        if let Some(ended) = self.traffic.cut(seq, Refusal::Cancelled) {
            out.push(transfer_event(self.id, ended));
        }
    }

    /// Reads at most `quantum` completions, then posts at most as many writes. Answers how many of both.
    pub(crate) fn progress(&mut self, quantum: usize, out: &mut Vec<FabricEvent>) -> usize {
        let Stage::Open(lane) = &mut self.stage else { return 0 };
        let (id, traffic) = (self.id, &mut self.traffic);
        let read = lane.read(id, quantum, traffic, out);
        let posted = lane.post(id, quantum, traffic, out);
        read + posted
    }

    /// Reports transfers past their deadline.
    pub(crate) fn report_stalled(&mut self, now: Instant, out: &mut Vec<FabricEvent>) {
        let right = self.id;
        self.traffic
            .stalled(now, |seq| out.push(FabricEvent::Stalled { right, xfer: XferId { right, seq } }));
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.traffic.next_deadline()
    }

    /// Whether this right must be polled on a timer: it has no descriptor to sleep on, or waits for flow control,
    /// whose end not every provider signals.
    pub(crate) fn needs_timer(&self) -> bool {
        match &self.stage {
            Stage::Open(lane) => {
                !lane.deaf && (lane.endpoint.fd().is_none() || lane.busy && self.traffic.has_queue())
            }
            Stage::Opening | Stage::Closing(_) => false,
        }
    }

    /// Whether the caller may sleep as far as this right is concerned.
    pub(crate) fn try_wait(&mut self, out: &mut Vec<FabricEvent>) -> bool {
        let Stage::Open(lane) = &mut self.stage else { return true };
        let postable = self.traffic.has_queue() && !lane.busy && !lane.endpoint.is_full();
        if lane.deaf {
            return true;
        }
        match lane.endpoint.try_wait() {
            Ok(quiet) => quiet && !postable,
            Err(error) => {
                lane.deaf = true;
                lane.fail(self.id, error, &mut self.traffic, out);
                false
            }
        }
    }

    pub(crate) fn fd(&self) -> Option<std::os::fd::RawFd> {
        match &self.stage {
            Stage::Open(lane) | Stage::Closing(Some(lane)) => lane.endpoint.fd(),
            Stage::Opening | Stage::Closing(None) => None,
        }
    }

    /// The descriptor of a queue that failed.
    pub(crate) fn dead_fd(&self) -> Option<std::os::fd::RawFd> {
        match &self.stage {
            Stage::Open(lane) if lane.deaf => lane.endpoint.fd(),
            Stage::Open(_) | Stage::Opening | Stage::Closing(_) => None,
        }
    }

    pub(crate) fn stale_completions(&self) -> u64 {
        match &self.stage {
            Stage::Open(lane) | Stage::Closing(Some(lane)) => lane.endpoint.stale_completions(),
            Stage::Opening | Stage::Closing(None) => 0,
        }
    }

    /// From now on nothing is posted and the queue is not read.
    pub(crate) fn start_closing(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Closing(None)) {
            Stage::Opening => Stage::Closing(None),
            Stage::Open(lane) => Stage::Closing(Some(lane)),
            Stage::Closing(lane) => Stage::Closing(lane),
        };
    }

    /// Closes the endpoint, and only then reports what had not ended, and the fence (END-10).
    pub(crate) fn close(mut self, out: &mut Vec<FabricEvent>) {
        let right = self.id;
        let fenced = match self.stage {
            // Without an endpoint there was no way in.
            Stage::Opening | Stage::Closing(None) => true,
            Stage::Open(lane) | Stage::Closing(Some(lane)) => lane.endpoint.close(),
        };
        self.traffic.fence(|ended| out.push(transfer_event(right, ended)));
        out.push(FabricEvent::RightClosed { right, fenced });
    }
}

impl Lane {
    fn read(&mut self, id: RightId, max: usize, traffic: &mut Traffic, out: &mut Vec<FabricEvent>) -> usize {
        if self.deaf {
            return 0;
        }
        let mut first_error = None;
        let read = self.endpoint.poll(max, |completed| match completed {
            Completed::Write(ticket, result) => {
                if let Err(error) = &result {
                    first_error.get_or_insert_with(|| error.clone());
                }
                out.extend(traffic.completed(ticket, result).map(|ended| transfer_event(id, ended)));
            }
            Completed::Unattributed(error) => {
                first_error.get_or_insert(error);
            }
            Completed::Stale => {}
        });
        let read = read.unwrap_or_else(|error| {
            self.deaf = true;
            first_error.get_or_insert(error);
            0
        });
        if let Some(error) = first_error {
            self.fail(id, error, traffic, out);
        }
        read
    }

    fn post(&mut self, id: RightId, max: usize, traffic: &mut Traffic, out: &mut Vec<FabricEvent>) -> usize {
        self.busy = false;
        let mut posted = 0;
        while posted < max && !self.failed && !self.endpoint.is_full() {
            let Some((ticket, part, more_wait)) = traffic.next() else { break };
            let more = more_wait && posted + 1 < max && (posted + 1) % MORE_BATCH != 0;
            match self.endpoint.post(&part, ticket, more) {
                Ok(Posted::Yes) => {
                    traffic.posted();
                    posted += 1;
                }
                Ok(Posted::Busy) => {
                    self.busy = true;
                    break;
                }
                Err(error) => self.fail(id, error, traffic, out),
            }
        }
        posted
    }

    /// After the first error nothing new is posted; what is in flight reports its own end.
    fn fail(
        &mut self,
        right: RightId,
        error: FabricError,
        traffic: &mut Traffic,
        out: &mut Vec<FabricEvent>,
    ) {
        if !self.failed {
            self.failed = true;
            out.push(FabricEvent::Fault { right, error });
            traffic.cut_all(Refusal::RightFailed, |ended| out.push(transfer_event(right, ended)));
        }
    }
}

pub(crate) fn transfer_event(right: RightId, (seq, end): (u64, TransferEnd)) -> FabricEvent {
    FabricEvent::Transfer { xfer: XferId { right, seq }, end }
}
