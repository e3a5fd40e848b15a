//! Time for the endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kvpeer_core::Time;

/// Turns moments into the endpoint's [`Time`].
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Monotonic { origin: Instant },
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The system's monotonic clock.
    pub fn monotonic() -> Self {
        Self(Source::Monotonic { origin: Instant::now() })
    }

    /// A clock that stands until [`advance`](Self::advance)d, for tests of timers with the tick driver. Clones
    /// are one clock. Nobody is woken by it, so a node on its own thread would sleep through its deadlines.
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::default()))
    }

    /// Moves a manual clock; the system's moves by itself.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Source::Monotonic { .. } => {}
            Source::Manual(micros) => {
                let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
                micros.fetch_add(by, Ordering::SeqCst);
            }
        }
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// The time at a moment; a manual clock knows only its present.
    pub fn at(&self, moment: Instant) -> Time {
        match &self.0 {
            Source::Monotonic { origin } => Time::ZERO + moment.saturating_duration_since(*origin),
            Source::Manual(micros) => Time::from_micros(micros.load(Ordering::SeqCst)),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::monotonic()
    }
}
