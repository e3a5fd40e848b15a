//! The way out: batches, peers that do not read, peers that are gone.

use kvpeer_tcp::{ConnToken, TcpConfig};

use crate::messages::{goodbye, ping, with_fetch};
use crate::world::{Node, Raw, Seen, bytes_of, debug, listening, pair, pump, stream_of};

// LIM-2
#[test]
fn a_peer_that_never_reads_ends_its_connection_and_no_other() {
    let limit = 1 << 20;
    let mut b = Node::new(TcpConfig { send_queue_bytes: limit, ..listening() });
    let (_deaf, at_deaf) = Raw::accepted_by(&mut b);
    let (mut good, at_good) = Raw::accepted_by(&mut b);
    with_fetch(8_000, |fetch| {
        let size = bytes_of(&[fetch]).len();
        // The system's own buffers take some megabytes before anything waits here.
        let sent = (1..=1_000).find(|_| {
            b.send(at_deaf, &[fetch]);
            b.tcp.stats().open == 1
        });
        let sent = sent.expect("the queue is bounded");
        assert!(sent * size > limit);
        // Not an error here, and not a leak.
        b.send(at_deaf, &[fetch, fetch]);
        assert_eq!(b.tcp.stats().frames_out, sent as u64);
    });
    b.send(at_good, &[ping(1)]);
    b.turn_until("the good one's message", |_| {
        good.hear();
        good.got == stream_of(&[ping(1)])
    });
    let why = format!("the peer does not read: more than {limit} bytes wait to be sent to it");
    assert_eq!(b.disconnected(at_deaf), Some(&*why));
    assert_eq!(b.disconnected(at_good), None);
    assert_eq!(b.tcp.stats().send_queue_overflows, 1);
    // Nothing follows the end.
    let end = b.seen.iter().position(|seen| matches!(seen, Seen::Disconnected(..))).expect("seen");
    assert!(
        !b.seen[end + 1..]
            .iter()
            .any(|seen| matches!(seen, Seen::Heard(c) | Seen::Msg(c, _) if *c == at_deaf))
    );
}

#[test]
fn what_waited_for_a_slow_reader_arrives_in_order() {
    let mut b = Node::new(TcpConfig { send_queue_bytes: 64 << 20, ..listening() });
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    let mut expected = stream_of(&[]);
    with_fetch(8_000, |fetch| {
        for round in 0..60 {
            b.send(conn, &[ping(round), fetch]);
            expected.extend(bytes_of(&[ping(round), fetch]));
        }
    });
    b.tcp.flush();
    assert!(b.tcp.stats().bytes_out < expected.len() as u64, "the system took all of it: nothing waited");
    b.turn_until("all of it", |_| {
        raw.hear();
        raw.got.len() >= expected.len()
    });
    assert!(raw.got == expected);
    assert_eq!(b.tcp.stats().bytes_out, expected.len() as u64);
}

#[test]
fn messages_leave_when_the_turn_ends() {
    let (mut a, at_a, mut b, at_b) = pair();
    a.turn(std::time::Duration::ZERO);
    let before = a.tcp.stats().bytes_out;
    a.send(at_a, &[ping(1), ping(2)]);
    assert_eq!(a.tcp.stats().bytes_out, before);
    a.tcp.flush();
    assert_eq!(a.tcp.stats().bytes_out, before + bytes_of(&[ping(1), ping(2)]).len() as u64);
    b.turn_until("messages", |b| b.msgs(at_b).len() == 2);
}

#[test]
fn the_last_words_of_a_peer_that_is_gone_are_heard_before_its_end() {
    let (mut a, at_a, mut b, at_b) = pair();
    pump("quiet", &mut [&mut a, &mut b], |n| {
        n[0].tcp.stats().bytes_in == 8 && n[1].tcp.stats().bytes_in == 8
    });
    a.send(at_a, &[goodbye("so long")]);
    a.tcp.flush();
    drop(a);
    // b has not polled yet: it sends into a connection that is reset under it, more than once.
    for nonce in 0..3 {
        b.send(at_b, &[ping(nonce)]);
        b.tcp.flush();
    }
    b.turn_until("the end", |b| b.disconnected(at_b).is_some());
    assert_eq!(b.msgs(at_b), debug(&[goodbye("so long")]));
}

#[test]
fn sending_to_nobody_is_nothing() {
    let mut b = Node::listening();
    b.send(ConnToken(77), &[ping(1)]);
    b.send(ConnToken(u64::MAX), &[ping(1)]);
    b.tcp.close(ConnToken(77));
    b.turn(std::time::Duration::ZERO);
    assert_eq!(b.seen, []);
    assert_eq!(b.tcp.stats(), kvpeer_tcp::TcpStats::default());
}
