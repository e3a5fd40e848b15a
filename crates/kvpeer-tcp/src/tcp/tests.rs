//! What only the inside can show.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use kvpeer_wire::{ConnectAck, Msg, Nonce, Preamble};

use super::*;
use crate::Origin;

const LONG: Option<Duration> = Some(Duration::from_secs(30));

fn listening() -> Tcp {
    Tcp::bind(TcpConfig::listening(([127, 0, 0, 1], 0).into())).expect("loopback has a free port")
}

/// A socket that says things, and the connection that hears them.
fn accept(tcp: &mut Tcp) -> (TcpStream, ConnToken) {
    let raw = TcpStream::connect(tcp.local_addr().expect("it listens")).expect("it listens");
    raw.set_nonblocking(true).expect("a socket");
    loop {
        tcp.poll(LONG).expect("the poller works");
        while let Some(event) = tcp.next_event() {
            if let TcpEvent::Connected { conn, origin: Origin::Accepted } = event {
                return (raw, conn);
            }
        }
    }
}

fn say_all_that_fits(raw: &mut TcpStream, mut bytes: &[u8]) {
    while let Ok(said @ 1..) = raw.write(bytes) {
        bytes = &bytes[said..];
    }
}

/// However much had arrived when `poll` returned, and from however many: all of it is reported in that turn.
#[test]
fn what_had_arrived_is_reported_before_the_turn_ends() {
    let mut tcp = listening();
    let mut ping = Vec::new();
    Msg::Ping(Nonce(1)).encode(&mut ping).expect("a legal message");
    let stream = [&Preamble::OURS.to_bytes()[..], &ping.repeat(1_000_000)].concat();
    let mut peers: Vec<_> = (0..4).map(|_| accept(&mut tcp)).collect();
    for (_, conn) in &peers[..2] {
        tcp.send(*conn, &Msg::ConnectAck(ConnectAck { incarnation: 1 }));
    }
    for (raw, _) in &mut peers {
        say_all_that_fits(raw, &stream);
    }
    for _ in 0..5 {
        tcp.poll(LONG).expect("the poller works");
        let arrived: Vec<u64> = tcp.conns.values().map(in_socket).collect();
        let buffered = |tcp: &Tcp| tcp.conns.values().map(|conn| conn.inbound.unread()).collect::<Vec<_>>();
        let before = buffered(&tcp);
        let mut read = vec![0; peers.len()];
        while let Some(event) = tcp.next_event() {
            if let TcpEvent::Frame { conn, frame } = event {
                read[peers.iter().position(|(_, of)| *of == conn).expect("one of them")] += ping.len() as u64;
                tcp.recycle(frame);
            }
        }
        assert!(arrived.iter().any(|bytes| *bytes > 64 << 10), "{arrived:?}");
        for (at, after) in buffered(&tcp).into_iter().enumerate() {
            let reported = read[at] + after as u64;
            let due = before[at] as u64 + arrived[at];
            assert!(reported + Preamble::OURS.to_bytes().len() as u64 >= due, "{reported} of {due} reported");
        }
        for (raw, _) in &mut peers {
            say_all_that_fits(raw, &ping.repeat(1_000_000));
        }
    }
}

fn in_socket(conn: &Conn) -> u64 {
    rustix::io::ioctl_fionread(&conn.stream).expect("a socket")
}

#[test]
fn both_ends_send_small_messages_at_once() {
    let (mut a, mut b) = (listening(), listening());
    a.dial(DialToken(1), &b.local_addr().expect("it listens").to_string());
    while a.conns.is_empty() || b.conns.is_empty() {
        for tcp in [&mut a, &mut b] {
            tcp.poll(Some(Duration::from_millis(1))).expect("the poller works");
            while tcp.next_event().is_some() {}
        }
    }
    for conn in a.conns.values().chain(b.conns.values()) {
        assert!(conn.stream.nodelay().expect("a socket"));
    }
}

/// A process may be stopped for long between being woken and looking at the clock.
#[test]
fn the_time_of_a_turn_is_not_later_than_its_last_look() {
    let mut tcp = listening();
    let (mut raw, conn) = accept(&mut tcp);
    raw.write_all(&Preamble::OURS.to_bytes()).expect("there is room");
    let before = Instant::now();
    let now = tcp.poll(LONG).expect("the poller works");
    assert!(before <= now && now <= Instant::now());
    assert!(matches!(tcp.next_event(), Some(TcpEvent::Heard { conn: of }) if of == conn));
    assert!(tcp.next_event().is_none());
}

#[test]
fn idle_connections_hold_no_buffers() {
    let mut tcp = listening();
    let (mut raw, conn) = accept(&mut tcp);
    tcp.send(conn, &Msg::ConnectAck(ConnectAck { incarnation: 1 }));
    raw.write_all(&Preamble::OURS.to_bytes()).expect("there is room");
    tcp.poll(LONG).expect("the poller works");
    while tcp.next_event().is_some() {}
    let conn = tcp.conns.values().next().expect("it is open");
    assert!(!conn.inbound.holds_memory() && !conn.queue.holds_memory());
}

#[test]
fn endless_waits_are_allowed() {
    let wait = Duration::MAX;
    let config = TcpConfig { connect_timeout: wait, linger: wait, ..listening().config };
    let mut tcp =
        Tcp::bind(TcpConfig { listen: vec![([127, 0, 0, 1], 0).into()], ..config }).expect("a free port");
    tcp.dial(DialToken(1), "localhost:1");
    let (_raw, conn) = accept(&mut tcp);
    tcp.close(conn);
    tcp.waker().wake().expect("the poller is there");
    tcp.poll(Some(wait)).expect("the poller works");
    assert_eq!(tcp.closing(), 1);
}

#[test]
fn a_control_plane_can_move_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&listening());
}
