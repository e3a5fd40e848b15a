//! The end of every story: when the faults are over and all deadlines have passed, nothing is left.

use std::collections::BTreeSet;

use kvpeer_core::{Command, Destination, Misuse};

use crate::{Job, Span, Who, World};

/// Longer than any chain of deadlines (handshake, parked demand, load, abort-ack, close-right, unbound, memory).
const ALL_DEADLINES: u64 = 300;

impl World {
    /// Stops all faults, lets all deadlines pass and demands that nothing is left (I3, I7).
    #[track_caller]
    pub fn end(mut self) {
        self.settle();
        self.ended.0 = true;
    }

    /// Leaves a world in which no time can pass any more. Every other story ends with [`end`](Self::end).
    pub fn abandon(mut self) {
        self.ended.0 = true;
    }

    /// As [`end`](Self::end); says what has happened in this world: messages, news, counts, timers and ends of WRITEs,
    /// by name.
    #[track_caller]
    pub fn end_and_tell(mut self) -> BTreeSet<String> {
        self.settle();
        self.ended.0 = true;
        std::mem::take(&mut self.seen)
    }

    #[track_caller]
    fn settle(&mut self) {
        self.calm();
        self.advance(ALL_DEADLINES.s());
        let alive: Vec<Who> =
            self.nodes.iter().filter(|node| node.endpoint.is_some()).map(|node| node.who).collect();
        for who in &alive {
            self.demand_answers(*who);
        }
        for who in &alive {
            self.expect_no_work(*who);
            // A story may have shut it down already.
            let shutdown = self.try_command(*who, Command::Shutdown { within: 10.s() });
            assert!(matches!(shutdown, Ok(()) | Err(Misuse::ShuttingDown)), "{shutdown:?}");
        }
        self.advance(30.s());
        for who in &alive {
            if !self.endpoint(*who).is_idle() {
                self.fail(&format!("{who} is shut down but not idle: {:?}", self.endpoint(*who)));
            }
        }
    }

    #[track_caller]
    fn demand_answers(&mut self, who: Who) {
        // What the plane could not fence waits for the engine, and for nothing else.
        if self.nodes.iter().any(|node| !node.fences) {
            for id in self.node(who).books.quarantined() {
                self.release_quarantine(Job { who, id });
            }
            for id in self.node(who).books.unfinished_stores() {
                self.release_quarantine(Job { who, id });
            }
        }
        let unanswered = self.node(who).books.unanswered();
        if !unanswered.is_empty() {
            self.fail(&format!("I3: {who} never answers {unanswered:?}"));
        }
        let quarantined = self.node(who).books.quarantined();
        if !quarantined.is_empty() {
            self.fail(&format!(
                "{who} never lifts the quarantine of {quarantined:?} ({:?})",
                Destination::Quarantined
            ));
        }
    }
}
