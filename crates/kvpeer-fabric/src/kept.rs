//! What is kept for the life of the process because it is not proved that nobody uses it any more.
//!
//! It is kept in a list, and not merely forgotten, so that leak checkers see that it is held on purpose.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use kvpeer_fabric_sys as sys;

use crate::contexts::Contexts;
use crate::domain::Domain;
use crate::memory::Memory;

/// An endpoint that would not close, with what the provider may still use for it.
struct Unclosed {
    _right: NonNull<sys::kvf_right>,
    _contexts: Contexts,
    _domain: Arc<Domain>,
}

// SAFETY: nothing is ever done with it again.
unsafe impl Send for Unclosed {}

static UNCLOSED: Mutex<Vec<Unclosed>> = Mutex::new(Vec::new());
static EXPOSED: Mutex<Vec<Arc<dyn Memory>>> = Mutex::new(Vec::new());

/// Keeps an endpoint that libfabric failed to close.
pub(crate) fn keep_unclosed(right: NonNull<sys::kvf_right>, contexts: Contexts, domain: Arc<Domain>) {
    let unclosed = Unclosed { _right: right, _contexts: contexts, _domain: domain };
    UNCLOSED.lock().unwrap_or_else(PoisonError::into_inner).push(unclosed);
}

/// Keeps memory mapped that a peer may still write to.
pub(crate) fn keep_exposed(memory: &Arc<dyn Memory>) {
    let mut kept = EXPOSED.lock().unwrap_or_else(PoisonError::into_inner);
    if !kept.iter().any(|known| Arc::ptr_eq(known, memory)) {
        kept.push(Arc::clone(memory));
    }
}
