//! What an engine relies on, whichever way it drives its node.

mod common;

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{NUM_BLOCKS, PATIENCE, Side, keys, pair, pattern, region};
use kvpeer::mem::{Dials, MemNet};
use kvpeer::wire::RejectCode;
use kvpeer::{
    Answer, BlockCache, BlockTable, CallError, Candidate, CloseReason, Command, Destination, Event, JobId,
    Key, LoadFailure, LoadOutcome, LookupState, Misuse, Next, NoBlocks, Node, NodeConfig, Probe, Role,
    StoreOutcome, Supply, Verdict,
};

fn node(net: &MemNet, address: &str) -> Node {
    let region = region();
    let planes = net.join(address, &region).unwrap();
    Node::new(&NodeConfig::new(region), planes, NoBlocks).unwrap()
}

#[test]
fn two_nodes_ticked_by_one_scheduler() {
    let net = MemNet::new();
    let (mut a, mut b) = (node(&net, "a"), node(&net, "b"));
    b.region().write_block(3, &pattern(b'x')).unwrap();
    let request = Side::request("r");
    let request = request.as_name();
    let source = b.peer_id().clone();
    let part = kvpeer::core::Part::Consume { source: source.as_name(), address: "b", supply: Supply::Await };
    a.command(Command::Open { request, part }).unwrap();
    let keys = keys(b"x");
    a.command(Command::Load { job: JobId(1), request, keys: keys.as_keys(), blocks: &[5] }).unwrap();
    b.command(Command::Store { job: JobId(1), request, keys: keys.as_keys(), blocks: &[3], consumer: None })
        .unwrap();

    let start = Instant::now();
    let mut results = Vec::new();
    while results.len() < 2 {
        for node in [&mut a, &mut b] {
            assert_ne!(node.tick(), Next::Idle, "heartbeats and jobs are due");
            results.extend(
                std::iter::from_fn(|| node.poll_event()).filter(|event| {
                    matches!(event, Event::LoadFinished { .. } | Event::StoreFinished { .. })
                }),
            );
        }
        assert!(start.elapsed() < PATIENCE, "{results:?}");
    }
    let loaded = Event::LoadFinished {
        job: JobId(1),
        request: request.into(),
        outcome: LoadOutcome::Loaded,
        destination: Destination::Reusable,
    };
    assert_eq!(results, [Event::StoreFinished { job: JobId(1), outcome: StoreOutcome::Delivered }, loaded]);
    let mut block = pattern(0);
    a.region().read_block(5, &mut block).unwrap();
    assert_eq!(block, pattern(b'x'));

    for node in [&mut a, &mut b] {
        node.command(Command::Shutdown { within: Duration::ZERO }).unwrap();
    }
    while !(a.is_over() && b.is_over()) {
        a.tick();
        b.tick();
        assert!(start.elapsed() < PATIENCE);
    }
}

#[test]
fn a_ticked_node_that_is_dropped_lets_go_of_its_region() {
    let net = MemNet::new();
    let mut a = node(&net, "a");
    let b = Side::join(&net, "b");
    a.command(Command::Connect { peer: b.peer_id.as_name(), address: "b" }).unwrap();
    while a.totals() == kvpeer::Totals::default()
        && a.peer(b.peer_id.as_name()).is_none_or(|peer| peer.link != kvpeer::core::LinkStatus::Up)
    {
        a.tick();
    }
    let region = a.region().clone();
    drop(a);
    assert_eq!(Arc::strong_count(&region), 1);
}

#[test]
fn the_last_handle_takes_the_node_with_it_and_every_job_is_answered() {
    let (consumer, mut producer) = pair();
    consumer.net.allow_blocks(Some(0));
    let request = consumer.consume(&producer, "r", Supply::Await);
    let load = consumer.load(&request, b"a", &[0]);
    let store = producer.store(&request, b"a", &[1]);
    producer.until(|node| node.totals().writes > 0);

    let Side { handle, events, region, .. } = consumer;
    let clone = handle.clone();
    drop(handle);
    assert!(clone.stats().wait().is_ok(), "one handle is left");
    drop(clone);
    assert_eq!(Arc::strong_count(&region), 1, "the planes have let go of it");
    let results: Vec<Event> = events.collect();
    let destinations: Vec<Destination> =
        results.iter().filter_map(|event| destination_of(event, load)).collect();
    let released = results.contains(&Event::DestinationReleased { job: load });
    match destinations.as_slice() {
        // The producer had time to acknowledge the abort, or not.
        [Destination::Reusable] => assert!(!released),
        [Destination::Quarantined] => assert!(released),
        other => panic!("one result: {other:?}"),
    }
    assert!(matches!(producer.store_result(store), StoreOutcome::Failed(_)));
}

fn destination_of(event: &Event, load: JobId) -> Option<Destination> {
    let Event::LoadFinished { job, destination, .. } = event else { return None };
    (*job == load).then_some(*destination)
}

