//! What decoding and framing cost in memory, counted by the allocator.
#![allow(unsafe_code, reason = "a counting allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use kvpeer_wire::strategies::{parts, parts_of};
use kvpeer_wire::{
    Blocks, Decoded, Demand, Fetch, FrameReader, Incoming, Key, KeysBuf, Kind, Limits, Msg, Preamble,
    RequestName, Round, Supply, fuzzing,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Used {
    allocations: u64,
    /// The largest single allocation, in bytes.
    largest: usize,
    /// All allocations together, in bytes.
    bytes: usize,
}

thread_local! {
    static USED: Cell<Used> = const { Cell::new(Used { allocations: 0, largest: 0, bytes: 0 }) };
}

fn count(size: usize) {
    USED.with(|used| {
        let Used { allocations, largest, bytes } = used.get();
        used.set(Used { allocations: allocations + 1, largest: largest.max(size), bytes: bytes + size });
    });
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }
}

fn used<T>(run: impl FnOnce() -> T) -> (Used, T) {
    USED.set(Used::default());
    let result = run();
    (USED.get(), result)
}

fn encoded(msg: &Msg<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    msg.encode(&mut frame).unwrap();
    frame
}

fn decode_for_free(frame: &[u8]) {
    let (used, read) = used(|| Msg::decode(frame[4], &frame[5..], &Limits::DEFAULT).is_ok());
    assert!(read);
    assert_eq!(used, Used::default());
}

#[test]
fn the_allocator_counts() {
    let (used, _) = used(|| vec![0u8; 100]);
    assert_eq!(used, Used { allocations: 1, largest: 100, bytes: 100 });
}

#[test]
fn decoding_any_kind_allocates_nothing() {
    let mut runner = TestRunner::deterministic();
    for kind in Kind::ALL {
        for _ in 0..50 {
            let parts = parts_of(kind).new_tree(&mut runner).unwrap().current();
            decode_for_free(&encoded(&parts.msg()));
        }
    }
}

// FR-12
#[test]
fn decoding_a_fetch_of_8192_keys_allocates_nothing() {
    let blocks: Vec<u32> = (0..8192).collect();
    for mixed in [false, true] {
        let len = |nth: u32| if mixed { 1 + nth as usize % 64 } else { 36 };
        let bytes: Vec<Vec<u8>> = blocks.iter().map(|nth| vec![*nth as u8; len(*nth)]).collect();
        let keys: KeysBuf = bytes.iter().map(|bytes| Key::new(bytes).unwrap()).collect();
        let demand = Demand::new(keys.as_keys(), Blocks::new(&blocks)).unwrap();
        let request = RequestName::new("request").unwrap();
        let frame = encoded(&Msg::Fetch(Fetch {
            request,
            round: Round(1),
            supply: Supply::Await,
            demand,
            wait_ms: 1,
        }));
        decode_for_free(&frame);
        let Ok(Decoded::Msg(Msg::Fetch(fetch))) = Msg::decode(frame[4], &frame[5..], &Limits::DEFAULT) else {
            panic!("no fetch")
        };
        let (used, same) = used(|| {
            fetch.demand.keys().iter().eq(keys.as_keys().iter()) && fetch.demand.blocks().iter().eq(0..8192)
        });
        assert!(same);
        assert_eq!(used, Used::default());
    }
}

proptest! {
    // FR-11
    #[test]
    fn refusing_any_bytes_allocates_nothing(kind in any::<u8>(), body in vec(any::<u8>(), 0..400)) {
        let (used, _) = used(|| Msg::decode(kind, &body, &Limits::DEFAULT).is_ok());
        prop_assert_eq!(used, Used::default());
    }

    #[test]
    fn refusing_damaged_messages_allocates_nothing(
        parts in parts(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut frame = encoded(&parts.msg());
        let at = 4 + at.index(frame.len() - 4);
        frame[at] = byte;
        let (used, _) = used(|| Msg::decode(frame[4], &frame[5..], &Limits::DEFAULT).is_ok());
        prop_assert_eq!(used, Used::default());
    }

    /// Two readers, and lists of what came out, over a stream that claims whatever it likes.
    #[test]
    fn no_stream_makes_a_reader_allocate_more_than_it_sends(bytes in vec(any::<u8>(), 0..2000)) {
        let stream = [[9].as_slice(), &Preamble::OURS.to_bytes(), &bytes].concat();
        let (used, ()) = used(|| fuzzing::frame(&stream));
        prop_assert!(used.largest <= 4 * stream.len() + 4096, "{:?} for {}", used, stream.len());
    }
}

/// FR-11: the largest legal claim, and then a trickle.
#[test]
fn a_claim_allocates_nothing() {
    let mut reader = FrameReader::new(u32::MAX);
    reader.feed(&Preamble::OURS.to_bytes());
    assert!(matches!(reader.next(Vec::new), Ok(Some(Incoming::Preamble(_)))));
    let (used, ()) = used(|| {
        reader.feed(&u32::MAX.to_le_bytes());
        for _ in 0..1000 {
            reader.feed(&[1; 10]);
            assert!(matches!(reader.next(Vec::new), Ok(None)));
        }
    });
    assert!(used.largest <= 2 * 10_004 + 64, "{used:?}");
    assert!(used.bytes <= 4 * 10_004 + 256, "{used:?}");
}

/// Small frames that are given back cost no allocation; a large one costs the growth of its memory.
#[test]
fn a_busy_reader_does_not_allocate() {
    let mut reader = FrameReader::new(Limits::DEFAULT.frame);
    reader.feed(&Preamble::OURS.to_bytes());
    assert!(matches!(reader.next(Vec::new), Ok(Some(Incoming::Preamble(_)))));
    let ping = encoded(&Msg::Ping(kvpeer_wire::Nonce(1)));
    let batch = ping.repeat(20);
    let mut storage = Vec::with_capacity(64);
    reader.spare(batch.len());
    let (used, frames) = used(|| {
        let mut frames = 0;
        for _ in 0..100 {
            reader.feed(&batch);
            while let Ok(Some(Incoming::Frame(frame))) = reader.next(|| std::mem::take(&mut storage)) {
                frames += 1;
                storage = frame.into_buffer();
            }
        }
        frames
    });
    assert_eq!((used, frames), (Used::default(), 2000));
}
