//! One sleep for everything: wake-ups, and descriptors of others.

use std::io::{Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use kvpeer_tcp::TcpConfig;

use crate::crowds::in_own_process;
use crate::messages::ping;
use crate::world::{Node, Raw, Seen, stream_of};

/// Far longer than any test may take: who sleeps this long was not woken.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn another_thread_ends_the_sleep() {
    let mut a = Node::new(TcpConfig::default());
    let waker = a.tcp.waker();
    let (work, queue) = channel();
    let other = thread::spawn(move || {
        for nonce in 0..1_000 {
            work.send(nonce).expect("the queue is there");
            waker.wake().expect("the poller is there");
        }
    });
    let mut done = 0;
    while done < 1_000 {
        a.tcp.poll(Some(LONG)).expect("the poller works");
        done += queue.try_iter().count();
    }
    other.join().expect("it ends");
}

#[test]
fn a_wake_up_before_the_sleep_counts_once() {
    let mut a = Node::new(TcpConfig::default());
    for _ in 0..3 {
        (0..3).for_each(|_| a.tcp.waker().wake().expect("the poller is there"));
        a.turn_before(LONG);
    }
    // All are used up: only a timer ends this one.
    let begun = Instant::now();
    a.turn(Duration::from_millis(5));
    assert!(begun.elapsed() >= Duration::from_millis(5));
    assert_eq!(a.seen, []);
}

#[test]
fn a_watched_descriptor_is_reported_while_it_is_readable() {
    let mut a = Node::new(TcpConfig::default());
    let (mut reader, mut writer) = pipe().expect("a pipe");
    let fd = reader.as_raw_fd();
    a.tcp.watch(fd).expect("a pipe can be watched");
    a.turn(Duration::ZERO);
    assert_eq!(a.seen, []);
    writer.write_all(b"ab").expect("there is room");
    // Also when only a part is read, and when nothing is.
    for said in 1..=3 {
        a.turn_before(LONG);
        assert_eq!(a.seen, vec![Seen::FdReady(fd); said]);
        if said == 1 {
            reader.read_exact(&mut [0]).expect("readable");
        }
    }
    reader.read_exact(&mut [0]).expect("readable");
    a.turn(Duration::ZERO);
    assert_eq!(a.seen.len(), 3, "it is empty");
    writer.write_all(b"c").expect("there is room");
    a.turn_before(LONG);
    assert_eq!(a.seen.len(), 4);
}

#[test]
fn what_is_not_watched_any_more_is_not_reported() {
    let mut a = Node::new(TcpConfig::default());
    let (reader, mut writer) = pipe().expect("a pipe");
    a.tcp.watch(reader.as_raw_fd()).expect("a pipe can be watched");
    a.tcp.watch(reader.as_raw_fd()).expect("twice is once");
    writer.write_all(b"a").expect("there is room");
    // Seen by the poller, and not reported yet.
    a.tcp.poll(Some(LONG)).expect("the poller works");
    a.tcp.unwatch(reader.as_raw_fd());
    a.turn(Duration::ZERO);
    assert_eq!(a.seen, []);
    a.tcp.watch(reader.as_raw_fd()).expect("again");
    a.turn(Duration::ZERO);
    assert_eq!(a.seen, [Seen::FdReady(reader.as_raw_fd())]);
}

#[test]
fn a_descriptor_that_was_closed_while_watched_is_forgotten() {
    let mut a = Node::new(TcpConfig::default());
    let (reader, mut writer) = pipe().expect("a pipe");
    let fd = reader.as_raw_fd();
    a.tcp.watch(fd).expect("a pipe can be watched");
    writer.write_all(b"a").expect("there is room");
    a.turn_before(LONG);
    drop(reader);
    a.turn(Duration::ZERO);
    a.tcp.unwatch(fd);
    assert_eq!(a.seen, [Seen::FdReady(fd)]);
}

/// Numbers of descriptors are used again at once. These tests share a process, so this one needs its own.
#[test]
fn a_number_that_was_given_to_another_descriptor_is_never_confused() {
    in_own_process("waking::a_number_that_was_given_to_another_descriptor_is_never_confused", reuse_numbers);
}

fn reuse_numbers() {
    let mut b = Node::listening();
    // Another pipe takes the number: watching again watches that one.
    let (first, mut writer) = pipe().expect("a pipe");
    let fd = first.as_raw_fd();
    b.tcp.watch(fd).expect("a pipe can be watched");
    writer.write_all(b"a").expect("there is room");
    drop((first, writer));
    let (mut second, mut writer) = pipe().expect("a pipe");
    assert_eq!(second.as_raw_fd(), fd);
    b.tcp.watch(fd).expect("a pipe can be watched");
    writer.write_all(b"b").expect("there is room");
    b.turn_before(LONG);
    assert_eq!(b.seen, [Seen::FdReady(fd)]);
    second.read_exact(&mut [0]).expect("readable");
    b.turn(Duration::ZERO);
    b.seen.clear();

    // A connection of ours takes the number: unwatching late does not make us deaf to it.
    let mut raw = Raw::connect(&b);
    drop((second, writer));
    b.turn_until("connection", |b| !b.accepted().is_empty());
    let conn = b.accepted()[0];
    b.turn(Duration::ZERO);
    assert_eq!(b.seen, [Seen::Accepted(conn)]);
    b.tcp.unwatch(fd);
    raw.say(&stream_of(&[ping(1)]), &mut b);
    b.turn_until("message", |b| b.msgs(conn).len() == 1);
}

#[test]
fn files_cannot_be_watched() {
    let mut a = Node::new(TcpConfig::default());
    let file = std::fs::File::open(std::env::current_exe().expect("a path")).expect("it is readable");
    assert!(a.tcp.watch(file.as_raw_fd()).is_err());
}
