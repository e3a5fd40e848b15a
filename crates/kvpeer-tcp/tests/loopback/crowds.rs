//! Many connections, too many of them, and no descriptors left for more.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use kvpeer_tcp::TcpConfig;
use kvpeer_wire::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::messages::{ack, ping, with_fetch};
use crate::world::{End, Node, Raw, listening, pump, stream_of};

#[test]
fn a_thousand_connections_at_once() {
    const COUNT: usize = 1_000;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum.map(|most| most.min(16_384)), ..limit };
    setrlimit(Resource::Nofile, raised).expect("up to the maximum is allowed");
    let (mut a, mut b) = (
        Node::new(TcpConfig { closing: COUNT, ..TcpConfig::default() }),
        Node::new(TcpConfig { handshaking: COUNT, ..listening() }),
    );
    (0..COUNT as u32).for_each(|dial| a.dial(dial, &b));
    pump("connections", &mut [&mut a, &mut b], |n| {
        n[0].tcp.stats().open == COUNT && n[1].tcp.stats().open == COUNT
    });
    for conn in b.accepted() {
        b.send(conn, &[ack(), ping(conn.0)]);
    }
    let conns: Vec<_> = (0..COUNT as u32).map(|dial| a.dialed(dial).expect("dialed")).collect();
    for conn in &conns {
        a.send(*conn, &[ping(conn.0)]);
    }
    let pairs = COUNT as u64;
    pump("messages", &mut [&mut a, &mut b], |n| {
        n[0].tcp.stats().frames_in == 2 * pairs && n[1].tcp.stats().frames_in == pairs
    });
    assert!(conns.iter().all(|conn| a.msgs(*conn).len() == 2));
    assert_eq!(b.tcp.stats().handshaking, 0);
    conns.iter().for_each(|conn| a.tcp.close(*conn));
    pump("ends", &mut [&mut a, &mut b], |n| n[1].tcp.stats().open == 0 && n[0].tcp.closing() == 0);
    assert_eq!(a.tcp.stats().cut_off, 0);
}

#[test]
fn a_burst_waits_to_be_accepted() {
    let mut b = Node::new(TcpConfig { handshaking: 500, ..listening() });
    // Nobody accepts meanwhile, so what the system does not keep for us would never be connected.
    let within = Duration::from_secs(30);
    let connect = |_| TcpStream::connect_timeout(&b.address(), within).expect("there is room");
    let burst: Vec<_> = (0..500).map(connect).collect();
    b.turn_until("all of them", |b| b.accepted().len() == burst.len());
}

#[test]
fn strangers_over_the_cap_are_closed_at_once_until_others_are_acked_or_gone() {
    let mut b = Node::new(TcpConfig { handshaking: 2, ..listening() });
    let (_first, at_first) = Raw::accepted_by(&mut b);
    let (second, at_second) = Raw::accepted_by(&mut b);
    let mut third = Raw::connect(&b);
    third.hear_end(&mut b);
    assert_eq!(third.got, [0; 0], "not even a preamble");
    assert_eq!((b.tcp.stats().refused, b.tcp.stats().handshaking), (1, 2));

    b.send(at_first, &[ack()]);
    let (mut fourth, at_fourth) = Raw::accepted_by(&mut b);
    assert_eq!(b.tcp.stats().handshaking, 2);
    drop(second);
    b.turn_until("the second's end", |b| b.disconnected(at_second).is_some());
    b.tcp.close(at_fourth);
    assert_eq!((b.tcp.stats().handshaking, b.tcp.stats().open), (0, 1));
    assert_eq!(fourth.hear_end(&mut b), End::Closed);
    assert_eq!(fourth.got, stream_of(&[]));
    assert_eq!(b.tcp.stats().refused, 1);
}

#[test]
fn what_we_dialled_is_no_stranger() {
    let mut b = Node::listening();
    let mut a = Node::new(TcpConfig { handshaking: 1, ..TcpConfig::default() });
    (1..=3).for_each(|dial| a.dial(dial, &b));
    pump("connections", &mut [&mut a, &mut b], |n| n[0].tcp.stats().open == 3);
    assert_eq!(a.tcp.stats().handshaking, 0);
}

#[test]
fn without_descriptors_accepting_pauses_and_goes_on_later() {
    in_own_process("crowds::without_descriptors_accepting_pauses_and_goes_on_later", run_out_of_descriptors);
}

