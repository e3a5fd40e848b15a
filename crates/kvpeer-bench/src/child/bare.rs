//! The yardstick of libfabric itself: the smallest loop that posts delivery-complete WRITEs of whole blocks and
//! reads their completions, with the endpoint settings of kvpeer's own plane (it is the same shim).

#![allow(unsafe_code, reason = "libfabric and the memory it moves are behind a foreign-function boundary")]

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvpeer_fabric_sys as sys;

use super::{Until, nap};
use crate::cut::Cut;
use crate::memory::Memory;
use crate::order::{Door, Wait};
use crate::stop::{Outcome, Stop, stop};

/// WRITEs in flight at most, in any measurement.
const MOST: usize = 256;
/// How often a spinning server looks for orders.
const LOOK_UP: u32 = 64;
/// Only a run that hangs waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// An endpoint with its queue and memory key.
pub(super) struct Bare {
    fabric: NonNull<sys::kvf_fabric>,
    right: NonNull<sys::kvf_right>,
    contexts: Box<[Context]>,
    peer: Option<Peer>,
    memory: Arc<Memory>,
}

/// What libfabric may use for itself while a WRITE is in flight.
#[repr(C, align(64))]
struct Context(UnsafeCell<[u8; sys::KVF_CONTEXT_BYTES]>);

#[derive(Clone, Copy)]
struct Peer {
    address: u64,
    key: u64,
    base: u64,
}

impl Bare {
    pub(super) fn open(memory: Arc<Memory>) -> Outcome<Self> {
        let (mut fabric, mut right) = (ptr::null_mut(), ptr::null_mut());
        let mut call: *const c_char = ptr::null();
        // SAFETY: the strings are NUL-terminated constants, the out-pointers are valid for writes.
        let code = unsafe {
            sys::kvf_fabric_open(c"tcp".as_ptr(), c"127.0.0.1".as_ptr(), 1, &raw mut fabric, &raw mut call)
        };
        let fabric = NonNull::new(fabric).ok_or_else(|| failed("opening the provider", code))?;
        // SAFETY: the fabric is open; the memory stays mapped until the endpoint is closed (see `drop`).
        let code = unsafe {
            sys::kvf_right_open(
                fabric.as_ptr(),
                memory.base().as_ptr().cast(),
                memory.len(),
                0x6B76_7065_6572,
                MOST + 16,
                &raw mut right,
                &raw mut call,
            )
        };
        let Some(right) = NonNull::new(right) else {
            // SAFETY: nothing was made from it.
            unsafe { sys::kvf_fabric_close(fabric.as_ptr()) };
            return Err(failed("opening an endpoint", code));
        };
        let contexts = (0..MOST).map(|_| Context(UnsafeCell::new([0; sys::KVF_CONTEXT_BYTES]))).collect();
        Ok(Self { fabric, right, contexts, peer: None, memory })
    }

    pub(super) fn door(&self) -> Outcome<Door> {
        let mut name = vec![0; sys::KVF_NAME_MAX];
        let mut len = name.len();
        // SAFETY: the endpoint is open, and `name` has room for `len` bytes.
        let code =
            unsafe { sys::kvf_right_name(self.right.as_ptr(), name.as_mut_ptr().cast(), &raw mut len) };
        check("fi_getname", code)?;
        name.truncate(len);
        // SAFETY: the endpoint is open.
        let key = unsafe { sys::kvf_right_key(self.right.as_ptr()) };
        let mut traits = sys::kvf_traits::default();
        // SAFETY: the fabric is open, and `traits` is valid for writes.
        unsafe { sys::kvf_fabric_traits(self.fabric.as_ptr(), &raw mut traits) };
        let base = if traits.virtual_addresses == 0 { 0 } else { self.memory.base().addr().get() as u64 };
        Ok(Door { name, key, base })
    }

    pub(super) fn connect(&mut self, door: &Door) -> Outcome<()> {
        let mut name = [0u8; sys::KVF_NAME_MAX];
        let room = name.get_mut(..door.name.len()).ok_or_else(|| stop("the endpoint's name is too long"))?;
        room.copy_from_slice(&door.name);
        let mut address = 0;
        // SAFETY: the endpoint is open; the name came from libfabric itself and is followed by zeros.
        let code =
            unsafe { sys::kvf_right_insert(self.right.as_ptr(), name.as_ptr().cast(), &raw mut address) };
        check("fi_av_insert", code)?;
        self.peer = Some(Peer { address, key: door.key, base: door.base });
        Ok(())
    }

