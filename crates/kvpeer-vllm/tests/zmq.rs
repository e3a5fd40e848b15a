//! The control plane on loopback: between two of ours, and against strangers.

use std::time::{Duration, Instant};

use kvpeer::plane::{ControlFact, ControlPlane, Scratch};
use kvpeer_core::{ConnId, Epoch, Origin};
use kvpeer_vllm::control::{ZmqConfig, ZmqControl, ZmqError, ZmqStats};
use kvpeer_vllm::wire::{self, Message};
use kvpeer_wire::{
    Compat, Connect, ConnectAck, Disconnect, DisconnectReason, Key, KeysBuf, Lookup, LookupId, Msg, PeerId,
    PeerName, RegionInfo, RequestName, Round, Text,
};

/// A failure guard only.
const PATIENCE: Duration = Duration::from_secs(20);

struct Plane {
    zmq: ZmqControl,
    scratch: Scratch,
    /// What was reported, in words, with its connection.
    told: Vec<(Option<ConnId>, String)>,
}

impl Plane {
    fn new() -> Self {
        let zmq = ZmqControl::bind(ZmqConfig::new("127.0.0.1:0")).unwrap();
        Self { zmq, scratch: Scratch::default(), told: Vec::new() }
    }

    fn name(&self) -> PeerId {
        PeerId::from(self.zmq.identity())
    }

    fn dial(&mut self, epoch: u32, peer: &PeerId) {
        self.zmq.dial(Epoch(epoch), peer.as_name(), peer.as_str());
    }

    fn turn(&mut self, timeout: Duration) {
        self.zmq.poll(&[], Some(timeout)).unwrap();
        while let Some(fact) = self.zmq.next_fact(&mut self.scratch) {
            let told = match fact {
                ControlFact::Connected { conn, origin: Origin::Accepted } => (Some(conn), "accepted".into()),
                ControlFact::Connected { conn, origin: Origin::Dialed(epoch) } => {
                    (Some(conn), format!("dialed {}", epoch.0))
                }
                ControlFact::DialFailed { epoch, .. } => (None, format!("dial {} failed", epoch.0)),
                ControlFact::Disconnected { conn, .. } => (Some(conn), "disconnected".into()),
                ControlFact::Heard { .. } | ControlFact::Skipped { .. } => continue,
                ControlFact::Message { conn, msg } => (Some(conn), format!("{:?}", msg.kind())),
                ControlFact::Malformed { conn, detail } => (Some(conn), format!("malformed: {detail}")),
                ControlFact::NoCommonVersion { .. } => panic!("ZeroMQ has no preamble"),
            };
            self.told.push(told);
        }
    }

    /// The connection of the first report of this kind; takes the report.
    #[track_caller]
    fn await_told(&mut self, what: &str, others: &mut [&mut Plane]) -> Option<ConnId> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.told.iter().position(|(_, told)| told == what) {
                return self.told.remove(at).0;
            }
            assert!(Instant::now() < end, "{what} was never told, but {:?}", self.told);
            self.turn(Duration::from_millis(20));
            others.iter_mut().for_each(|other| other.turn(Duration::ZERO));
        }
    }

    fn say(&mut self, conn: Option<ConnId>, msg: &Msg<'_>) {
        self.zmq.send(conn.unwrap(), msg);
    }
}

fn connect(name: &PeerId) -> Msg<'_> {
    Msg::Connect(Connect {
        peer_id: name.as_name(),
        incarnation: 1,
        region: RegionInfo { base_addr: 0, num_blocks: 8, block_len: 64 },
        metadata: b"md",
        compat: Compat { hash_seed: Text::default(), fingerprint: kvpeer_wire::Fingerprint::default() },
        capabilities: 0,
        heartbeat_ms: 2_000,
    })
}

/// Both have introduced and acknowledged each other; returns each side's connection.
fn joined(a: &mut Plane, b: &mut Plane) -> (Option<ConnId>, Option<ConnId>) {
    let (a_name, b_name) = (a.name(), b.name());
    a.dial(7, &b_name);
    let at_a = a.await_told("dialed 7", &mut [b]);
    a.say(at_a, &connect(&a_name));
    let at_b = b.await_told("accepted", &mut [a]);
    assert_eq!(b.await_told("Connect", &mut [a]), at_b);
    b.say(at_b, &connect(&b_name));
    assert_eq!(a.await_told("Connect", &mut [b]), at_a);
    let ack = Msg::ConnectAck(ConnectAck { incarnation: 1 });
    a.say(at_a, &ack);
    b.say(at_b, &ack);
    assert_eq!(a.await_told("ConnectAck", &mut [b]), at_a);
    assert_eq!(b.await_told("ConnectAck", &mut [a]), at_b);
    (at_a, at_b)
}

