//! Two nodes over the in-memory planes, each on its own thread.

mod common;

use std::time::Duration;

use common::{Side, pair, pattern};
use kvpeer::core::{Destination, LoadFailure, LookupState, Role, StoreOutcome};
use kvpeer::{Event, LoadOutcome};

#[test]
fn symmetric_lookup_and_fetch_in_two_rounds() {
    let (mut a, mut b) = pair();
    b.hold(&[(b'x', 3), (b'y', 5)]);
    let request = a.consume(&b, "r1", kvpeer::Supply::Pinned);

    let states = a.lookup_until_known(&request, b"xyz");
    assert_eq!(states, [LookupState::Hit, LookupState::Hit, LookupState::Miss]);
    let job = a.load(&request, b"xy", &[0, 1]);
    assert_eq!(a.load_result(job), (LoadOutcome::Loaded, Destination::Reusable));
    assert_eq!(a.block(0), pattern(b'x'));
    assert_eq!(a.block(1), pattern(b'y'));

    // A second round: the key that was missing is there now, and the others are asked for again.
    b.hold(&[(b'z', 7)]);
    a.handle.finish(&request, Role::Consumer).wait().unwrap();
    let request = a.consume(&b, "r1", kvpeer::Supply::Pinned);
    assert_eq!(a.lookup_until_known(&request, b"z"), [LookupState::Hit]);
    let job = a.load(&request, b"z", &[2]);
    assert_eq!(a.load_result(job), (LoadOutcome::Loaded, Destination::Reusable));
    assert_eq!(a.block(2), pattern(b'z'));

    let pins = [b.next_store_result().1, b.next_store_result().1];
    assert_eq!(pins, [StoreOutcome::Delivered, StoreOutcome::Delivered]);
}

#[test]
fn prefill_decode_with_the_fetch_first() {
    let (mut consumer, mut producer) = pair();
    let request = consumer.consume(&producer, "r", kvpeer::Supply::Await);
    let load = consumer.load(&request, b"abc", &[9, 8, 7]);
    producer.wait_for(|event| matches!(event, Event::FetchArrived { .. }).then_some(()));
    producer.fill(&[(b'a', 1), (b'b', 2), (b'c', 3)]);
    let store = producer.store(&request, b"abc", &[1, 2, 3]);
    assert_eq!(consumer.load_result(load), (LoadOutcome::Loaded, Destination::Reusable));
    assert_eq!(producer.store_result(store), StoreOutcome::Delivered);
    assert_eq!(consumer.block(9), pattern(b'a'));
    assert_eq!(consumer.block(7), pattern(b'c'));
}

#[test]
fn prefill_decode_with_the_store_first() {
    let (mut consumer, mut producer) = pair();
    producer.fill(&[(b'a', 1)]);
    let request = Side::request("r");
    let store = producer.store(&request, b"a", &[1]);
    producer.handle.finish(&request, Role::Producer).wait().unwrap();
    let request = consumer.consume(&producer, "r", kvpeer::Supply::Await);
    let load = consumer.load(&request, b"a", &[4]);
    assert_eq!(consumer.load_result(load), (LoadOutcome::Loaded, Destination::Reusable));
    assert_eq!(producer.store_result(store), StoreOutcome::Delivered);
    assert_eq!(consumer.block(4), pattern(b'a'));
}

#[test]
fn an_abort_in_mid_transfer_frees_its_blocks_once_the_producer_is_quiet() {
    let (mut consumer, mut producer) = pair();
    producer.fill(&[(b'a', 1), (b'b', 2), (b'c', 3)]);
    consumer.net.allow_blocks(Some(1));
    let request = consumer.consume(&producer, "r", kvpeer::Supply::Await);
    let load = consumer.load(&request, b"abc", &[0, 1, 2]);
    let store = producer.store(&request, b"abc", &[1, 2, 3]);
    producer.until(|node| node.totals().writes > 0);
    consumer.handle.abort(load).wait().unwrap();
    let (outcome, destination) = consumer.load_result(load);
    assert!(matches!(outcome, LoadOutcome::Failed { why: LoadFailure::Aborted, .. }), "{outcome:?}");
    assert_eq!(destination, Destination::Reusable);

    // Whatever else is allowed to move, nothing lands in the blocks that are free again.
    consumer.write(0, &pattern(b'!'));
    consumer.net.allow_blocks(None);
    producer.handle.finish(&request, Role::Both).wait().unwrap();
    producer.handle.withdraw(store).wait().ok();
    producer.store_result(store);
    assert_eq!(consumer.block(0), pattern(b'!'));
}

#[test]
fn a_shutdown_answers_every_job_and_ends_the_thread() {
    let (mut consumer, mut producer) = pair();
    consumer.net.allow_blocks(Some(0));
    producer.fill(&[(b'a', 1)]);
    let request = consumer.consume(&producer, "r", kvpeer::Supply::Await);
    let load = consumer.load(&request, b"a", &[0]);
    let parked = consumer.load(&request, b"b", &[1]);
    let store = producer.store(&request, b"a", &[1]);
    producer.until(|node| node.totals().writes > 0);
    producer.handle.shutdown(Duration::ZERO);
    let ended: Vec<Event> = producer.events.by_ref().collect();
    assert!(ended.iter().any(|event| matches!(event, Event::StoreFinished { job, .. } if *job == store)));
    for job in [load, parked] {
        assert!(matches!(consumer.load_result(job).0, LoadOutcome::Failed { .. }));
    }
    consumer.wait_released_or_reusable();
}
