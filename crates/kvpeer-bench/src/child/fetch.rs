//! Whole fetches through the facade: request, lookup, load, result; two nodes in two processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kvpeer::{
    BlockTable, Destination, Event, Events, JobId, Key, KeysBuf, LoadOutcome, LookupState, Node, NodeConfig,
    NodeHandle, Part, PeerId, PeerName, RequestId, RequestName, Role, Supply, TcpFabric,
};

use crate::cut::Cut;
use crate::memory::Memory;
use crate::order::Fetched;
use crate::stop::{Outcome, stop};

/// Only a run that hangs waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// One node for each length of blocks.
#[derive(Default)]
pub(super) struct Nodes(BTreeMap<usize, Side>);

struct Side {
    engine: Engine,
    memory: Arc<Memory>,
}

/// The consumer's or producer's end of a node.
enum Engine {
    /// Fetches. Its events are taken by whoever waits for one.
    Consumer { handle: NodeHandle, events: Events, minted: u64 },
    /// Holds blocks; a thread of its own takes its events.
    Producer { _handle: NodeHandle },
}

impl Nodes {
    /// Answers the node's address.
    pub(super) fn open(&mut self, memory: &Arc<Memory>, block_len: usize, holds: bool) -> Outcome<String> {
        let region = memory.region(block_len as u64)?;
        let blocks = region.num_blocks();
        let table = BlockTable::new();
        for block in 0..blocks {
            if holds {
                table.insert(Key::new(&name(block))?, block)?;
            }
        }
        let network = TcpFabric::listening("127.0.0.1:0".parse()?);
        let node = Node::tcp_fabric(&NodeConfig::new(region), network, table.clone())?;
        let address = node.address().ok_or_else(|| stop("the node listens nowhere"))?;
        let (handle, events) = node.spawn()?;
        let engine = if holds {
            thread::Builder::new().name("pins".to_owned()).spawn(move || {
                for event in events {
                    if let Event::StoreFinished { job, .. } = event {
                        table.finished(job);
                    }
                }
            })?;
            Engine::Producer { _handle: handle }
        } else {
            Engine::Consumer { handle, events, minted: 0 }
        };
        self.0.insert(block_len, Side { engine, memory: Arc::clone(memory) });
        Ok(address)
    }

    pub(super) fn fetch(&mut self, cut: &Cut, peer: &str) -> Outcome<Fetched> {
        self.of(cut.block_len)?.engine.fetch(cut, peer)
    }

    pub(super) fn fetch_each(&mut self, cut: &Cut, peer: &str) -> Outcome<Vec<Fetched>> {
        let Side { engine, memory } = self.of(cut.block_len)?;
        let ones = (cut.first..cut.first + cut.count).map(|first| Cut { first, count: 1, ..*cut });
        ones.map(|one| {
            memory.wipe(&one)?;
            let fetched = engine.fetch(&one, peer)?;
            memory.verify(&one)?;
            Ok(fetched)
        })
        .collect()
    }

    pub(super) fn fetch_beside(&mut self, large: &Cut, small: &Cut, peer: &str) -> Outcome<Vec<Fetched>> {
        let Side { engine, memory } = self.of(large.block_len)?;
        let (request, keys) = (engine.request(peer)?, keys(large)?);
        engine.look_up(&request, &keys)?;
        let job = engine.load(&request, keys, large)?;
        let (mut series, mut finished) = (Vec::new(), false);
        for at in 0.. {
            let place = small.first + at % small.count.max(1);
            let one = Cut { first: place, count: 1, ..*small };
            memory.wipe(&one)?;
            let fetched = engine.fetch_unless_finished(&one, peer, job, &mut finished)?;
            memory.verify(&one)?;
            if finished {
                break;
            }
            series.push(fetched);
        }
        engine.finish(&request)?;
        Ok(series)
    }

    fn of(&mut self, block_len: usize) -> Outcome<&mut Side> {
        self.0.get_mut(&block_len).ok_or_else(|| stop("there is no node of this block length yet"))
    }
}

impl Engine {
    fn fetch(&mut self, cut: &Cut, peer: &str) -> Outcome<Fetched> {
        self.fetch_unless_finished(cut, peer, JobId(u64::MAX), &mut false)
    }

    /// Notes whether another load finished meanwhile.
    fn fetch_unless_finished(
        &mut self,
        cut: &Cut,
        peer: &str,
        other: JobId,
        other_finished: &mut bool,
    ) -> Outcome<Fetched> {
        let keys = keys(cut)?;
        let begun = Instant::now();
        let request = self.request(peer)?;
        *other_finished |= self.look_up_beside(&request, &keys, other)?;
        let known = Instant::now();
        let job = self.load(&request, keys, cut)?;
        while self.next_finished(other, other_finished)? != Some(job) {}
        let fetched = Fetched { lookup: (known - begun).as_secs_f64(), load: known.elapsed().as_secs_f64() };
        self.finish(&request)?;
        Ok(fetched)
    }

