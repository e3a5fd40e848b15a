//! The server role: what this node, as a producer, holds and gives to its peers.

mod budget;
mod check;
mod closing;
mod fetches;
mod jobs;
mod lookups;
mod memory;
mod pins;
mod pools;
mod states;
mod writes;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use kvpeer_wire::{Failure, KeysBuf, LookupId, RegionInfo, Round};

use crate::cx::Line;
use crate::key_map::KeyMap;
use crate::{BlockIdx, CloseReason, Epoch, JobId, KeyBuf, PeerId, RequestId, StoreFailure, Time};

use pins::Pins;

pub(crate) use lookups::{Answer, late};
pub(crate) use pools::{Offered, Stored};

/// What outlives sessions: store jobs, pools, and the memory of ids.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Tables {
    pub(crate) pools: BTreeMap<RequestId, Pool>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) over: Over,
    /// Pools bound to each session.
    pub(crate) bound: BTreeMap<Epoch, usize>,
    /// Bytes that the peer of each session makes us keep.
    pub(crate) kept: BTreeMap<Epoch, usize>,
}

/// Ids whose supply is over: how a fetch of them fails, and when they are forgotten.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Over {
    by_id: BTreeMap<RequestId, (Failure, Time)>,
    by_due: BTreeSet<(Time, RequestId)>,
}

/// What belongs to one session and ends with it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Session {
    pub(crate) lookups: BTreeMap<u64, Asked>,
    pub(crate) rounds: BTreeMap<RoundId, Serving>,
    pub(crate) xfers: BTreeMap<u64, Xfer>,
    /// Rounds with blocks to write, in turn; each once.
    ready: VecDeque<RoundId>,
    next_seq: u64,
    pub(crate) blocks_in_flight: usize,
    pub(crate) parked: usize,
    pub(crate) pinned: usize,
    /// Different requests among `rounds`.
    requests: usize,
    pub(crate) kept: usize,
    writes: Writes,
    /// Why nothing new is served, once that is so.
    closing: Option<CloseReason>,
}

/// Whether a WRITE of this epoch ended in error. It never becomes clean again (MSG-20).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Writes {
    #[default]
    Clean,
    Errored,
}

/// A round of a request on one session. What is said of one does not touch another (I6, PIN-6).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct RoundId {
    pub(crate) request: RequestId,
    pub(crate) round: Round,
}

/// What a round is at.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Serving {
    /// Lookups collect pins; no fetch has come.
    Probing(Probing),
    /// Its fetch is live.
    Fetching(Box<Fetching>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Probing {
    lookups: usize,
    /// Of lookups that are fully answered.
    pub(crate) pins: Vec<Pins>,
}

/// Where a block is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Source {
    pub(crate) job: JobId,
    pub(crate) block: BlockIdx,
}

/// A live fetch. At any time: demanded = waiting + claimed + in flight + landed + lost (SUP-1).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Fetching {
    /// What an `await` fetch wants: its supply may come later, or go back to the pool.
    wanted: Option<Wanted>,
    dst: Vec<BlockIdx>,
    pub(crate) slots: Vec<Slot>,
    /// Slots in the order in which they were claimed, and how many of them are posted.
    queue: Vec<u32>,
    posted: usize,
    in_flight: usize,
    landed: usize,
    waiting: usize,
    ending: Ending,
    errored: bool,
    parked_due: Option<Time>,
    cancel_due: Option<Time>,
    told: Told,
    kept: usize,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Wanted {
    keys: KeysBuf,
    index: KeyMap,
}

/// The last `fetch_progress`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Told {
    at: Time,
    landed: usize,
}

/// One demanded block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Slot {
    /// For supply.
    Waiting,
    /// To be written.
    Claimed(Source),
    /// Being written.
    Posted(Source),
    /// Written and visible.
    Landed(Source),
    /// Its WRITE failed.
    Lost,
}

