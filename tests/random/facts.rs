//! Facts, commands and messages of every kind, in any order, sensible or not: the endpoint never panics, its structural
//! laws hold after each, a refused command changes nothing, and equal nodes do equal things (laws 1, 3, 10, 11).

use std::time::Duration;

use kvpeer_core::{
    Action, Command, ConnId, Count, Endpoint, Epoch, Event, Input, JobId, KeyAt, Origin, Part, ProbeId, Role,
    Sink, Time, TransferEnd, XferId,
};
use kvpeer_tests::{A, B, Who, World, X};
use kvpeer_wire::{Key, RequestName, Supply};
use proptest::prelude::*;

use crate::words::{self, Say};

/// One thing that an endpoint is told.
#[derive(Clone, Debug)]
enum Told {
    Fact(Fact),
    Wish(Wish),
}

/// A fact. Numbers pick among what it has asked for, or name something that never was.
#[derive(Clone, Debug)]
enum Fact {
    Accepted,
    Dialed(usize),
    DialFailed(usize),
    Disconnected(usize),
    Heard(usize),
    Says(usize, Say),
    Malformed(usize),
    NoCommonVersion(usize),
    Admitted(usize, bool),
    RightOpened(usize, Option<Vec<u8>>),
    RightClosed(usize, bool),
    Registered(usize, bool),
    PeerFault(usize),
    Transfer(usize, TransferEnd),
    Probed(usize, Option<u64>, Vec<(u32, u32)>, Vec<u32>),
    /// The clock moves, perhaps backwards.
    Clock(i64),
    Tick,
}

/// One thing that its engine wishes.
#[derive(Clone, Debug)]
enum Wish {
    Open(u8, Who, Supply),
    Produce(u8),
    Load(u64, u8, Vec<u8>, Vec<u32>),
    Store(u64, u8, Vec<u8>, Vec<u32>),
    Finish(u8, Role),
    Abort(u64),
    Withdraw(u64),
    Release(u64),
    Lookup(u8, u8),
    Flush,
    Connect(Who),
    Close(Who),
    Shutdown(u8),
}

/// What an endpoint has asked for: names for facts to pick from.
#[derive(Default)]
struct Asked {
    conns: Vec<ConnId>,
    dials: Vec<Epoch>,
    epochs: Vec<Epoch>,
    writes: Vec<XferId>,
    probes: Vec<ProbeId>,
    /// Everything, as text, to compare two nodes by.
    trace: Vec<String>,
}

impl Sink for Asked {
    fn act(&mut self, action: Action<'_>) {
        self.trace.push(format!("{action:?}"));
        match action {
            Action::Dial { epoch, .. } => self.dials.push(epoch),
            Action::Admit { epoch, .. } | Action::OpenRight { epoch } | Action::CloseRight { epoch } => {
                self.epochs.push(epoch);
            }
            Action::Write { xfer, .. } => self.writes.push(xfer),
            Action::Probe { probe, .. } => self.probes.push(probe),
            Action::CancelDial { .. }
            | Action::Send { .. }
            | Action::Close { .. }
            | Action::Register { .. }
            | Action::Cancel { .. }
            | Action::EndProbe { .. } => {}
        }
    }

    fn tell(&mut self, event: Event<'_>) {
        self.trace.push(format!("{event:?}"));
    }

    fn count(&mut self, what: Count) {
        self.trace.push(format!("{what:?}"));
    }
}

/// The newest ones are named most often.
fn pick<T: Copy>(from: &[T], n: usize, unknown: T) -> T {
    match n {
        0 => unknown,
        n => from.iter().rev().nth((n - 1) % from.len().max(1)).copied().unwrap_or(unknown),
    }
}

struct Node {
    endpoint: Endpoint,
    asked: Asked,
    now: Time,
    conns: u64,
}

impl Node {
    fn new() -> Self {
        let mut config = World::config(A);
        config.limits.peers = 3;
        config.limits.handshakes = 2;
        config.limits.held = 3;
        config.limits.rounds = 3;
        config.limits.lookups = 3;
        config.limits.pinned_blocks = 5;
        config.limits.parked_blocks = 6;
        config.limits.remembered = 3;
        config.limits.write_bytes = 32;
        config.limits.window_bytes = 64;
        config.limits.timers_per_tick = 2;
        let endpoint = Endpoint::new(config).expect("a usable configuration");
        Self { endpoint, asked: Asked::default(), now: Time::from_micros(0), conns: 0 }
    }

    fn handle(&mut self, input: Input<'_>) {
        let mut twin = (self.endpoint.clone(), Asked::default());
        let before = self.asked.trace.len();
        self.endpoint.handle(self.now, input, &mut self.asked);
        twin.0.handle(self.now, input, &mut twin.1);
        assert_eq!(self.endpoint, twin.0, "equal nodes, equal facts, different states");
        assert_eq!(self.asked.trace[before..], twin.1.trace, "equal nodes, equal facts, different effects");
    }