#[test]
fn a_cut_quarantines_until_the_fence() {
    let (mut consumer, mut producer) = pair();
    producer.fill(&[(b'a', 1), (b'b', 2)]);
    consumer.net.allow_blocks(Some(1));
    let request = consumer.consume(&producer, "r", Supply::Await);
    let load = consumer.load(&request, b"ab", &[0, 1]);
    let store = producer.store(&request, b"ab", &[1, 2]);
    producer.until(|node| node.totals().writes > 0);
    consumer.net.set_dials("b", Dials::Refused);
    consumer.net.cut("a", "b");

    let (outcome, destination) = consumer.load_result(load);
    let lost = LoadFailure::Session(CloseReason::Lost);
    assert!(matches!(outcome, LoadOutcome::Failed { why, .. } if why == lost), "{outcome:?}");
    assert_eq!(destination, Destination::Quarantined);
    consumer.wait_released_or_reusable();
    consumer.write(0, &pattern(b'!'));
    consumer.write(1, &pattern(b'?'));
    consumer.net.allow_blocks(None);
    assert!(matches!(producer.store_result(store), StoreOutcome::Failed(_)));
    assert_eq!([consumer.block(0), consumer.block(1)], [pattern(b'!'), pattern(b'?')]);
}

#[test]
fn nodes_that_dial_each_other_at_once_end_up_with_one_link() {
    let (mut a, mut b) = pair();
    a.fill(&[(b'p', 1)]);
    b.fill(&[(b'q', 2)]);
    let from_b = a.consume(&b, "r1", Supply::Await);
    let from_a = b.consume(&a, "r2", Supply::Await);
    let (of_a, of_b) = (a.load(&from_b, b"q", &[8]), b.load(&from_a, b"p", &[9]));
    let (by_b, by_a) = (b.store(&from_b, b"q", &[2]), a.store(&from_a, b"p", &[1]));
    assert_eq!(a.load_result(of_a).0, LoadOutcome::Loaded);
    assert_eq!(b.load_result(of_b).0, LoadOutcome::Loaded);
    assert_eq!([a.store_result(by_a), b.store_result(by_b)], [StoreOutcome::Delivered; 2]);
    assert_eq!((a.block(8), b.block(9)), (pattern(b'q'), pattern(b'p')));
}

// HS-11
#[test]
fn a_peer_that_is_not_admitted_gets_no_key() {
    let net = MemNet::new();
    let region = region();
    let planes = net.join("a", &region).unwrap();
    let (seen, candidates) = channel();
    let admission = move |candidate: &Candidate<'_>| {
        seen.send((candidate.peer.to_string(), candidate.conn.proved.clone())).unwrap();
        Verdict::Refuse
    };
    let node = Node::new(&NodeConfig::new(region), planes, NoBlocks).unwrap().with_admission(admission);
    let mut a = Side::spawn(&net, node, BlockTable::new());
    let mut b = Side::join(&net, "b");
    b.handle.connect(&a.peer_id, "a").wait().unwrap();
    let reason = b.wait_down();
    assert_eq!(reason, CloseReason::RejectedByPeer(RejectCode::Unauthorized));
    assert_eq!(candidates.recv().unwrap(), ("b".to_owned(), Some("b".to_owned())));
    assert_eq!(a.wait_down(), CloseReason::RejectedByUs(RejectCode::Unauthorized));
}

/// Answers nothing until it is told to.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<Option<BlockTable>>>);

impl BlockCache for Slow {
    fn probe(&mut self, probe: &Probe<'_>, answer: &mut Answer) {
        if let Some(table) = &mut *self.0.lock().unwrap() {
            table.probe(probe, answer);
        }
    }
}

// LKP-6
#[test]
fn a_cache_that_does_not_know_yet_is_asked_again() {
    let net = MemNet::new();
    let mut a = Side::join(&net, "a");
    let region = region();
    let planes = net.join("b", &region).unwrap();
    let slow = Slow::default();
    let node = Node::new(&NodeConfig::new(region), planes, slow.clone()).unwrap();
    let b = Side::spawn(&net, node, BlockTable::new());
    b.hold(&[(b'x', 3)]);
    let request = a.consume(&b, "r", Supply::Pinned);
    let pending = a.handle.lookup_many(&request, keys(b"xy")).wait().unwrap();
    assert_eq!(pending, [LookupState::Pending; 2]);
    b.until(|node| node.totals().probes > 0);
    *slow.0.lock().unwrap() = Some(b.table.clone());
    assert_eq!(a.lookup_until_known(&request, b"xy"), [LookupState::Hit, LookupState::Miss]);
}

#[test]
fn an_engine_that_takes_no_results_pins_nothing_more_for_peers() {
    let net = MemNet::new();
    let mut a = Side::join(&net, "a");
    let region = region();
    let planes = net.join("b", &region).unwrap();
    let table = BlockTable::new();
    let config = NodeConfig { event_backlog: 1, ..NodeConfig::new(region) };
    let b = Side::spawn(&net, Node::new(&config, planes, table.clone()).unwrap(), table);
    b.hold(&[(b'x', 3)]);

    let first = a.consume(&b, "r1", Supply::Pinned);
    assert_eq!(a.lookup_until_known(&first, b"x"), [LookupState::Hit]);
    a.handle.finish(&first, Role::Both).wait().unwrap();
    // The pin's result is there, and nobody takes it.
    b.until(|node| node.totals().pinned == 0);
    let second = a.consume(&b, "r2", Supply::Pinned);
    assert_eq!(a.lookup_until_known(&second, b"x"), [LookupState::Miss]);
    assert_eq!(b.handle.stats().wait().unwrap().probes_shed, 1);
}