    fn request(&mut self, peer: &str) -> Outcome<RequestId> {
        let at = self.mint()?.0;
        let request: RequestId = RequestName::new(&format!("fetch {at}"))?.into();
        let source: PeerId = PeerName::new(peer)?.into();
        let part = Part::Consume { source, address: peer.to_owned(), supply: Supply::Pinned };
        self.handle()?.open(&request, part).wait()?;
        Ok(request)
    }

    fn look_up(&mut self, request: &RequestId, keys: &KeysBuf) -> Outcome<()> {
        self.look_up_beside(request, keys, JobId(u64::MAX)).map(drop)
    }

    fn look_up_beside(&mut self, request: &RequestId, keys: &KeysBuf, other: JobId) -> Outcome<bool> {
        let mut other_finished = false;
        loop {
            let states = self.handle()?.lookup_many(request, keys.clone()).wait()?;
            if states.contains(&LookupState::Miss) {
                return Err(stop("the producer does not hold what it was given"));
            }
            if !states.contains(&LookupState::Pending) {
                return Ok(other_finished);
            }
            while !self.is_answered(request, other, &mut other_finished)? {}
        }
    }

    fn load(&mut self, request: &RequestId, keys: KeysBuf, cut: &Cut) -> Outcome<JobId> {
        let job = self.mint()?;
        let (_, to) = cut.blocks();
        self.handle()?.load(job, request, keys, to).wait()?;
        Ok(job)
    }

    fn finish(&mut self, request: &RequestId) -> Outcome<()> {
        Ok(self.handle()?.finish(request, Role::Consumer).wait()?)
    }

    fn is_answered(&mut self, request: &RequestId, other: JobId, other_finished: &mut bool) -> Outcome<bool> {
        let event = self.event()?;
        if let Event::LookupAnswered { request: of } = &event {
            return Ok(of == request);
        }
        *other_finished |= finished(event)?.is_some_and(|job| job == other);
        Ok(false)
    }

    fn next_finished(&mut self, other: JobId, other_finished: &mut bool) -> Outcome<Option<JobId>> {
        let job = finished(self.event()?)?;
        *other_finished |= job == Some(other);
        Ok(job)
    }

    fn event(&mut self) -> Outcome<Event> {
        match self {
            Self::Consumer { events, .. } => {
                events.next_within(PATIENCE).ok_or_else(|| stop("a fetch had no result within a minute"))
            }
            Self::Producer { .. } => Err(not_a_consumer()),
        }
    }

    fn handle(&self) -> Outcome<&NodeHandle> {
        match self {
            Self::Consumer { handle, .. } => Ok(handle),
            Self::Producer { .. } => Err(not_a_consumer()),
        }
    }

    fn mint(&mut self) -> Outcome<JobId> {
        match self {
            Self::Consumer { minted, .. } => {
                *minted += 1;
                Ok(JobId(*minted))
            }
            Self::Producer { .. } => Err(not_a_consumer()),
        }
    }
}

/// The load that an event ends; a load that failed ends the measurement.
fn finished(event: Event) -> Outcome<Option<JobId>> {
    match event {
        Event::LoadFinished {
            job, outcome: LoadOutcome::Loaded, destination: Destination::Reusable, ..
        } => Ok(Some(job)),
        Event::LoadFinished { outcome, .. } => Err(stop(format!("a load failed: {outcome:?}"))),
        Event::RequestFailed { .. }
        | Event::PeerDown { .. }
        | Event::PeerRefused { .. }
        | Event::Trouble(_) => Err(stop(format!("the nodes are not well: {event:?}"))),
        Event::LookupAnswered { .. }
        | Event::DestinationReleased { .. }
        | Event::StoreFinished { .. }
        | Event::FetchArrived { .. }
        | Event::PeerUp { .. }
        | Event::Lagged { .. } => Ok(None),
    }
}

fn not_a_consumer() -> crate::stop::Stop {
    stop("only the consumer's node fetches")
}

fn keys(cut: &Cut) -> Outcome<KeysBuf> {
    let mut keys = KeysBuf::new();
    for (from, _) in cut.pairs() {
        keys.push(Key::new(&name(from))?);
    }
    Ok(keys)
}

/// As engines' keys are: a 32-byte hash and a group.
fn name(block: u32) -> [u8; 36] {
    let mut name = [0; 36];
    let mut state = u64::from(block) + 1;
    for chunk in name[..32].chunks_exact_mut(8) {
        state =
            (state ^ (state >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(0x94D0_49BB_1331_11EB);
        chunk.copy_from_slice(&state.to_le_bytes());
    }
    name
}
