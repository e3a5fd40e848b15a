use std::thread;
use std::time::Duration;

use kvpeer_core::{ConnId, Epoch, Origin, TransferEnd, XferId};
use kvpeer_wire::{Msg, Nonce, PeerName};

use super::*;
use crate::plane::{ControlFact, DataFact, DataPlane, Progress, Rest, Scratch};

const NOW: Option<Duration> = Some(Duration::ZERO);
const E: Epoch = Epoch(1);

fn region() -> Arc<Region> {
    Region::new(8, 16).unwrap()
}

fn two(net: &MemNet) -> (Planes, Planes) {
    (net.join("a", &region()).unwrap(), net.join("b", &region()).unwrap())
}

/// All reports of one poll, for comparison.
fn facts(planes: &mut Planes) -> Vec<String> {
    planes.control.poll(&[], NOW).unwrap();
    let mut scratch = Scratch::default();
    let mut facts = Vec::new();
    while let Some(fact) = planes.control.next_fact(&mut scratch) {
        facts.push(format!("{fact:?}"));
    }
    facts
}

fn say(fact: ControlFact<'_>) -> String {
    format!("{fact:?}")
}

fn ping(conn: ConnId, nonce: u64) -> String {
    say(ControlFact::Message { conn, msg: Msg::Ping(Nonce(nonce)) })
}

/// Dials from `a` to `b`; both have seen the connection.
fn link(a: &mut Planes, b: &mut Planes) -> (ConnId, ConnId) {
    a.control.dial(E, PeerName::new("b").unwrap(), "b");
    let (ours, theirs) = (ConnId(0), ConnId(1));
    assert_eq!(facts(a), [say(ControlFact::Connected { conn: ours, origin: Origin::Dialed(E) })]);
    assert_eq!(facts(b), [say(ControlFact::Connected { conn: theirs, origin: Origin::Accepted })]);
    (ours, theirs)
}

#[test]
fn messages_arrive_in_order_and_before_the_end() {
    let net = MemNet::new();
    let (mut a, mut b) = two(&net);
    let (ours, theirs) = link(&mut a, &mut b);
    for nonce in [7, 8] {
        a.control.send(ours, &Msg::Ping(Nonce(nonce)));
    }
    a.control.close(ours);
    let end = say(ControlFact::Disconnected { conn: theirs, detail: "the peer closed the connection" });
    assert_eq!(facts(&mut b), [ping(theirs, 7), ping(theirs, 8), end]);
    assert_eq!(facts(&mut a), [""; 0], "nothing about what it closed itself");
    b.control.send(theirs, &Msg::Ping(Nonce(9)));
    assert_eq!(facts(&mut a), [""; 0]);
}

#[test]
fn nothing_comes_from_a_connection_that_was_closed_here() {
    let net = MemNet::new();
    let (mut a, mut b) = two(&net);
    let (ours, theirs) = link(&mut a, &mut b);
    b.control.send(theirs, &Msg::Ping(Nonce(1)));
    b.control.close(theirs);
    a.control.poll(&[], NOW).unwrap();
    a.control.close(ours);
    assert_eq!(facts(&mut a), [""; 0]);
}

#[test]
fn dials_fail_with_a_reason_and_can_be_cancelled() {
    let net = MemNet::new();
    let (mut a, mut b) = two(&net);
    let peer = PeerName::new("b").unwrap();
    net.set_dials("b", Dials::Refused);
    a.control.dial(E, peer, "b");
    a.control.dial(Epoch(2), peer, "nowhere");
    let failed = facts(&mut a);
    assert!(failed[0].contains("refuses connections"), "{failed:?}");
    assert!(failed[1].contains("no node of this network"), "{failed:?}");

    net.set_dials("b", Dials::Accepted);
    a.control.dial(Epoch(3), peer, "b");
    a.control.cancel_dial(Epoch(3));
    a.control.dial(Epoch(4), peer, "b");
    a.control.poll(&[], NOW).unwrap();
    a.control.cancel_dial(Epoch(4));
    assert_eq!(facts(&mut a), [""; 0]);
    // The other side has seen connections that came and went.
    assert_eq!(facts(&mut b).iter().filter(|fact| fact.contains("Disconnected")).count(), 2);
}

#[test]
fn a_cut_loses_what_is_under_way_and_both_sides_learn_of_it() {
    let net = MemNet::new();
    let (mut a, mut b) = two(&net);
    let (ours, theirs) = link(&mut a, &mut b);
    a.control.send(ours, &Msg::Ping(Nonce(1)));
    net.cut("b", "a");
    assert_eq!(facts(&mut a), [say(ControlFact::Disconnected { conn: ours, detail: "cut" })]);
    assert_eq!(facts(&mut b), [say(ControlFact::Disconnected { conn: theirs, detail: "cut" })]);
}

