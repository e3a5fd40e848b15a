//! What has happened in a run: for coverage, and for people.

use kvpeer_core::{CloseReason, Count, Destination, LoadFailure, StoreOutcome, Timer, TransferEnd};
use kvpeer_wire::Kind;

/// One kind of thing that a run has shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Seen {
    /// A deadline passed, for this reason.
    Timer(Timer),
    /// A load ended well.
    Loaded,
    /// A load failed.
    LoadFailed(LoadFailure, Destination),
    /// A quarantined load's blocks were released.
    Released,
    /// A store ended.
    Stored(StoreOutcome),
    /// A session or an attempt at one ended.
    Ended(CloseReason),
    /// A message arrived.
    Message(Kind),
    /// An `abort_ack` or the failure of a fetch was sent; settled or not.
    Settled(bool),
    /// A WRITE ended.
    Transfer(TransferEnd),
    /// A WRITE may still land although its writer has heard of its end, or is dead.
    Loose,
    /// A right was closed: with proof or without.
    Closed(bool),
    /// A lookup found its key at the peer.
    Hit,
    /// A late pin was given back.
    LatePin,
    /// Something was ignored or refused.
    Counted(Count),
    /// One call moved a state machine of the core, as `docs/states` draws it; "-" is before the first state and after
    /// the last.
    Transition {
        /// The kind of machine.
        machine: &'static str,
        /// The state before the call.
        from: &'static str,
        /// The state after it.
        to: &'static str,
    },
    /// A process was started again.
    Restarted,
    /// Nothing moves any more, and nothing is owed.
    AtRest,
}

/// What one step has shown, and the story of it if somebody wants to read it.
#[derive(Debug, Default)]
pub struct Log {
    /// In the order of happening.
    pub seen: Vec<Seen>,
    /// `None` when nobody reads.
    pub lines: Option<Vec<String>>,
    /// Whether transitions are looked for: that takes time.
    pub transitions: bool,
}

impl Log {
    /// For a reader.
    pub fn told() -> Self {
        Self { lines: Some(Vec::new()), ..Self::default() }
    }

    /// For a checker that counts which transitions are taken.
    pub fn of_transitions() -> Self {
        Self { transitions: true, ..Self::default() }
    }

    pub(crate) fn see(&mut self, what: Seen) {
        self.seen.push(what);
    }

    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(line());
        }
    }
}
