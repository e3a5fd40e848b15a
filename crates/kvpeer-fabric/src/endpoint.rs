//! One right's libfabric objects: endpoint, completion queue, memory registration, address table; and the only
//! code that touches them.

use std::ffi::c_void;
use std::mem;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use kvpeer_fabric_sys as sys;

use crate::contexts::{Contexts, Redeemed};
use crate::domain::{Domain, call_name, failed};
use crate::error::FabricError;
use crate::kept::{keep_exposed, keep_unclosed};
use crate::memory::Memory;
use crate::metadata::{Addressing, Metadata};
use crate::runs::Part;
use crate::traffic::Ticket;

/// Completions read with one call.
const READ_BATCH: usize = 16;
/// Queue entries beyond one per write in flight, for errors that belong to no write.
const QUEUE_SLACK: usize = 16;
/// Attempts to find a memory key that is not taken; each has a chance of 1 - 2^-50 or so.
const KEY_ATTEMPTS: usize = 8;

/// An open endpoint with all that belongs to it. Dropping it closes it, in the order that [`Endpoint::close`]
/// says, so the memory it exposes is never released while the endpoint is open.
pub(crate) struct Endpoint {
    raw: NonNull<sys::kvf_right>,
    /// The answer of `close`, once it was made.
    closed: Option<bool>,
    contexts: Contexts,
    peer: Option<Window>,
    stale: u64,
    /// Bytes registered, from the start of the memory.
    exposed: usize,
    #[cfg(test)]
    sabotage: bool,
    // Below: what must outlive the endpoint.
    memory: Arc<dyn Memory>,
    domain: Arc<Domain>,
}

// SAFETY: libfabric objects of an FI_THREAD_SAFE domain may be used from any thread; we use them from one at a
// time, since every call takes `&mut self` or is documented as a plain read of the handle.
unsafe impl Send for Endpoint {}

/// What the peer lets us write to.
#[derive(Clone, Copy, Debug)]
struct Window {
    address: u64,
    key: u64,
    base: u64,
    len: u64,
}

/// What a completion queue entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// This write ended, well or not.
    Write(Ticket, Result<(), FabricError>),
    /// The connection reports an error that belongs to no write of ours.
    Unattributed(FabricError),
    /// A second completion of a write that already had one; ignored and counted.
    Stale,
}

/// Whether a write was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    Yes,
    /// Flow control: poll, then try again.
    Busy,
}

impl Endpoint {
    /// Opens an endpoint with `window` writes in flight at most, and registers the first `exposed` bytes of the
    /// memory under a fresh random key (unless the provider insists on choosing keys).
    pub(crate) fn open(
        domain: Arc<Domain>,
        memory: Arc<dyn Memory>,
        exposed: usize,
        window: u32,
    ) -> Result<Self, FabricError> {
        let exposed = exposed.min(memory.len());
        let depth = window as usize + QUEUE_SLACK;
        for _ in 0..KEY_ATTEMPTS {
            let key = random_key()? & domain.key_mask(); // HS-13
            let (mut raw, mut call) = (ptr::null_mut(), ptr::null());
            // SAFETY: the domain is open. The memory stays mapped while `memory` lives (promised by `Memory`),
            // which is until the registration is closed: see `close` and the field order. The out-pointers are
            // valid for writes.
            let code = unsafe {
                sys::kvf_right_open(
                    domain.raw().as_ptr(),
                    memory.base().as_ptr().cast(),
                    exposed,
                    key,
                    depth,
                    &raw mut raw,
                    &raw mut call,
                )
            };
            // SAFETY: a constant of the shim.
            let taken = code == unsafe { sys::kvf_ekey_taken };
            match NonNull::new(raw) {
                Some(raw) => {
                    let contexts = Contexts::new(window);
                    return Ok(Self {
                        raw,
                        closed: None,
                        contexts,
                        peer: None,
                        stale: 0,
                        #[cfg(test)]
                        sabotage: false,
                        exposed,
                        memory,
                        domain,
                    });
                }
                None if taken => {}
                None => return Err(failed(call_name(call), domain.provider(), code, 0)),
            }
        }
        Err(FabricError::Random { reason: "every key drawn was taken".to_owned() })
    }

    /// What the peer needs to write to us.
    pub(crate) fn metadata(&self) -> Result<Vec<u8>, FabricError> {
        let mut name = [0u8; sys::KVF_NAME_MAX];
        let mut len = name.len();
        // SAFETY: the endpoint is open, and `name` is valid for writes of `len` bytes.
        let code = unsafe { sys::kvf_right_name(self.raw.as_ptr(), name.as_mut_ptr().cast(), &raw mut len) };
        let name = name.get(..len).filter(|_| code == 0);
        // SAFETY: the endpoint is open.
        let key = unsafe { sys::kvf_right_key(self.raw.as_ptr()) };
        let addressing = self.domain.addressing();
        let base = match addressing {
            Addressing::Offset => 0,
            Addressing::Virtual => self.memory.base().as_ptr().addr() as u64,
        };
        let provider = self.domain.provider();
        name.and_then(|name| Metadata { key, base, name }.encode(provider, addressing)).ok_or_else(|| {
            failed("fi_getname", provider, if code == 0 { libc::ENAMETOOLONG } else { code }, 0)
        })
    }

