//! A node, its engine's side, and the moves that tests make.
#![allow(dead_code, reason = "each test file uses its part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvpeer::core::{Destination, JobId, LookupState, StoreOutcome};
use kvpeer::mem::MemNet;
use kvpeer::{
    BlockTable, CloseReason, Event, Events, Key, KeysBuf, LoadOutcome, Node, NodeConfig, NodeHandle, Part,
    PeerId, Region, RequestId, RequestName, Supply,
};

pub(crate) const BLOCK_LEN: usize = 64;
pub(crate) const NUM_BLOCKS: u32 = 16;

/// Only a failing test waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn pattern(name: u8) -> Vec<u8> {
    (0..BLOCK_LEN).map(|at| name.wrapping_add(at as u8)).collect()
}

pub(crate) fn keys(names: &[u8]) -> KeysBuf {
    names.iter().map(|name| Key::new(std::slice::from_ref(name)).unwrap()).collect()
}

pub(crate) fn region() -> Arc<Region> {
    Region::new(NUM_BLOCKS, BLOCK_LEN as u64).unwrap()
}

/// Two nodes of one network, `a` and `b`.
pub(crate) fn pair() -> (Side, Side) {
    let net = MemNet::new();
    (Side::join(&net, "a"), Side::join(&net, "b"))
}

/// One node with its engine.
pub(crate) struct Side {
    pub(crate) net: MemNet,
    pub(crate) region: Arc<Region>,
    pub(crate) table: BlockTable,
    pub(crate) handle: NodeHandle,
    pub(crate) events: Events,
    pub(crate) peer_id: PeerId,
    pub(crate) address: String,
    loads: BTreeMap<JobId, (LoadOutcome, Destination)>,
    released: BTreeSet<JobId>,
    stores: Vec<(JobId, StoreOutcome)>,
    others: Vec<Event>,
}

impl Side {
    pub(crate) fn join(net: &MemNet, address: &str) -> Self {
        let region = region();
        let planes = net.join(address, &region).unwrap();
        let table = BlockTable::new();
        let node = Node::new(&NodeConfig::new(region.clone()), planes, table.clone()).unwrap();
        Self::spawn(net, node, table)
    }

    pub(crate) fn spawn(net: &MemNet, node: Node, table: BlockTable) -> Self {
        let (peer_id, address) = (node.peer_id().clone(), node.address().unwrap());
        let region = node.region().clone();
        let (handle, events) = node.spawn().unwrap();
        Self {
            net: net.clone(),
            region,
            table,
            handle,
            events,
            peer_id,
            address,
            loads: BTreeMap::new(),
            released: BTreeSet::new(),
            stores: Vec::new(),
            others: Vec::new(),
        }
    }

    pub(crate) fn request(name: &str) -> RequestId {
        RequestName::new(name).unwrap().into()
    }

    /// Puts each name's pattern into its block.
    pub(crate) fn fill(&self, blocks: &[(u8, u32)]) {
        for (name, block) in blocks {
            self.region.write_block(*block, &pattern(*name)).unwrap();
        }
    }

    /// Fills, and lets peers look the blocks up.
    pub(crate) fn hold(&self, blocks: &[(u8, u32)]) {
        self.fill(blocks);
        for (name, block) in blocks {
            self.table.insert(Key::new(&[*name]).unwrap(), *block).unwrap();
        }
    }

