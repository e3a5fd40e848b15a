//! Once everything has grown to its size, moving data allocates nothing on our side of libfabric.

#![allow(unsafe_code, reason = "test memory, and a counting allocator")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use kvpeer_fabric::{FabricEvent, RightId, TransferEnd};
use support::{Node, link, pump, xfer};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts the allocations of each thread.
struct Counting;

// SAFETY: everything is passed on to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn the_steady_state_allocates_nothing() {
    let (mut a, mut b) = (Node::new(4096, 256), Node::new(4096, 256));
    let right = RightId(1);
    link(&mut a, right, &mut b, right);
    // Pairs of neighbours: 128 writes of two blocks each per transfer.
    let blocks: Vec<u32> = (0..256).map(|i| if i & 2 == 0 { i } else { (i + 128) % 256 }).collect();
    let mut events = Vec::with_capacity(64);
    let mut move_once = |seq: u64| {
        a.fabric.write(xfer(right, seq), &blocks, &blocks);
        a.fabric.write(xfer(right, seq + 1), &blocks, &blocks);
        let mut done = 0;
        while done < 2 {
            b.fabric.progress(64, &mut events);
            a.fabric.progress(64, &mut events);
            a.fabric.prepare_wait();
            for event in events.drain(..) {
                assert!(matches!(event, FabricEvent::Transfer { end: TransferEnd::Done, .. }), "{event:?}");
                done += 1;
            }
        }
    };
    (0..8).for_each(|round| move_once(2 * round));
    let before = ALLOCATIONS.get();
    (8..40).for_each(|round| move_once(2 * round));
    assert_eq!(ALLOCATIONS.get() - before, 0);
    pump(&mut [&mut a, &mut b], |_| true);
}
