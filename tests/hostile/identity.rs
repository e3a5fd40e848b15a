//! Who says that it is somebody else: an honest session, and the load on it, do not notice.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use kvpeer::core::LinkStatus;
use kvpeer::mem::MemNet;
use kvpeer::wire::{ConnectAck, Msg, Reject, RejectCode};
use kvpeer::{
    Admission, Candidate, Event, Events, JobId, Key, KeysBuf, LoadOutcome, NoBlocks, Node, NodeConfig,
    NodeHandle, Part, PeerId, Planes, Region, RequestId, RequestName, Supply, TcpConfig, TcpControl, Verdict,
};

use crate::PATIENCE;
use crate::attacker::{Attacker, ELSEWHERE, HERE, connect_of};
use crate::process::BLOCK_LEN;

/// A node with messages on TCP and blocks in memory.
struct Side {
    handle: NodeHandle,
    events: Events,
    region: Arc<Region>,
    peer_id: PeerId,
    address: SocketAddr,
}

impl Side {
    fn start(net: &MemNet, name: &str, admission: impl Admission + 'static) -> Self {
        let region = Region::new(16, BLOCK_LEN).expect("memory");
        let control = TcpControl::bind(TcpConfig::listening((HERE, 0).into())).expect("a free port");
        let address = control.local_addr().expect("it listens");
        let data = net.join(name, &region).expect("a new name").data;
        let planes = Planes { control: Box::new(control), data };
        let config = NodeConfig::new(region.clone());
        let node =
            Node::new(&config, planes, NoBlocks).expect("a good configuration").with_admission(admission);
        let peer_id = node.peer_id().clone();
        let (handle, events) = node.spawn().expect("a thread");
        Self { handle, events, region, peer_id, address }
    }

    fn open(&self, request: &RequestId, source: &Side, address: SocketAddr) {
        let part = Part::Consume {
            source: source.peer_id.clone(),
            address: address.to_string(),
            supply: Supply::Await,
        };
        self.handle.open(request, part).wait().expect("a new request");
    }

    /// The next event that is wanted; no session may end before it.
    fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.events.next_within(PATIENCE).expect("news in time");
            assert!(!matches!(event, Event::PeerDown { .. }), "{event:?}");
            if wanted(&event) {
                return event;
            }
        }
    }
}

/// Those of this host's first address are known; nobody else is.
fn known_hosts(candidate: &Candidate<'_>) -> Verdict {
    match candidate.conn.remote {
        Some(remote) if remote.ip() == HERE => Verdict::Admit,
        Some(_) | None => Verdict::Refuse,
    }
}

fn request(name: &str) -> RequestId {
    RequestName::new(name).expect("a name").into()
}

fn keys() -> KeysBuf {
    [Key::new(b"one").expect("a key"), Key::new(b"two").expect("a key")].into_iter().collect()
}

/// A load whose WRITEs stand still until `meanwhile` is over.
fn load_that_lasts(
    net: &MemNet,
    consumer: &mut Side,
    producer: &mut Side,
    address: SocketAddr,
    meanwhile: impl FnOnce(&Side),
) {
    let request = request("it lasts");
    consumer.open(&request, producer, address);
    for (block, byte) in [(3, 33), (4, 44)] {
        producer.region.write_block(block, &[byte; BLOCK_LEN as usize]).expect("a block of ours");
    }
    net.allow_blocks(Some(1));
    producer.handle.store(JobId(1), &request, keys(), vec![3, 4], None).wait().expect("a good store");
    consumer.handle.load(JobId(1), &request, keys(), vec![8, 9]).wait().expect("a good load");
    producer.until(|event| matches!(event, Event::FetchArrived { .. }));
    meanwhile(producer);
    net.allow_blocks(None);
    let loaded = consumer.until(|event| matches!(event, Event::LoadFinished { .. }));
    assert!(matches!(loaded, Event::LoadFinished { outcome: LoadOutcome::Loaded, .. }), "{loaded:?}");
    for (block, byte) in [(8, 33), (9, 44)] {
        let mut bytes = [0; BLOCK_LEN as usize];
        consumer.region.read_block(block, &mut bytes).expect("a block of ours");
        assert_eq!(bytes, [byte; BLOCK_LEN as usize]);
    }
    producer.until(|event| matches!(event, Event::StoreFinished { .. }));
}

