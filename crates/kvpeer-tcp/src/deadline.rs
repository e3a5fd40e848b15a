//! Moments that may lie beyond what a clock can say.

use std::time::{Duration, Instant};

/// Longer than any process lives: a wait without end that can be added to a moment.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// `wait` after `now`, also for waits that a caller means as endless.
pub(crate) fn after(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait.min(NEVER)).unwrap_or(now)
}