#[test]
fn a_receiver_that_does_not_read_loses_the_connection() {
    let net = MemNet::new();
    let (mut a, mut b) = two(&net);
    let (ours, _) = link(&mut a, &mut b);
    let names = vec![7; 64 << 10];
    let keys: kvpeer_wire::KeysBuf =
        names.chunks(64).map(|key| kvpeer_wire::Key::new(key).unwrap()).collect();
    let request = kvpeer_wire::RequestName::new("r").unwrap();
    let (lookup_id, round) = (kvpeer_wire::LookupId(0), kvpeer_wire::Round(0));
    let lookup = Msg::Lookup(kvpeer_wire::Lookup { lookup_id, request, round, keys: keys.as_keys() });
    for _ in 0..127 {
        a.control.send(ours, &lookup);
    }
    assert_eq!(facts(&mut b).len(), 127, "what was read does not count any more");
    for _ in 0..129 {
        a.control.send(ours, &lookup);
    }
    let end = facts(&mut a);
    assert!(end.len() == 1 && end[0].contains("does not read"), "{end:?}");
}

#[test]
fn a_node_that_leaves_breaks_its_connections_and_frees_its_address() {
    let net = MemNet::new();
    let (mut a, mut b) = two(&net);
    let (ours, _) = link(&mut a, &mut b);
    assert!(net.join("b", &region()).is_err());
    drop(b);
    assert_eq!(
        facts(&mut a),
        [say(ControlFact::Disconnected { conn: ours, detail: "the other node is gone" })]
    );
    assert!(net.join("b", &region()).is_ok());
}

#[test]
fn a_sleeping_poll_is_woken() {
    let net = MemNet::new();
    let mut a = net.join("a", &region()).unwrap();
    let waker = a.control.waker();
    // Woken before it sleeps: it does not.
    waker.wake_by_ref();
    a.control.poll(&[], None).unwrap();
    let sleeper = thread::spawn(move || a.control.poll(&[], None).map(drop).unwrap());
    waker.wake();
    sleeper.join().unwrap();
}

/// Two nodes with data planes ready to write to each other, `a`'s region and `b`'s.
fn registered(net: &MemNet) -> (MemData, Arc<Region>, MemData, Arc<Region>) {
    let regions = [region(), region()];
    let mut planes = regions.each_ref().map(|region| MemData::new(&net.doors, region));
    let metadata = planes.each_mut().map(|plane| {
        plane.open_right(E);
        match &report(plane)[..] {
            [DataFact::RightOpened { epoch: E, metadata: Ok(metadata) }] => metadata.clone(),
            other => panic!("{other:?}"),
        }
    });
    let [mut a, mut b] = planes;
    a.register(E, regions[1].info(), &metadata[1]);
    b.register(E, regions[0].info(), &metadata[0]);
    for plane in [&mut a, &mut b] {
        assert_eq!(report(plane), [DataFact::Registered { epoch: E, result: Ok(()) }]);
    }
    let [of_a, of_b] = regions;
    (a, of_a, b, of_b)
}

fn report(plane: &mut MemData) -> Vec<DataFact> {
    let mut facts = Vec::new();
    plane.progress(1000, &mut facts);
    facts
}

fn xfer(seq: u64) -> XferId {
    XferId { epoch: E, seq }
}

fn ends(facts: &[DataFact]) -> Vec<(u64, TransferEnd)> {
    let end = |fact: &DataFact| match fact {
        DataFact::Transfer { xfer, end, .. } => Some((xfer.seq, *end)),
        DataFact::RightOpened { .. }
        | DataFact::Registered { .. }
        | DataFact::PeerFault { .. }
        | DataFact::RightClosed { .. } => None,
    };
    facts.iter().filter_map(end).collect()
}

fn holds(region: &Region, block: u32, byte: u8) -> bool {
    let mut out = [0; 16];
    region.read_block(block, &mut out).unwrap();
    out == [byte; 16]
}

#[test]
fn writes_land_a_few_blocks_at_a_time() {
    let net = MemNet::new();
    let (mut a, of_a, _b, of_b) = registered(&net);
    for (block, byte) in [(0, 10), (1, 11), (2, 12)] {
        of_a.write_block(block, &[byte; 16]).unwrap();
    }
    a.write(xfer(1), &[0, 1, 2], &[7, 6, 5]);
    assert_eq!(a.prepare_wait(), Rest::Busy);
    let mut facts = Vec::new();
    assert_eq!(a.progress(2, &mut facts), Progress::More);
    assert_eq!(facts, []);
    assert!(holds(&of_b, 7, 10) && holds(&of_b, 6, 11) && holds(&of_b, 5, 0));
    assert_eq!(ends(&report(&mut a)), [(1, TransferEnd::Done)]);
    assert!(holds(&of_b, 5, 12));
    assert_eq!(a.prepare_wait(), Rest::MaySleep);
}