    /// Seconds from the first post until the last completion.
    pub(super) fn write(&mut self, cut: &Cut, depth: usize, wait: Wait) -> Outcome<f64> {
        let peer = self.peer.ok_or_else(|| stop("the bare endpoint is not connected"))?;
        let mut pairs = cut.pairs().peekable();
        let contexts = self.contexts.iter().map(|context| context.0.get().cast::<c_void>());
        let mut free: Vec<*mut c_void> = contexts.take(depth).collect();
        let all = free.len();
        let begun = Instant::now();
        let mut late = begun + PATIENCE;
        loop {
            while let (Some(&(from, to)), Some(&context)) = (pairs.peek(), free.last()) {
                if !self.post(peer, cut.block_len, (from, to), context)? {
                    break;
                }
                free.pop();
                pairs.next();
            }
            if free.len() == all && pairs.peek().is_none() {
                return Ok(begun.elapsed().as_secs_f64());
            }
            if self.poll(|context| free.push(context))? > 0 {
                late = Instant::now() + PATIENCE;
            } else {
                if Instant::now() > late {
                    return Err(stop("the bare libfabric loop has not moved anything for a minute"));
                }
                self.wait(wait, |fds| nap(fds.iter().copied()))?;
            }
        }
    }

    /// Lets WRITEs land.
    pub(super) fn serve(&mut self, wait: Wait, until: Until<'_>) -> Outcome<()> {
        let mut turns = 0u32;
        loop {
            turns = turns.wrapping_add(1);
            let look = wait == Wait::Sleep || turns.is_multiple_of(LOOK_UP);
            if look && until.is_over()? {
                return Ok(());
            }
            if self.poll(|_| {})? == 0 {
                self.wait(wait, |fds| until.nap(fds))?;
            }
        }
    }

    /// False: flow control, try again after a poll.
    fn post(&self, peer: Peer, len: usize, (from, to): (u32, u32), context: *mut c_void) -> Outcome<bool> {
        let (from, to) = (from as usize * len, to as usize * len);
        if from.max(to) + len > self.memory.len() {
            return Err(stop("a block is outside the memory"));
        }
        let base = self.memory.base().as_ptr().wrapping_add(from).cast();
        let piece = sys::kvf_piece { base, len };
        // SAFETY: the endpoint is open and its peer inserted; the piece lies in the registered memory; the context
        // is used by no other WRITE in flight, and lives as long as the endpoint.
        let code = unsafe {
            sys::kvf_right_write(
                self.right.as_ptr(),
                &raw const piece,
                1,
                peer.address,
                peer.base + to as u64,
                peer.key,
                context,
                0,
            )
        };
        // SAFETY: a constant of the shim.
        if code == unsafe { sys::kvf_eagain } {
            return Ok(false);
        }
        check("fi_writemsg", code)?;
        Ok(true)
    }

    fn poll(&self, mut each: impl FnMut(*mut c_void)) -> Outcome<usize> {
        let none = sys::kvf_completion { context: ptr::null_mut(), error: 0, provider_error: 0 };
        let mut entries = [none; 16];
        // SAFETY: the endpoint is open, and `entries` has room for as many as are asked for.
        let read = unsafe { sys::kvf_right_poll(self.right.as_ptr(), entries.as_mut_ptr(), entries.len()) };
        let read =
            usize::try_from(read).map_err(|_| failed("fi_cq_read", i32::try_from(read).unwrap_or(-1)))?;
        for entry in entries.iter().take(read) {
            check("a bare WRITE", entry.error)?;
            each(entry.context);
        }
        Ok(read)
    }

    fn wait(&self, wait: Wait, sleep: impl FnOnce(&[BorrowedFd<'_>]) -> Outcome<()>) -> Outcome<()> {
        // SAFETY: the endpoint is open.
        let may_sleep = wait == Wait::Sleep && unsafe { sys::kvf_right_trywait(self.right.as_ptr()) } == 0;
        if !may_sleep {
            std::thread::yield_now();
            return Ok(());
        }
        // SAFETY: the endpoint is open.
        let fd = unsafe { sys::kvf_right_fd(self.right.as_ptr()) };
        // SAFETY: `tcp` has descriptors for its queues, and this one is open as long as the endpoint.
        sleep(&[unsafe { BorrowedFd::borrow_raw(fd) }])
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let mut call = ptr::null();
        // SAFETY: the handle is valid.
        let closed = unsafe { sys::kvf_right_fence(self.right.as_ptr()) } == 0;
        // SAFETY: the endpoint is closed, and the handle not used again.
        let closed = closed && unsafe { sys::kvf_right_close(self.right.as_ptr(), &raw mut call) } == 0;
        if closed {
            // SAFETY: its only endpoint is closed.
            unsafe { sys::kvf_fabric_close(self.fabric.as_ptr()) };
        } else {
            // Peers may still reach the memory: it stays mapped.
            std::mem::forget(Arc::clone(&self.memory));
        }
    }
}

fn check(what: &str, code: i32) -> Outcome<()> {
    if code == 0 { Ok(()) } else { Err(failed(what, code)) }
}

fn failed(what: &str, code: i32) -> Stop {
    // SAFETY: any code is accepted.
    let text = unsafe { sys::kvf_strerror(code) };
    // SAFETY: the answer is a NUL-terminated string, copied at once.
    let text = unsafe { CStr::from_ptr(text) };
    stop(format!("the bare libfabric loop failed: {what}: {}", text.to_string_lossy()))
}
