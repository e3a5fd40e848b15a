//! What a world is made of, and what may go wrong in it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kvpeer_core::{Limits, Timing};

use crate::names::Who;
use crate::wish::Wish;

/// Everything about a world that does not change while it runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// For reports and scripts.
    pub name: String,
    /// How many nodes.
    pub nodes: u8,
    /// Blocks in each node's region.
    pub blocks: u32,
    /// Nodes that are not like the others.
    pub others: BTreeMap<Who, Other>,
    /// A node that says what its endpoint has not said. Nothing is demanded of it, and nothing on its behalf.
    pub rogue: Option<Who>,
    /// Every node's timers.
    pub timing: Timing,
    /// Every node's limits.
    pub limits: Limits,
    /// Whether closing a right proves anything.
    pub fence: Fence,
    /// How WRITEs land.
    pub landing: Landing,
    /// Time stands still from here on, if it does: for worlds that would never come to rest.
    pub horizon: Option<Duration>,
    /// How many faults may happen.
    pub budget: u8,
    /// Which.
    pub faults: BTreeSet<Fault>,
    /// What may go one way or the other without being a fault.
    pub choices: BTreeSet<Choice>,
    /// What the planes answer at once, in the step that asks.
    pub eager: BTreeSet<Ask>,
    /// Dials that are always refused: from the first to the second.
    pub unreachable: BTreeSet<(Who, Who)>,
    /// Peers that have a session from the start: the first has dialled the second.
    pub connected: Vec<(Who, Who)>,
    /// Keys that a node's cache holds; the n-th in block n.
    pub stock: Vec<(Who, Vec<u8>)>,
    /// What the engines do.
    pub scripts: Vec<Script>,
}

/// A node that is not like the others.
#[derive(Clone, Debug)]
pub struct Other {
    /// Its timers.
    pub timing: Timing,
    /// Its limits.
    pub limits: Limits,
    /// The blocks in its region.
    pub blocks: u32,
    /// Whether its blocks mean the same.
    pub fits: Fits,
}

/// Whether a node's blocks mean the same as the others'.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fits {
    /// They do.
    Yes,
    /// They have another length.
    OtherLength,
    /// Their keys are made with another seed.
    OtherSeed,
    /// Something else about them differs.
    OtherFingerprint,
}

/// What one engine does, one wish after the other; several scripts of a node interleave.
#[derive(Clone, Debug)]
pub struct Script {
    /// Whose engine.
    pub who: Who,
    /// In which of its lives.
    pub life: u8,
    /// What, and when.
    pub wishes: Vec<(When, Wish)>,
}

/// When a wish is uttered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Before time passes.
    Now,
    /// At any time, or never.
    AnyTime,
}

/// Whether a plane can prove that nothing lands through a closed right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// It can.
    Proves,
    /// It cannot: what has not landed may land for ever.
    Cannot,
}

/// How the blocks of a WRITE land.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Landing {
    /// All with its completion. What may still land is judged without letting it land.
    Whole,
    /// One by one, in any order, also after the writer has seen an error or is dead.
    Blockwise,
}

/// What costs a piece of the budget.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fault {
    /// A connection breaks: what is under way on it may arrive or not.
    Cut,
    /// A connection breaks inside of a message.
    Tear,
    /// What arrives is no message.
    Garble,
    /// Two nodes have no version in common.
    Versions,
    /// Messages in one direction vanish from now on; nobody is told.
    Mute,
    /// Messages in one direction take longer than any timer, from now on.
    DelayLink,
    /// A dial is refused.
    DialRefused,
    /// Admission says no.
    NotAdmitted,
    /// A right cannot be opened.
    RightFails,
    /// A peer cannot be registered.
    RegisterFails,
    /// An answer of a plane takes longer than any timer.
    DelayAnswer,
    /// A right is closed without proof.
    Unfenced,
    /// A WRITE ends in error; what of it has not landed may land later.
    WriteErrors,
    /// A WRITE is refused before it leaves.
    WriteRefused,
    /// A WRITE takes longer than any timer.
    DelayWrite,
    /// The data plane reports that it lost a peer.
    PeerFault,
    /// A process dies, and another one may take its place.
    Crash,
}

/// What may go one way or the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Choice {
    /// The cache says "pending".
    Pending,
    /// The cache answers for the first open key only.
    Part,
    /// The cache answers a lookup that is over.
    LateProbe,
    /// The planes answer what has lost its link.
    StaleAnswers,
    /// A cancelled WRITE of which nothing has landed is dropped.
    CancelDrops,
}

/// What the core asks the planes for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ask {
    /// Admission.
    Admit,
    /// A right.
    Open,
    /// Registration of the peer.
    Register,
    /// The end of a right.
    Close,
    /// A lookup in the cache.
    Probe,
    /// A connection: accepted in the same step as dialled.
    Accept,
}

impl Setup {
    /// Whether the blocks of two nodes mean the same.
    pub(crate) fn fit(&self, one: Who, two: Who) -> bool {
        let fits = |who| self.others.get(&who).map_or(Fits::Yes, |other| other.fits);
        fits(one) == fits(two)
    }

    /// Two nodes with eight blocks that do nothing, in a world without faults.
    pub fn quiet(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            nodes: 2,
            blocks: 8,
            others: BTreeMap::new(),
            rogue: None,
            timing: short_timing(),
            limits: Limits::default(),
            fence: Fence::Proves,
            landing: Landing::Whole,
            horizon: None,
            budget: 0,
            faults: BTreeSet::new(),
            choices: BTreeSet::new(),
            eager: BTreeSet::new(),
            unreachable: BTreeSet::new(),
            connected: Vec::new(),
            stock: Vec::new(),
            scripts: Vec::new(),
        }
    }

    /// Whether a node can miss or lose a session without any fault.
    pub(crate) fn denies_sessions(&self) -> bool {
        let strangers = (0..self.nodes).any(|at| !self.fit(Who(0), Who(at)));
        !self.unreachable.is_empty() || strangers || self.limits.peers + 1 < usize::from(self.nodes)
    }
}

/// Timers of a few seconds, so that their moments coincide often; no heartbeats, which would go on for ever.
pub fn short_timing() -> Timing {
    let s = Duration::from_secs;
    Timing {
        handshake: s(8),
        load: s(6),
        parked: s(4),
        parked_slack: s(1),
        progress: s(1),
        write: s(5),
        cancel_retry: s(3),
        abort_ack: s(3),
        close_right: s(2),
        lookup: s(4),
        probe: s(2),
        probe_retry: s(1),
        store: s(5),
        unbound: s(5),
        remembered: s(2),
        pin: s(3),
        drain: s(2),
        heartbeat: Duration::MAX,
        dead: Duration::MAX,
        max_peer_heartbeat: Duration::MAX,
        idle: Duration::MAX,
        redial: (s(3), s(3)),
        backoff: (s(1), s(2)),
    }
}