// END-11
#[test]
fn nothing_lands_once_the_right_is_closed() {
    let net = MemNet::new();
    let (mut a, of_a, mut b, of_b) = registered(&net);
    of_a.write_block(0, &[10; 16]).unwrap();
    net.doors.allow(Some(1));
    a.write(xfer(1), &[0, 0], &[1, 2]);
    a.write(xfer(2), &[0], &[3]);
    assert_eq!(ends(&report(&mut a)), []);
    assert_eq!(a.prepare_wait(), Rest::MaySleep, "stopped");

    b.close_right(E);
    assert_eq!(report(&mut b), [DataFact::RightClosed { epoch: E, fenced: true }]);
    net.doors.allow(None);
    let facts = report(&mut a);
    assert!(facts.contains(&DataFact::PeerFault { epoch: E, detail: "the peer's right is closed".into() }));
    assert_eq!(ends(&facts), [(1, TransferEnd::Errored), (2, TransferEnd::NotPosted)]);
    assert!(holds(&of_b, 1, 10) && holds(&of_b, 2, 0) && holds(&of_b, 3, 0));
    a.write(xfer(3), &[0], &[1]);
    assert_eq!(ends(&report(&mut a)), [(3, TransferEnd::NotPosted)]);
}

// END-10
#[test]
fn closing_the_own_right_fences_its_writes() {
    let net = MemNet::new();
    let (mut a, ..) = registered(&net);
    net.doors.allow(Some(0));
    a.write(xfer(1), &[0], &[1]);
    a.close_right(E);
    let facts = report(&mut a);
    assert_eq!(ends(&facts), [(1, TransferEnd::Fenced)]);
    assert_eq!(facts.last(), Some(&DataFact::RightClosed { epoch: E, fenced: true }));
    a.close_right(E);
    assert_eq!(report(&mut a), [DataFact::RightClosed { epoch: E, fenced: true }]);
}

#[test]
fn a_cancelled_write_leaves_nothing_in_doubt() {
    let net = MemNet::new();
    let (mut a, of_a, _b, of_b) = registered(&net);
    of_a.write_block(0, &[10; 16]).unwrap();
    net.doors.allow(Some(1));
    a.write(xfer(1), &[0, 0], &[1, 2]);
    report(&mut a);
    a.cancel(xfer(1));
    assert_eq!(ends(&report(&mut a)), [(1, TransferEnd::NotPosted)]);
    net.doors.allow(None);
    report(&mut a);
    assert!(holds(&of_b, 1, 10) && holds(&of_b, 2, 0));
}

#[test]
fn impossible_writes_and_peers_are_refused() {
    let net = MemNet::new();
    let (mut a, _, _b, of_b) = registered(&net);
    a.write(xfer(1), &[0], &[8]);
    a.write(xfer(2), &[8], &[0]);
    a.write(xfer(3), &[0], &[1, 2]);
    a.write(XferId { epoch: Epoch(9), seq: 4 }, &[0], &[0]);
    let refused = [1, 2, 3, 4].map(|seq| (seq, TransferEnd::NotPosted));
    assert_eq!(ends(&report(&mut a)), refused);

    let refused = |fact: &DataFact| matches!(fact, DataFact::Registered { result: Err(_), .. });
    a.open_right(Epoch(2));
    report(&mut a);
    a.register(Epoch(2), of_b.info(), b"short");
    a.register(Epoch(2), of_b.info(), &u64::MAX.to_le_bytes());
    let other = kvpeer_wire::RegionInfo { num_blocks: 9, ..of_b.info() };
    a.register(Epoch(2), other, &1u64.to_le_bytes());
    a.register(Epoch(3), of_b.info(), &1u64.to_le_bytes());
    assert_eq!(report(&mut a).iter().filter(|fact| refused(fact)).count(), 4);
}

#[test]
fn a_plane_that_is_dropped_lets_go_of_its_region() {
    let net = MemNet::new();
    let (mut a, of_a, b, of_b) = registered(&net);
    drop(b);
    assert_eq!(Arc::strong_count(&of_b), 1);
    a.write(xfer(1), &[0], &[0]);
    assert_eq!(ends(&report(&mut a)), [(1, TransferEnd::Errored)]);
    drop(a);
    assert_eq!(Arc::strong_count(&of_a), 1);
}
