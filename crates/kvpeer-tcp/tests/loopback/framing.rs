//! Bytes in pieces, and bytes that are none of ours.

use std::time::Duration;

use kvpeer_tcp::TcpConfig;
use kvpeer_wire::{Limits, Preamble};
use proptest::prelude::*;

use crate::messages::{ack, ping, with_every_kind, with_fetch};
use crate::world::{Node, Raw, Seen, bytes_of, debug, listening, pair, stream_of};

// FR-1
#[test]
fn our_preamble_opens_every_connection() {
    let mut b = Node::listening();
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    b.send(conn, &[ping(5)]);
    b.turn_until("bytes", |_| {
        raw.hear();
        raw.got.len() >= stream_of(&[ping(5)]).len()
    });
    assert_eq!(raw.got, stream_of(&[ping(5)]));
}

#[test]
fn a_stream_that_comes_byte_by_byte_is_the_same_stream() {
    let mut b = Node::listening();
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    with_every_kind(|msgs| {
        for byte in stream_of(msgs) {
            raw.say(&[byte], &mut b);
            b.turn(Duration::ZERO);
        }
        b.turn_until("all messages", |b| b.msgs(conn).len() == msgs.len());
        assert_eq!(b.msgs(conn), debug(msgs));
    });
}

#[test]
fn bytes_that_complete_nothing_are_heard_once_a_turn() {
    let mut b = Node::listening();
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    let stream = stream_of(&[ping(1), ping(2)]);
    let (first, second) = stream.split_at(stream.len() - 1);
    for (said, heard) in [(&first[..3], 1), (&first[3..10], 2)] {
        raw.say(said, &mut b);
        b.turn_until("sign of life", |b| b.heard(conn) == heard);
    }
    // A message says enough, also when half of another follows it.
    raw.say(&first[10..], &mut b);
    b.turn_until("message", |b| b.msgs(conn).len() == 1);
    assert_eq!(b.heard(conn), 2);
    raw.say(second, &mut b);
    b.turn_until("message", |b| b.msgs(conn).len() == 2);
    assert_eq!(b.heard(conn), 2);
}

#[test]
fn unknown_kinds_are_left_to_decoding() {
    let mut b = Node::listening();
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    raw.say(&stream_of(&[ping(1)]), &mut b);
    raw.say(&[3, 0, 0, 0, 0x80, 1, 2], &mut b);
    raw.say(&[2, 0, 0, 0, 0x7f, 0], &mut b);
    b.turn_until("frames", |b| b.msgs(conn).len() == 3);
    assert_eq!(b.msgs(conn), [&*debug(&[ping(1)])[0], "skipped: 128", "undecodable: unknown kind 127"]);
    assert_eq!(b.malformed(conn), None);
}

// FR-3
#[test]
fn what_is_no_preamble_is_malformed_and_nothing_more_is_read() {
    let mut b = Node::listening();
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    raw.say(b"GET / HTTP/1.1\r\n\r\n", &mut b);
    b.turn_until("verdict", |b| b.malformed(conn).is_some());
    let read = b.tcp.stats().bytes_in;
    raw.say(&stream_of(&[ping(1)]), &mut b);
    // What we have to say about it still leaves.
    b.send(conn, &[ping(9)]);
    b.tcp.close(conn);
    b.turn_until("our last words", |_| {
        raw.hear();
        raw.got == stream_of(&[ping(9)])
    });
    assert_eq!((b.tcp.stats().bytes_in, b.tcp.stats().malformed), (read, 1));
    assert_eq!(b.msgs(conn), [""; 0]);
}

// FR-2
#[test]
fn no_common_version_is_told_with_both_ranges() {
    let mut b = Node::listening();
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    raw.say(b"KVPEER\x07\x09", &mut b);
    b.turn_until("verdict", |b| matches!(b.seen.last(), Some(Seen::NoCommonVersion(..))));
    let ours = (Preamble::OURS.min().0, Preamble::OURS.max().0);
    assert_eq!(b.seen, [Seen::Accepted(conn), Seen::NoCommonVersion(conn, ours, (7, 9))]);
}

// FR-5
#[test]
fn a_frame_of_no_bytes_is_malformed() {
    let mut b = Node::listening();
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    raw.say(&stream_of(&[ping(1)]), &mut b);
    raw.say(&[0, 0, 0, 0], &mut b);
    b.turn_until("verdict", |b| b.malformed(conn).is_some());
    assert_eq!(b.msgs(conn), debug(&[ping(1)]));
}

// FR-6
#[test]
fn frames_are_small_until_our_ack_and_large_after_it() {
    let large = with_fetch(2_000, |fetch| bytes_of(&[fetch]));
    assert!(large.len() > Limits::DEFAULT.early_frame as usize);
    let mut b = Node::listening();

    let (mut raw, early) = Raw::accepted_by(&mut b);
    raw.say(&stream_of(&[]), &mut b);
    raw.say(&large[..5], &mut b);
    b.turn_until("verdict", |b| b.malformed(early).is_some());

    let (mut raw, acked) = Raw::accepted_by(&mut b);
    b.send(acked, &[ack()]);
    raw.say(&stream_of(&[]), &mut b);
    raw.say(&large, &mut b);
    b.turn_until("message", |b| b.msgs(acked).len() == 1);
    assert_eq!(b.msgs(acked), with_fetch(2_000, |fetch| debug(&[fetch])));
}

