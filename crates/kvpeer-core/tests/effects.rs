//! One endpoint alone, fact by fact: what it asks for and tells in each call, in which order, and under which names.

use kvpeer_core::wire::{
    AbortFetch, Blocks, Compat, Connect, ConnectAck, Decoded, Demand, Fetch, Fingerprint, Key, KeysBuf,
    Limits, Lookup, LookupId, Msg, PeerName, RegionInfo, RequestName, Round, Supply, Text,
};
use kvpeer_core::{
    Action, Command, Compatibility, Config, ConnId, Count, Endpoint, Epoch, Event, Identity, Input, JobId,
    KeyAt, LookupState, Origin, Part, PeerId, ProbeId, Sink, StoreOutcome, Time, TransferEnd, XferId,
};

const REGION: RegionInfo = RegionInfo { base_addr: 0, num_blocks: 64, block_len: 1 << 20 };

/// A node `a` that has been told some facts; every call's effects are taken by [`Alone::took`].
struct Alone {
    endpoint: Endpoint,
    now: Time,
    effects: Effects,
}

/// Effects in the order in which they came.
#[derive(Default)]
struct Effects {
    lines: Vec<String>,
    /// The frames among them.
    frames: Vec<Vec<u8>>,
    writes: Vec<XferId>,
    probes: Vec<ProbeId>,
}

impl Sink for Effects {
    fn act(&mut self, action: Action<'_>) {
        let line = match action {
            Action::Dial { epoch, .. } => format!("dial {}", epoch.0),
            Action::CancelDial { epoch } => format!("cancel dial {}", epoch.0),
            Action::Send { msg, .. } => {
                let mut frame = Vec::new();
                msg.encode(&mut frame).expect("a legal message");
                self.frames.push(frame);
                format!("send {}", name(&msg))
            }
            Action::Close { conn } => format!("close {}", conn.0),
            Action::Admit { epoch, .. } => format!("admit {}", epoch.0),
            Action::OpenRight { epoch } => format!("open right {}", epoch.0),
            Action::Register { epoch, .. } => format!("register {}", epoch.0),
            Action::CloseRight { epoch } => format!("close right {}", epoch.0),
            Action::Write { xfer, .. } => {
                self.writes.push(xfer);
                "write".to_owned()
            }
            Action::Cancel { .. } => "cancel".to_owned(),
            Action::Probe { probe, .. } => {
                self.probes.push(probe);
                "probe".to_owned()
            }
            Action::EndProbe { .. } => "end probe".to_owned(),
        };
        self.lines.push(line);
    }

    fn tell(&mut self, event: Event<'_>) {
        let line = match event {
            Event::LoadFinished { destination, .. } => format!("load finished, {destination:?}"),
            Event::DestinationReleased { .. } => "destination released".to_owned(),
            Event::StoreFinished { outcome: StoreOutcome::Failed(_), .. } => "store failed".to_owned(),
            Event::StoreFinished { outcome, .. } => format!("store {outcome:?}"),
            Event::LookupAnswered { .. } => "lookup answered".to_owned(),
            Event::FetchArrived { .. } => "fetch arrived".to_owned(),
            Event::PeerUp { .. } => "peer up".to_owned(),
            Event::PeerDown { .. } => "peer down".to_owned(),
            Event::PeerRefused { .. } => "peer refused".to_owned(),
            Event::RequestFailed { .. } => "request failed".to_owned(),
        };
        self.lines.push(line);
    }

    fn count(&mut self, what: Count) {
        self.lines.push(format!("count {what:?}"));
    }
}

fn name(msg: &Msg<'_>) -> String {
    format!("{:?}", msg.kind()).to_lowercase()
}

impl Alone {
    fn new() -> Self {
        let peer_id = PeerId::from(PeerName::new("a:1").expect("a name"));
        let identity = Identity { peer_id, incarnation: 1, loopback: false };
        let config = Config::new(identity, REGION, Compatibility::default());
        let endpoint = Endpoint::new(config).expect("a configuration");
        Self { endpoint, now: Time::from_micros(1), effects: Effects::default() }
    }

    fn told(&mut self, input: Input<'_>) -> Vec<String> {
        self.endpoint.handle(self.now, input, &mut self.effects);
        self.endpoint.check().expect("the laws hold");
        std::mem::take(&mut self.effects.lines)
    }

    fn asked(&mut self, command: Command<'_>) -> Vec<String> {
        self.endpoint.command(self.now, command, &mut self.effects).expect("no misuse");
        self.endpoint.check().expect("the laws hold");
        std::mem::take(&mut self.effects.lines)
    }

