//! The opt-in provider for one host: it carries data, and it says that it cannot fence.

#![allow(unsafe_code, reason = "test memory and poll(2)")]

mod support;

use std::sync::Arc;

use kvpeer_fabric::{FabricConfig, Provider, RightId, TransferEnd};
use support::{Node, link, pump, xfer};

const A: RightId = RightId(1);

fn shm(config: &mut FabricConfig) {
    config.provider = Provider::Shm;
}

#[test]
fn it_carries_data_but_does_not_fence_and_keeps_the_memory_mapped() {
    let (mut a, mut b) = (Node::with(4096, 8, shm), Node::with(4096, 8, shm));
    link(&mut a, A, &mut b, A);
    a.fill_block(3, 0x3c);
    a.fabric.write(xfer(A, 1), &[3], &[5]);
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, 1)).is_some());
    assert_eq!(a.end_of(xfer(A, 1)), Some(&TransferEnd::Done));
    assert!(b.block_is(5, 0x3c) && b.block_is(4, 0));
    b.fabric.close_right(A);
    pump(&mut [&mut b], |nodes| nodes[0].closed(A).is_some());
    assert_eq!(b.closed(A), Some(false));
    let memory = Arc::downgrade(&b.region);
    drop(b);
    assert!(memory.upgrade().is_some(), "a peer could still write there");
}