fn lookup(keys: &KeysBuf) -> Msg<'_> {
    Msg::Lookup(Lookup {
        lookup_id: LookupId(0),
        request: RequestName::new("q").unwrap(),
        round: Round(0),
        keys: keys.as_keys(),
    })
}

fn some_keys() -> KeysBuf {
    [Key::new(b"a").unwrap(), Key::new(b"b").unwrap()].into_iter().collect()
}

#[test]
fn two_nodes_talk_both_ways() {
    let (mut a, mut b) = (Plane::new(), Plane::new());
    let (at_a, at_b) = joined(&mut a, &mut b);
    a.say(at_a, &lookup(&some_keys()));
    assert_eq!(b.await_told("Lookup", &mut [&mut a]), at_b);
    b.say(at_b, &lookup(&some_keys()));
    assert_eq!(a.await_told("Lookup", &mut [&mut b]), at_a);
}

#[test]
fn the_last_words_leave_before_the_connection_closes() {
    let (mut a, mut b) = (Plane::new(), Plane::new());
    let (at_a, at_b) = joined(&mut a, &mut b);
    let goodbye = Disconnect { reason: DisconnectReason::Closed, detail: Text::default() };
    a.say(at_a, &Msg::Disconnect(goodbye));
    a.zmq.close(at_a.unwrap());
    assert_eq!(b.await_told("Disconnect", &mut [&mut a]), at_b);
    a.turn(Duration::ZERO);
    assert_eq!(a.told, [], "nothing is told of a closed connection");
}

#[test]
fn a_dead_peer_is_found() {
    let (mut a, mut b) = (Plane::new(), Plane::new());
    let (at_a, _) = joined(&mut a, &mut b);
    drop(b);
    assert_eq!(a.await_told("disconnected", &mut []), at_a);
}

#[test]
fn nobody_there_fails_the_dial() {
    let mut a = Plane::new();
    let nobody = Plane::new().name();
    a.dial(3, &nobody);
    a.await_told("dial 3 failed", &mut []);
    a.dial(4, &PeerId::from(PeerName::new("tcp://x").unwrap()));
    a.await_told("dial 4 failed", &mut []);
}

/// Both dial at once: one connection, as in vLLM.
#[test]
fn crossing_dials_are_one_connection() {
    let (mut a, mut b) = (Plane::new(), Plane::new());
    let (a_name, b_name) = (a.name(), b.name());
    a.dial(1, &b_name);
    b.dial(2, &a_name);
    let at_a = a.await_told("dialed 1", &mut [&mut b]);
    let at_b = b.await_told("dialed 2", &mut [&mut a]);
    a.say(at_a, &connect(&a_name));
    b.say(at_b, &connect(&b_name));
    assert_eq!(a.await_told("Connect", &mut [&mut b]), at_a);
    assert_eq!(b.await_told("Connect", &mut [&mut a]), at_b);
    assert!(a.told.is_empty() && b.told.is_empty(), "{:?} {:?}", a.told, b.told);
}

#[test]
fn a_sleep_ends_when_the_waker_is_used() {
    let mut a = Plane::new();
    let waker = a.zmq.waker();
    waker.wake();
    let start = Instant::now();
    a.zmq.poll(&[], Some(PATIENCE)).unwrap();
    assert!(start.elapsed() < PATIENCE);
}

/// A DEALER of nobody's.
struct Stranger(zmq::Socket);

impl Stranger {
    fn new(identity: &[u8], target: &Plane) -> Self {
        let context = zmq::Context::new();
        let dealer = context.socket(zmq::DEALER).unwrap();
        dealer.set_identity(identity).unwrap();
        dealer.set_linger(0).unwrap();
        dealer.connect(&format!("tcp://{}", target.name())).unwrap();
        Self(dealer)
    }

    fn say(&self, parts: &[&[u8]]) {
        self.0.send_multipart(parts, 0).unwrap();
    }
}