    /// Brings up a session with `b` that we dial: which effects each fact of the handshake has.
    fn session(&mut self, epoch: Epoch, conn: ConnId) -> Vec<Vec<String>> {
        let peer = PeerName::new("b:1").expect("a name");
        vec![
            self.asked(Command::Connect { peer, address: "b" }),
            self.told(Input::Connected { conn, origin: Origin::Dialed(epoch) }),
            self.told(Input::Admitted { epoch, admit: true }),
            self.told(Input::RightOpened { epoch, metadata: Some(b"of a") }),
            self.told(Input::Message { conn, msg: Msg::Connect(their_connect()) }),
            self.told(Input::Registered { epoch, ok: true }),
            self.told(Input::Message { conn, msg: Msg::ConnectAck(ConnectAck { incarnation: 1 }) }),
        ]
    }
}

fn their_connect<'a>() -> Connect<'a> {
    Connect {
        peer_id: PeerName::new("b:1").expect("a name"),
        incarnation: 1,
        region: REGION,
        metadata: b"of b",
        compat: Compat { hash_seed: Text::default(), fingerprint: Fingerprint::default() },
        capabilities: 0,
        heartbeat_ms: 2_000,
    }
}

fn request() -> RequestName<'static> {
    RequestName::new("r").expect("a name")
}

fn keys(numbers: &[u8]) -> KeysBuf {
    numbers.iter().map(|number| Key::new(std::slice::from_ref(number)).expect("one byte")).collect()
}

/// A `fetch` of some keys into the blocks of the same numbers.
fn fetch<'a>(round: u64, keys: &'a KeysBuf, blocks: &'a [u32]) -> Msg<'a> {
    let demand = Demand::new(keys.as_keys(), Blocks::new(blocks)).expect("as many keys as blocks");
    Msg::Fetch(Fetch {
        request: request(),
        round: Round(round),
        supply: Supply::Await,
        demand,
        wait_ms: 1_000,
    })
}

const FIRST: (Epoch, ConnId) = (Epoch(1), ConnId(7));

/// HS-2, HS-3, HS-8, HS-10, HS-11: the dialler's handshake, one thing after the other.
#[test]
fn a_handshake_goes_step_by_step() {
    let mut node = Alone::new();
    let expected = [
        vec!["dial 1"],
        vec!["admit 1"],
        vec!["open right 1"],
        vec!["send connect"],
        vec!["register 1"],
        vec!["send connectack"],
        vec!["peer up"],
    ];
    assert_eq!(node.session(FIRST.0, FIRST.1), expected);
}

/// CMD-12: what a WRITE's end frees is told after it, and after the peer was told.
#[test]
fn a_store_is_finished_after_what_freed_it() {
    let mut node = Alone::new();
    node.session(FIRST.0, FIRST.1);
    let (one, conn) = (keys(&[1]), FIRST.1);
    let (job, request) = (JobId(5), request());
    assert!(
        node.asked(Command::Store { job, request, keys: one.as_keys(), blocks: &[1], consumer: None })
            .is_empty()
    );
    assert_eq!(
        node.told(Input::Message { conn, msg: fetch(0, &one, &[1]) }),
        ["fetch arrived", "write", "send fetchprogress"]
    );
    let xfer = node.effects.writes[0];
    assert_eq!(
        node.told(Input::Transfer { xfer, end: TransferEnd::Done }),
        ["send transferdone", "store Delivered"]
    );
}

/// CMD-12, END-2, END-4: the end of a session in order. Goodbye and right first, then results, then the peer; what the
/// fence frees only after it.
#[test]
fn a_session_ends_in_order() {
    let mut node = Alone::new();
    node.session(FIRST.0, FIRST.1);
    let (one, two, (epoch, conn)) = (keys(&[1]), keys(&[2]), FIRST);
    let source = PeerName::new("b:1").expect("a name");
    let part = Part::Consume { source, address: "b", supply: Supply::Await };
    node.asked(Command::Open { request: request(), part });
    node.asked(Command::Load { job: JobId(1), request: request(), keys: one.as_keys(), blocks: &[1] });
    let (job, request) = (JobId(2), RequestName::new("s").expect("a name"));
    node.asked(Command::Store { job, request, keys: two.as_keys(), blocks: &[2], consumer: None });
    let demand = Demand::new(two.as_keys(), Blocks::new(&[2])).expect("one of each");
    let fetch = Fetch { request, round: Round(0), supply: Supply::Await, demand, wait_ms: 0 };
    node.told(Input::Message { conn, msg: Msg::Fetch(fetch) });
    // What is in flight is fenced with the right; what is told at once is told after the right is closed.
    assert_eq!(
        node.told(Input::Disconnected { conn }),
        ["close right 1", "load finished, Quarantined", "request failed", "peer down"]
    );
    let xfer = node.effects.writes[0];
    assert!(node.told(Input::Transfer { xfer, end: TransferEnd::Fenced }).is_empty(), "proves nothing alone");
    let closed = node.told(Input::RightClosed { epoch, fenced: true });
    assert_eq!(closed, ["store failed", "destination released"]);
}

