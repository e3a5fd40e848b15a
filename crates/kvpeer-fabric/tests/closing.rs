//! Closing a right, or the whole plane, in every state.

#![allow(unsafe_code, reason = "test memory and poll(2)")]

mod support;

use std::sync::Arc;

use kvpeer_fabric::{FabricEvent, RightId, TransferEnd};
use support::{Node, link, pump, xfer};

const A: RightId = RightId(1);
const B: RightId = RightId(7);

/// Two linked nodes with this many transfers of 2 MiB under way, some of which the target has begun to take.
fn under_way(transfers: u64) -> (Node, Node) {
    let (mut a, mut b) = (Node::new(1 << 20, 16), Node::new(1 << 20, 16));
    link(&mut a, A, &mut b, B);
    a.region.fill(0, 16 << 20, 0x55);
    for seq in 0..transfers {
        a.fabric.write(xfer(A, seq), &[0, 2], &[5, 9]);
    }
    pump(&mut [&mut a, &mut b], |nodes| nodes[1].region.byte(5 << 20) == 0x55);
    (a, b)
}

#[test]
fn closing_while_opening_is_answered_and_frees_the_name() {
    let mut a = Node::new(512, 4);
    a.fabric.open_right(A);
    a.fabric.close_right(A);
    a.fabric.close_right(A);
    pump(&mut [&mut a], |nodes| nodes[0].closed(A).is_some());
    assert_eq!(a.events, [FabricEvent::RightClosed { right: A, fenced: true }]);
    a.events.clear();
    a.open_right(A);
}

// END-10, SUP-6
#[test]
fn closing_ends_every_transfer_once_and_says_fenced_last() {
    const TRANSFERS: u64 = 40;
    let (mut a, mut b) = under_way(TRANSFERS);
    let ended_before = (0..TRANSFERS).filter(|seq| a.end_of(xfer(A, *seq)).is_some()).count();
    a.fabric.close_right(A);
    a.fabric.write(xfer(A, 999), &[0], &[0]);
    pump(&mut [&mut a], |nodes| nodes[0].closed(A).is_some());
    assert_eq!(a.closed(A), Some(true));
    assert_eq!(a.events.last(), Some(&FabricEvent::RightClosed { right: A, fenced: true }));
    let fenced = (0..TRANSFERS).filter(|seq| a.end_of(xfer(A, *seq)) == Some(&TransferEnd::Fenced)).count();
    assert_eq!(fenced + ended_before, TRANSFERS as usize);
    assert!(fenced > 0 && matches!(a.end_of(xfer(A, 999)), Some(TransferEnd::NotPosted(_))));
    // The other side notices sooner or later, or is closed without noticing; both are fine.
    b.fabric.close_right(B);
    pump(&mut [&mut a, &mut b], |nodes| nodes[1].closed(B).is_some());
    assert_eq!(b.closed(B), Some(true));
    // The plane is as good as new.
    a.events.clear();
    b.events.clear();
    link(&mut a, A, &mut b, B);
    a.fabric.write(xfer(A, 0), &[1], &[0]);
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, 0)).is_some());
    assert_eq!(a.end_of(xfer(A, 0)), Some(&TransferEnd::Done));
}

#[test]
fn the_target_can_close_first_and_the_writer_gets_an_end_for_each() {
    const TRANSFERS: u64 = 40;
    let (mut a, mut b) = under_way(TRANSFERS);
    b.fabric.close_right(B);
    pump(&mut [&mut b], |nodes| nodes[0].closed(B).is_some());
    assert_eq!(b.closed(B), Some(true));
    b.region.fill(0, 16 << 20, 0x99);
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].faults(A) == 1);
    a.fabric.close_right(A);
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].closed(A).is_some());
    let ends: Vec<_> = (0..TRANSFERS).map(|seq| a.end_of(xfer(A, seq)).expect("an end")).collect();
    assert!(ends.iter().any(|end| matches!(end, TransferEnd::Errored(_))), "{ends:?}");
    assert_eq!(b.region.count_other(0, 16 << 20, 0x99), 0);
}

#[test]
fn dropping_planes_with_writes_in_flight_is_clean_and_releases_the_memory() {
    for writer_first in [true, false] {
        let (a, b) = under_way(60);
        let (of_a, of_b) = (Arc::downgrade(&a.region), Arc::downgrade(&b.region));
        if writer_first {
            drop(a);
            drop(b);
        } else {
            drop(b);
            drop(a);
        }
        assert!(of_a.upgrade().is_none() && of_b.upgrade().is_none(), "memory was not released");
    }
}

#[test]
fn dropping_planes_in_early_states_is_clean() {
    let mut opening = Node::new(512, 4);
    opening.fabric.open_right(A);
    drop(opening);
    let (mut a, mut b) = (Node::new(512, 4), Node::new(512, 4));
    link(&mut a, A, &mut b, B);
    a.fabric.write(xfer(A, 1), &[0], &[0]);
    drop(a);
    let (mut a, mut c) = (Node::new(512, 4), Node::new(512, 4));
    link(&mut a, A, &mut c, A);
    a.fabric.write(xfer(A, 1), &[0], &[0]);
    pump(&mut [&mut a], |_| true);
    a.fabric.close_right(A);
    drop(a);
    drop(c);
    drop(b);
}

#[test]
fn a_plane_can_move_to_another_thread() {
    let (mut a, mut b) = (Node::new(4096, 4), Node::new(4096, 4));
    link(&mut a, A, &mut b, B);
    a.fill_block(1, 9);
    a.fabric.write(xfer(A, 1), &[1], &[2]);
    let ended = std::thread::spawn(move || {
        pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, 1)).is_some());
        (a.end_of(xfer(A, 1)) == Some(&TransferEnd::Done), b.block_is(2, 9))
    });
    assert_eq!(ended.join().expect("no panic"), (true, true));
}
