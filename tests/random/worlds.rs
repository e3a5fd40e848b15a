//! Random lives of two and three nodes: engines at work, any step next, faults in between. The judge looks on, and when
//! the faults are over and all deadlines have passed, nothing may be left.

use std::collections::BTreeSet;
use std::time::Duration;

use kvpeer_core::{Command, Role};
use kvpeer_tests::{A, B, C, Hold, Span, Who, World};
use kvpeer_wire::RequestName;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// One thing that happens. Small numbers pick among what is there.
#[derive(Clone, Debug)]
enum Act {
    /// The n-th of all steps that are possible.
    Step(usize),
    /// Everything that is possible.
    Run,
    /// Everything but the completion of WRITEs and the closing of rights.
    RunButWrites,
    /// Time passes, and deadlines with it.
    Pass(Duration),
    Open(Who, Request),
    Load(Who, Request, Keys),
    /// The engine forgets which blocks are reserved or quarantined.
    LoadAnywhere(Who, Request, Keys),
    Store(Who, Request, Keys),
    Finish(Who, Request, Role),
    Abort(Who, usize),
    Withdraw(Who, usize),
    Ask(Who, Request, Keys),
    Cache(Who, Keys),
    Expect(Who, u32),
    Evict(Who),
    Close(Who),
    Fault(Fault),
}

#[derive(Clone, Debug)]
enum Fault {
    /// The n-th WRITE fails, is refused, or lands in part.
    Error(usize),
    NotPosted(usize),
    /// It fails, and lands all the same.
    ErrorThenLand(usize),
    LandBlock(usize),
    /// Something that is still on its way lands late.
    LandLate(usize),
    /// The cache answers a lookup that needs no answer any more.
    AnswerLate(Who),
    Cut(Who),
    CutAfterDelivery(Who),
    Vanish(Who),
    Heal(Who),
    Crash(Who),
    /// As a crash, but no connection tells.
    VanishAndReturn(Who),
    LosePeer(Who),
    FailRights(Who),
    FailRegistrations(Who),
    TurnAway(Who),
    Garbage(Who),
    Trickle(Who),
    Shutdown(Who),
}

/// Two requests of each kind; who opens it consumes it from the next node.
#[derive(Clone, Copy, Debug)]
enum Request {
    Pd(u8),
    Symmetric(u8),
}

#[derive(Clone, Copy, Debug)]
struct Keys {
    first: u32,
    count: u32,
}

impl Keys {
    fn numbers(self) -> Vec<u32> {
        (self.first..self.first + self.count).collect()
    }
}

impl Request {
    /// Every node has requests of its own, so that each is consumed by one node only. Sometimes that is not so.
    fn name(self, consumer: Who) -> String {
        match self {
            Request::Pd(0) => "shared".into(),
            Request::Pd(n) => format!("p{n}{consumer}"),
            Request::Symmetric(n) => format!("s{n}{consumer}"),
        }
    }
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![4 => Just(A), 4 => Just(B), 1 => Just(C)]
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        1 => Just(Request::Pd(0)),
        4 => (1u8..3).prop_map(Request::Pd),
        4 => (0u8..2).prop_map(Request::Symmetric),
    ]
}

fn keys() -> impl Strategy<Value = Keys> {
    (1u32..8, 0u32..5).prop_map(|(first, count)| Keys { first, count })
}

fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        6 => (1u64..500).prop_map(Duration::from_millis),
        3 => (1u64..12).prop_map(Duration::from_secs),
        1 => (12u64..70).prop_map(Duration::from_secs),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let role = prop_oneof![Just(Role::Consumer), Just(Role::Producer), Just(Role::Both)];
    prop_oneof![
        20 => (0usize..64).prop_map(Act::Step),
        2 => Just(Act::Run),
        8 => Just(Act::RunButWrites),
        5 => span().prop_map(Act::Pass),
        2 => (who(), request()).prop_map(|(who, request)| Act::Open(who, request)),
        10 => (who(), request(), keys()).prop_map(|(who, request, keys)| Act::Load(who, request, keys)),
        2 => (who(), request(), keys()).prop_map(|(who, request, keys)| Act::LoadAnywhere(who, request, keys)),
        10 => (who(), request(), keys()).prop_map(|(who, request, keys)| Act::Store(who, request, keys)),
        3 => (who(), request(), role).prop_map(|(who, request, role)| Act::Finish(who, request, role)),
        3 => (who(), 0usize..8).prop_map(|(who, n)| Act::Abort(who, n)),
        2 => (who(), 0usize..8).prop_map(|(who, n)| Act::Withdraw(who, n)),
        8 => (who(), request(), keys()).prop_map(|(who, request, keys)| Act::Ask(who, request, keys)),
        4 => (who(), keys()).prop_map(|(who, keys)| Act::Cache(who, keys)),
        2 => (who(), 1u32..10).prop_map(|(who, key)| Act::Expect(who, key)),
        2 => who().prop_map(Act::Evict),
        1 => who().prop_map(Act::Close),
        12 => fault().prop_map(Act::Fault),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        5 => (0usize..8).prop_map(Fault::Error),
        4 => (0usize..8).prop_map(Fault::ErrorThenLand),
        8 => (0usize..8).prop_map(Fault::NotPosted),
        4 => (0usize..8).prop_map(Fault::LandBlock),
        8 => (0usize..8).prop_map(Fault::LandLate),
        3 => who().prop_map(Fault::AnswerLate),
        2 => who().prop_map(Fault::Cut),
        1 => who().prop_map(Fault::CutAfterDelivery),
        1 => who().prop_map(Fault::Vanish),
        2 => who().prop_map(Fault::Heal),
        1 => who().prop_map(Fault::Crash),
        1 => who().prop_map(Fault::VanishAndReturn),
        1 => who().prop_map(Fault::LosePeer),
        1 => who().prop_map(Fault::FailRights),
        1 => who().prop_map(Fault::FailRegistrations),
        1 => who().prop_map(Fault::TurnAway),
        1 => who().prop_map(Fault::Garbage),
        1 => who().prop_map(Fault::Trickle),
        1 => who().prop_map(Fault::Shutdown),
    ]
}

/// A world and the rules by which acts pick from it.
struct Life {
    world: World,
    nodes: usize,
}

impl Life {
    fn new(nodes: usize, fenced: bool) -> Self {
        let mut world = World::with(nodes, |_, config| {
            // Small windows make many WRITEs; small caps are met.
            config.limits.write_bytes = 32;
            config.limits.window_bytes = 64;
            config.limits.held = 4;
            config.limits.pinned_blocks = 6;
            config.limits.rounds = 3;
            // Fewer heartbeats in the long end of each life.
            config.timing.heartbeat = 4.s();
            config.timing.dead = 20.s();
        });
        if !fenced {
            world.without_fence(A);
        }
        let mut life = Self { world, nodes };
        for who in [A, B, C].into_iter().take(nodes) {
            for request in [0, 1, 2].map(Request::Pd).into_iter().chain([0, 1].map(Request::Symmetric)) {
                life.open(who, request);
            }
        }
        life
    }

    fn here(&self, who: Who) -> Option<Who> {
        let here = if self.nodes == 2 && who == C { A } else { who };
        self.world.lives(here).then_some(here)
    }

    fn neighbour(&self, who: Who) -> Who {
        match (self.nodes, who) {
            (2, A) | (_, A) => B,
            (2, _) | (_, C) => A,
            (_, _) => C,
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Step(n) => {
                let steps = self.world.steps();
                if let Some(step) = steps.get(n % steps.len().max(1)) {
                    self.world.take(*step);
                }
            }
            Act::Run => self.world.run(),
            Act::RunButWrites => self.run_but_writes(),
            Act::Pass(span) => self.world.pass(*span),
            Act::Open(who, request) => self.open(*who, *request),
            Act::Load(who, request, keys) => self.load(*who, *request, *keys),
            Act::LoadAnywhere(who, request, keys) => {
                if let Some(who) = self.here(*who) {
                    let held = self.world.held_blocks(who);
                    if let Some(blocks) = held.get(..keys.count as usize) {
                        let _ = self.world.try_load(who, &request.name(who), &keys.numbers(), blocks);
                    }
                }
            }
            Act::Store(who, request, keys) => self.store(*who, *request, *keys),
            Act::Finish(who, request, role) => self.finish(*who, *request, *role),
            Act::Abort(who, n) => self.on_job(*who, *n, |job| Command::Abort { job }),
            Act::Withdraw(who, n) => self.on_job(*who, *n, |job| Command::Withdraw { job }),
            Act::Ask(who, request, keys) => {
                if let Some(who) = self.here(*who) {
                    self.world.lookup(who, &request.name(who), &keys.numbers());
                    let _ = self.world.try_command(who, Command::FlushLookups);
                }
            }
            Act::Cache(who, keys) => self.cache(*who, *keys),
            Act::Expect(who, key) => {
                if let Some(who) = self.here(*who) {
                    self.world.expects_keys(who, &[*key]);
                }
            }
            Act::Evict(who) => {
                if let Some(who) = self.here(*who) {
                    self.world.evict_unpinned(who);
                }
            }
            Act::Close(who) => {
                if let Some(who) = self.here(*who) {
                    let peer = self.neighbour(who).peer();
                    let _ = self.world.try_command(who, Command::ClosePeer { peer });
                }
            }
            Act::Fault(fault) => self.fault(fault),
        }
    }