/// HS-1: a connection that a cancelled dial still brings is closed, and counted; so is one that nobody has asked for.
#[test]
fn connections_of_dials_that_are_over_are_closed() {
    let mut node = Alone::new();
    let peer = PeerName::new("b:1").expect("a name");
    assert_eq!(node.asked(Command::Connect { peer, address: "b" }), ["dial 1"]);
    assert_eq!(node.asked(Command::ClosePeer { peer }), ["cancel dial 1", "peer down"]);
    let (conn, closed) = (ConnId(3), ["count StaleEpoch", "close 3"]);
    assert_eq!(node.told(Input::Connected { conn, origin: Origin::Dialed(Epoch(1)) }), closed);
    assert_eq!(node.told(Input::Connected { conn, origin: Origin::Dialed(Epoch(9)) }), closed);
    assert_eq!(node.told(Input::DialFailed { epoch: Epoch(1) }), ["count StaleEpoch"]);
}

/// END-9, DUP-8: closing covers a right that is still opening, and one that opens when its link is forgotten is closed.
#[test]
fn rights_that_open_too_late_are_closed() {
    let mut node = Alone::new();
    let peer = PeerName::new("b:1").expect("a name");
    let (epoch, conn) = FIRST;
    node.asked(Command::Connect { peer, address: "b" });
    node.told(Input::Connected { conn, origin: Origin::Dialed(epoch) });
    assert_eq!(node.told(Input::Admitted { epoch, admit: true }), ["open right 1"]);
    let lost = node.told(Input::Disconnected { conn });
    assert_eq!(lost, ["close right 1"], "tried again, so of no interest");
    // Asked to close already: once is enough.
    assert_eq!(node.told(Input::RightOpened { epoch, metadata: Some(b"late") }), ["count StaleEpoch"]);
    node.told(Input::RightClosed { epoch, fenced: true });
    // The link is forgotten.
    let late = node.told(Input::RightOpened { epoch, metadata: Some(b"later") });
    assert_eq!(late, ["count StaleEpoch", "close right 1"]);
    assert_eq!(node.told(Input::RightOpened { epoch, metadata: None }), ["count StaleEpoch"]);
}

/// ID-5, ID-6: each WRITE and each probe has a name of its own, which carries its epoch; the next session's are others.
#[test]
fn names_of_transfers_and_probes_are_never_used_again() {
    let mut node = Alone::new();
    let mut lookup_id = 0;
    for (epoch, conn) in [FIRST, (Epoch(2), ConnId(8))] {
        node.session(epoch, conn);
        for round in 0..3 {
            let one = keys(&[round]);
            let job = JobId(u64::from(epoch.0) * 100 + u64::from(round));
            let store =
                Command::Store { job, request: request(), keys: one.as_keys(), blocks: &[1], consumer: None };
            node.asked(store);
            node.told(Input::Message { conn, msg: fetch(round.into(), &one, &[1]) });
            let round = Round(100 + u64::from(round));
            let lookup =
                Lookup { lookup_id: LookupId(lookup_id), request: request(), round, keys: one.as_keys() };
            lookup_id += 1;
            node.told(Input::Message { conn, msg: Msg::Lookup(lookup) });
            let probe = *node.effects.probes.last().expect("a probe");
            node.told(Input::Probed { probe, pin: None, hits: &[], misses: &[KeyAt(0)] });
        }
        node.told(Input::Disconnected { conn });
        node.told(Input::RightClosed { epoch, fenced: true });
    }
    let mut names: Vec<(Epoch, u64)> =
        node.effects.writes.iter().map(|xfer| (xfer.epoch, xfer.seq)).collect();
    names.extend(node.effects.probes.iter().map(|probe| (probe.epoch, probe.seq)));
    assert_eq!(names.iter().filter(|(epoch, _)| *epoch == Epoch(1)).count(), 6);
    assert_eq!(names.iter().filter(|(epoch, _)| *epoch == Epoch(2)).count(), 6);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 12);
}