    fn command(&mut self, command: Command<'_>) {
        let before = self.endpoint.clone();
        let effects = self.asked.trace.len();
        if self.endpoint.command(self.now, command, &mut self.asked).is_err() {
            assert_eq!(self.endpoint, before, "{command:?} is refused and changes the node");
            assert_eq!(self.asked.trace.len(), effects, "{command:?} is refused and has effects");
        }
    }

    fn conn(&self, n: usize) -> ConnId {
        pick(&self.asked.conns, n, ConnId(u64::MAX))
    }

    fn epoch(&self, n: usize) -> Epoch {
        pick(&self.asked.epochs, n, Epoch(77))
    }

    fn told(&mut self, told: &Told) {
        match told {
            Told::Fact(fact) => self.happens(fact),
            Told::Wish(wish) => self.wished(wish),
        }
    }

    fn happens(&mut self, fact: &Fact) {
        match fact {
            Fact::Accepted => self.connected(Origin::Accepted),
            Fact::Dialed(n) => self.connected(Origin::Dialed(pick(&self.asked.dials, *n, Epoch(77)))),
            Fact::DialFailed(n) => {
                self.handle(Input::DialFailed { epoch: pick(&self.asked.dials, *n, Epoch(77)) });
            }
            Fact::Disconnected(n) => self.handle(Input::Disconnected { conn: self.conn(*n) }),
            Fact::Heard(n) => self.handle(Input::Heard { conn: self.conn(*n) }),
            Fact::Says(n, say) => {
                let conn = self.conn(*n);
                words::with(say, |msg| self.handle(Input::Message { conn, msg }));
            }
            Fact::Malformed(n) => self.handle(Input::Malformed { conn: self.conn(*n), detail: "bad bytes" }),
            Fact::NoCommonVersion(n) => {
                self.handle(Input::NoCommonVersion { conn: self.conn(*n), ours: (1, 1), theirs: (2, 3) });
            }
            Fact::Admitted(n, admit) => self.handle(Input::Admitted { epoch: self.epoch(*n), admit: *admit }),
            Fact::RightOpened(n, metadata) => {
                self.handle(Input::RightOpened { epoch: self.epoch(*n), metadata: metadata.as_deref() });
            }
            Fact::RightClosed(n, fenced) => {
                self.handle(Input::RightClosed { epoch: self.epoch(*n), fenced: *fenced });
            }
            Fact::Registered(n, ok) => self.handle(Input::Registered { epoch: self.epoch(*n), ok: *ok }),
            Fact::PeerFault(n) => self.handle(Input::PeerFault { epoch: self.epoch(*n) }),
            Fact::Transfer(n, end) => {
                let xfer = pick(&self.asked.writes, *n, XferId { epoch: Epoch(1), seq: 999 });
                self.handle(Input::Transfer { xfer, end: *end });
            }
            Fact::Probed(n, pin, hits, misses) => {
                let probe = pick(&self.asked.probes, *n, ProbeId { epoch: Epoch(1), seq: 999 });
                let hits: Vec<_> = hits.iter().map(|(at, block)| (KeyAt(*at), *block)).collect();
                let misses: Vec<_> = misses.iter().map(|at| KeyAt(*at)).collect();
                self.handle(Input::Probed { probe, pin: pin.map(JobId), hits: &hits, misses: &misses });
            }
            Fact::Clock(millis) => {
                let micros = self.now.as_micros().saturating_add_signed(millis * 1_000);
                self.now = Time::from_micros(micros);
            }
            Fact::Tick => self.handle(Input::Tick),
        }
    }

    fn wished(&mut self, wish: &Wish) {
        let name = |n: u8| format!("r{n}");
        match wish {
            Wish::Open(n, source, supply) => {
                let part = Part::Consume { source: source.peer(), address: source.name(), supply: *supply };
                self.command(Command::Open { request: request(&name(*n)), part });
            }
            Wish::Produce(n) => {
                self.command(Command::Open {
                    request: request(&name(*n)),
                    part: Part::Produce { consumer: None },
                });
            }
            Wish::Load(job, n, keys, blocks) => {
                let keys = words::keys(keys);
                let (request, keys) = (name(*n), keys.as_keys());
                self.command(Command::Load {
                    job: JobId(*job),
                    request: self::request(&request),
                    keys,
                    blocks,
                });
            }
            Wish::Store(job, n, keys, blocks) => {
                let keys = words::keys(keys);
                let (name, keys) = (name(*n), keys.as_keys());
                let (job, request, consumer) = (JobId(*job), request(&name), None);
                self.command(Command::Store { job, request, keys, blocks, consumer });
            }
            Wish::Finish(n, role) => {
                self.command(Command::Finish { request: request(&name(*n)), role: *role });
            }
            Wish::Abort(job) => self.command(Command::Abort { job: JobId(*job) }),
            Wish::Withdraw(job) => self.command(Command::Withdraw { job: JobId(*job) }),
            Wish::Release(job) => self.command(Command::ReleaseQuarantine { job: JobId(*job) }),
            Wish::Lookup(n, key) => {
                let key = [*key];
                let _ =
                    self.endpoint.lookup(self.now, request(&name(*n)), Key::new(&key).expect("a short key"));
            }
            Wish::Flush => self.command(Command::FlushLookups),
            Wish::Connect(peer) => self.command(Command::Connect { peer: peer.peer(), address: peer.name() }),
            Wish::Close(peer) => self.command(Command::ClosePeer { peer: peer.peer() }),
            Wish::Shutdown(secs) => {
                self.command(Command::Shutdown { within: Duration::from_secs(u64::from(*secs)) });
            }
        }
    }

