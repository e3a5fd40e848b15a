//! The memory that libfabric is lent with each posted write: a fixed slab of operation contexts.
//!
//! A provider may write into an operation's context (`FI_CONTEXT2`: 64 bytes) until the write completes, or until
//! its endpoint **and** its queue are closed. So a slot is leased per write, given back by its completion only,
//! and the whole slab outlives the endpoint that owns it.
//!
//! Completions name their write by the context's address alone. To tell a completion of an earlier lease from
//! one of the current lease, a slot is twice as large as a context, and each lease starts 8 bytes further in:
//! the address carries the lease's generation modulo 8.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::NonNull;

use crate::traffic::Ticket;

const SLOT_BYTES: usize = 128;
const STEP_BYTES: usize = 8;
const GENERATIONS: usize = (SLOT_BYTES - kvpeer_fabric_sys::KVF_CONTEXT_BYTES) / STEP_BYTES;

#[repr(C, align(128))]
struct Slot(UnsafeCell<[u8; SLOT_BYTES]>);

/// Who a slot is lent to.
#[derive(Clone, Copy, Default)]
struct Lease {
    /// How often the slot was lent, modulo [`GENERATIONS`].
    generation: u8,
    holder: Option<Ticket>,
}

/// What a completion's context turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redeemed {
    /// The write this ticket was leased for. Its slot is free again.
    Holder(Ticket),
    /// A slot of ours, but of a lease that ended before.
    Stale,
    /// No slot of ours; some providers report errors without a context.
    Foreign,
}

/// The slab. Its memory does not move; it is never read by us.
pub(crate) struct Contexts {
    slots: NonNull<[Slot]>,
    leases: Box<[Lease]>,
    free: Vec<u32>,
}

// SAFETY: the slab owns its slots, and only libfabric accesses their bytes, from whichever thread calls it.
unsafe impl Send for Contexts {}

impl Contexts {
    /// Room for `count` writes in flight. All that is ever allocated is allocated here.
    pub(crate) fn new(count: u32) -> Self {
        let slots: Box<[Slot]> = (0..count).map(|_| Slot(UnsafeCell::new([0; SLOT_BYTES]))).collect();
        // Kept as a raw pointer: a `Box` would claim unique access whenever the slab is moved.
        let slots = NonNull::from(Box::leak(slots));
        let leases = vec![Lease::default(); slots.len()].into_boxed_slice();
        Self { slots, leases, free: (0..count).rev().collect() }
    }

    /// Whether `lease` would answer `None`.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.free.is_empty()
    }

    /// A context of `KVF_CONTEXT_BYTES` bytes that stays valid until redeemed, or until the slab is dropped.
    pub(crate) fn lease(&mut self, holder: Ticket) -> Option<*mut c_void> {
        let index = self.free.pop()? as usize;
        let lease = self.leases.get_mut(index)?;
        lease.holder = Some(holder);
        let offset = index * SLOT_BYTES + usize::from(lease.generation) * STEP_BYTES;
        Some(self.start().wrapping_add(offset).cast())
    }

    /// Ends the lease that a completion (or a refused post) names. Never dereferences `context`.
    pub(crate) fn redeem(&mut self, context: *mut c_void) -> Redeemed {
        let Some(offset) = context.addr().checked_sub(self.start().addr()) else { return Redeemed::Foreign };
        let index = offset / SLOT_BYTES;
        let Some(lease) = self.leases.get_mut(index) else { return Redeemed::Foreign };
        if offset % SLOT_BYTES != usize::from(lease.generation) * STEP_BYTES {
            return Redeemed::Stale;
        }
        let (Some(holder), Ok(slot)) = (lease.holder.take(), u32::try_from(index)) else {
            return Redeemed::Stale;
        };
        lease.generation = (lease.generation + 1) % GENERATIONS as u8;
        self.free.push(slot);
        Redeemed::Holder(holder)
    }

    fn start(&self) -> *mut u8 {
        self.slots.as_ptr().cast()
    }
}

impl Drop for Contexts {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a leaked box of the same type and whoever drops the slab has closed the endpoint and the queue that used it.
        drop(unsafe { Box::from_raw(self.slots.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(index: u32) -> Ticket {
        Ticket { index, generation: 0 }
    }

    #[test]
    fn leases_are_distinct_aligned_and_bounded() {
        let mut slab = Contexts::new(3);
        let leased: Vec<_> = (0..3).map(|i| slab.lease(ticket(i)).expect("free")).collect();
        assert!(slab.is_exhausted());
        assert_eq!(slab.lease(ticket(9)), None);
        for (i, context) in leased.iter().enumerate() {
            assert_eq!(context.addr() % align_of::<u64>(), 0);
            assert!(leased[..i].iter().all(|other| other.addr().abs_diff(context.addr()) >= 64));
        }
        assert_eq!(slab.redeem(leased[1]), Redeemed::Holder(ticket(1)));
        assert!(!slab.is_exhausted());
    }

    #[test]
    fn an_ended_lease_is_stale_even_after_its_slot_was_lent_again() {
        let mut slab = Contexts::new(1);
        let mut ended = Vec::new();
        for round in 0..u32::try_from(GENERATIONS).expect("small") {
            let context = slab.lease(ticket(round)).expect("free");
            for old in &ended {
                assert_eq!(slab.redeem(*old), Redeemed::Stale);
            }
            assert_eq!(slab.redeem(context), Redeemed::Holder(ticket(round)));
            assert_eq!(slab.redeem(context), Redeemed::Stale, "a completion that comes twice");
            ended.push(context);
        }
    }

    #[test]
    fn pointers_from_elsewhere_are_foreign() {
        let mut slab = Contexts::new(2);
        let context = slab.lease(ticket(0)).expect("free");
        assert_eq!(slab.redeem(std::ptr::null_mut()), Redeemed::Foreign);
        assert_eq!(slab.redeem(context.wrapping_byte_add(2 * SLOT_BYTES)), Redeemed::Foreign);
        assert_eq!(slab.redeem(context.wrapping_byte_sub(SLOT_BYTES)), Redeemed::Foreign);
        assert_eq!(slab.redeem(context.wrapping_byte_add(1)), Redeemed::Stale);
    }
}