    /// Admits the one peer that this endpoint may write to, in a window of `len` bytes. `metadata` was decoded
    /// against this endpoint's domain, so its name has the form that the provider expects.
    pub(crate) fn insert(&mut self, metadata: Metadata<'_>, len: u64) -> Result<(), FabricError> {
        let mut name = [0u8; sys::KVF_NAME_MAX];
        let provider = self.domain.provider();
        let Some(room) = name.get_mut(..metadata.name.len()) else {
            return Err(failed("fi_av_insert", provider, libc::ENAMETOOLONG, 0));
        };
        room.copy_from_slice(metadata.name);
        let mut address = 0;
        // SAFETY: the endpoint is open; the name is followed by zeros up to the longest length a name can have,
        // and its family was checked, so that the provider reads inside the array.
        let code =
            unsafe { sys::kvf_right_insert(self.raw.as_ptr(), name.as_ptr().cast(), &raw mut address) };
        if code != 0 {
            return Err(failed("fi_av_insert", provider, code, 0));
        }
        self.peer = Some(Window { address, key: metadata.key, base: metadata.base, len });
        Ok(())
    }

    /// Posts one write from our memory into the peer's window. `more` hints that another follows at once.
    pub(crate) fn post(&mut self, part: &Part, ticket: Ticket, more: bool) -> Result<Posted, FabricError> {
        let provider = self.domain.provider();
        let out_of_bounds = || failed("fi_writemsg", provider, libc::EFAULT, 0);
        let window = self.peer.ok_or_else(|| failed("fi_writemsg", provider, libc::EDESTADDRREQ, 0))?;
        if part.remote.checked_add(part.len).is_none_or(|end| end > window.len) {
            return Err(out_of_bounds());
        }
        let mut pieces = [sys::kvf_piece { base: ptr::null_mut(), len: 0 }; sys::KVF_MAX_PIECES];
        for (to, piece) in pieces.iter_mut().zip(part.pieces()) {
            *to = self.local(piece.offset, piece.len).ok_or_else(out_of_bounds)?;
        }
        let Some(context) = self.contexts.lease(ticket) else { return Ok(Posted::Busy) };
        // SAFETY: the endpoint is open and its peer inserted. All pieces lie in the registered memory, which
        // outlives the endpoint and which nobody holds references into (promised by `Memory`). The context
        // stays valid until its completion is redeemed or the endpoint and the queue are closed.
        let code = unsafe {
            sys::kvf_right_write(
                self.raw.as_ptr(),
                pieces.as_ptr(),
                part.pieces().len(),
                window.address,
                window.base + part.remote,
                window.key,
                context,
                more.into(),
            )
        };
        if code == 0 {
            return Ok(Posted::Yes);
        }
        self.contexts.redeem(context);
        // SAFETY: a constant of the shim.
        if code == unsafe { sys::kvf_eagain } {
            Ok(Posted::Busy)
        } else {
            Err(failed("fi_writemsg", provider, code, 0))
        }
    }

    /// Makes progress in both directions, and hands over at most `max` completions. Answers how many, or that
    /// the queue itself failed.
    pub(crate) fn poll(&mut self, max: usize, mut each: impl FnMut(Completed)) -> Result<usize, FabricError> {
        let none = sys::kvf_completion { context: ptr::null_mut(), error: 0, provider_error: 0 };
        let mut entries = [none; READ_BATCH];
        let mut seen = 0;
        loop {
            let room = (max - seen).min(READ_BATCH);
            // SAFETY: the endpoint and its queue are open (`close` consumes `self`), and `entries` has room.
            let read = unsafe { sys::kvf_right_poll(self.raw.as_ptr(), entries.as_mut_ptr(), room) };
            let Ok(read) = usize::try_from(read) else {
                let code = i32::try_from(read).unwrap_or(libc::EIO);
                return Err(failed("fi_cq_read", self.domain.provider(), code, 0));
            };
            for entry in entries.iter().take(read) {
                each(self.interpret(*entry));
            }
            seen += read;
            if read == 0 || seen >= max {
                return Ok(seen);
            }
        }
    }

    /// A descriptor that becomes readable when polling may find something, if the provider has one.
    pub(crate) fn fd(&self) -> Option<RawFd> {
        // SAFETY: the handle is valid while `self` lives.
        Some(unsafe { sys::kvf_right_fd(self.raw.as_ptr()) }).filter(|fd| *fd >= 0)
    }

