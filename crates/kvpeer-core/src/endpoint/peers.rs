//! Peers: work that waits for a link, and when the next dial may be tried.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

use kvpeer_wire::{RejectCode, Supply};

use crate::client::Fresh;
use crate::{CloseReason, JobId, RequestId, Time};

/// What is kept of a peer beside its links.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Peer {
    /// Where it is dialled, once the engine has said so.
    pub(super) address: Option<Box<str>>,
    pub(super) held: VecDeque<Work>,
    pub(super) held_bytes: usize,
    /// Until when a link is wanted; dials are repeated until then.
    pub(super) wanted: Option<Time>,
    pub(super) patience: Patience,
    /// When the next dial may be tried, or this record be forgotten.
    pub(super) due: Option<Time>,
    pub(super) last_end: Option<CloseReason>,
}

/// One piece of own work for a peer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Work {
    Lookup { request: RequestId, fresh: Fresh },
    Load(JobId),
    Release(RequestId),
}

/// How long dials wait after failures.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Patience {
    /// Failures in a row, of dials or of sessions.
    refused: u32,
    faults: u32,
    last_fault: Time,
    /// No dial before this.
    pub(super) until: Time,
    /// A refusal that trying again will not change before `until`.
    pub(super) refusal: Option<CloseReason>,
}

impl Patience {
    /// A dial or handshake failed in a way that may pass (HS-20).
    pub(super) fn refused(&mut self, now: Time, redial: (Duration, Duration), at_least: Duration) {
        let (first, longest) = redial;
        let wait = doubled(first, self.refused).min(longest).max(at_least);
        self.refused = self.refused.saturating_add(1);
        self.until = self.until.max(now + wait);
    }

    /// A session ended by a fault: the first may be followed by a new one at once (HS-22).
    pub(super) fn fault(&mut self, now: Time, backoff: (Duration, Duration)) {
        let (first, longest) = backoff;
        if now.since(self.last_fault) > longest * 2 {
            self.faults = 0;
        }
        let wait = match self.faults.checked_sub(1) {
            None => Duration::ZERO,
            Some(repeats) => doubled(first, repeats).min(longest),
        };
        self.faults = self.faults.saturating_add(1);
        self.last_fault = now;
        self.until = self.until.max(now + wait);
    }

    /// A refusal that stays: work for this peer fails at once for a while.
    pub(super) fn refusal(&mut self, now: Time, backoff: (Duration, Duration), reason: CloseReason) {
        let (first, longest) = backoff;
        let wait = doubled(first, self.refused).min(longest);
        self.refused = self.refused.saturating_add(1);
        self.until = self.until.max(now + wait);
        self.refusal = Some(reason);
    }

    /// The refusal that is in force.
    pub(super) fn refuses(&self, now: Time) -> Option<CloseReason> {
        self.refusal.filter(|_| now < self.until)
    }

    /// A link came up.
    pub(super) fn succeeded(&mut self) {
        self.refused = 0;
        self.refusal = None;
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1u32.checked_shl(times).unwrap_or(u32::MAX))
}

/// Whether a rejected connect would be rejected again (HS-18).
pub(super) fn is_final(code: RejectCode) -> bool {
    match code {
        RejectCode::Version
        | RejectCode::BlockLen
        | RejectCode::HashSeed
        | RejectCode::Fingerprint
        | RejectCode::UnexpectedPeer
        | RejectCode::StaleIncarnation
        | RejectCode::Unauthorized
        | RejectCode::RegistrationFailed
        | RejectCode::Other(_) => true,
        RejectCode::Duplicate | RejectCode::TooManyPeers | RejectCode::Backoff => false,
    }
}

impl Peer {
    pub(super) fn hold(&mut self, work: Work, bytes: usize) {
        self.held.push_back(work);
        self.held_bytes += bytes;
    }

    /// A job that ends while held leaves the queue (HS-17).
    pub(super) fn drop_load(&mut self, job: JobId, bytes: usize) {
        let before = self.held.len();
        self.held.retain(|work| !matches!(work, Work::Load(held) if *held == job));
        if self.held.len() < before {
            self.held_bytes -= bytes;
        }
    }

    /// Held lookups of a request that is finished leave the queue.
    pub(super) fn drop_lookups(&mut self, id: &RequestId) {
        let mut bytes = 0;
        self.held.retain(|work| match work {
            Work::Lookup { request, fresh } if request == id => {
                bytes += fresh.size();
                false
            }
            Work::Lookup { .. } | Work::Load(_) | Work::Release(_) => true,
        });
        self.held_bytes -= bytes;
    }
}

/// Whether a request that ends must be released although this session has not heard of it.
pub(super) fn is_awaited(supply: Supply) -> bool {
    match supply {
        Supply::Await => true,
        Supply::Pinned => false,
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::Patience;
    use crate::{CloseReason, Time};

    const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

    fn waits(mut once: impl FnMut(&mut Patience, Time)) -> [u64; 9] {
        let mut patience = Patience::default();
        let mut now = Time::from_micros(1);
        [(); 9].map(|()| {
            once(&mut patience, now);
            let wait = patience.until.since(now);
            now = now + wait;
            wait.as_secs()
        })
    }

    // HS-22
    #[test]
    fn the_first_fault_is_free_then_waits_double() {
        let waits = waits(|patience, now| patience.fault(now, BACKOFF));
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn a_refusal_is_in_force_until_the_next_try_may_be_made() {
        let reason = CloseReason::TooManyPeers;
        let waits = waits(|patience, now| {
            assert_eq!(patience.refuses(now), None);
            patience.refusal(now, BACKOFF, reason);
            assert_eq!(patience.refuses(now), Some(reason));
        });
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }
}