#[test]
fn an_engine_that_panics_on_the_nodes_thread_loses_its_node_and_nothing_else() {
    struct Broken;
    impl BlockCache for Broken {
        fn probe(&mut self, _: &Probe<'_>, _: &mut Answer) {
            panic!("the engine's own mistake (this test wants it)");
        }
    }
    let net = MemNet::new();
    let mut a = Side::join(&net, "a");
    let region = region();
    let planes = net.join("b", &region).unwrap();
    let node = Node::new(&NodeConfig::new(region.clone()), planes, Broken).unwrap();
    let b = Side::spawn(&net, node, BlockTable::new());
    let request = a.consume(&b, "r", Supply::Pinned);
    assert_eq!(a.lookup_until_known(&request, b"x"), [LookupState::Miss]);
    let Side { handle, events, region: kept, .. } = b;
    assert_eq!(handle.stats().wait(), Err(CallError::Gone));
    assert!(events.count() <= 1, "PeerUp at most, and the end");
    handle.shutdown(Duration::ZERO);
    drop(kept);
    assert_eq!(Arc::strong_count(&region), 1);
}

#[test]
fn a_node_needs_a_name() {
    let net = MemNet::new();
    let region = region();
    let named = |name: &str| NodeConfig::new(region.clone()).named(name);
    assert!(named("").is_err());
    let planes = net.join("0.0.0.0:5710", &region).unwrap();
    let nameless = Node::new(&NodeConfig::new(region.clone()), planes, NoBlocks);
    assert!(matches!(nameless, Err(kvpeer::NodeError::NoIdentity)), "{nameless:?}");
    let planes = net.join("0.0.0.0:5710", &region).unwrap();
    let node = Node::new(&named("10.0.0.7:5710").unwrap(), planes, NoBlocks).unwrap();
    assert_eq!(node.peer_id().as_str(), "10.0.0.7:5710");
    let loopback = Node::new(&named("localhost:1").unwrap(), net.join("far", &region).unwrap(), NoBlocks);
    assert!(matches!(loopback, Err(kvpeer::NodeError::Config(_))), "{loopback:?}");
}

#[test]
fn mistakes_change_nothing_and_are_told_by_their_ticket() {
    let (a, b) = pair();
    let request = a.consume(&b, "r", Supply::Await);
    let job = a.load(&request, b"x", &[0]);
    let load = |job, names, blocks: &[u32]| a.handle.load(job, &request, keys(names), blocks.to_vec()).wait();
    let misuse = |misuse| Err(CallError::Misuse(misuse));
    assert_eq!(load(job, b"y", &[1]), misuse(Misuse::JobInUse));
    assert_eq!(load(JobId(77), b"y", &[0]), misuse(Misuse::Reserved(0)));
    assert_eq!(load(JobId(77), b"y", &[NUM_BLOCKS]), misuse(Misuse::OutOfRange(NUM_BLOCKS)));
    assert_eq!(load(JobId(77), b"yz", &[1]), misuse(Misuse::Unequal { keys: 2, blocks: 1 }));
    assert_eq!(a.handle.abort(JobId(77)).wait(), misuse(Misuse::UnknownJob));
    assert_eq!(load(JobId(77), b"y", &[1]), Ok(()));
}

#[test]
fn a_busy_node_refuses_calls_and_one_that_has_ended_is_gone() {
    let (a, _b) = pair();
    let (go, wait) = channel::<()>();
    let blocked = a.handle.call(move |_| wait.recv().ok());
    let mut queued = Vec::new();
    let refused = loop {
        let mut ticket = a.handle.stats();
        match ticket.try_take() {
            Some(answer) => break answer,
            None => queued.push(ticket),
        }
    };
    assert_eq!(refused.err(), Some(CallError::Busy));
    // One place may still be taken by the call that blocks it.
    assert!(queued.len() >= 4095);
    go.send(()).unwrap();
    blocked.wait().unwrap();
    assert!(queued.into_iter().all(|ticket| ticket.wait().is_ok()));

    a.handle.shutdown(Duration::ZERO);
    assert_eq!(a.handle.stats().wait(), Err(CallError::Gone));
    assert_eq!(a.events.count(), 0);
}

#[test]
fn a_key_is_held_in_one_block() {
    let table = BlockTable::new();
    let key = Key::new(b"k").unwrap();
    assert_eq!(table.insert(key, 1), Ok(None));
    assert_eq!(table.insert(key, 2), Ok(Some(1)));
    assert_eq!(table.get(key), Some(2));
}
