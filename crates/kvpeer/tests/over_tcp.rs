//! Messages over TCP, blocks in memory: what needs sockets but no libfabric.
#![cfg(feature = "tcp")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;

use common::{PATIENCE, Side, pattern, region};
use kvpeer::core::LinkStatus;
use kvpeer::mem::MemNet;
use kvpeer::wire::Preamble;
use kvpeer::{
    BlockTable, CloseReason, Destination, Event, LoadOutcome, Node, NodeConfig, Planes, StoreOutcome, Supply,
    TcpConfig, TcpControl, TroubleKind,
};

fn side(net: &MemNet, name: &str) -> Side {
    let region = region();
    let control = TcpControl::bind(TcpConfig::listening("127.0.0.1:0".parse().unwrap())).unwrap();
    let data = net.join(name, &region).unwrap().data;
    let planes = Planes { control: Box::new(control), data };
    let table = BlockTable::new();
    Side::spawn(net, Node::new(&NodeConfig::new(region), planes, table.clone()).unwrap(), table)
}

#[test]
fn a_node_is_known_by_the_address_that_it_listens_at() {
    let net = MemNet::new();
    let a = side(&net, "a");
    assert_eq!(a.peer_id.as_str(), a.address);
    assert!(a.address.starts_with("127.0.0.1:") && !a.address.ends_with(":0"), "{}", a.address);
}

#[test]
fn prefill_decode_and_goodbye() {
    let net = MemNet::new();
    let (mut consumer, mut producer) = (side(&net, "consumer"), side(&net, "producer"));
    producer.fill(&[(b'a', 1)]);
    let request = consumer.consume(&producer, "r", Supply::Await);
    let load = consumer.load(&request, b"a", &[4]);
    let store = producer.store(&request, b"a", &[1]);
    assert_eq!(consumer.load_result(load), (LoadOutcome::Loaded, Destination::Reusable));
    assert_eq!(producer.store_result(store), StoreOutcome::Delivered);
    assert_eq!(consumer.block(4), pattern(b'a'));

    producer.handle.shutdown(PATIENCE);
    let reason = consumer.wait_down();
    assert!(matches!(reason, CloseReason::Goodbye(_)), "{reason:?}");
}

#[test]
fn strangers_cost_their_own_connection_only() {
    let net = MemNet::new();
    let (mut a, b) = (side(&net, "a"), side(&net, "b"));
    a.handle.connect(&b.peer_id, &b.address).wait().unwrap();

    let mut web = TcpStream::connect(&a.address).unwrap();
    web.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let words = a.wait_for(|event| {
        let Event::Trouble(trouble) = event else { return None };
        (trouble.what == TroubleKind::Malformed).then(|| trouble.to_string())
    });
    assert!(words.contains("does not begin with KVPEER"), "{words}");
    web.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    // Closed, or reset since not all of the request was read.
    let _ = web.read_to_end(&mut answer);

    // FR-8: a message of a newer version that may be skipped.
    let mut newer = TcpStream::connect(&a.address).unwrap();
    newer.write_all(&Preamble::OURS.to_bytes()).unwrap();
    newer.write_all(&[3, 0, 0, 0, 0x80, 1, 2]).unwrap();
    a.until(|node| node.stats().skipped_messages == 1);

    let peer = b.peer_id.clone();
    a.until(move |node| node.peer(peer.as_name()).is_some_and(|peer| peer.link == LinkStatus::Up));
}