/// DUP-1, DUP-2, HS-11: the consumer's name, in every way that a stranger may use it.
#[test]
fn a_stranger_claims_an_honest_peers_name() {
    let net = MemNet::new();
    let mut producer = Side::start(&net, "producer", known_hosts);
    let mut consumer = Side::start(&net, "consumer", known_hosts);
    let name = consumer.peer_id.as_str().to_owned();
    let address = producer.address;
    load_that_lasts(&net, &mut consumer, &mut producer, address, |producer| {
        let honest = PeerId::from(kvpeer::PeerName::new(&name).expect("a name"));
        let status = producer.handle.peer(&honest).wait().expect("it lives").expect("it is known");
        let incarnation = status.incarnation.expect("it has announced itself");
        for claimed in [0, incarnation - 1, incarnation, incarnation + 1, u64::MAX] {
            let mut stranger = Attacker::polite_from(ELSEWHERE, address);
            stranger.say(&Msg::Connect(connect_of(&name, claimed, &[0; 8])));
            stranger.say(&Msg::ConnectAck(ConnectAck { incarnation: claimed }));
            let code = stranger
                .hear(|msg| if let Msg::Reject(Reject { code, .. }) = msg { Some(*code) } else { None });
            let expected = [RejectCode::StaleIncarnation, RejectCode::Unauthorized];
            // An acknowledgement that comes before our verdict is misbehaviour, and ends it as well.
            assert!(code.is_none_or(|code| expected.contains(&code)), "{claimed}: {code:?}");
            stranger.wait_closed();
        }
        let status = producer.handle.peer(&honest).wait().expect("it lives").expect("it is known");
        assert_eq!((status.link, status.incarnation), (LinkStatus::Up, Some(incarnation)));
    });
}

/// DUP-5: all that an honest consumer has said so far, said again by others.
#[test]
fn a_stranger_replays_captured_bytes() {
    let net = MemNet::new();
    let mut producer = Side::start(&net, "producer", known_hosts);
    let mut consumer = Side::start(&net, "consumer", known_hosts);
    let (wire, captured) = wiretap(producer.address);
    load_that_lasts(&net, &mut consumer, &mut producer, wire, |producer| {
        let said = captured.lock().expect("nobody panics with it").clone();
        assert!(said.len() > 100, "nothing was captured");
        for end in (0..said.len()).step_by(said.len() / 16).chain([said.len()]) {
            let mut stranger = Attacker::silent_from(ELSEWHERE, producer.address);
            stranger.try_write(&said[..end]);
            stranger.wait_closed();
        }
    });
}

/// A way to a node that keeps what goes there.
fn wiretap(to: SocketAddr) -> (SocketAddr, Arc<std::sync::Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind((HERE, 0)).expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let captured = Arc::<std::sync::Mutex<Vec<u8>>>::default();
    let keep = Arc::clone(&captured);
    thread::spawn(move || {
        let (near, _) = listener.accept().expect("somebody comes");
        let far = TcpStream::connect(to).expect("it listens");
        let (back_from, back_to) = (far.try_clone().expect("a socket"), near.try_clone().expect("a socket"));
        thread::spawn(move || pass_on(back_from, back_to, |_| {}));
        pass_on(near, far, |bytes| keep.lock().expect("nobody panics with it").extend_from_slice(bytes));
    });
    (address, captured)
}

/// Ends with either end.
fn pass_on(mut from: TcpStream, mut to: TcpStream, mut see: impl FnMut(&[u8])) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        see(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
}