// FR-11
#[test]
fn a_length_that_is_claimed_is_not_believed() {
    let mut b = Node::listening();
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    b.send(conn, &[ack()]);
    raw.say(&stream_of(&[]), &mut b);
    // As much as is allowed: nothing is wrong, and nothing is allocated for it (see `idle_memory.rs`).
    raw.say(&Limits::DEFAULT.frame.to_le_bytes(), &mut b);
    b.turn_until("sign of life", |b| b.heard(conn) >= 1);
    assert_eq!(b.malformed(conn), None);

    let (mut raw, conn) = Raw::accepted_by(&mut b);
    raw.say(&stream_of(&[]), &mut b);
    raw.say(&u32::MAX.to_le_bytes(), &mut b);
    raw.say(&[1], &mut b);
    b.turn_until("verdict", |b| b.malformed(conn).is_some());
}

#[test]
fn what_came_before_the_end_is_reported_before_the_end() {
    let mut b = Node::listening();
    let (mut raw, conn) = Raw::accepted_by(&mut b);
    raw.say(&stream_of(&[ping(1), ping(2)]), &mut b);
    raw.stop_talking();
    b.turn_until("the end", |b| b.disconnected(conn).is_some());
    assert_eq!(b.msgs(conn), debug(&[ping(1), ping(2)]));
    assert_eq!(b.disconnected(conn), Some("the peer closed the connection"));
}

#[test]
fn an_end_inside_a_message_is_told_apart() {
    let mut b = Node::listening();
    for cut in [3, 8 + 2, 8 + 5] {
        let (mut raw, conn) = Raw::accepted_by(&mut b);
        raw.say(&stream_of(&[ping(1 << 60)])[..cut], &mut b);
        raw.stop_talking();
        b.turn_until("the end", |b| b.disconnected(conn).is_some());
        assert_eq!(b.disconnected(conn), Some("the peer closed the connection in the middle of a message"));
    }
}

#[test]
fn one_who_says_much_does_not_keep_others_waiting() {
    let mut b = Node::listening();
    let (mut loud, at_loud) = Raw::accepted_by(&mut b);
    let (mut quiet, at_quiet) = Raw::accepted_by(&mut b);
    let flood = stream_of(&(0..100_000).map(ping).collect::<Vec<_>>());
    let said = loud.say_some(&flood);
    quiet.say_some(&stream_of(&[ping(1)]));
    loud.say(&flood[said..], &mut b);
    b.turn_until("all messages", |b| b.msgs(at_loud).len() == 100_000);
    let first_of = |conn| b.seen.iter().position(|seen| matches!(seen, Seen::Msg(of, _) if *of == conn));
    let (loud, quiet) = (first_of(at_loud).expect("heard"), first_of(at_quiet).expect("heard"));
    // One share of the loud one is 64 KiB, and a ping has at least six bytes.
    assert!(quiet <= loud + 64 * 1024 / 6, "{quiet} after {loud}");
}

#[test]
fn a_driver_that_does_not_ask_slows_the_peer_down() {
    let mut b = Node::new(TcpConfig { handshaking: 4, ..listening() });
    let (mut raw, _) = Raw::accepted_by(&mut b);
    let stream = stream_of(&(0..1_000_000).map(ping).collect::<Vec<_>>());
    let mut said = 0;
    for _ in 0..10 {
        said += raw.say_some(&stream[said..]);
        b.tcp.poll(Some(Duration::ZERO)).expect("the poller works");
    }
    assert!(said < stream.len(), "the system took all of it");
    assert_eq!(b.tcp.stats().bytes_in, 0);
}

#[test]
fn a_large_message_among_small_ones_both_ways() {
    let (mut a, at_a, mut b, at_b) = pair();
    b.send(at_b, &[ack()]);
    with_fetch(16_000, |fetch| {
        for round in 0..5 {
            a.send(at_a, &[ping(round), fetch, ping(round + 100)]);
        }
    });
    crate::world::pump("messages", &mut [&mut a, &mut b], |n| n[1].msgs(at_b).len() == 15);
    assert!(b.msgs(at_b).iter().all(|text| !text.starts_with("undecodable")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// However a stream is cut into writes, and wherever turns fall between them, the same messages come out.
    #[test]
    fn any_split_of_a_stream_is_the_same_stream(cuts in prop::collection::vec((1usize..200, any::<bool>()), 1..60)) {
        let mut b = Node::listening();
        let (mut raw, conn) = Raw::accepted_by(&mut b);
        with_every_kind(|msgs| {
            let stream = stream_of(msgs);
            let mut rest = &stream[..];
            for (len, turn) in cuts.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*len));
                raw.say(now, &mut b);
                rest = later;
                if *turn {
                    b.turn(Duration::ZERO);
                }
                if rest.is_empty() {
                    break;
                }
            }
            b.turn_until("all messages", |b| b.msgs(conn).len() == msgs.len());
            assert_eq!(b.msgs(conn), debug(msgs));
        });
    }

    /// Whatever a stranger says after a legal preamble, other connections do not notice.
    #[test]
    fn garbage_hurts_only_who_says_it(garbage in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut b = Node::listening();
        let (mut good, at_good) = Raw::accepted_by(&mut b);
        let (mut bad, at_bad) = Raw::accepted_by(&mut b);
        bad.say(&stream_of(&[]), &mut b);
        bad.say(&garbage, &mut b);
        drop(bad);
        good.say(&stream_of(&[ping(1)]), &mut b);
        b.turn_until("all of it", |b| {
            b.msgs(at_good).len() == 1 && (b.malformed(at_bad).is_some() || b.disconnected(at_bad).is_some())
        });
        prop_assert_eq!(b.disconnected(at_good), None);
    }
}
