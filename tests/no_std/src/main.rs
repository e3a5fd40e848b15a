//! Encodes a message, frames it and decodes it, and has a node dial a peer and give up, with nothing below but `core`, `alloc` and the C library's entry
//! point. The exit code says what failed.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

use kvpeer_core::{
    Action, Command, Compatibility, Config, Endpoint, Event, Identity, Input, JobId, LoadOutcome, Part, Sink,
    Time,
};
use kvpeer_wire::{
    Blocks, Decoded, Demand, Fetch, FrameReader, Incoming, Key, KeysBuf, Limits, Msg, PeerName, Preamble,
    RegionInfo, RequestName, Round, Supply,
};

#[unsafe(no_mangle)]
extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    match (wire(), node()) {
        (Some(()), Some(())) => 0,
        (None, _) => 1,
        (Some(()), None) => 2,
    }
}

/// A fetch there and back.
fn wire() -> Option<()> {
    let keys: KeysBuf = [Key::new(b"one").ok()?, Key::new(b"another").ok()?].into_iter().collect();
    let demand = Demand::new(keys.as_keys(), Blocks::new(&[7, 8])).ok()?;
    let request = RequestName::new("request").ok()?;
    let msg = Msg::Fetch(Fetch { request, round: Round(1), supply: Supply::Await, demand, wait_ms: 5 });
    let mut stream = Preamble::OURS.to_bytes().to_vec();
    msg.encode(&mut stream).ok()?;

    let limits = Limits::DEFAULT;
    let mut reader = FrameReader::new(limits.early_frame);
    reader.feed(&stream);
    let Incoming::Preamble(Preamble::OURS) = reader.next(Vec::new).ok()?? else { return None };
    let Incoming::Frame(frame) = reader.next(Vec::new).ok()?? else { return None };
    (frame.decode(&limits) == Ok(Decoded::Msg(msg))).then_some(())
}

/// What a node did, counted.
#[derive(Default)]
struct Outlet {
    dials: usize,
    failed_loads: usize,
}

impl Sink for Outlet {
    fn act(&mut self, action: Action<'_>) {
        if let Action::Dial { .. } = action {
            self.dials += 1;
        }
    }

    fn tell(&mut self, event: Event<'_>) {
        if let Event::LoadFinished { outcome: LoadOutcome::Failed { .. }, .. } = event {
            self.failed_loads += 1;
        }
    }
}

/// A load whose peer never answers fails when its time is up, and leaves nothing behind.
fn node() -> Option<()> {
    let identity =
        Identity { peer_id: PeerName::new("10.0.0.1:1").ok()?.into(), incarnation: 1, loopback: false };
    let region = RegionInfo { base_addr: 0, num_blocks: 8, block_len: 4096 };
    let mut endpoint = Endpoint::new(Config::new(identity, region, Compatibility::default())).ok()?;
    let mut out = Outlet::default();
    let (request, source) = (RequestName::new("request").ok()?, PeerName::new("10.0.0.2:1").ok()?);
    let part = Part::Consume { source, address: "10.0.0.2:1", supply: Supply::Await };
    let keys: KeysBuf = [Key::new(b"one").ok()?].into_iter().collect();
    endpoint.command(Time::ZERO, Command::Open { request, part }, &mut out).ok()?;
    let load = Command::Load { job: JobId(1), request, keys: keys.as_keys(), blocks: &[3] };
    endpoint.command(Time::ZERO, load, &mut out).ok()?;
    while let Some(deadline) = endpoint.next_deadline().filter(|_| !endpoint.is_idle()) {
        endpoint.handle(deadline.at, Input::Tick, &mut out);
    }
    (out.dials == 1 && out.failed_loads == 1 && endpoint.check().is_ok()).then_some(())
}

/// Gives out memory once; enough for this program.
struct Once {
    memory: UnsafeCell<[u8; SIZE]>,
    used: AtomicUsize,
}

const SIZE: usize = 1 << 20;

// SAFETY: every byte of `memory` is given out at most once, `used` is atomic.
unsafe impl Sync for Once {}

// SAFETY: what is given out is aligned, inside `memory`, and not given out again.
unsafe impl GlobalAlloc for Once {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size() + layout.align();
        let start = self.used.fetch_add(size, Ordering::Relaxed);
        if SIZE.checked_sub(size).is_none_or(|last| start > last) {
            return core::ptr::null_mut();
        }
        // SAFETY: `start + size` is inside.
        let first = unsafe { self.memory.get().cast::<u8>().add(start) };
        // SAFETY: aligning skips less than the alignment, which `size` has room for.
        unsafe { first.add(first.align_offset(layout.align())) }
    }

    unsafe fn dealloc(&self, _memory: *mut u8, _layout: Layout) {}
}

#[global_allocator]
static MEMORY: Once = Once { memory: UnsafeCell::new([0; SIZE]), used: AtomicUsize::new(0) };

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: may be called at any time.
    unsafe { abort() }
}

/// The compiled `alloc` names it; without unwinding it is never called.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// As above.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    // SAFETY: may be called at any time.
    unsafe { abort() }
}

#[link(name = "c")]
unsafe extern "C" {
    fn abort() -> !;
}
