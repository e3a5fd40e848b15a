//! Two or more planes in one process: what is written is there, and nothing else.

#![allow(unsafe_code, reason = "test memory and poll(2)")]

mod support;

use std::net::Ipv6Addr;

use kvpeer_fabric::{FabricError, FabricEvent, MetadataError, Refusal, RightId, TransferEnd};
use support::{Node, link, pump, xfer};

const A: RightId = RightId(1);
const B: RightId = RightId(7);

fn is_fault(event: &FabricEvent) -> bool {
    matches!(event, FabricEvent::Fault { .. } | FabricEvent::Stalled { .. })
}

// SUP-5
#[test]
fn a_write_is_visible_when_it_is_done() {
    let (mut a, mut b) = (Node::new(4096, 16), Node::new(4096, 16));
    link(&mut a, A, &mut b, B);
    for block in 0..16 {
        a.fill_block(block, 0x10 + block as u8);
    }
    // Merged, gathered and single blocks in one transfer.
    let (src, dst) = ([1, 2, 3, 9, 14, 0], [4, 5, 6, 0, 10, 11]);
    a.fabric.write(xfer(A, 1), &src, &dst);
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, 1)).is_some());
    assert_eq!(a.end_of(xfer(A, 1)), Some(&TransferEnd::Done));
    for block in 0..16 {
        let written = dst.iter().position(|dst| *dst == block).map(|at| 0x10 + src[at] as u8);
        assert!(b.block_is(block, written.unwrap_or(0)), "block {block}");
    }
    assert!(!a.events.iter().any(is_fault) && !b.events.iter().any(is_fault));
    assert_eq!((a.fabric.stale_completions(), b.fabric.stale_completions()), (0, 0));
}

#[test]
fn both_sides_write_at_once_and_each_transfer_is_whole_when_it_ends() {
    const BLOCKS: u32 = 64;
    const ROUNDS: u64 = 30;
    let (mut a, mut b) = (Node::new(16 << 10, 2 * BLOCKS), Node::new(16 << 10, 2 * BLOCKS));
    link(&mut a, A, &mut b, B);
    // The lower half is each side's source, the upper half takes the other's writes, from the top down.
    let src: Vec<u32> = (0..BLOCKS).collect();
    let dst: Vec<u32> = (BLOCKS..2 * BLOCKS).rev().collect();
    for round in 0..ROUNDS {
        a.region.fill(0, a.block_len * BLOCKS as usize, 1 + round as u8);
        b.region.fill(0, b.block_len * BLOCKS as usize, 101 + round as u8);
        a.fabric.write(xfer(A, round), &src, &dst);
        b.fabric.write(xfer(B, round), &src, &dst);
        let (mut a_checked, mut b_checked) = (false, false);
        pump(&mut [&mut a, &mut b], |nodes| {
            // Looked at right behind the completion, before anything else is read.
            let upper = |node: &Node, byte| {
                let half = node.block_len * BLOCKS as usize;
                node.region.count_other(half, half, byte)
            };
            if !a_checked && nodes[0].end_of(xfer(A, round)).is_some() {
                assert_eq!(upper(nodes[1], 1 + round as u8), 0);
                a_checked = true;
            }
            if !b_checked && nodes[1].end_of(xfer(B, round)).is_some() {
                assert_eq!(upper(nodes[0], 101 + round as u8), 0);
                b_checked = true;
            }
            a_checked && b_checked
        });
        assert_eq!(a.end_of(xfer(A, round)), Some(&TransferEnd::Done));
        assert_eq!(b.end_of(xfer(B, round)), Some(&TransferEnd::Done));
    }
}

#[test]
fn blocks_larger_than_one_rma_write_arrive_whole() {
    const LEN: usize = (9 << 20) + 8;
    let (mut a, mut b) = (Node::new(LEN, 2), Node::new(LEN, 2));
    link(&mut a, A, &mut b, B);
    a.fill_block(1, 0x77);
    a.fabric.write(xfer(A, 1), &[1], &[0]);
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, 1)).is_some());
    assert_eq!(a.end_of(xfer(A, 1)), Some(&TransferEnd::Done));
    assert!(b.block_is(0, 0x77) && b.block_is(1, 0));
}

