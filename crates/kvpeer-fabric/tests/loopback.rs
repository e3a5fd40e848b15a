//! Two planes in one process.

#![allow(unsafe_code, reason = "test memory and poll(2)")]

mod support;

use kvpeer_fabric::{FabricEvent, RightId, TransferEnd};
use support::{Node, link, pump, xfer};

const A: RightId = RightId(1);
const B: RightId = RightId(7);

#[test]
fn a_write_is_visible_when_it_is_done() {
    let (mut a, mut b) = (Node::new(4096, 16), Node::new(4096, 16));
    link(&mut a, A, &mut b, B);
    for block in 0..16 {
        a.fill_block(block, 0x10 + block as u8);
    }
    a.fabric.write(xfer(A, 1), &[1, 2, 3, 9], &[4, 5, 6, 0]);
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, 1)).is_some());
    assert_eq!(a.end_of(xfer(A, 1)), Some(&TransferEnd::Done));
    for (block, byte) in [(0, 0x19), (4, 0x11), (5, 0x12), (6, 0x13), (1, 0), (7, 0), (15, 0)] {
        assert!(b.block_is(block, byte), "block {block}");
    }
    let faults = |event: &FabricEvent| matches!(event, FabricEvent::Fault { .. });
    assert!(!a.events.iter().any(faults) && !b.events.iter().any(faults));
}
