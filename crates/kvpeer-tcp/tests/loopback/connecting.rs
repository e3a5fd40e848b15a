//! Listening, dialling, and how dials end.

use std::io::Write;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use kvpeer_tcp::{DialToken, Tcp, TcpConfig, TcpError};
use rustix::net::{AddressFamily, SocketType};

use crate::messages::{ping, with_every_kind};
use crate::world::{Node, Raw, debug, listening, pair, pump, stream_of};

#[test]
fn messages_of_every_kind_arrive_both_ways_in_order() {
    let (mut a, at_a, mut b, at_b) = pair();
    with_every_kind(|msgs| {
        a.send(at_a, msgs);
        b.send(at_b, msgs);
        let count = msgs.len();
        pump("messages", &mut [&mut a, &mut b], |n| {
            n[0].msgs(at_a).len() == count && n[1].msgs(at_b).len() == count
        });
        assert_eq!(a.msgs(at_a), debug(msgs));
        assert_eq!(b.msgs(at_b), debug(msgs));
    });
}

#[test]
fn both_ends_know_the_others_address() {
    let (a, at_a, b, at_b) = pair();
    assert_eq!(a.tcp.peer_addr(at_a), b.tcp.local_addr());
    assert_eq!(b.tcp.peer_addr(at_b).map(|at| at.ip()), Some([127, 0, 0, 1].into()));
    assert_eq!(b.tcp.peer_addr(kvpeer_tcp::ConnToken(999)), None);
}

#[test]
fn ipv6_and_ipv4_at_once() {
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    if TcpListener::bind(v6).is_err() {
        eprintln!("no IPv6 on this machine: only IPv4 is checked");
        return messages_of_every_kind_arrive_both_ways_in_order();
    }
    let mut config = listening();
    config.listen.push(v6);
    let (mut a, mut b) = (Node::new(TcpConfig::default()), Node::new(config));
    for (dial, address) in (1..).zip(b.tcp.local_addrs().to_vec()) {
        assert_ne!(address.port(), 0);
        a.tcp.dial(DialToken(dial), &address.to_string());
    }
    pump("connections", &mut [&mut a, &mut b], |n| n[1].accepted().len() == 2 && n[0].dialed(2).is_some());
    let (old, new) = (a.dialed(1).expect("dialed"), a.dialed(2).expect("dialed"));
    assert!(a.tcp.peer_addr(old).is_some_and(|at| at.is_ipv4()));
    assert!(a.tcp.peer_addr(new).is_some_and(|at| at.is_ipv6()));
}

#[test]
fn a_name_is_resolved_without_blocking_and_its_addresses_are_tried_in_turn() {
    let (mut a, mut b) = (Node::new(TcpConfig::default()), Node::listening());
    // Where the name means ::1 first, nobody listens there.
    a.tcp.dial(DialToken(1), &format!("localhost:{}", b.address().port()));
    pump("connection", &mut [&mut a, &mut b], |n| n[0].dialed(1).is_some());
}

#[test]
fn a_port_where_nobody_listens_refuses() {
    let mut a = Node::new(TcpConfig::default());
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    a.tcp.dial(DialToken(1), &nobody.to_string());
    a.turn_until("refusal", |a| a.dial_failed(1).is_some());
    assert!(a.dial_failed(1).is_some_and(|why| why.starts_with(&format!("cannot connect to {nobody}: "))));
    assert_eq!((a.tcp.stats().dials, a.tcp.stats().dial_failures), (1, 1));
}

#[test]
fn what_is_no_address_says_how_to_write_one() {
    let mut a = Node::new(TcpConfig::default());
    for (dial, address) in
        (1..).zip(["", "host", "host:", ":5710", "host:port", "host:70000", "::1:5710", "[::1]", "a b:1"])
    {
        a.tcp.dial(DialToken(dial), address);
        a.turn(Duration::ZERO);
        let expected =
            format!("{address:?} is no address to dial; write host:port, IPv6 addresses as [address]:port");
        assert_eq!(a.dial_failed(dial), Some(&*expected));
    }
}