#[test]
fn more_writes_than_the_window_holds_all_end_in_time_and_in_order() {
    let mut a = Node::with(512, 1024, |config| config.window = 4);
    let mut b = Node::new(512, 1024);
    link(&mut a, A, &mut b, B);
    for seq in 0..64u32 {
        // Every other block: nothing can be merged, 16 RMA writes per transfer.
        let blocks: Vec<u32> = (0..16).map(|i| (seq * 16 + i) ^ 1).collect();
        a.fabric.write(xfer(A, seq.into()), &blocks, &blocks);
    }
    a.region.fill(0, 512 * 1024, 0x5a);
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, 63)).is_some());
    for seq in 0..64 {
        assert_eq!(a.end_of(xfer(A, seq)), Some(&TransferEnd::Done), "{seq}");
    }
    assert_eq!(b.region.count_other(0, 512 * 1024, 0x5a), 0);
}

#[test]
fn rights_share_a_plane_without_mixing() {
    const PEERS: u32 = 6;
    let mut hub = Node::new(1024, PEERS);
    let mut peers: Vec<Node> = (0..PEERS).map(|_| Node::new(1024, PEERS)).collect();
    for (peer, id) in peers.iter_mut().zip(0..) {
        link(&mut hub, RightId(id), peer, A);
        peer.region.fill(0, 1024, 0x20 + id as u8);
        peer.fabric.write(xfer(A, 0), &[0], &[id]);
    }
    let mut nodes: Vec<&mut Node> = peers.iter_mut().chain([&mut hub]).collect();
    let done = |node: &&mut Node| node.end_of(xfer(A, 0)).is_some();
    pump(&mut nodes, |nodes| nodes[..PEERS as usize].iter().all(done));
    for id in 0..PEERS {
        assert!(hub.block_is(id, 0x20 + id as u8), "block {id}");
    }
}

#[test]
fn an_empty_transfer_is_done_and_a_cancelled_one_is_not_posted() {
    let (mut a, mut b) = (Node::new(1024, 4), Node::new(1024, 4));
    link(&mut a, A, &mut b, B);
    a.fill_block(0, 0x11);
    a.fabric.write(xfer(A, 1), &[], &[]);
    a.fabric.write(xfer(A, 2), &[0], &[0]);
    a.fabric.write(xfer(A, 3), &[0], &[1]);
    a.fabric.cancel(xfer(A, 2));
    a.fabric.cancel(xfer(A, 99));
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, 3)).is_some());
    assert_eq!(a.end_of(xfer(A, 1)), Some(&TransferEnd::Done));
    assert_eq!(a.end_of(xfer(A, 2)), Some(&TransferEnd::NotPosted(Refusal::Cancelled)));
    assert_eq!(a.end_of(xfer(A, 3)), Some(&TransferEnd::Done));
    assert!(b.block_is(0, 0) && b.block_is(1, 0x11));
    // Over: neither is there anything to cancel any more.
    a.fabric.cancel(xfer(A, 3));
    pump(&mut [&mut a], |_| true);
    assert_eq!(a.end_of(xfer(A, 3)), Some(&TransferEnd::Done));
}

#[test]
fn it_works_over_ipv6_too() {
    let bind = Ipv6Addr::LOCALHOST.into();
    if std::net::TcpListener::bind((bind, 0)).is_err() {
        eprintln!("not tested: this host has no IPv6 loopback");
        return;
    }
    let (mut a, mut b) = (Node::with(4096, 4, |c| c.bind = bind), Node::with(4096, 4, |c| c.bind = bind));
    link(&mut a, A, &mut b, B);
    a.fill_block(0, 6);
    a.fabric.write(xfer(A, 1), &[0], &[3]);
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, 1)).is_some());
    assert!(a.end_of(xfer(A, 1)) == Some(&TransferEnd::Done) && b.block_is(3, 6));
    // The families do not mix, and that is said at once.
    let mut v4 = Node::new(4096, 4);
    let of_v4 = v4.open_right(A);
    a.fabric.close_right(A);
    pump(&mut [&mut a], |nodes| nodes[0].closed(A).is_some());
    a.events.clear();
    a.open_right(A);
    a.events.clear();
    a.fabric.register(A, v4.peer_region(), &of_v4);
    pump(&mut [&mut a], |nodes| !nodes[0].events.is_empty());
    let refused = FabricError::Metadata(MetadataError::Name {
        reason: "not the length of a socket address of our family",
    });
    assert_eq!(a.events, [FabricEvent::Registered { right: A, result: Err(refused) }]);
}