    /// Whether sleeping on the descriptor is safe now. Only for endpoints that have one.
    pub(crate) fn try_wait(&mut self) -> Result<bool, FabricError> {
        if self.fd().is_none() {
            return Ok(true);
        }
        // SAFETY: the queue is open and has a wait object, since it has a descriptor.
        let code = unsafe { sys::kvf_right_trywait(self.raw.as_ptr()) };
        // SAFETY: a constant of the shim.
        let again = unsafe { sys::kvf_eagain };
        if code == 0 || code == again {
            Ok(code == 0)
        } else {
            Err(failed("fi_trywait", self.domain.provider(), code, 0))
        }
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Whether `post` would answer `Busy` for want of a free context.
    pub(crate) fn is_full(&self) -> bool {
        self.contexts.is_exhausted()
    }

    /// Completions ignored because their write had already completed.
    pub(crate) fn stale_completions(&self) -> u64 {
        self.stale
    }

    /// Closes the endpoint, then its queue without reading it, then registration and address table. Answers
    /// whether it is proved that nothing lands through it any more (END-11).
    ///
    /// The order is what makes it safe: a closed endpoint is the fence (measured: 0 bytes land afterwards, while
    /// a closed memory key alone lets all of them land), and libfabric 1.17 crashes if the queue is read after
    /// it.
    pub(crate) fn close(mut self) -> bool {
        self.shut()
    }

    fn shut(&mut self) -> bool {
        if let Some(fenced) = self.closed {
            return fenced;
        }
        let mut call = ptr::null();
        // SAFETY: the handle is valid.
        let fenced = !self.sabotaged() && unsafe { sys::kvf_right_fence(self.raw.as_ptr()) } == 0;
        // SAFETY: the handle is valid and the endpoint is closed; the handle is not used after this succeeded.
        let freed = fenced && unsafe { sys::kvf_right_close(self.raw.as_ptr(), &raw mut call) } == 0;
        let proved = fenced && self.domain.provider().fences();
        if !freed {
            let contexts = mem::replace(&mut self.contexts, Contexts::new(0));
            keep_unclosed(self.raw, contexts, Arc::clone(&self.domain));
        }
        if !freed || !proved {
            keep_exposed(&self.memory);
        }
        *self.closed.insert(proved)
    }

    /// Lets a test see what happens when libfabric fails to close an endpoint, which it does not do on demand.
    #[cfg(test)]
    fn sabotaged(&self) -> bool {
        self.sabotage
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the counterpart of the one for tests")]
    const fn sabotaged(&self) -> bool {
        false
    }

    fn interpret(&mut self, entry: sys::kvf_completion) -> Completed {
        let error = || failed("fi_writemsg", self.domain.provider(), entry.error, entry.provider_error);
        let result = if entry.error == 0 { Ok(()) } else { Err(error()) };
        match (self.contexts.redeem(entry.context), result) {
            (Redeemed::Holder(ticket), result) => Completed::Write(ticket, result),
            (Redeemed::Foreign, Err(error)) => Completed::Unattributed(error),
            (Redeemed::Foreign, Ok(())) | (Redeemed::Stale, _) => {
                self.stale += 1;
                Completed::Stale
            }
        }
    }

    fn local(&self, offset: u64, len: u64) -> Option<sys::kvf_piece> {
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        offset.checked_add(len).filter(|end| *end <= self.exposed)?;
        let base: *mut c_void = self.memory.base().as_ptr().wrapping_add(offset).cast();
        Some(sys::kvf_piece { base, len })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shut();
    }
}

fn random_key() -> Result<u64, FabricError> {
    getrandom::u64().map_err(|cause| FabricError::Random { reason: cause.to_string() })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::provider::Provider;
    use crate::selftest::Scratch;

    fn endpoint(memory: &Arc<Scratch>) -> Endpoint {
        let domain = Domain::open(Provider::Tcp, Ipv4Addr::LOCALHOST.into()).expect("domain");
        Endpoint::open(Arc::new(domain), Arc::<Scratch>::clone(memory), memory.len(), 4).expect("endpoint")
    }

    #[test]
    fn a_closed_endpoint_lets_go_of_its_memory() {
        let memory = Arc::new(Scratch::new());
        assert!(endpoint(&memory).close());
        drop(endpoint(&memory));
        assert_eq!(Arc::strong_count(&memory), 1);
    }

    // END-11
    #[test]
    fn an_endpoint_that_does_not_close_is_not_fenced_and_keeps_its_memory_mapped() {
        let memory = Arc::new(Scratch::new());
        let mut stubborn = endpoint(&memory);
        stubborn.sabotage = true;
        assert!(!stubborn.close());
        assert_eq!(Arc::strong_count(&memory), 2);
        let mut dropped = endpoint(&memory);
        dropped.sabotage = true;
        drop(dropped);
        assert_eq!(Arc::strong_count(&memory), 2, "kept once");
    }

    // HS-13
    #[test]
    fn keys_are_random() {
        let memory = Arc::new(Scratch::new());
        let keys = [0; 4].map(|_| endpoint(&memory).metadata().expect("metadata")[4..12].to_vec());
        assert!(keys.iter().enumerate().all(|(i, key)| !keys[..i].contains(key)), "{keys:?}");
    }
}