#[test]
fn a_name_that_cannot_be_resolved_fails_its_dial() {
    let mut a = Node::new(TcpConfig::default());
    // A label of more than 63 bytes is refused by the resolver itself, without asking the network.
    a.tcp.dial(DialToken(1), &format!("{}:5710", "x".repeat(70)));
    a.turn_until("failure", |a| a.dial_failed(1).is_some());
    assert!(a.dial_failed(1).is_some_and(|why| why.starts_with("cannot resolve \"xxx")));
}

/// A listener whose queue is full: it answers no further SYN.
fn black_hole() -> (rustix::fd::OwnedFd, SocketAddr, Vec<TcpStream>) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    rustix::net::listen(&socket, 0).expect("a listener");
    let address = rustix::net::getsockname(&socket).expect("bound").try_into().expect("an IP address");
    // A queue of length 0 holds one connection.
    let filler = TcpStream::connect(address).expect("the first is taken");
    (socket, address, vec![filler])
}

#[test]
fn a_dial_that_nobody_answers_times_out_by_itself() {
    let (_listener, address, _filler) = black_hole();
    let mut a = Node::new(TcpConfig { connect_timeout: Duration::from_millis(20), ..TcpConfig::default() });
    a.tcp.dial(DialToken(1), &address.to_string());
    // Its own timer ends the sleep, long before the caller's.
    a.turn_before(Duration::from_secs(60));
    assert_eq!(a.dial_failed(1), Some("no connection within the connect timeout"));
}

#[test]
fn a_connection_that_is_there_is_not_late() {
    let mut b = Node::listening();
    let mut a = Node::new(TcpConfig { connect_timeout: Duration::ZERO, ..TcpConfig::default() });
    a.dial(1, &b);
    pump("connection", &mut [&mut a, &mut b], |n| n[0].dialed(1).is_some());
}

#[test]
fn nothing_is_reported_of_a_cancelled_dial() {
    let (_listener, silent, _filler) = black_hole();
    let mut b = Node::listening();
    let mut a = Node::new(TcpConfig::default());
    a.tcp.dial(DialToken(1), &silent.to_string());
    a.dial(2, &b);
    a.tcp.dial(DialToken(3), "localhost:1");
    a.tcp.dial(DialToken(4), "not an address");
    // The second is connected by now, and the poller knows; only the report is missing.
    a.tcp.poll(Some(Duration::from_secs(20))).expect("the poller works");
    (1..=4).for_each(|dial| a.tcp.cancel_dial(DialToken(dial)));
    a.tcp.cancel_dial(DialToken(99));
    b.turn_until("the end of what was connected", |b| {
        b.accepted().first().is_some_and(|c| b.disconnected(*c).is_some())
    });
    a.turn(Duration::ZERO);
    assert_eq!(a.seen, []);
    assert_eq!(a.tcp.stats().open, 0);
}

#[test]
fn what_the_other_side_said_before_we_knew_of_the_connection_is_heard() {
    let mut a = Node::new(TcpConfig::default());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    a.tcp.dial(DialToken(1), &listener.local_addr().expect("bound").to_string());
    let (mut accepted, _) = listener.accept().expect("it was dialled");
    accepted.write_all(&stream_of(&[ping(1)])).expect("there is room");
    a.turn_until("message", |a| a.dialed(1).is_some_and(|conn| a.msgs(conn) == debug(&[ping(1)])));
}

#[test]
fn a_taken_address_is_an_error_that_names_it() {
    let b = Node::listening();
    let taken = Tcp::bind(TcpConfig::listening(b.address()));
    let error = taken.expect_err("the port is taken");
    assert!(matches!(&error, TcpError::Listen { address, .. } if *address == b.address()));
    assert!(error.to_string().starts_with(&format!("cannot listen at {}: ", b.address())));
}

#[test]
fn tokens_are_never_used_again() {
    let mut b = Node::listening();
    let mut before = None;
    for _ in 0..20 {
        let (raw, conn) = Raw::accepted_by(&mut b);
        assert!(Some(conn) > before);
        before = Some(conn);
        drop(raw);
        b.turn_until("the end", |b| b.disconnected(conn).is_some());
        b.send(conn, &[ping(1)]);
        b.tcp.close(conn);
    }
    assert_eq!((b.tcp.stats().open, b.tcp.stats().handshaking, b.tcp.stats().closing), (0, 0, 0));
}