/// Whether and how a live fetch is ending. It ends when nothing of it is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Ending {
    Going,
    /// Ends with `transfer_done` of this failure.
    Failing(Failure),
    /// Ends with `abort_ack`.
    Aborted,
    /// Its session is over: ends without a word.
    Silent(CloseReason),
}

/// A posted WRITE: a stretch of its round's queue.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Xfer {
    id: RoundId,
    from: usize,
    to: usize,
    due: Option<Time>,
}

/// A lookup that the block cache has not fully answered.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Asked {
    id: RoundId,
    lookup_id: LookupId,
    pins: Pins,
    /// How many keys the peer has been told about, from the first on.
    told: u32,
    /// When the first of the hits was pinned.
    pinned_at: Option<Time>,
    due: Option<Time>,
    retry_due: Option<Time>,
}

/// Supply of one request (PD-1), for whoever is bound to it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pool {
    pub(crate) holder: Holder,
    /// The only peer that may bind it, if the engine named one.
    pub(crate) consumer: Option<PeerId>,
    intake: Intake,
    supply: BTreeMap<(KeyBuf, JobId), BlockIdx>,
    jobs: BTreeSet<JobId>,
    /// Live `await` rounds of the holder.
    pub(crate) demand: BTreeSet<Round>,
    due: Option<Time>,
}

/// To whom a pool belongs: to one session at most (PD-12).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Holder {
    Unbound,
    Bound(Epoch),
}

/// Whether more stores come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Intake {
    Coming,
    /// The producer finished the request.
    Finished,
    /// The consumer released it: only demand that is still live is met.
    Released,
}

/// A store, or the pin of a lookup. Over when nothing of it is offered or claimed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Job {
    pub(crate) request: RequestId,
    pub(crate) origin: Origin,
    total: u32,
    pub(crate) offered: u32,
    pub(crate) claimed: u32,
    delivered: u32,
    failure: Option<StoreFailure>,
    offer: Offer,
    due: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Origin {
    Store,
    Pin(Epoch, Round),
}

/// Whether blocks that a round gives back are offered again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Offer {
    Open,
    Closed,
}

/// The server role on one link: borrows only what it changes.
pub(crate) struct Producer<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) peer: &'a PeerId,
    /// The peer's region.
    pub(crate) region: RegionInfo,
    pub(crate) line: &'a mut Line,
    pub(crate) session: &'a mut Session,
    pub(crate) tables: &'a mut Tables,
}

impl Probing {
    fn is_empty(&self) -> bool {
        self.lookups == 0 && self.pins.is_empty()
    }
}

impl Session {
    /// ID-6: for WRITEs and lookups alike.
    fn mint(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq = self.next_seq.saturating_add(1);
        seq
    }

    /// Whether no fetch is live and no WRITE is out.
    pub(crate) fn is_quiet(&self) -> bool {
        self.xfers.is_empty() && !self.rounds.values().any(|round| matches!(round, Serving::Fetching(_)))
    }

    /// Whether nothing at all is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.xfers.is_empty() && self.rounds.is_empty() && self.lookups.is_empty()
    }

    fn rounds_of(&self, request: &RequestId) -> impl Iterator<Item = &RoundId> {
        let first = RoundId { request: request.clone(), round: Round(0) };
        let request = request.clone();
        self.rounds.range(first..).map(|(id, _)| id).take_while(move |id| id.request == request)
    }

    fn insert_round(&mut self, id: RoundId, serving: Serving) {
        let known = self.rounds_of(&id.request).next().is_some();
        self.requests += usize::from(!known);
        self.rounds.insert(id, serving);
    }

    fn remove_round(&mut self, id: &RoundId) -> Option<Serving> {
        let gone = self.rounds.remove(id)?;
        let known = self.rounds_of(&id.request).next().is_some();
        self.requests -= usize::from(!known);
        Some(gone)
    }

    fn fetching(&mut self, id: &RoundId) -> Option<&mut Fetching> {
        match self.rounds.get_mut(id)? {
            Serving::Fetching(fetching) => Some(fetching),
            Serving::Probing(_) => None,
        }
    }
}