    fn run_but_writes(&mut self) {
        let kinds = [A, B, C].map(|who| [Hold::Writes(who), Hold::Fences(who)]).concat();
        kinds.iter().for_each(|kind| self.world.hold(*kind));
        self.world.run();
        kinds.iter().for_each(|kind| self.world.unhold(*kind));
    }

    fn open(&mut self, who: Who, request: Request) {
        let Some(who) = self.here(who) else { return };
        let source = self.neighbour(who);
        let supply = match request {
            Request::Pd(_) => kvpeer_wire::Supply::Await,
            Request::Symmetric(_) => kvpeer_wire::Supply::Pinned,
        };
        let part = kvpeer_core::Part::Consume { source: source.peer(), address: source.name(), supply };
        let name = request.name(who);
        let request = RequestName::new(&name).expect("a legal name");
        let _ = self.world.try_command(who, Command::Open { request, part });
    }

    fn load(&mut self, who: Who, request: Request, keys: Keys) {
        let Some(who) = self.here(who) else { return };
        let free = self.world.free_blocks(who);
        if let Some(blocks) = free.get(..keys.count as usize) {
            let _ = self.world.try_load(who, &request.name(who), &keys.numbers(), blocks);
        }
    }

    /// A producer stores for the node that takes from it.
    fn store(&mut self, who: Who, request: Request, keys: Keys) {
        let Some(who) = self.here(who) else { return };
        let consumer =
            if self.nodes == 2 { self.neighbour(who) } else { self.neighbour(self.neighbour(who)) };
        let free = self.world.free_blocks(who);
        if let Some(blocks) = free.get(..keys.count as usize) {
            let _ = self.world.try_store(who, &request.name(consumer), &keys.numbers(), blocks, None);
        }
    }

    fn finish(&mut self, who: Who, request: Request, role: Role) {
        let Some(who) = self.here(who) else { return };
        for consumer in [who, self.neighbour(who)] {
            let name = request.name(consumer);
            let request = RequestName::new(&name).expect("a legal name");
            let _ = self.world.try_command(who, Command::Finish { request, role });
        }
    }

    fn on_job(&mut self, who: Who, n: usize, command: impl Fn(kvpeer_core::JobId) -> Command<'static>) {
        let Some(who) = self.here(who) else { return };
        let jobs = self.world.jobs(who);
        if let Some(job) = jobs.get(n % jobs.len().max(1)) {
            let _ = self.world.try_command(who, command(job.id));
        }
    }

    fn cache(&mut self, who: Who, keys: Keys) {
        let Some(who) = self.here(who) else { return };
        for number in keys.numbers() {
            let free = self.world.free_blocks(who);
            if let Some(block) = free.last().filter(|_| !self.world.has_cached(who, number)) {
                self.world.caches(who, &[number], &[*block]);
            }
        }
    }