fn run_out_of_descriptors() {
    let mut b = Node::listening();
    let raws: Vec<_> = (0..3).map(|_| Raw::connect(&b)).collect();
    let limit = getrlimit(Resource::Nofile);
    // Descriptors are handed out lowest first: the lowest free number is the limit that allows no more.
    let free = std::os::fd::AsRawFd::as_raw_fd(&std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    setrlimit(Resource::Nofile, Rlimit { current: Some(free as u64), ..limit }).expect("less is allowed");
    for _ in 0..100 {
        b.turn(Duration::ZERO);
    }
    let errors = b.tcp.stats().accept_errors;
    assert!((1..50).contains(&errors), "{errors} errors in 100 polls");
    assert_eq!(b.accepted(), []);

    b.tcp.dial(kvpeer_tcp::DialToken(1), "127.0.0.1:1");
    b.turn(Duration::ZERO);
    assert!(b.dial_failed(1).is_some_and(|why| why.contains("Too many open files")), "{:?}", b.seen);

    setrlimit(Resource::Nofile, limit).expect("it was so before");
    b.turn_until("the ones that waited", |b| b.accepted().len() == raws.len());
}

#[test]
fn memory_grows_with_what_came_and_not_with_connections_or_claims() {
    in_own_process("crowds::memory_grows_with_what_came_and_not_with_connections_or_claims", watch_memory);
}

fn watch_memory() {
    const COUNT: usize = 400;
    let mut b = Node::new(TcpConfig { handshaking: COUNT, ..listening() });
    let (mut first, at_first) = Raw::accepted_by(&mut b);
    first.say(&stream_of(&[ping(1)]), &mut b);
    b.turn_until("message", |b| b.msgs(at_first).len() == 1);
    let raws = |b: &mut Node| (1..COUNT).map(|_| Raw::accepted_by(b)).collect::<Vec<_>>();

    let before = memory();
    let mut all = raws(&mut b);
    let idle = (memory() - before) / all.len();
    assert!(idle < 4 << 10, "{idle} bytes for an idle connection and the test's notes on it");

    // Acked ones may send 4 MiB, and say that they will.
    let claim = [&stream_of(&[])[..], &Limits::DEFAULT.frame.to_le_bytes(), &[9; 100]].concat();
    for (raw, conn) in &mut all {
        b.send(*conn, &[ack()]);
        b.tcp.flush();
        raw.say(&claim, &mut b);
    }
    b.turn_until("sign of life", |b| all.iter().all(|(_, conn)| b.heard(*conn) > 0));
    let claimed = (memory() - before) / all.len();
    assert!(claimed < 72 << 10, "{claimed} bytes for a connection that claims a frame of 4 MiB");
}

/// What this process has mapped for data, in bytes: zeroed memory that nobody touched counts, too.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).expect("Linux says so");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// Runs `body` in a process that runs nothing else; it ends with this one.
pub(crate) fn in_own_process(test: &str, body: fn()) {
    const CHILD: &str = "KVPEER_TCP_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let program = std::env::current_exe().expect("a path");
    let child = Command::new(program).args(["--exact", test, "--nocapture"]).env(CHILD, "1").output();
    let child = child.expect("this program starts");
    let (out, err) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success() && out.contains("1 passed"), "{out}{err}");
}

/// I7: a large message is bounded for each peer; what all of them begin and do not end is bounded, too.
#[test]
fn who_does_not_end_a_message_makes_room_for_others() {
    let mut b = Node::new(TcpConfig { buffered_bytes: 2 << 20, ..listening() });
    let mut crowd = Vec::new();
    for _ in 0..8 {
        let (mut raw, conn) = Raw::accepted_by(&mut b);
        b.send(conn, &[ack()]);
        raw.say(&stream_of(&[]), &mut b);
        raw.say(&(4u32 << 20).to_le_bytes(), &mut b);
        let part = vec![9; 400 << 10];
        raw.say(&part, &mut b);
        let all = 8 + 4 + part.len() as u64;
        crowd.push((raw, conn));
        let heard = crowd.len() as u64 * all;
        b.turn_until("what it said", |b| b.tcp.stats().bytes_in == heard);
    }
    let ended: Vec<bool> = crowd.iter().map(|(_, conn)| b.disconnected(*conn).is_some()).collect();
    assert!(ended[0] && !ended[7], "{ended:?}");
    assert!(ended.is_sorted_by(|earlier, later| earlier >= later), "the longest first: {ended:?}");
    let gone = ended.iter().filter(|ended| **ended).count() as u64;
    assert_eq!(b.tcp.stats().crowded_out, gone);
    let why = b.disconnected(crowd[0].1).expect("it ended");
    assert!(why.contains("more than 2097152 bytes"), "{why}");

    // Who is alone with a message of that size ends it, and is heard.
    let (mut good, conn) = Raw::accepted_by(&mut b);
    b.send(conn, &[ack()]);
    with_fetch(8_000, |fetch| {
        good.say(&stream_of(&[fetch]), &mut b);
        b.turn_until("its message", |b| b.msgs(conn).len() == 1);
    });
}

/// LIM-2 for all peers together: queues that nobody reads, each of them shorter than it may be.
#[test]
fn who_does_not_read_makes_room_for_others() {
    let mut b = Node::new(TcpConfig { buffered_bytes: 3 << 20, ..listening() });
    let deaf: Vec<_> = (0..4).map(|_| Raw::accepted_by(&mut b)).collect();
    with_fetch(8_000, |fetch| {
        for at in 0..4_000 {
            b.send(deaf[at % deaf.len()].1, &[fetch]);
        }
    });
    assert!(b.tcp.stats().crowded_out >= 3, "{:?}", b.tcp.stats());
    let (mut good, at_good) = Raw::accepted_by(&mut b);
    b.send(at_good, &[ping(1)]);
    b.turn_until("the good one's message", |_| {
        good.hear();
        good.got == stream_of(&[ping(1)])
    });
}