/// ID-13: what is said depends on none of the numbers that name things here.
#[test]
fn local_numbers_stay_here() {
    /// The frames of one conversation, under some names.
    fn conversation(conn: ConnId, failed_dials: u32, jobs: [JobId; 3]) -> Vec<Vec<u8>> {
        let mut node = Alone::new();
        let source = PeerName::new("b:1").expect("a name");
        for epoch in 1..=failed_dials {
            node.asked(Command::Connect { peer: source, address: "b" });
            node.told(Input::DialFailed { epoch: Epoch(epoch) });
            node.asked(Command::ClosePeer { peer: source });
            node.now = node.now + std::time::Duration::from_secs(100);
            node.told(Input::Tick);
        }
        node.session(Epoch(failed_dials + 1), conn);
        let (one, two) = (keys(&[1]), keys(&[2]));
        let part = Part::Consume { source, address: "b", supply: Supply::Pinned };
        let (mine, theirs) = (RequestName::new("q").expect("a name"), request());
        node.asked(Command::Open { request: mine, part });
        let key = Key::new(&[9]).expect("one byte");
        assert_eq!(node.endpoint.lookup(node.now, mine, key), LookupState::Pending);
        node.asked(Command::FlushLookups);
        node.asked(Command::Load { job: jobs[0], request: mine, keys: one.as_keys(), blocks: &[1] });
        node.asked(Command::Abort { job: jobs[0] });
        let store = Command::Store {
            job: jobs[1],
            request: theirs,
            keys: two.as_keys(),
            blocks: &[2],
            consumer: None,
        };
        node.asked(store);
        node.told(Input::Message { conn, msg: fetch(4, &two, &[3]) });
        let lookup = Lookup { lookup_id: LookupId(3), request: theirs, round: Round(5), keys: one.as_keys() };
        node.told(Input::Message { conn, msg: Msg::Lookup(lookup) });
        let probe = node.effects.probes[0];
        node.told(Input::Probed { probe, pin: Some(jobs[2]), hits: &[(KeyAt(0), 7)], misses: &[] });
        let xfer = node.effects.writes[0];
        let abort = AbortFetch { request: theirs, round: Round(4) };
        node.told(Input::Message { conn, msg: Msg::AbortFetch(abort) });
        node.told(Input::Transfer { xfer, end: TransferEnd::Errored });
        node.effects.frames
    }
    let plain = conversation(ConnId(7), 0, [1, 2, 3].map(JobId));
    let other = conversation(ConnId(u64::MAX), 3, [u64::MAX, 1 << 40, 77].map(JobId));
    assert!(plain.len() >= 8, "{}", plain.len());
    assert_eq!(plain, other);
}

/// LKP-9, LKP-11: a cache may answer in any order; of two hits on one key only one is used, and the other is counted.
#[test]
fn answers_of_the_cache_are_put_in_order() {
    let mut node = Alone::new();
    node.session(FIRST.0, FIRST.1);
    let (three, conn) = (keys(&[1, 2, 3]), FIRST.1);
    let lookup =
        Lookup { lookup_id: LookupId(0), request: request(), round: Round(0), keys: three.as_keys() };
    assert_eq!(node.told(Input::Message { conn, msg: Msg::Lookup(lookup) }), ["probe"]);
    let probe = node.effects.probes[0];
    let hits = [(KeyAt(2), 9), (KeyAt(0), 7), (KeyAt(2), 8)];
    let told = node.told(Input::Probed { probe, pin: Some(JobId(50)), hits: &hits, misses: &[KeyAt(1)] });
    assert_eq!(told, ["count BadAnswer", "send lookupresp", "end probe"]);
    let frame = node.effects.frames.last().expect("an answer");
    let Ok(Decoded::Msg(Msg::LookupResp(answer))) = Msg::decode(frame[4], &frame[5..], &Limits::DEFAULT)
    else {
        panic!("no answer: {frame:x?}");
    };
    assert_eq!((answer.offset, answer.hits.iter().collect::<Vec<_>>()), (0, vec![true, false, true]));
    // Both hits that were used are pinned: a fetch of them is served.
    let two = keys(&[1, 3]);
    let demand = Demand::new(two.as_keys(), Blocks::new(&[1, 2])).expect("two of each");
    let fetch = Fetch { request: request(), round: Round(0), supply: Supply::Pinned, demand, wait_ms: 0 };
    assert_eq!(
        node.told(Input::Message { conn, msg: Msg::Fetch(fetch) }),
        ["write", "write", "send fetchprogress"]
    );
}