    fn connected(&mut self, origin: Origin) {
        self.conns += 1;
        let conn = ConnId(self.conns);
        self.asked.conns.push(conn);
        self.handle(Input::Connected { conn, origin });
    }

    /// Looks at everything that can be asked, too.
    fn look(&self) {
        if let Err(violation) = self.endpoint.check() {
            panic!("{violation}\n{:#?}", self.endpoint);
        }
        let sum = self.endpoint.peers().count();
        assert!(sum <= 64, "{sum} peers are known");
        let _ = (self.endpoint.totals(), self.endpoint.next_deadline(), self.endpoint.is_idle());
    }
}

fn request(name: &str) -> RequestName<'_> {
    RequestName::new(name).expect("a legal name")
}

fn told() -> impl Strategy<Value = Told> {
    let n = || 0usize..5;
    let job = || 1u64..12;
    let peer = || prop_oneof![Just(B), Just(X), Just(A)];
    let end = prop_oneof![
        4 => Just(TransferEnd::Done),
        1 => Just(TransferEnd::NotPosted),
        1 => Just(TransferEnd::Errored),
        1 => Just(TransferEnd::Fenced),
    ];
    let supply = prop_oneof![Just(Supply::Await), Just(Supply::Pinned)];
    let role = prop_oneof![Just(Role::Consumer), Just(Role::Producer), Just(Role::Both)];
    let keys = || prop::collection::vec(1u8..8, 0..4);
    let blocks = || prop::collection::vec(0u32..70, 0..4);
    let hits = prop::collection::vec((0u32..4, 0u32..66), 0..3);
    let facts = prop_oneof![
        4 => Just(Fact::Accepted),
        4 => n().prop_map(Fact::Dialed),
        1 => n().prop_map(Fact::DialFailed),
        1 => n().prop_map(Fact::Disconnected),
        1 => n().prop_map(Fact::Heard),
        40 => (1usize..4, words::say()).prop_map(|(n, say)| Fact::Says(n, say)),
        1 => n().prop_map(Fact::Malformed),
        1 => n().prop_map(Fact::NoCommonVersion),
        8 => (n(), prop::bool::weighted(0.9)).prop_map(|(n, ok)| Fact::Admitted(n, ok)),
        8 => (n(), prop::option::weighted(0.9, prop::collection::vec(any::<u8>(), 0..3)))
            .prop_map(|(n, metadata)| Fact::RightOpened(n, metadata)),
        3 => (n(), any::<bool>()).prop_map(|(n, fenced)| Fact::RightClosed(n, fenced)),
        8 => (n(), prop::bool::weighted(0.9)).prop_map(|(n, ok)| Fact::Registered(n, ok)),
        1 => n().prop_map(Fact::PeerFault),
        8 => (n(), end).prop_map(|(n, end)| Fact::Transfer(n, end)),
        8 => (n(), prop::option::weighted(0.8, 8u64..40), hits, prop::collection::vec(0u32..4, 0..3))
            .prop_map(|(n, pin, hits, misses)| Fact::Probed(n, pin, hits, misses)),
        6 => (-2_000i64..9_000).prop_map(Fact::Clock),
        8 => Just(Fact::Tick),
    ];
    let wishes = prop_oneof![
        4 => (0u8..3, peer(), supply).prop_map(|(n, peer, supply)| Wish::Open(n, peer, supply)),
        1 => (0u8..3).prop_map(Wish::Produce),
        6 => (job(), 0u8..3, keys(), blocks()).prop_map(|(j, n, keys, blocks)| Wish::Load(j, n, keys, blocks)),
        6 => (job(), 0u8..3, keys(), blocks()).prop_map(|(j, n, keys, blocks)| Wish::Store(j, n, keys, blocks)),
        1 => (0u8..3, role).prop_map(|(n, role)| Wish::Finish(n, role)),
        1 => job().prop_map(Wish::Abort),
        1 => job().prop_map(Wish::Withdraw),
        1 => job().prop_map(Wish::Release),
        4 => (0u8..3, 1u8..8).prop_map(|(n, key)| Wish::Lookup(n, key)),
        3 => Just(Wish::Flush),
        2 => peer().prop_map(Wish::Connect),
        1 => peer().prop_map(Wish::Close),
    ];
    prop_oneof![
        60 => facts.prop_map(Told::Fact),
        20 => wishes.prop_map(Told::Wish),
        1 => (0u8..20).prop_map(|secs| Told::Wish(Wish::Shutdown(secs))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 50_000, ..ProptestConfig::default() })]

    /// Guards laws 1, 3, 10 and 11, and CMD-1.
    #[test]
    fn any_facts_in_any_order(all in prop::collection::vec(told(), 1..200)) {
        let mut node = Node::new();
        for told in &all {
            node.told(told);
            node.look();
        }
    }
}
