//! Peers that stop answering, for which libfabric has no error.

#![allow(unsafe_code, reason = "test memory and poll(2)")]

mod support;

use std::time::Duration;

use kvpeer_fabric::{FabricEvent, RightId, TransferEnd};
use support::{Node, link, pump, xfer};

const A: RightId = RightId(1);
const B: RightId = RightId(7);

#[test]
fn a_peer_that_does_not_answer_stalls_the_write_once_and_closing_ends_it() {
    let mut a = Node::with(64 << 10, 4, |config| config.write_deadline = Duration::from_millis(200));
    let mut b = Node::new(64 << 10, 4);
    link(&mut a, A, &mut b, B);
    a.fabric.write(xfer(A, 1), &[0, 2], &[0, 2]);
    // Only the writer is driven: the target never accepts the connection.
    let stalled = FabricEvent::Stalled { right: A, xfer: xfer(A, 1) };
    pump(&mut [&mut a], |nodes| nodes[0].events.contains(&stalled));
    assert_eq!(a.end_of(xfer(A, 1)), None, "stalling is not an end");
    a.fabric.close_right(A);
    pump(&mut [&mut a], |nodes| nodes[0].closed(A).is_some());
    assert_eq!(a.events.iter().filter(|event| **event == stalled).count(), 1);
    assert_eq!(a.end_of(xfer(A, 1)), Some(&TransferEnd::Fenced));
    assert_eq!(a.closed(A), Some(true));
}

#[test]
fn a_stalled_write_is_done_all_the_same_when_the_peer_comes_back() {
    const TRANSFERS: u64 = 10;
    let mut a = Node::with(4 << 20, 2, |config| config.write_deadline = Duration::from_millis(200));
    let mut b = Node::new(4 << 20, 2);
    link(&mut a, A, &mut b, B);
    a.region.fill(0, 8 << 20, 0x44);
    // Once connected, the target pauses, with more under way than socket buffers hold.
    a.fabric.write(xfer(A, 100), &[0], &[0]);
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, 100)).is_some());
    for seq in 0..TRANSFERS {
        a.fabric.write(xfer(A, seq), &[0, 1], &[0, 1]);
    }
    let last = FabricEvent::Stalled { right: A, xfer: xfer(A, TRANSFERS - 1) };
    pump(&mut [&mut a], |nodes| nodes[0].events.contains(&last));
    assert_eq!((a.end_of(xfer(A, TRANSFERS - 1)), a.faults(A)), (None, 0));
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, TRANSFERS - 1)).is_some());
    for seq in 0..TRANSFERS {
        assert_eq!(a.end_of(xfer(A, seq)), Some(&TransferEnd::Done));
    }
    assert_eq!(b.region.count_other(0, 8 << 20, 0x44), 0);
    assert_eq!(a.events.iter().filter(|event| **event == last).count(), 1);
}
