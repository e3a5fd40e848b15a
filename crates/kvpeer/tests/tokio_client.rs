//! Jobs as futures on a tokio runtime.
#![cfg(feature = "tokio")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{NUM_BLOCKS, PATIENCE, Side, keys, pattern, region};
use kvpeer::aio::{Client, Freed};
use kvpeer::mem::MemNet;
use kvpeer::{
    BlockTable, CallError, Event, Events, LoadFailure, LoadOutcome, LookupState, Misuse, Node, NodeConfig,
    Part, PeerId, Region, RequestId, Role, StoreOutcome, Supply,
};

struct Async {
    client: Client,
    events: Events,
    peer_id: PeerId,
    address: String,
    region: Arc<Region>,
    table: BlockTable,
}

fn join(net: &MemNet, address: &str) -> Async {
    let region = region();
    let table = BlockTable::new();
    let planes = net.join(address, &region).unwrap();
    let node = Node::new(&NodeConfig::new(region.clone()), planes, table.clone()).unwrap();
    let (peer_id, address) = (node.peer_id().clone(), node.address().unwrap());
    let ids = table.clone();
    let (client, events) = Client::spawn(node, move || ids.mint()).unwrap();
    Async { client, events, peer_id, address, region, table }
}

impl Async {
    fn from(&self, supply: Supply) -> Part {
        Part::Consume { source: self.peer_id.clone(), address: self.address.clone(), supply }
    }

    fn fill(&self, name: u8, block: u32) {
        self.region.write_block(block, &pattern(name)).unwrap();
    }

    fn holds(&self, block: u32, name: u8) -> bool {
        let mut bytes = pattern(0);
        self.region.read_block(block, &mut bytes).unwrap();
        bytes == pattern(name)
    }

    async fn result(&mut self) -> Event {
        loop {
            let event = tokio::time::timeout(PATIENCE, self.events.next_async()).await.unwrap().unwrap();
            if matches!(event, Event::LoadFinished { .. } | Event::StoreFinished { .. }) {
                return event;
            }
        }
    }
}

fn request(name: &str) -> RequestId {
    Side::request(name)
}

#[tokio::test]
async fn lookups_loads_and_stores_are_futures() {
    let net = MemNet::new();
    let (a, mut b) = (join(&net, "a"), join(&net, "b"));
    b.fill(b'x', 3);
    b.table.insert(kvpeer::Key::new(b"x").unwrap(), 3).unwrap();
    let symmetric = request("symmetric");
    a.client.open(&symmetric, b.from(Supply::Pinned)).await.unwrap();
    let states = a.client.lookup(&symmetric, &keys(b"xy")).await.unwrap();
    assert_eq!(states, [LookupState::Hit, LookupState::Miss]);
    let load = a.client.load(&symmetric, keys(b"x"), vec![0]).await.unwrap();
    assert!(matches!((load.outcome, load.destination), (LoadOutcome::Loaded, Freed::Now)));
    assert!(a.holds(0, b'x'));
    assert!(matches!(b.result().await, Event::StoreFinished { outcome: StoreOutcome::Delivered, .. }));

    let pd = request("pd");
    b.client.open(&pd, a.from(Supply::Await)).await.unwrap();
    a.fill(b'p', 5);
    let (load, store) =
        tokio::join!(b.client.load(&pd, keys(b"p"), vec![6]), a.client.store(&pd, keys(b"p"), vec![5], None));
    assert_eq!(load.unwrap().outcome, LoadOutcome::Loaded);
    assert_eq!(store, Ok(StoreOutcome::Delivered));
    assert!(b.holds(6, b'p'));
}

#[tokio::test]
async fn a_dropped_load_is_aborted_and_its_result_is_not_lost() {
    let net = MemNet::new();
    let (mut a, b) = (join(&net, "a"), join(&net, "b"));
    let r = request("r");
    a.client.open(&r, b.from(Supply::Await)).await.unwrap();
    let pending =
        tokio::time::timeout(Duration::from_millis(1), a.client.load(&r, keys(b"x"), vec![0])).await;
    assert!(pending.is_err(), "nobody has stored it");
    let Event::LoadFinished { outcome, .. } = a.result().await else { panic!("a load's result") };
    assert!(matches!(outcome, LoadOutcome::Failed { why: LoadFailure::Aborted, .. }), "{outcome:?}");
}

#[tokio::test]
async fn mistakes_are_told_at_once() {
    let net = MemNet::new();
    let (a, b) = (join(&net, "a"), join(&net, "b"));
    let r = request("r");
    let unknown = a.client.load(&r, keys(b"x"), vec![0]).await;
    assert_eq!(unknown.err(), Some(CallError::Misuse(Misuse::UnknownRequest)));
    a.client.open(&r, b.from(Supply::Await)).await.unwrap();
    let outside = a.client.load(&r, keys(b"x"), vec![NUM_BLOCKS]).await;
    assert_eq!(outside.err(), Some(CallError::Misuse(Misuse::OutOfRange(NUM_BLOCKS))));
    a.client.finish(&r, Role::Both).await.unwrap();
}

#[tokio::test]
async fn a_quarantined_load_says_when_its_blocks_are_free() {
    let net = MemNet::new();
    let (a, b) = (join(&net, "a"), join(&net, "b"));
    net.allow_blocks(Some(0));
    let r = request("r");
    a.client.open(&r, b.from(Supply::Await)).await.unwrap();
    let load = a.client.load(&r, keys(b"x"), vec![0]);
    let cut = async {
        let store = b.client.store(&r, keys(b"x"), vec![1], None);
        let mut store = std::pin::pin!(store);
        loop {
            tokio::select! {
                biased;
                _ = &mut store => panic!("no WRITE can end"),
                stats = b.client.handle().stats() => if stats.unwrap().totals.writes > 0 { break },
            }
        }
        net.cut("a", "b");
        store.await
    };
    let (load, store) = tokio::join!(load, cut);
    let load = load.unwrap();
    assert!(
        matches!(load.outcome, LoadOutcome::Failed { why: LoadFailure::Session(_), .. }),
        "{:?}",
        load.outcome
    );
    let Freed::Later(release) = load.destination else { panic!("its blocks are in doubt") };
    release.released().await.unwrap();
    assert!(matches!(store, Ok(StoreOutcome::Failed(_))), "{store:?}");
}

#[tokio::test]
async fn a_shutdown_ends_every_future() {
    let net = MemNet::new();
    let (mut a, b) = (join(&net, "a"), join(&net, "b"));
    let r = request("r");
    a.client.open(&r, b.from(Supply::Await)).await.unwrap();
    let client = a.client.clone();
    let (load, shutdown) =
        tokio::join!(client.load(&r, keys(b"x"), vec![0]), a.client.shutdown(Duration::from_secs(1)));
    assert_eq!(shutdown, Ok(()));
    assert!(matches!(load.unwrap().outcome, LoadOutcome::Failed { .. }));
    while a.events.next_async().await.is_some() {}
    assert_eq!(client.lookup(&r, &keys(b"x")).await, Err(CallError::Gone));
}