    fn fault(&mut self, fault: &Fault) {
        let writes: Vec<_> =
            [A, B, C].into_iter().take(self.nodes).filter(|who| self.world.lives(*who)).collect();
        let writes: Vec<_> = writes.into_iter().flat_map(|who| self.world.writes_of(who)).collect();
        let pick = |n: &usize| writes.get(n % writes.len().max(1)).copied();
        match fault {
            Fault::Error(n) => pick(n).into_iter().for_each(|write| self.world.error(write)),
            Fault::ErrorThenLand(n) => {
                if let Some(write) = pick(n) {
                    self.world.error(write);
                    self.world.land(write);
                }
            }
            Fault::NotPosted(n) => {
                if let Some(write) = pick(n).filter(|write| !self.world.has_landed(*write)) {
                    self.world.not_posted(write);
                }
            }
            Fault::LandBlock(n) => {
                if let Some(write) = pick(n) {
                    self.world.land_block(write, 0);
                }
            }
            Fault::LandLate(n) => {
                let late = self.world.late_writes();
                if let Some(write) = late.get(n % late.len().max(1)) {
                    self.world.land(*write);
                }
            }
            Fault::AnswerLate(who) => {
                if let Some(who) = self.here(*who) {
                    self.world.answer_late(who);
                }
            }
            Fault::Cut(who) => self.between(*who, World::cut),
            Fault::CutAfterDelivery(who) => self.between(*who, World::cut_after_delivery),
            Fault::Vanish(who) => self.between(*who, World::vanish),
            Fault::Heal(who) => self.between(*who, World::heal),
            Fault::Crash(who) => {
                if let Some(who) = self.here(*who) {
                    self.world.crash(who);
                    self.world.restart(who);
                }
            }
            Fault::VanishAndReturn(who) => {
                if let Some(who) = self.here(*who) {
                    self.world.vanish_from_the_earth(who);
                    self.world.restart(who);
                }
            }
            Fault::LosePeer(who) => self.between(*who, World::peer_fault),
            Fault::FailRights(who) => self.here(*who).into_iter().for_each(|who| self.world.fail_rights(who)),
            Fault::FailRegistrations(who) => {
                self.here(*who).into_iter().for_each(|who| self.world.fail_registrations(who));
            }
            Fault::TurnAway(who) => self.here(*who).into_iter().for_each(|who| self.world.turn_away(who)),
            Fault::Garbage(who) => self.between(*who, World::garbage),
            Fault::Trickle(who) => self.between(*who, World::trickle),
            Fault::Shutdown(who) => {
                if let Some(who) = self.here(*who) {
                    let _ = self.world.try_command(who, Command::Shutdown { within: 3.s() });
                }
            }
        }
    }

    fn between(&mut self, who: Who, what: impl Fn(&mut World, Who, Who)) {
        if let Some(who) = self.here(who) {
            let whom = self.neighbour(who);
            if self.world.lives(whom) && self.world.has_link(who, whom) {
                what(&mut self.world, who, whom);
            }
        }
    }
}

fn live(nodes: usize, fenced: bool, acts: &[Act]) {
    let mut life = Life::new(nodes, fenced);
    acts.iter().for_each(|act| life.act(act));
    life.world.end();
}

fn config() -> ProptestConfig {
    // PROPTEST_CASES asks for longer runs (a quarter of it; 256 unless told otherwise).
    ProptestConfig {
        cases: ProptestConfig::default().cases / 4,
        failure_persistence: None,
        max_shrink_iters: 50_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// Guards I1-I8 over random lives of two nodes.
    #[test]
    fn two_nodes(acts in prop::collection::vec(act(), 1..120)) {
        live(2, true, &acts);
    }

    /// Guards I1-I8 with a data plane that cannot fence.
    #[test]
    fn two_nodes_without_a_fence(acts in prop::collection::vec(act(), 1..120)) {
        live(2, false, &acts);
    }

    /// Guards I1-I9 over random lives of three nodes in a ring.
    #[test]
    fn three_nodes(acts in prop::collection::vec(act(), 1..160)) {
        live(3, true, &acts);
    }
}

/// What random lives must have led to, together: if one is missing the generator, or the core, has lost something.
const REACHED: &[&str] = &[
    "TransferDone",
    "abort_ack settled",
    "abort_ack unsettled",
    "transfer_done NoSupply settled",
    "transfer_done WriteFailed settled",
    "transfer_done WriteFailed unsettled",
    "transfer_done ProducerFinished settled",
    "transfer_done SupplyTimeout settled",
    "transfer_done Closing settled",
    "load Loaded",
    "load Aborted Reusable",
    "load Aborted Quarantined",
    "load Timeout Reusable",
    "load Overloaded Reusable",
    "load Session(Lost) Quarantined",
    "load Session(Silent) Quarantined",
    "load Session(Superseded) Quarantined",
    "load Producer(WriteFailed) Quarantined",
    "load Producer(WriteFailed) Reusable",
    "store Delivered",
    "store Partly",
    "store Unclaimed",
    "DestinationReleased",
    "write Done",
    "write NotPosted",
    "write Errored",
    "write Fenced",
    "a block lands after the end of its WRITE",
    "a late block is fenced off",
    "count LatePin",
];

/// Guards the generator: it reaches what it is meant to reach.
#[test]
fn the_generator_reaches_all_endings() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..300 {
        let acts = prop::collection::vec(act(), 60..140).new_tree(&mut runner).expect("acts").current();
        let mut life = Life::new(2, true);
        acts.iter().for_each(|act| life.act(act));
        seen.extend(life.world.end_and_tell());
    }
    let missing: Vec<_> = REACHED.iter().filter(|label| !seen.contains(**label)).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}; reached: {seen:#?}");
}
