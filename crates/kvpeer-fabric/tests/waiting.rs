//! Sleeping on the plane's descriptor: whoever sleeps is woken.

#![allow(unsafe_code, reason = "test memory, poll(2) and epoll(7)")]

mod support;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use kvpeer_fabric::{RightId, TransferEnd, version};
use support::{Node, link, pump, xfer};

const A: RightId = RightId(1);
const B: RightId = RightId(7);

#[test]
fn a_sleeping_node_is_woken_by_its_descriptor() {
    let (mut a, mut b) = (Node::new(64 << 10, 64), Node::new(64 << 10, 64));
    link(&mut a, A, &mut b, B);
    let blocks: Vec<u32> = (0..64).collect();
    let mut idle = 0;
    for seq in 0..20 {
        a.fabric.write(xfer(A, seq), &blocks, &blocks);
        idle += pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, seq)).is_some()).idle;
    }
    // The first write connects, by timer; after that a few idle waits are the scheduler's.
    assert!(idle <= 20, "{idle} waits ended without a wake-up");
}

#[test]
fn wake_ups_survive_the_closing_of_other_rights() {
    // On libfabric 2.x one queue's descriptor stands for all, and the kernel limits how many could; on 1.17 a right
    // costs tens of megabytes without the recommended environment.
    let others = if version() >= (2, 0) { 120 } else { 6 };
    let (mut a, mut b) = (Node::new(64 << 10, 64), Node::new(64 << 10, 64));
    for id in 100..100 + others {
        a.open_right(RightId(id));
        b.open_right(RightId(id));
    }
    link(&mut a, A, &mut b, B);
    let blocks: Vec<u32> = (0..64).collect();
    let mut idle = 0;
    for (id, seq) in (100..100 + others).zip(0..) {
        a.fabric.close_right(RightId(id));
        b.fabric.close_right(RightId(id));
        a.fabric.write(xfer(A, seq), &blocks, &blocks);
        idle += pump(&mut [&mut a, &mut b], |nodes| {
            let closed = nodes.iter().all(|node| node.closed(RightId(id)).is_some());
            closed && nodes[0].end_of(xfer(A, seq)).is_some()
        })
        .idle;
        assert_eq!(a.end_of(xfer(A, seq)), Some(&TransferEnd::Done));
    }
    assert!(idle <= 20, "{idle} waits ended without a wake-up");
}

#[test]
fn the_descriptor_works_inside_an_edge_triggered_epoll() {
    let (mut a, mut b) = (Node::new(64 << 10, 64), Node::new(64 << 10, 64));
    // SAFETY: the call has no preconditions.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    // SAFETY: just made, and nothing else owns it.
    let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
    for node in [&a, &b] {
        let edge = libc::EPOLLIN | libc::EPOLLET;
        let mut interest = libc::epoll_event { events: edge.cast_unsigned(), u64: 0 };
        let fd = node.fabric.wait_fds()[0];
        // SAFETY: both descriptors are open, and the kernel copies the event.
        let code = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut interest) };
        assert_eq!(code, 0);
    }
    link(&mut a, A, &mut b, B);
    let blocks: Vec<u32> = (0..64).collect();
    let mut idle = 0;
    for seq in 0..20 {
        a.fabric.write(xfer(A, seq), &blocks, &blocks);
        while a.end_of(xfer(A, seq)).is_none() {
            for Node { fabric, events, .. } in [&mut a, &mut b] {
                fabric.progress(16, events);
            }
            let ended = a.end_of(xfer(A, seq)).is_some();
            if !ended && a.fabric.prepare_wait() & b.fabric.prepare_wait() {
                let mut event = libc::epoll_event { events: 0, u64: 0 };
                // The first write connects, by timer.
                let timeout = if seq == 0 { 5 } else { 1000 };
                // SAFETY: there is room for one event.
                let woken = unsafe { libc::epoll_wait(epoll.as_raw_fd(), &raw mut event, 1, timeout) };
                idle += u32::from(woken == 0 && seq > 0);
                assert!(idle < 10, "no wake-up for seconds");
            }
        }
    }
    assert_eq!(idle, 0, "waits of a second ended without a wake-up");
}
