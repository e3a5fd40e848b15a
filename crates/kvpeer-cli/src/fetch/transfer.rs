//! The transfer itself: portions of blocks, a few at a time, each asked for, loaded, checked and written out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use kvpeer::core::{CloseReason, Destination, JobId, LookupState, PeerId, RequestId, Role};
use kvpeer::wire::{KeysBuf, PeerName, RequestName, Supply};
use kvpeer::{CallError, Event, Events, LoadOutcome, NodeHandle, Part, Region};

use super::output::Output;
use super::plan::Plan;
use crate::args::FetchArgs;
use crate::key_list::Names;
use crate::node::Running;
use crate::stopped::{Exit, Stopped};
use crate::{keys, reasons};

/// What has been done.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) fetched: u32,
    /// Positions in the list, increasing.
    pub(crate) missing: Vec<u32>,
}

pub(crate) struct Transfer<'a> {
    plan: &'a Plan,
    output: &'a Output,
    region: &'a Arc<Region>,
    handle: NodeHandle,
    events: Events,
    /// Events that were looked at before their turn.
    waiting: VecDeque<Event>,
    source: Source,
    /// First blocks of the region's parts that no portion uses.
    free: Vec<u32>,
    /// The position of the next block that is in no portion yet.
    next: u32,
    /// By request in a symmetric transfer, by its one job in prefill/decode.
    portions: BTreeMap<u64, Portion>,
    buffer: Vec<u8>,
    tally: Tally,
    bar: ProgressBar,
}

/// Where the blocks come from.
pub(crate) struct Source {
    peer: PeerId,
    address: String,
    mode: Mode,
}

enum Mode {
    /// Ask, then load what is there. Requests are named after this prefix and the portion's number.
    Symmetric { prefix: String },
    /// Load what the peer stores for this request.
    Pd { request: RequestId },
}

struct Portion {
    request: RequestId,
    /// Position of its first block in the list.
    first: u32,
    /// First block of its part of the region.
    place: u32,
    stage: Stage,
}

enum Stage {
    /// The peer has not said about all of these blocks whether it holds them.
    Asked { count: u32 },
    /// These positions are on their way.
    Loading(Vec<u32>),
}

impl Source {
    pub(crate) fn new(args: &FetchArgs) -> Result<Self, Stopped> {
        let name = args.peer_id.as_ref().unwrap_or(&args.peer);
        let peer =
            PeerName::new(name).map_err(|error| Stopped::usage(format!("--peer-id {name}: {error}")))?;
        let mode = match &args.pd {
            Some(name) => Mode::Pd { request: request(name)? },
            // Unlike any other run's, on any host: the process and the moment are in it.
            None => Mode::Symmetric { prefix: format!("fetch-{}-{}", std::process::id(), micros()) },
        };
        Ok(Self { peer: peer.into(), address: args.peer.clone(), mode })
    }
}

