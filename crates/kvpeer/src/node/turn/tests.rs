use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use kvpeer_core::{BlockIdx, ConnId, Epoch, JobId, Origin, Part, XferId};
use kvpeer_wire::{Key, KeysBuf, Msg, PeerName, RegionInfo, RequestName, Supply};

use super::*;
use crate::cache::NoBlocks;
use crate::clock::Clock;
use crate::event::Event;
use crate::node::NodeConfig;
use crate::plane::{ConnInfo, ControlFact, ControlPlane, DataPlane, Planes};
use crate::region::Region;

/// What the planes are to report, and what they were told; shared with the test.
#[derive(Default)]
struct Script {
    /// Reported after the next poll.
    facts: VecDeque<ControlFact<'static>>,
    broken: bool,
    busy: bool,
    data_deadline: Option<Instant>,
    /// Calls of `progress` that still have more.
    data_rounds: usize,
    log: Vec<String>,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Script>>);

impl Fake {
    fn script<R>(&self, f: impl FnOnce(&mut Script) -> R) -> R {
        f(&mut self.0.lock().unwrap())
    }

    fn log(&self, what: String) {
        self.script(|script| script.log.push(what));
    }

    fn arrive(&self, facts: impl IntoIterator<Item = ControlFact<'static>>) {
        self.script(|script| script.facts.extend(facts));
    }

    /// What was told since the last time.
    fn take_log(&self) -> Vec<String> {
        self.script(|script| std::mem::take(&mut script.log))
    }
}

impl ControlPlane for Fake {
    fn dial(&mut self, epoch: Epoch, peer: PeerName<'_>, _: &str) {
        self.log(format!("dial {peer} {}", epoch.0));
    }

    fn cancel_dial(&mut self, epoch: Epoch) {
        self.log(format!("cancel_dial {}", epoch.0));
    }

    fn send(&mut self, conn: ConnId, msg: &Msg<'_>) {
        self.log(format!("send {} {:?}", conn.0, msg.kind()));
    }

    fn close(&mut self, conn: ConnId) {
        self.log(format!("close {}", conn.0));
    }

    fn poll(&mut self, _: &[RawFd], timeout: Option<Duration>) -> io::Result<Instant> {
        self.log(format!("poll {timeout:?}"));
        if self.script(|script| script.broken) { Err(io::Error::other("broken")) } else { Ok(Instant::now()) }
    }

    fn next_fact<'f>(&mut self, _: &'f mut Scratch) -> Option<ControlFact<'f>> {
        self.script(|script| script.facts.pop_front())
    }

    fn conn_info(&self, _: ConnId) -> ConnInfo {
        ConnInfo::default()
    }

    fn address(&self) -> Option<String> {
        Some("fake:1".into())
    }

    fn lingering(&self) -> usize {
        0
    }

    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }
}

impl DataPlane for Fake {
    fn open_right(&mut self, _: Epoch) {}
    fn register(&mut self, _: Epoch, _: RegionInfo, _: &[u8]) {}
    fn write(&mut self, _: XferId, _: &[BlockIdx], _: &[BlockIdx]) {}
    fn cancel(&mut self, _: XferId) {}
    fn close_right(&mut self, _: Epoch) {}

    fn progress(&mut self, _: usize, _: &mut Vec<DataFact>) -> Progress {
        self.log("progress".into());
        self.script(|script| match script.data_rounds.checked_sub(1) {
            Some(left) => {
                script.data_rounds = left;
                Progress::More
            }
            None => Progress::Quiet,
        })
    }

    fn prepare_wait(&mut self) -> Rest {
        if self.script(|script| script.busy) { Rest::Busy } else { Rest::MaySleep }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.script(|script| script.data_deadline)
    }
}

fn node() -> (Node, Fake, Clock) {
    let (fake, clock) = (Fake::default(), Clock::manual());
    let config = NodeConfig::new(Region::new(4, 8).unwrap());
    let planes = Planes::new(fake.clone(), fake.clone());
    (Node::new(&config, planes, NoBlocks).unwrap().with_clock(clock.clone()), fake, clock)
}

/// A connection on which the peer says nothing: closed when the handshake's time is up.
const SILENT: ControlFact<'static> = ControlFact::Connected { conn: ConnId(1), origin: Origin::Accepted };
const GONE: ControlFact<'static> = ControlFact::Disconnected { conn: ConnId(1), detail: "" };
const NOISE: ControlFact<'static> = ControlFact::Heard { conn: ConnId(99) };
const HANDSHAKE: Duration = Duration::from_secs(30);

#[test]
fn a_node_with_nothing_to_do_is_idle() {
    let (mut node, fake, _) = node();
    assert_eq!(node.tick(), Next::Idle);
    assert_eq!(fake.take_log(), ["poll Some(0ns)", "progress"]);
    assert!(node.is_over());
}

