//! Knows the promises (`docs/protocol.md`, I1 to I9), not how an endpoint keeps them.

mod calls;
mod heard;
mod known;
mod results;
mod talk;
mod work;

use std::fmt;

use kvpeer_core::Count;

use crate::names::Who;
use crate::node::RightState;
use crate::seen::{Log, Seen};
use crate::world::World;
pub(crate) use calls::Cause;
pub(crate) use known::Known;
pub(crate) use talk::{Round, Stage, Talk};

/// What a world can break.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Promise {
    /// I1
    NoLateWrite,
    /// I2
    Pin,
    /// I3
    OneResult,
    /// I4
    Visible,
    /// I5
    AckMeansQuiesced,
    /// I6
    RoundIsolation,
    /// I7
    Bounded,
    /// I8
    Gate,
    /// I9
    BlastRadius,
    /// Everything comes to rest: answered, unpinned, released or held for a reason.
    Progress,
    /// A rule of the protocol page, or a structural law of the core.
    Law,
}

/// A promise that was broken, and how.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Broken {
    /// Which.
    pub promise: Promise,
    /// How, for people.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.how)
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::NoLateWrite => "I1 no late write",
            Promise::Pin => "I2 pin",
            Promise::OneResult => "I3 exactly one result",
            Promise::Visible => "I4 success means visible",
            Promise::AckMeansQuiesced => "I5 ack means quiesced",
            Promise::RoundIsolation => "I6 round isolation",
            Promise::Bounded => "I7 bounded",
            Promise::Gate => "I8 gate",
            Promise::BlastRadius => "I9 blast radius",
            Promise::Progress => "progress",
            Promise::Law => "law",
        })
    }
}

impl World {
    /// What must hold after every step.
    pub(crate) fn judge_after(&mut self, log: &mut Log) {
        for at in 0..self.setup.nodes {
            if self.nodes[usize::from(at)].is_edited() && self.node(Who(at)).is_alive() {
                self.judge_node(Who(at));
            }
        }
        self.seal();
        if self.broken.is_none() && self.is_at_rest() {
            log.see(Seen::AtRest);
            for at in 0..self.setup.nodes {
                self.judge_rest(Who(at));
            }
        }
    }

    fn judge_node(&mut self, who: Who) {
        let node = self.node(who);
        if let Err(violation) = node.endpoint.check() {
            return self.fail(Promise::Law, format!("{who}: {violation}"));
        }
        let process = node.process;
        let unpinned = self.writes.iter().find(|(key, write)| {
            key.writer == process && write.sources().any(|block| node.book.pins(block) == 0)
        });
        if let Some((key, _)) = unpinned {
            let how = format!("{key} is not terminal, but nothing pins its source");
            return self.blame(who, Promise::Pin, how);
        }
        if self.node(who).next_deadline().is_none()
            && let Some(waits) = self.waits(who)
        {
            self.blame(who, Promise::Bounded, format!("{who} has no deadline, but {waits}"));
        }
    }

    /// What a node that has no deadline still waits for, apart from what the plane cannot fence.
    fn waits(&self, who: Who) -> Option<String> {
        let node = self.node(who);
        let totals = node.endpoint.totals();
        let open = [
            (totals.held, "held work"),
            (totals.loads, "loads"),
            (totals.lookups, "lookups"),
            (totals.parked, "parked demand"),
            (totals.probes, "lookups of a peer"),
        ];
        if let Some((count, what)) = open.iter().find(|(count, _)| *count > 0) {
            return Some(format!("{count} {what} are open"));
        }
        let asked = |load: &&crate::node::Load| load.state == crate::node::LoadState::Asked;
        if let Some(load) = node.book.loads.values().find(asked) {
            return Some(format!("a load of {:?} has no result", load.blocks));
        }
        let quarantined = node.book.loads.iter().find(|(_, load)| {
            let right = load.epoch.and_then(|epoch| node.rights.get(&epoch));
            right.is_none_or(crate::node::Right::is_closed)
        });
        if let Some((job, _)) = quarantined {
            return Some(format!("load {} is quarantined without need", job.0));
        }
        let held = |block: &u32| {
            let mut writes = self.writes.iter();
            writes.any(|(key, write)| {
                key.writer == node.process && write.sources().any(|source| source == *block)
            })
        };
        let pinned = node.book.stores.iter().find(|(_, store)| !store.blocks.iter().any(held));
        pinned.map(|(job, _)| format!("store {} has no result", job.0))
    }

    /// What must hold once nothing moves of its own accord and every deadline has passed.
    fn judge_rest(&mut self, who: Who) {
        let node = self.node(who);
        if !node.is_alive() {
            return;
        }
        let totals = node.endpoint.totals();
        let wait = self.waits(who).or_else(|| {
            (totals.rounds + totals.pinned + totals.writes > 0 && !self.is_stuck(who))
                .then(|| format!("there is work left: {totals:?}"))
        });
        if let Some(waits) = wait {
            self.blame(who, Promise::Progress, format!("{who} is at rest, but {waits}"));
        }
    }

    /// Whether a right of this node is closed without proof, or takes for ever to close.
    fn is_stuck(&self, who: Who) -> bool {
        self.node(who).rights.values().any(|right| {
            right.state == RightState::Closed { fenced: false }
                || right.asked.contains(&crate::setup::Ask::Close)
        })
    }

    /// Whether a node may find that a peer, or some peer, breaks the protocol.
    pub(crate) fn may_find(&self, who: Who, peer: Option<Who>) -> bool {
        let mut suspects = self.suspects.iter().chain(&self.deceived);
        let suspected = suspects.any(|(of, suspect)| *of == who && peer.is_none_or(|peer| peer == *suspect));
        suspected || self.setup.rogue.is_some_and(|rogue| peer.is_none_or(|peer| peer == rogue))
    }

    pub(crate) fn judge_count(&mut self, who: Who, count: Count) {
        match count {
            Count::Misbehaved | Count::MalformedFetch | Count::MalformedLookup | Count::DuplicateFetch
                if self.may_find(who, None) => {}
            Count::Misbehaved
            | Count::MalformedFetch
            | Count::MalformedLookup
            | Count::DuplicateFetch
            | Count::BadAnswer => {
                self.blame(who, Promise::Law, format!("among honest peers, {who} counts {count:?}"));
            }
            Count::UnknownConn
            | Count::StaleEpoch
            | Count::StaleTransfer
            | Count::StaleProbe
            | Count::LatePin
            | Count::LateLookupResp
            | Count::UnknownRound
            | Count::Overloaded
            | Count::HeldOverflow
            | Count::NotYours
            | Count::TooManyHandshakes
            | Count::AfterEnd
            | Count::Rejected
            | Count::ForgottenEarly => {}
        }
    }
}
