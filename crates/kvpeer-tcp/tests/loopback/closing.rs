//! What is sent last must arrive.

use std::time::Duration;

use kvpeer_tcp::TcpConfig;

use crate::messages::{goodbye, ping, with_fetch};
use crate::world::{End, Node, Raw, bytes_of, debug, listening, pair, pump, stream_of};

#[test]
fn the_last_message_arrives_then_the_end() {
    let (mut a, at_a, mut b, at_b) = pair();
    a.send(at_a, &[ping(1), goodbye("bye")]);
    a.tcp.close(at_a);
    pump("the end", &mut [&mut a, &mut b], |n| n[1].disconnected(at_b).is_some());
    assert_eq!(b.msgs(at_b), debug(&[ping(1), goodbye("bye")]));
    assert_eq!(b.disconnected(at_b), Some("the peer closed the connection"));
    pump("rest", &mut [&mut a, &mut b], |n| n[0].tcp.closing() == 0);
    assert_eq!(a.disconnected(at_a), None, "who closes is told nothing more");
    assert_eq!(a.tcp.stats().cut_off, 0);
}

/// A socket closed with unread input resets the connection, which throws away what was under way: both what
/// the system has taken from us already, and what waits here.
#[test]
fn unread_input_does_not_cost_the_last_message() {
    for fetches in [0, 2, 40] {
        let mut b = Node::new(TcpConfig { send_queue_bytes: 64 << 20, ..listening() });
        let (mut raw, conn) = Raw::accepted_by(&mut b);
        b.turn(Duration::ZERO);
        raw.say_some(&stream_of(&(0..200_000).map(ping).collect::<Vec<_>>()));
        let mut expected = stream_of(&[]);
        with_fetch(8_000, |fetch| {
            for _ in 0..fetches {
                b.send(conn, &[fetch]);
                expected.extend(bytes_of(&[fetch]));
            }
        });
        b.send(conn, &[goodbye("bye")]);
        expected.extend(bytes_of(&[goodbye("bye")]));
        b.tcp.close(conn);
        assert_eq!(raw.hear_end(&mut b), End::Closed);
        assert!(raw.got == expected);
        assert_eq!(b.msgs(conn), [""; 0], "nothing is reported after the close");
        drop(raw);
        b.turn_until("rest", |b| b.tcp.closing() == 0);
        assert_eq!(b.tcp.stats().cut_off, 0);
    }
}

#[test]
fn a_peer_that_does_not_close_is_cut_off_in_time() {
    let mut b = Node::new(TcpConfig { linger: Duration::from_millis(20), ..listening() });
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    b.send(conn, &[goodbye("bye")]);
    b.tcp.close(conn);
    assert_eq!(b.tcp.closing(), 1);
    // Its own timer ends the sleep, long before the caller's.
    b.turn_until("rest", |b| b.tcp.closing() == 0);
    assert_eq!(b.tcp.stats().cut_off, 1);
    assert_eq!(raw.hear_end(&mut b), End::Closed);
    assert_eq!(raw.got, stream_of(&[goodbye("bye")]));
}

#[test]
fn a_peer_that_talks_on_is_cut_off() {
    let mut b = Node::listening();
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    b.tcp.close(conn);
    let much = vec![0; 1 << 20];
    let told = (0..200).map(|_| raw.say_some(&much)).inspect(|_| b.turn(Duration::ZERO)).sum::<usize>();
    assert_eq!((b.tcp.closing(), b.tcp.stats().cut_off), (0, 1), "after {told} bytes");
}

#[test]
fn the_oldest_closing_gives_way_when_there_are_too_many() {
    let mut b = Node::new(TcpConfig { closing: 2, ..listening() });
    let mut raws: Vec<_> = (0..4).map(|_| Raw::accepted_by(&mut b)).collect();
    for (_, conn) in &raws {
        b.send(*conn, &[goodbye("bye")]);
        b.tcp.close(*conn);
    }
    assert_eq!((b.tcp.closing(), b.tcp.stats().cut_off), (2, 2));
    for (raw, _) in &mut raws {
        assert_eq!(raw.hear_end(&mut b), End::Closed);
        assert_eq!(raw.got, stream_of(&[goodbye("bye")]));
    }
}

#[test]
fn a_peer_that_stopped_talking_still_hears_all_of_it() {
    let mut b = Node::new(TcpConfig { send_queue_bytes: 64 << 20, ..listening() });
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    let mut expected = stream_of(&[]);
    with_fetch(8_000, |fetch| {
        for _ in 0..60 {
            b.send(conn, &[fetch]);
            expected.extend(bytes_of(&[fetch]));
        }
    });
    b.tcp.close(conn);
    raw.stop_talking();
    b.turn(Duration::from_millis(1));
    assert_eq!(raw.hear_end(&mut b), End::Closed);
    assert!(raw.got == expected);
    b.turn_until("rest", |b| b.tcp.closing() == 0);
}