fn introduction(name: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    Message::Connect(wire::Connect {
        peer_id: PeerName::new(name).unwrap(),
        agent_metadata: b"md",
        base_addr: 0,
        num_blocks: 8,
        block_len: 64,
        config_fingerprint: Text::default(),
        hash_seed: Text::default(),
    })
    .encode(&mut payload);
    payload
}

#[track_caller]
fn await_stats(plane: &mut Plane, wanted: ZmqStats) {
    let end = Instant::now() + PATIENCE;
    while plane.zmq.stats() != wanted {
        assert!(Instant::now() < end, "{:?}", plane.zmq.stats());
        plane.turn(Duration::from_millis(20));
    }
    assert_eq!(plane.told, []);
}

#[test]
fn strangers_are_dropped_and_counted() {
    let mut a = Plane::new();
    let hello = introduction("127.0.0.1:9");
    for identity in [&b"\xff\xfe:1"[..], b"no-port", b"host\0:1", b"127.0.0.1:0"] {
        Stranger::new(identity, &a).say_until_counted(&mut a, &[&hello], |stats| stats.bad_identities);
    }
    Stranger::new(b"127.0.0.1:9", &a).say_until_counted(&mut a, &[&hello, b"more"], |stats| stats.bad_parts);
    for payload in [&b"garbage"[..], b"", &introduction("127.0.0.1:10")] {
        Stranger::new(b"127.0.0.1:9", &a).say_until_counted(&mut a, &[payload], |stats| stats.strangers);
    }
    let wanted = ZmqStats { bad_identities: 4, bad_parts: 1, strangers: 3, refused: 0 };
    await_stats(&mut a, wanted);
}

impl Stranger {
    /// Says it, and keeps the connection until it has been counted.
    #[track_caller]
    fn say_until_counted(&self, plane: &mut Plane, parts: &[&[u8]], count: impl Fn(&ZmqStats) -> u64) {
        let before = count(&plane.zmq.stats());
        self.say(parts);
        let end = Instant::now() + PATIENCE;
        while count(&plane.zmq.stats()) == before {
            assert!(Instant::now() < end, "{:?}", plane.zmq.stats());
            plane.turn(Duration::from_millis(20));
        }
    }
}

#[test]
fn connections_are_bounded() {
    let config = ZmqConfig { peers: 0, ..ZmqConfig::new("127.0.0.1:0") };
    let mut a = Plane { zmq: ZmqControl::bind(config).unwrap(), scratch: Scratch::default(), told: vec![] };
    let stranger = Stranger::new(b"127.0.0.1:9", &a);
    stranger.say_until_counted(&mut a, &[&introduction("127.0.0.1:9")], |stats| stats.refused);
    await_stats(&mut a, ZmqStats { refused: 1, ..ZmqStats::default() });
}

#[test]
fn malformed_words_of_a_peer_are_told() {
    let (mut a, mut b) = (Plane::new(), Plane::new());
    let (_, at_b) = joined(&mut a, &mut b);
    // The same identity from another process: libzmq hands it over.
    let double = Stranger::new(a.name().as_str().as_bytes(), &b);
    double.say(&[b"\xc1"]);
    assert_eq!(b.await_told("malformed: a byte that begins no msgpack value", &mut []), at_b);
}

/// A restarted process introduces itself before the old connection is found dead.
#[test]
fn a_second_introduction_is_another_life() {
    let (mut a, mut b) = (Plane::new(), Plane::new());
    let (_, at_b) = joined(&mut a, &mut b);
    let name = a.name();
    let double = Stranger::new(name.as_str().as_bytes(), &b);
    double.say(&[&introduction(name.as_str())]);
    assert_eq!(b.await_told("disconnected", &mut []), at_b);
    let anew = b.await_told("accepted", &mut []);
    assert_ne!(anew, at_b);
    assert_eq!(b.await_told("Connect", &mut []), anew);
}

#[test]
fn an_identity_that_cannot_be_dialled_is_refused() {
    let advertised = Some(PeerId::from(PeerName::new("kvpeer").unwrap()));
    let config = ZmqConfig { advertised, ..ZmqConfig::new("127.0.0.1:0") };
    assert_eq!(ZmqControl::bind(config).unwrap_err(), ZmqError::Identity("kvpeer".into()));
    let taken = Plane::new();
    let again = ZmqControl::bind(ZmqConfig::new(taken.name().as_str())).unwrap_err();
    assert!(matches!(again, ZmqError::Listen { error: zmq::Error::EADDRINUSE, .. }), "{again}");
}