impl<'a> Transfer<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        source: Source,
        region: &'a Arc<Region>,
        node: Running,
        output: &'a Output,
    ) -> Self {
        let bar = ProgressBar::new(plan.keys.len() as u64);
        bar.set_style(
            ProgressStyle::with_template("{bar:30} {pos}/{len} blocks  {elapsed}")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        Self {
            plan,
            output,
            region,
            handle: node.handle,
            events: node.events,
            waiting: VecDeque::new(),
            source,
            free: (0..plan.region_blocks()).step_by(plan.portion as usize).collect(),
            next: 0,
            portions: BTreeMap::new(),
            buffer: vec![0; region.block_len()],
            tally: Tally::default(),
            bar,
        }
    }

    /// Runs until every block is there or known to be missing, or something fails.
    pub(crate) fn run(mut self) -> Result<Tally, Stopped> {
        if let Mode::Pd { request } = &self.source.mode {
            let request = request.clone();
            self.open(&request, Supply::Await)?;
        }
        loop {
            self.start_portions()?;
            if self.portions.is_empty() {
                self.bar.finish_and_clear();
                self.tally.missing.sort_unstable();
                return Ok(self.tally);
            }
            let Some(event) = self.waiting.pop_front().or_else(|| self.events.next()) else {
                return Err(Stopped::new(Exit::Failed, "the node has ended"));
            };
            self.take(event)?;
        }
    }

    fn start_portions(&mut self) -> Result<(), Stopped> {
        let total = u32::try_from(self.plan.keys.len()).unwrap_or(u32::MAX);
        while self.next < total {
            let Some(place) = self.free.pop() else { return Ok(()) };
            let (first, number) = (self.next, u64::from(self.next / self.plan.portion));
            let count = self.plan.portion.min(total - first);
            self.next += count;
            match &self.source.mode {
                Mode::Symmetric { prefix } => {
                    let request = request(&format!("{prefix}-{number}"))?;
                    self.open(&request, Supply::Pinned)?;
                    let portion = Portion { request, first, place, stage: Stage::Asked { count } };
                    self.portions.insert(number, portion);
                    self.ask(number)?;
                }
                Mode::Pd { request } => {
                    let request = request.clone();
                    let wanted = (first..first + count).collect();
                    let portion = Portion { request, first, place, stage: Stage::Loading(Vec::new()) };
                    self.load(number, portion, wanted)?;
                }
            }
        }
        Ok(())
    }

    fn open(&self, request: &RequestId, supply: Supply) -> Result<(), Stopped> {
        let (source, address) = (self.source.peer.clone(), self.source.address.clone());
        self.handle.open(request, Part::Consume { source, address, supply }).wait().map_err(refused)
    }

    /// Asks for a portion's blocks, or what has been answered; loads what is there once all is known.
    fn ask(&mut self, number: u64) -> Result<(), Stopped> {
        let Some(Portion { request, first, stage: Stage::Asked { count }, .. }) = self.portions.get(&number)
        else {
            return Ok(());
        };
        let positions = *first..*first + *count;
        let keys = self.keys(positions.clone());
        let states = self.handle.lookup_many(request, keys).wait().map_err(refused)?;
        if states.contains(&LookupState::Pending) {
            return Ok(());
        }
        // The blocks of a peer that is gone are misses, too; that it is gone is told by an event.
        self.waiting.extend(std::iter::from_fn(|| self.events.try_next()));
        let failed = self.waiting.iter().find_map(|event| {
            let Event::RequestFailed { request: failed, reason } = event else { return None };
            (failed == request).then_some(*reason)
        });
        if let Some(reason) = failed {
            return Err(self.session_ended(reason));
        }
        let Some(portion) = self.portions.remove(&number) else { return Ok(()) };
        let (hits, misses): (Vec<_>, Vec<_>) =
            positions.zip(states).partition(|(_, state)| *state == LookupState::Hit);
        self.bar.inc(misses.len() as u64);
        self.tally.missing.extend(misses.into_iter().map(|(position, _)| position));
        if hits.is_empty() {
            return self.end(&portion);
        }
        self.load(number, portion, hits.into_iter().map(|(position, _)| position).collect())
    }

    fn load(&mut self, number: u64, portion: Portion, wanted: Vec<u32>) -> Result<(), Stopped> {
        let keys = self.keys(wanted.iter().copied());
        let blocks = wanted.iter().map(|position| portion.block(*position)).collect();
        self.handle.load(JobId(number), &portion.request, keys, blocks).wait().map_err(refused)?;
        self.portions.insert(number, Portion { stage: Stage::Loading(wanted), ..portion });
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), Stopped> {
        match event {
            Event::LookupAnswered { request } => self.ask_again(|portion| portion.request == request),
            Event::LoadFinished { job, outcome, destination, .. } => self.loaded(job, &outcome, destination),
            Event::RequestFailed { reason, .. } => Err(self.session_ended(reason)),
            Event::PeerDown { peer, reason, .. } => {
                tracing::info!("{}: session down: {reason:?}", peer.as_str());
                Ok(())
            }
            Event::PeerUp { peer } => {
                tracing::info!("{}: session up", peer.as_str());
                Ok(())
            }
            Event::PeerRefused { peer, code } => {
                tracing::warn!("{} was refused: {code:?}", peer.as_str());
                Ok(())
            }
            Event::Trouble(trouble) => {
                tracing::info!("{trouble}");
                Ok(())
            }
            Event::Lagged { .. } => self.ask_again(|_| true),
            Event::DestinationReleased { .. } | Event::StoreFinished { .. } | Event::FetchArrived { .. } => {
                Ok(())
            }
        }
    }

    fn ask_again(&mut self, which: impl Fn(&Portion) -> bool) -> Result<(), Stopped> {
        let numbers: Vec<u64> =
            self.portions.iter().filter(|(_, portion)| which(portion)).map(|(number, _)| *number).collect();
        numbers.into_iter().try_for_each(|number| self.ask(number))
    }

    fn loaded(&mut self, job: JobId, outcome: &LoadOutcome, destination: Destination) -> Result<(), Stopped> {
        let Some(portion) = self.portions.remove(&job.0) else { return Ok(()) };
        let Stage::Loading(wanted) = &portion.stage else { return Ok(()) };
        match (outcome, destination) {
            (LoadOutcome::Loaded, Destination::Reusable) => {}
            (LoadOutcome::Failed { why, .. }, _) => {
                return Err(reasons::load_failure(&self.source.address, *why));
            }
            // The protocol has no such end; said rather than trusted.
            (LoadOutcome::Loaded, Destination::Quarantined) => {
                return Err(Stopped::new(
                    Exit::Transfer,
                    "blocks came, but something may still write to them",
                ));
            }
        }
        for position in wanted {
            self.keep(*position, portion.block(*position))?;
        }
        self.bar.inc(wanted.len() as u64);
        self.end(&portion)
    }

    /// Checks a block as far as its key allows, and writes it out.
    fn keep(&mut self, position: u32, block: u32) -> Result<(), Stopped> {
        let read = self.region.read_block(block, &mut self.buffer);
        read.map_err(|error| Stopped::new(Exit::Failed, error.to_string()))?;
        let key = self.plan.keys.get(position as usize).filter(|_| self.plan.names == Names::Content);
        if key.is_some_and(|key| !key.names_content(&self.buffer)) {
            let line = format!(
                "{}: block {position} is not what its key says; was the file changed while it was served?",
                self.source.address
            );
            return Err(Stopped::new(Exit::Transfer, line));
        }
        self.output.write_at(u64::from(position) * self.plan.block_len, &self.buffer)?;
        self.tally.fetched += 1;
        Ok(())
    }

    /// A portion is over; its part of the region is free again.
    fn end(&mut self, portion: &Portion) -> Result<(), Stopped> {
        self.free.push(portion.place);
        match &self.source.mode {
            Mode::Symmetric { .. } => {
                self.handle.finish(&portion.request, Role::Consumer).wait().map_err(refused)
            }
            Mode::Pd { .. } => Ok(()),
        }
    }

    fn session_ended(&self, reason: CloseReason) -> Stopped {
        reasons::close_reason(&self.source.address, reason)
    }

    fn keys(&self, positions: impl Iterator<Item = u32>) -> KeysBuf {
        let keys = positions.filter_map(|position| self.plan.keys.get(position as usize));
        keys::run(keys)
    }
}

impl Portion {
    fn block(&self, position: u32) -> u32 {
        self.place + (position - self.first)
    }
}

fn request(name: &str) -> Result<RequestId, Stopped> {
    let name = RequestName::new(name).map_err(|error| Stopped::usage(format!("request {name}: {error}")))?;
    Ok(name.into())
}

fn refused(error: CallError) -> Stopped {
    let exit = match error {
        CallError::Misuse(_) => Exit::Usage,
        CallError::Busy | CallError::Gone => Exit::Failed,
    };
    Stopped::new(exit, error.to_string())
}

fn micros() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_micros()
}
