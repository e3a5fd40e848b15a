//! An engine that takes its events, uses blocks by the rules, and looks at every byte it gets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kvpeer::{
    BlockTable, Event, Events, Key, KeysBuf, LoadOutcome, LookupState, Node, NodeConfig, NodeHandle, Part,
    PeerId, PeerName, Region, RequestId, RequestName, Role, Supply, TcpFabric,
};

use crate::Fallible;

const BLOCK_LEN: usize = 4096;
/// Blocks from 0 on hold what is served under their number; those after them are offered, the last are loaded into.
const SERVED: u32 = 32;
const OFFERED: u32 = 8;
const LOADED: u32 = 16;

/// What all peers together may make a node keep.
const BUDGET: usize = 64 << 20;

/// Only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Engine {
    handle: NodeHandle,
    events: Events,
    region: Arc<Region>,
    table: BlockTable,
    /// Counts requests of each kind.
    pulled: u32,
    offers: u32,
    loaded: u32,
    /// Stores without a result.
    open: u32,
}

impl Engine {
    pub(crate) fn start() -> Fallible<(Self, String)> {
        let region = Region::new(SERVED + OFFERED + LOADED, BLOCK_LEN as u64)?;
        let table = BlockTable::new();
        for block in 0..region.num_blocks() {
            region.write_block(block, &pattern(block))?;
        }
        for block in 0..SERVED {
            table.insert(Key::new(&block.to_le_bytes())?, block)?;
        }
        let mut config = NodeConfig::new(region.clone());
        config.limits.total_bytes = BUDGET;
        let listen: SocketAddr = ([127, 0, 0, 1], 0).into();
        let node = Node::tcp_fabric(&config, TcpFabric::listening(listen), table.clone())?;
        let address = node.address().ok_or("it listens nowhere")?;
        let (handle, events) = node.spawn()?;
        let engine = Self { handle, events, region, table, pulled: 0, offers: 0, loaded: 0, open: 0 };
        Ok((engine, address))
    }

    pub(crate) fn connect(&mut self, peer: &str) -> Fallible<String> {
        self.handle.connect(&peer_id(peer)?, peer).wait()?;
        self.wait_for(|event| matches!(event, Event::PeerUp { .. }))?;
        Ok("up".to_owned())
    }

    pub(crate) fn pull(&mut self, peer: &str) -> Fallible<String> {
        self.pulled += 1;
        let request = request(&format!("pull-{}", self.pulled))?;
        let source = peer_id(peer)?;
        self.handle
            .open(&request, Part::Consume { source, address: peer.into(), supply: Supply::Pinned })
            .wait()?;
        let first = self.pulled * 5;
        let wanted: Vec<u32> = (first..first + LOADED).map(|key| key % SERVED).collect();
        loop {
            let states = self.handle.lookup_many(&request, keys(&wanted)?).wait()?;
            if states.iter().all(|state| *state == LookupState::Hit) {
                break;
            }
            if states.contains(&LookupState::Miss) {
                return Ok("missed".to_owned());
            }
            self.wait_for(|event| matches!(event, Event::LookupAnswered { .. }))?;
        }
        self.load_into(&request, &wanted)
    }

    pub(crate) fn offer(&mut self) -> Fallible<String> {
        self.offers += 1;
        let numbers: Vec<u32> = (SERVED..SERVED + OFFERED).collect();
        let request = request(&format!("offer-{}", self.offers))?;
        let job = self.table.mint();
        self.handle.store(job, &request, keys(&numbers)?, numbers, None).wait()?;
        self.open += 1;
        Ok("offered".to_owned())
    }

    pub(crate) fn offered(&mut self) -> Fallible<String> {
        while self.open > 0 {
            // Results of pins come too, but only from lookups; nobody looks up here meanwhile.
            self.wait_for(|event| matches!(event, Event::StoreFinished { .. }))?;
            self.open -= 1;
        }
        Ok("delivered".to_owned())
    }

    pub(crate) fn load(&mut self, peer: &str) -> Fallible<String> {
        self.loaded += 1;
        let request = request(&format!("offer-{}", self.loaded))?;
        let source = peer_id(peer)?;
        self.handle
            .open(&request, Part::Consume { source, address: peer.into(), supply: Supply::Await })
            .wait()?;
        let numbers: Vec<u32> = (SERVED..SERVED + OFFERED).collect();
        self.load_into(&request, &numbers)
    }

    fn load_into(&mut self, request: &RequestId, wanted: &[u32]) -> Fallible<String> {
        let blocks: Vec<u32> = (SERVED + OFFERED..).take(wanted.len()).collect();
        for block in &blocks {
            self.region.write_block(*block, &[0; BLOCK_LEN])?;
        }
        let job = self.table.mint();
        self.handle.load(job, request, keys(wanted)?, blocks.clone()).wait()?;
        let result =
            self.wait_for(|event| matches!(event, Event::LoadFinished { job: of, .. } if *of == job))?;
        let Event::LoadFinished { outcome: LoadOutcome::Loaded, .. } = result else {
            return Ok(format!("{result:?}"));
        };
        let mut bytes = vec![0; BLOCK_LEN];
        for (block, number) in blocks.iter().zip(wanted) {
            self.region.read_block(*block, &mut bytes)?;
            if bytes != pattern(*number) {
                return Ok(format!("block {block} has not the bytes of {number}"));
            }
        }
        self.handle.finish(request, Role::Both).wait()?;
        Ok("loaded".to_owned())
    }

    pub(crate) fn end(self) {
        self.handle.shutdown(Duration::ZERO);
    }

    fn wait_for(&mut self, wanted: impl Fn(&Event) -> bool) -> Fallible<Event> {
        loop {
            let event = self.events.next_within(PATIENCE).ok_or("no news in time")?;
            if let Event::StoreFinished { job, .. } = event {
                self.table.finished(job);
            }
            if wanted(&event) {
                return Ok(event);
            }
        }
    }
}

fn pattern(number: u32) -> Vec<u8> {
    (0..BLOCK_LEN as u32).map(|at| (at.wrapping_mul(31) ^ number.wrapping_mul(7)) as u8).collect()
}

fn keys(numbers: &[u32]) -> Fallible<KeysBuf> {
    let mut keys = KeysBuf::default();
    for number in numbers {
        keys.push(Key::new(&number.to_le_bytes())?);
    }
    Ok(keys)
}

fn peer_id(name: &str) -> Fallible<PeerId> {
    Ok(PeerName::new(name)?.into())
}

fn request(name: &str) -> Fallible<RequestId> {
    Ok(RequestName::new(name)?.into())
}