// TMR-2
#[test]
fn what_is_due_happens_after_what_has_arrived() {
    let (mut node, fake, clock) = node();
    fake.arrive([SILENT]);
    assert_eq!(node.tick(), Next::Within(HANDSHAKE));

    clock.advance(HANDSHAKE);
    fake.arrive([GONE]);
    fake.take_log();
    assert_eq!(node.tick(), Next::Idle);
    assert_eq!(fake.take_log(), ["poll Some(0ns)", "progress"], "it was gone before its time was up");
}

#[test]
fn what_is_due_happens_without_anything_arriving() {
    let (mut node, fake, clock) = node();
    fake.arrive([SILENT]);
    node.tick();
    fake.take_log();
    clock.advance(HANDSHAKE);
    assert_eq!(node.tick(), Next::Idle);
    assert_eq!(fake.take_log(), ["poll Some(0ns)", "progress", "close 1"]);
}

#[test]
fn much_that_arrived_is_taken_in_over_turns_before_anything_is_judged() {
    let (mut node, fake, clock) = node();
    fake.arrive([SILENT]);
    node.tick();
    fake.take_log();

    clock.advance(HANDSHAKE);
    fake.arrive(std::iter::repeat_n(NOISE, 2 * BUDGET + 1).chain([GONE]));
    assert_eq!([node.tick(), node.tick(), node.tick()], [Next::Now, Next::Now, Next::Idle]);
    assert_eq!(fake.take_log(), ["poll Some(0ns)", "progress"], "one batch, and nobody was closed");
}

#[test]
fn the_data_plane_goes_on_only_while_something_is_due_and_not_for_ever() {
    let (mut node, fake, clock) = node();
    fake.arrive([SILENT]);
    fake.script(|script| script.data_rounds = usize::MAX);
    node.tick();
    assert_eq!(fake.take_log(), ["poll Some(0ns)", "progress"]);

    clock.advance(HANDSHAKE);
    node.tick();
    let log = fake.take_log();
    assert_eq!(log.len(), 1 + DATA_ROUNDS + 1);
    assert_eq!(log.last().map(String::as_str), Some("close 1"));
}

#[test]
fn messages_of_unknown_kinds_are_signs_of_life_and_counted() {
    // FR-8
    let (mut node, fake, _) = node();
    fake.arrive([SILENT, ControlFact::Skipped { conn: ConnId(1) }, ControlFact::Skipped { conn: ConnId(1) }]);
    assert_eq!(node.tick(), Next::Within(HANDSHAKE));
    assert_eq!(node.stats().skipped_messages, 2);
}

#[test]
fn sleep_ends_at_the_first_deadline_of_all() {
    let (mut node, fake, _) = node();
    node.sleep_and_tick(None);
    node.sleep_and_tick(Some(Duration::from_secs(1)));
    assert_eq!(fake.take_log(), ["poll None", "progress", "poll Some(1s)", "progress"]);

    fake.arrive([SILENT]);
    node.sleep_and_tick(None);
    fake.take_log();
    node.sleep_and_tick(None);
    node.sleep_and_tick(Some(Duration::from_secs(1)));
    assert_eq!(fake.take_log(), ["poll Some(30s)", "progress", "poll Some(1s)", "progress"]);

    fake.script(|script| script.data_deadline = Some(Instant::now()));
    node.sleep_and_tick(None);
    fake.script(|script| (script.busy, script.data_deadline) = (true, None));
    node.sleep_and_tick(None);
    assert_eq!(fake.take_log(), ["poll Some(0ns)", "progress", "poll Some(0ns)", "progress"]);
}

#[test]
fn without_a_control_plane_every_job_is_answered_once() {
    let (mut node, fake, _) = node();
    let request = RequestName::new("r").unwrap();
    let source = PeerName::new("elsewhere:1").unwrap();
    let part = Part::Consume { source, address: "elsewhere:1", supply: Supply::Await };
    node.command(Command::Open { request, part }).unwrap();
    let keys: KeysBuf = [Key::new(b"k").unwrap()].into_iter().collect();
    let job = JobId(1);
    node.command(Command::Load { job, request, keys: keys.as_keys(), blocks: &[2] }).unwrap();

    fake.script(|script| script.broken = true);
    node.tick();
    let events: Vec<Event> = std::iter::from_fn(|| node.poll_event()).collect();
    let failed = |event: &&Event| matches!(event, Event::Trouble(trouble) if trouble.what == TroubleKind::ControlPlane && trouble.detail == "broken");
    let result = |event: &&Event| matches!(event, Event::LoadFinished { job: of, .. } if *of == job);
    assert_eq!(events.iter().filter(failed).count(), 1, "{events:?}");
    assert_eq!(events.iter().filter(result).count(), 1, "{events:?}");

    fake.take_log();
    assert_eq!(node.tick(), Next::Idle);
    assert_eq!(fake.take_log(), ["progress"], "it is not polled any more");
}
