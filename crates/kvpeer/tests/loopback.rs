//! Two nodes over TCP and libfabric on loopback.
#![cfg(all(feature = "tcp", feature = "fabric"))]
#![allow(unsafe_code, reason = "the engine's own memory is handed over by an unsafe constructor")]

mod common;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Side, pattern, region};
use kvpeer::core::{CloseReason, Destination, LoadFailure, LookupState, StoreOutcome};
use kvpeer::mem::MemNet;
use kvpeer::{BlockTable, Event, LoadOutcome, Node, NodeConfig, Region, Supply, TcpFabric, TroubleKind};

fn side() -> Side {
    side_on(region())
}

fn side_on(region: Arc<Region>) -> Side {
    let config = NodeConfig::new(region);
    let table = BlockTable::new();
    let network = TcpFabric::listening("127.0.0.1:0".parse().unwrap());
    let node = Node::tcp_fabric(&config, network, table.clone()).unwrap();
    Side::spawn(&MemNet::new(), node, table)
}

#[test]
fn symmetric_and_prefill_decode_at_once_in_both_directions() {
    let (mut a, mut b) = (side(), side());
    a.hold(&[(b'p', 1), (b'q', 2)]);
    b.hold(&[(b'x', 3), (b'y', 5)]);

    let from_b = a.consume(&b, "symmetric", Supply::Pinned);
    let from_a = b.consume(&a, "pd", Supply::Await);
    let pd = b.load(&from_a, b"pq", &[10, 11]);
    assert_eq!(
        a.lookup_until_known(&from_b, b"xzy"),
        [LookupState::Hit, LookupState::Miss, LookupState::Hit]
    );
    let symmetric = a.load(&from_b, b"xy", &[12, 13]);
    let store = a.store(&from_a, b"pq", &[1, 2]);

    assert_eq!(a.load_result(symmetric), (LoadOutcome::Loaded, Destination::Reusable));
    assert_eq!(b.load_result(pd), (LoadOutcome::Loaded, Destination::Reusable));
    assert_eq!(a.store_result(store), StoreOutcome::Delivered);
    assert_eq!(b.next_store_result().1, StoreOutcome::Delivered);
    assert_eq!([a.block(12), a.block(13)], [pattern(b'x'), pattern(b'y')]);
    assert_eq!([b.block(10), b.block(11)], [pattern(b'p'), pattern(b'q')]);

    a.handle.shutdown(Duration::from_secs(5));
    let goodbye = b.wait_down();
    assert!(matches!(goodbye, CloseReason::Goodbye(_)), "{goodbye:?}");
}

#[test]
fn a_peer_that_vanishes_is_fenced_off_before_its_destinations_are_free() {
    let (mut consumer, mut producer) = (side(), side());
    producer.fill(&[(b'a', 1)]);
    let request = consumer.consume(&producer, "r", Supply::Await);
    let load = consumer.load(&request, b"ab", &[0, 1]);
    producer.wait_for(|event| matches!(event, Event::FetchArrived { .. }).then_some(()));
    let store = producer.store(&request, b"a", &[1]);
    // The node is dropped in the middle, without goodbye to anybody's loads.
    let Side { handle, events, .. } = producer;
    drop(handle);
    let (outcome, _) = consumer.load_result(load);
    let LoadOutcome::Failed { why, .. } = outcome else { panic!("{outcome:?}") };
    assert!(matches!(why, LoadFailure::Session(_) | LoadFailure::Producer(_)), "{why:?}");
    consumer.wait_released_or_reusable();
    let finished = |event: &Event| matches!(event, Event::StoreFinished { job, .. } if *job == store);
    assert_eq!(events.filter(finished).count(), 1);
}

#[test]
fn an_unreachable_peer_fails_the_load_and_says_why() {
    let mut a = side();
    let gone = side();
    let request = a.consume(&gone, "r", Supply::Await);
    drop(gone);
    let load = a.load(&request, b"a", &[0]);
    let detail = a.wait_for(|event| {
        let Event::Trouble(trouble) = event else { return None };
        (trouble.what == TroubleKind::Dial).then(|| trouble.to_string())
    });
    assert!(detail.contains("is a node listening there?"), "{detail}");
    a.handle.abort(load).wait().unwrap();
    let (outcome, destination) = a.load_result(load);
    assert!(matches!(outcome, LoadOutcome::Failed { why: LoadFailure::Aborted, .. }), "{outcome:?}");
    assert_eq!(destination, Destination::Reusable);
}

/// 64 MiB: long enough under way to be cut in the middle.
const MANY: u32 = 256;
const LARGE: usize = 256 << 10;

/// A node on the engine's own memory; the flag says when that was given back.
fn side_on_own_memory() -> (Side, Arc<AtomicBool>) {
    struct Owner {
        _memory: Vec<u64>,
        given_back: Arc<AtomicBool>,
    }
    impl Drop for Owner {
        fn drop(&mut self) {
            self.given_back.store(true, Ordering::SeqCst);
        }
    }
    let mut memory = vec![0u64; MANY as usize * LARGE / 8];
    let base = NonNull::new(memory.as_mut_ptr().cast()).unwrap();
    let given_back = Arc::new(AtomicBool::new(false));
    let owner = Owner { _memory: memory, given_back: Arc::clone(&given_back) };
    // SAFETY: `owner` keeps the vector, which nobody else touches, and is dropped with the region.
    let region = unsafe { Region::from_raw(base, MANY, LARGE as u64, owner) }.unwrap();
    (side_on(region), given_back)
}

#[test]
fn a_node_that_is_dropped_in_mid_transfer_gives_its_memory_back_after_the_fence() {
    let cut_in_the_middle = (0..20).any(|_| {
        let (consumer, given_back) = side_on_own_memory();
        let mut producer = side_on(Region::new(MANY, LARGE as u64).unwrap());
        let request = consumer.consume(&producer, "r", Supply::Await);
        let (names, blocks): (Vec<u8>, Vec<u32>) = (0..MANY).map(|at| (at as u8, at)).unzip();
        let load = consumer.load(&request, &names, &blocks);
        let store = producer.store(&request, &names, &blocks);
        producer.until_writing(store);

        let Side { handle, events, region, .. } = consumer;
        drop(handle);
        assert_eq!(Arc::strong_count(&region), 1, "no endpoint holds it");
        assert!(!given_back.load(Ordering::SeqCst), "the region does");
        drop(region);
        assert!(given_back.load(Ordering::SeqCst));

        let results: Vec<Event> = events.collect();
        let of = |event: &&Event| matches!(event, Event::LoadFinished { job, .. } if *job == load);
        assert_eq!(results.iter().filter(of).count(), 1, "{results:?}");
        // The producer is told, too; and it lives on.
        let outcome = producer.store_result(store);
        assert!(producer.handle.stats().wait().is_ok());
        outcome != StoreOutcome::Delivered
    });
    assert!(cut_in_the_middle);
}
