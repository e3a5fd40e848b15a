//! Waking the poller from other threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::{Registry, Token};

/// Ends a [`Tcp::poll`](crate::Tcp::poll) that sleeps, from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    waker: mio::Waker,
    /// A wake-up is under way that no poll has seen yet: another one would be a system call for nothing.
    pending: AtomicBool,
}

impl Waker {
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let waker = mio::Waker::new(registry, token)?;
        Ok(Self(Arc::new(Shared { waker, pending: AtomicBool::new(false) })))
    }

    /// Ends the present sleep, or the next one when there is none now. What the caller did before it (queueing
    /// work) is visible after that poll. Many wake-ups before one poll cost one system call.
    pub fn wake(&self) -> io::Result<()> {
        if self.0.pending.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.0.waker.wake().inspect_err(|_| self.0.pending.store(false, Ordering::SeqCst))
    }

    /// The poller is awake; who wakes it from here on means its next sleep.
    pub(crate) fn seen(&self) {
        self.0.pending.swap(false, Ordering::SeqCst);
    }
}
