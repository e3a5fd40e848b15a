//! Time: every wait has a reason and an end, and a late or early clock changes nothing (docs/protocol.md, "Timers").

use kvpeer_core::{Time, Timer};

use crate::prelude::*;

/// Rule TMR-1: the endpoint names the reason of its next wake-up, for every kind of wait.
#[test]
fn every_wait_has_a_reason() {
    // The heartbeat would hide what comes later.
    let calm = |_, config: &mut kvpeer_core::Config| {
        config.timing.heartbeat = 900.s();
        config.timing.dead = 900.s();
        config.timing.idle = 900.s();
        config.timing.store = 20.s();
    };
    let mut w = World::with(2, calm);
    w.expect_timer(A, None);
    w.hold(Dials(A));
    w.connect(A, B);
    w.expect_timer(A, Some((30, Timer::Handshake)));
    w.hold(Fences(A));
    w.hold(Writes(B));
    w.hold(Lookups(B));
    w.let_go(Dials(A));
    w.expect_timer(A, Some((900, Timer::Heartbeat)));
    w.open_pd(A, "r", B);
    w.open_symmetric(A, "s", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.expect_timer(A, Some((30, Timer::Load)));
    w.run();
    w.expect_timer(A, Some((65, Timer::Load)));
    w.expect_timer(B, Some((60, Timer::Parked)));
    w.ask(A, "s", &[7]);
    w.run();
    w.expect_timer(A, Some((30, Timer::Lookup)));
    w.expect_timer(B, Some((5, Timer::Probe)));
    w.store(B, "r", &[1], &[3]);
    w.run();
    w.advance(5.s());
    w.expect_timer(B, Some((20, Timer::Store)));
    w.abort(load);
    w.expect_timer(A, Some((15, Timer::AbortAck)));
    w.run();
    w.expect_timer(B, Some((5, Timer::CancelRetry)));
    w.cut(A, B);
    w.run();
    w.expect_timer(A, Some((15, Timer::CloseRight)));
    w.let_go(Fences(A));
    w.end();
}

/// Rule TMR-1: what is due and why, for the waits of a producer.
#[test]
fn waits_of_a_producer() {
    let mut w = World::with(2, |_, config| {
        config.timing.heartbeat = 900.s();
        config.timing.dead = 900.s();
        config.timing.idle = 900.s();
        config.timing.store = 80.s();
        config.timing.load = 300.s();
        config.timing.probe_retry = 300.ms();
    });
    w.finish(B, "q");
    w.expect_timer(B, Some((60, Timer::Remembered)));
    w.advance(61.s());
    w.store(B, "r", &[1], &[1]);
    w.expect_timer(B, Some((121, Timer::Unbound)));
    w.advance(61.s());
    w.introduce(A, B);
    w.caches(B, &[7], &[7]);
    w.expects_keys(B, &[8]);
    w.open_symmetric(A, "s", B);
    w.ask(A, "s", &[7, 8]);
    w.run();
    w.expect_timer(B, Some((122, Timer::ProbeRetry)));
    w.advance(6.s());
    w.expect_timer(B, Some((152, Timer::Pin)));
    w.open_pd(A, "t", B);
    w.hold(Writes(B));
    w.store(B, "t", &[2], &[2]);
    w.load(A, "t", &[2], &[9]);
    w.run();
    w.advance(25.s());
    w.expect_timer(B, Some((158, Timer::Write)));
    w.close_peer(B, A);
    w.expect_timer(B, Some((158, Timer::Write)));
    w.advance(5.s());
    w.expect_timer(B, Some((163, Timer::Drain)));
    w.end();
}

/// Rule TMR-3 · guards I7: the clock of a node is the largest that it was given: an earlier one does not turn it back.
#[test]
fn time_does_not_run_backwards() {
    let mut w = World::strangers(2);
    w.unreachable(A, B);
    w.advance(100.s());
    w.open_pd(A, "r", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.turn_back(50.s());
    w.fact(A, Input::Tick);
    w.advance(79.s());
    w.expect_open(load);
    w.advance(2.s());
    w.expect_failed(load, Session(Unreachable), Reusable);
    w.end();
}

/// Rule TMR-3 · guards I7: at the end of time nothing overflows, and nothing is due that is not.
#[test]
fn the_end_of_time() {
    let mut w = World::strangers(2);
    w.at_the_end_of_time();
    w.open_pd(A, "r", B);
    w.store(B, "r", &[1], &[1]);
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.expect_loaded(load);
    assert!(w.endpoint(A).next_deadline().is_none_or(|deadline| deadline.at == Time::NEVER));
    w.abandon();
}

/// Rule TMR-4 · guards I7: one wake-up does a bounded amount of work; the rest stays due, and is done.
#[test]
fn work_of_a_tick_is_bounded() {
    let mut w = World::with(1, |_, config| config.limits.timers_per_tick = 3);
    let stores: Vec<Job> = (0..10).map(|n| w.store(A, &format!("r{n}"), &[n], &[n])).collect();
    w.sleep(60.s());
    for done in [3, 6, 9, 10] {
        w.wake(A);
        let over = stores.iter().filter(|store| w.is_over(**store)).count();
        assert_eq!(over, done);
    }
    stores.into_iter().for_each(|store| w.expect_store(store, Unclaimed));
    w.end();
}

/// Rule TMR-2 · guards I7: a fact that comes after its deadline, but before the wake-up, still counts.
#[test]
fn facts_come_before_ticks() {
    // An ack, a registration, a pong.
    let (mut w, load, _, write) = in_flight();
    w.abort(load);
    w.run();
    w.done(write);
    w.sleep(11.s());
    w.deliver_from(B, A, 1);
    w.expect_failed(load, LoadFailure::Aborted, Reusable);
    w.end();

    let mut w = World::strangers(2);
    w.hold(Messages(B, A));
    w.connect(A, B);
    w.run();
    w.sleep(31.s());
    w.deliver_from(B, A, 2);
    w.run();
    w.expect_link(A, B, LinkStatus::Up);
    w.unhold(Messages(B, A));
    w.end();
}