    pub(crate) fn block(&self, block: u32) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_LEN];
        self.region.read_block(block, &mut bytes).unwrap();
        bytes
    }

    pub(crate) fn write(&self, block: u32, bytes: &[u8]) {
        self.region.write_block(block, bytes).unwrap();
    }

    pub(crate) fn consume(&self, from: &Side, request: &str, supply: Supply) -> RequestId {
        let request = Self::request(request);
        let part = Part::Consume { source: from.peer_id.clone(), address: from.address.clone(), supply };
        self.handle.open(&request, part).wait().unwrap();
        request
    }

    pub(crate) fn load(&self, request: &RequestId, names: &[u8], blocks: &[u32]) -> JobId {
        let job = self.table.mint();
        self.handle.load(job, request, keys(names), blocks.to_vec()).wait().unwrap();
        job
    }

    pub(crate) fn store(&self, request: &RequestId, names: &[u8], blocks: &[u32]) -> JobId {
        let job = self.table.mint();
        self.handle.store(job, request, keys(names), blocks.to_vec(), None).wait().unwrap();
        job
    }

    pub(crate) fn lookup_until_known(&mut self, request: &RequestId, names: &[u8]) -> Vec<LookupState> {
        loop {
            let states = self.handle.lookup_many(request, keys(names)).wait().unwrap();
            if !states.contains(&LookupState::Pending) {
                return states;
            }
            self.wait_for(|event| {
                let news = match event {
                    Event::LookupAnswered { request } | Event::RequestFailed { request, .. } => request,
                    Event::LoadFinished { .. }
                    | Event::DestinationReleased { .. }
                    | Event::StoreFinished { .. }
                    | Event::FetchArrived { .. }
                    | Event::PeerUp { .. }
                    | Event::PeerDown { .. }
                    | Event::PeerRefused { .. }
                    | Event::Trouble(_)
                    | Event::Lagged { .. } => return None,
                };
                (news == request).then_some(())
            });
        }
    }

    pub(crate) fn load_result(&mut self, job: JobId) -> (LoadOutcome, Destination) {
        loop {
            if let Some(result) = self.loads.get(&job) {
                return result.clone();
            }
            self.take();
        }
    }

    pub(crate) fn store_result(&mut self, job: JobId) -> StoreOutcome {
        loop {
            if let Some((_, outcome)) = self.stores.iter().find(|(of, _)| *of == job) {
                return *outcome;
            }
            self.take();
        }
    }

    pub(crate) fn next_store_result(&mut self) -> (JobId, StoreOutcome) {
        while self.stores.is_empty() {
            self.take();
        }
        self.stores.remove(0)
    }

    /// Waits until no load's blocks are in doubt any more.
    pub(crate) fn wait_released_or_reusable(&mut self) {
        let in_doubt = |side: &Side| {
            let mut loads = side.loads.iter();
            loads.any(|(job, (_, destination))| {
                *destination == Destination::Quarantined && !side.released.contains(job)
            })
        };
        while in_doubt(self) {
            self.take();
        }
    }

    /// Waits for news that is no result.
    pub(crate) fn wait_for<T>(&mut self, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        loop {
            if let Some(at) = self.others.iter().position(|event| wanted(event).is_some()) {
                return wanted(&self.others.remove(at)).unwrap();
            }
            self.take();
        }
    }

    /// Waits until a session ends, or the attempt to bring one up.
    pub(crate) fn wait_down(&mut self) -> CloseReason {
        self.wait_for(|event| if let Event::PeerDown { reason, .. } = event { Some(*reason) } else { None })
    }

    /// Waits until a fact about the node holds.
    pub(crate) fn until(&self, holds: impl Fn(&Node) -> bool + Clone + Send + 'static) {
        let start = Instant::now();
        loop {
            let holds = holds.clone();
            if self.handle.call(move |node| holds(node)).wait().unwrap() {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "it never held");
            std::thread::yield_now();
        }
    }

    /// Waits until WRITEs are posted, or it is too late for that: the store is over.
    pub(crate) fn until_writing(&mut self, store: JobId) {
        while self.handle.call(|node| node.totals().writes).wait().unwrap() == 0 {
            while let Some(event) = self.events.try_next() {
                self.note(event);
            }
            if self.stores.iter().any(|(job, _)| *job == store) {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn take(&mut self) {
        let event = self.events.next_within(PATIENCE).expect("an event in time");
        self.note(event);
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::LoadFinished { job, outcome, destination, .. } => {
                let before = self.loads.insert(job, (outcome, destination));
                assert_eq!(before, None, "one result for each load");
            }
            Event::DestinationReleased { job } => {
                assert!(self.released.insert(job), "released once");
            }
            Event::StoreFinished { job, outcome } => {
                self.table.finished(job);
                self.stores.push((job, outcome));
            }
            Event::RequestFailed { .. }
            | Event::LookupAnswered { .. }
            | Event::FetchArrived { .. }
            | Event::PeerUp { .. }
            | Event::PeerDown { .. }
            | Event::PeerRefused { .. }
            | Event::Trouble(_)
            | Event::Lagged { .. } => self.others.push(event),
        }
    }
}
