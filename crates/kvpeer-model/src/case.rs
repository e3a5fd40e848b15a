//! A bounded world and the properties that are checked in it.

use std::sync::Arc;

use kvpeer_core::Destination;
use kvpeer_sim::{Log, Promise, Seen, Setup, Step, World};
use stateright::{Model, Property};

use crate::coverage::Coverage;

/// A world to be searched.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it covers, in one line.
    pub covers: &'static str,
    /// The world; its name is the case's.
    pub setup: Setup,
    /// How long a search takes.
    pub size: Size,
    /// What must be seen in it.
    pub expects: Vec<Expect>,
}

/// How long a search takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Size {
    /// Part of `cargo test`, without optimization.
    Small,
    /// Seconds: part of every check.
    Quick,
    /// Minutes.
    Deep,
}

/// The partner of a promise: without it, the promise would hold because nothing could break it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// I1: blocks in which something could still land were held back, and then released.
    Released,
    /// I1, for a plane that cannot fence: blocks stay quarantined for ever.
    HeldForEver,
    /// I1, I5: something could still land although its writer knew of its end.
    Loose,
    /// I3: a load failed.
    Failed,
    /// I4: a load succeeded.
    Loaded,
    /// I5: an end was settled.
    Settled,
    /// I5: an end was not settled.
    Unsettled,
    /// I6: a message of a round that was over arrived.
    StaleRound,
    /// I7: a deadline passed.
    Waited,
    /// I8: a session ended with a goodbye.
    Goodbye,
    /// Progress: everything came to rest.
    AtRest,
    /// Lookups: a key was found at the peer.
    Hit,
    /// Lookups: a pin came too late.
    LatePin,
    /// Handshake: a connection lost against another one of the same peers.
    Rejected,
    /// A process took the place of another.
    Restarted,
    /// A consumer wanted the supply of another one.
    NotYours,
    /// A silent peer was given up.
    Silent,
    /// A session was given up because nothing happened.
    Idle,
}

/// A case under search.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(crate) setup: Arc<Setup>,
    pub(crate) expects: Vec<Expect>,
    pub(crate) coverage: Arc<Coverage>,
}

/// A name, and what holds in a world.
type Holds = fn(&Search, &World) -> bool;

const PROMISES: [(&str, Holds); 11] = [
    ("I1 no late write", |_, world| keeps(world, Promise::NoLateWrite)),
    ("I2 pin", |_, world| keeps(world, Promise::Pin)),
    ("I3 exactly one result", |_, world| keeps(world, Promise::OneResult)),
    ("I4 success means visible", |_, world| keeps(world, Promise::Visible)),
    ("I5 ack means quiesced", |_, world| keeps(world, Promise::AckMeansQuiesced)),
    ("I6 round isolation", |_, world| keeps(world, Promise::RoundIsolation)),
    ("I7 bounded", |_, world| keeps(world, Promise::Bounded)),
    ("I8 gate", |_, world| keeps(world, Promise::Gate)),
    ("I9 blast radius", |_, world| keeps(world, Promise::BlastRadius)),
    ("progress", |_, world| keeps(world, Promise::Progress)),
    ("law", |_, world| keeps(world, Promise::Law)),
];

fn keeps(world: &World, promise: Promise) -> bool {
    world.broken().is_none_or(|broken| broken.promise != promise)
}

impl Model for Search {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(Arc::clone(&self.setup))]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        steps.extend(world.steps());
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut log = Log::default();
        let mut next = world.clone();
        next.apply(&step, &mut log);
        self.coverage.add(&log.seen);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let promises = PROMISES.iter().map(|(name, holds)| Property::always(name, *holds));
        promises.chain(self.expects.iter().map(|expect| expect.property())).collect()
    }
}

impl Expect {
    /// The property is about what the search has seen so far, not about one state: what happened is not kept in a
    /// world, where it would make worlds differ that have the same future.
    fn property(self) -> Property<Search> {
        let (name, holds): (&'static str, Holds) = match self {
            Expect::Released => ("released by a fence", |search, _| search.saw(Expect::Released)),
            Expect::HeldForEver => ("held without a fence", |search, _| search.saw(Expect::HeldForEver)),
            Expect::Loose => ("something may land late", |search, _| search.saw(Expect::Loose)),
            Expect::Failed => ("a load failed", |search, _| search.saw(Expect::Failed)),
            Expect::Loaded => ("a load succeeded", |search, _| search.saw(Expect::Loaded)),
            Expect::Settled => ("an end was settled", |search, _| search.saw(Expect::Settled)),
            Expect::Unsettled => ("an end was not settled", |search, _| search.saw(Expect::Unsettled)),
            Expect::StaleRound => ("a stale message of a round", |search, _| search.saw(Expect::StaleRound)),
            Expect::Waited => ("a deadline passed", |search, _| search.saw(Expect::Waited)),
            Expect::Goodbye => ("a goodbye was heard", |search, _| search.saw(Expect::Goodbye)),
            Expect::AtRest => ("everything came to rest", |search, _| search.saw(Expect::AtRest)),
            Expect::Hit => ("a key was found", |search, _| search.saw(Expect::Hit)),
            Expect::LatePin => ("a pin came too late", |search, _| search.saw(Expect::LatePin)),
            Expect::Rejected => ("a connection was refused", |search, _| search.saw(Expect::Rejected)),
            Expect::Restarted => ("a process was restarted", |search, _| search.saw(Expect::Restarted)),
            Expect::NotYours => ("another's supply was wanted", |search, _| search.saw(Expect::NotYours)),
            Expect::Silent => ("a silent peer was given up", |search, _| search.saw(Expect::Silent)),
            Expect::Idle => ("an idle session was given up", |search, _| search.saw(Expect::Idle)),
        };
        Property::sometimes(name, holds)
    }

    fn matches(self, seen: &Seen) -> bool {
        use kvpeer_core::{CloseReason, Count};
        match self {
            Expect::Released => *seen == Seen::Released,
            Expect::HeldForEver => *seen == Seen::Closed(false),
            Expect::Loose => *seen == Seen::Loose,
            Expect::Failed => {
                matches!(seen, Seen::LoadFailed(_, Destination::Reusable | Destination::Quarantined))
            }
            Expect::Loaded => *seen == Seen::Loaded,
            Expect::Settled => *seen == Seen::Settled(true),
            Expect::Unsettled => *seen == Seen::Settled(false),
            Expect::StaleRound => *seen == Seen::Counted(Count::UnknownRound),
            Expect::Waited => matches!(seen, Seen::Timer(_)),
            Expect::Goodbye => matches!(seen, Seen::Ended(CloseReason::Goodbye(_))),
            Expect::AtRest => *seen == Seen::AtRest,
            Expect::Hit => *seen == Seen::Hit,
            Expect::LatePin => *seen == Seen::LatePin,
            Expect::Rejected => *seen == Seen::Counted(Count::Rejected),
            Expect::Restarted => *seen == Seen::Restarted,
            Expect::NotYours => *seen == Seen::Counted(Count::NotYours),
            Expect::Silent => *seen == Seen::Ended(CloseReason::Silent),
            Expect::Idle => *seen == Seen::Ended(CloseReason::Idle),
        }
    }
}

impl Search {
    fn saw(&self, expect: Expect) -> bool {
        self.coverage.any(|seen| expect.matches(seen))
    }
}
