//! B: exactly one result for every job.

use std::num::NonZeroU8;

use crate::prelude::*;

/// B1 · guards I3, LOAD-6, CMD-6: finishing a request during a load aborts the load, once, and answers it, once.
/// Rules SUP-19.
#[test]
fn b01_finish_during_a_load() {
    let mut w = pd();
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.finish(A, "r");
    w.finish(A, "r");
    w.run();
    w.expect(A, B, &["fetch r#0 await k1->9", "abort_fetch r#0", "release r"]);
    w.expect(B, A, &["abort_ack r#0 settled"]);
    w.expect_failed(load, LoadFailure::Aborted, Reusable);
    w.end();
}

/// B1 · guards I3, LOAD-9: a success that crosses the finish is the result; the ack that follows is ignored.
#[test]
fn b01_success_crosses_the_finish() {
    let (mut w, load, store, write) = in_flight();
    w.hold(Messages(B, A));
    w.done(write);
    w.finish(A, "r");
    w.run();
    w.let_go(Messages(B, A));
    w.expect_loaded(load);
    w.expect_store(store, Delivered);
    w.end();
}

/// B3 · guards I2, I3, SUP-12, SUP-13, PD-6: a store whose time is up leaves the offer at once; its result waits until
/// no WRITE reads it.
#[test]
fn b03_store_timeout_waits_for_the_write() {
    let mut w = World::pair_with(|_, config| {
        config.timing.write = 120.s();
        config.timing.load = 120.s();
    });
    w.open_pd(A, "r", B);
    w.hold(Writes(B));
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    let store = w.store(B, "r", &[1, 2], &[3, 4]);
    let write = w.write_of(B);
    w.advance(60.s());
    w.expect_pinned(store);
    // `k2` is no supply any more.
    let late = w.load(A, "r", &[2], &[10]);
    w.run();
    w.expect_writes(B, &["3->9"]);
    w.done(write);
    w.run();
    w.expect_loaded(load);
    w.expect_store(store, Partly { delivered: 1 });
    w.finish(B, "r");
    w.run();
    w.expect_failed(late, Producer(Failure::ProducerFinished), Reusable);
    w.end();
}

/// B5 · guards I3, I9, SUP-8: a WRITE that the data plane does not take fails its round and its store at once, and
/// nothing else.
#[test]
fn b05_write_not_posted() {
    let (mut w, load, store, write) = in_flight();
    w.not_posted(write);
    w.run();
    w.expect(B, A, &["transfer_done r#0 WriteFailed settled 0"]);
    w.expect_failed(load, Producer(Failure::WriteFailed), Reusable);
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::WriteFailed));
    w.let_go(Writes(B));
    w.open_pd(A, "s", B);
    w.store(B, "s", &[2], &[4]);
    let neighbour = w.load(A, "s", &[2], &[10]);
    w.run();
    w.expect_loaded(neighbour);
    w.end();
}

/// B7 · guards I3, I9, SUP-7, END-1: a data plane that loses the peer ends its session, and answers each job once.
/// Rules END-2.
#[test]
fn b07_data_plane_loses_the_peer() {
    let (mut w, load, store, write) = in_flight();
    w.peer_fault(B, A);
    w.run();
    w.expect_silence(B, A);
    w.error(write);
    w.run();
    w.expect(B, A, &["transfer_done r#0 WriteFailed unsettled 0", "disconnect DataPlane"]);
    w.expect_failed(load, Producer(Failure::WriteFailed), Quarantined);
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::Session(DataPlane)));
    w.expect_down(B, A, DataPlane);
    w.end();
}

/// B8 · guards I3, I5, SUP-2, SUP-8, SUP-12: one of two WRITEs is refused: the round ends when the other one is
/// terminal, and says what landed.
#[test]
fn b08_failure_waits_for_the_others() {
    let (mut w, load, stores, [first, second]) = two_in_flight();
    w.not_posted(first);
    w.run();
    w.expect_silence(B, A);
    w.done(second);
    w.run();
    w.expect(B, A, &["transfer_done r#0 WriteFailed settled 01"]);
    w.expect_failed(load, Producer(Failure::WriteFailed), Reusable);
    w.expect_landed(load, "01");
    w.expect_store(stores[0], StoreOutcome::Failed(StoreFailure::WriteFailed));
    w.expect_store(stores[1], Delivered);
    w.end();
}

/// B10 · guards I4, LOAD-9: part of a load is never success; what is there is listed, and only that.
/// Rules LOAD-11, PD-8.
#[test]
fn b10_part_is_not_success() {
    let mut w = World::pair_with(|_, config| config.timing.parked = 5.s());
    w.open_pd(A, "r", B);
    let load = w.load(A, "r", &[1, 2, 3], &[9, 10, 11]);
    w.store(B, "r", &[1, 3], &[3, 4]);
    w.advance(6.s());
    w.expect(B, A, &["transfer_done r#0 SupplyTimeout settled 101"]);
    w.expect_failed(load, Producer(Failure::SupplyTimeout), Reusable);
    w.expect_landed(load, "101");
    w.end();
}

/// B11 · guards I7, I3, TMR-2: a driver that comes late drains what had arrived before it lets deadlines pass.
#[test]
fn b11_what_arrived_in_time_counts() {
    let (mut w, load, _, write) = in_flight();
    w.hold(Messages(B, A));
    w.done(write);
    w.sleep(31.s());
    w.deliver_from(B, A, 1);
    w.expect_loaded(load);
    w.wake(A);
    w.let_go(Messages(B, A));
    w.end();
}

/// B12 · guards I4, MSG-1: an outcome that this version does not know is never success.
#[test]
fn b12_unknown_outcome_is_a_failure() {
    let mut w = World::strangers(1);
    w.open_pd(A, "r", X);
    let load = w.load(A, "r", &[1], &[9]);
    let line = w.rogue_accepts(A);
    w.expect_heard(line, &["fetch r#0 await k1->9"]);
    let unknown = Failure::from_code(NonZeroU8::new(99).expect("not zero"));
    let outcome = kvpeer_wire::Outcome::Failed {
        why: unknown,
        settled: true,
        landed: kvpeer_wire::Bits::new(1, &[0]).expect("one bit"),
    };
    let done = kvpeer_wire::TransferDone { request: name("r"), round: Round(0), outcome };
    w.rogue_says(line, &Msg::TransferDone(done));
    w.expect_failed(load, Producer(unknown), Reusable);
    w.end();
}

/// B13 · guards I7, LOAD-8, MSG-17: waiting for supply is not transferring: the load timer does not run while demand is
/// parked, and runs anew when the supply has come.
/// Rules MSG-16.
#[test]
fn b13_queueing_is_not_transfer() {
    let mut w = pd();
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.expect_progress(B, A, &["r#0 matched 0 parked 1 landed 0"]);
    w.advance(50.s());
    w.expect_open(load);
    w.hold(Writes(B));
    w.store(B, "r", &[1], &[3]);
    w.run();
    w.expect_progress(B, A, &["r#0 matched 1 parked 0 landed 0"]);
    w.advance(25.s());
    w.expect_open(load);
    w.let_go(Writes(B));
    w.expect_loaded(load);
    w.end();
}

/// B13 · guards I7, PD-8: but waiting has an end, too.
#[test]
fn b13_parked_demand_has_a_deadline() {
    let mut w = pd();
    let load = w.load(A, "r", &[1], &[9]);
    w.advance(59.s());
    w.expect_open(load);
    w.advance(2.s());
    w.expect(B, A, &["transfer_done r#0 SupplyTimeout settled 0"]);
    w.expect_failed(load, Producer(Failure::SupplyTimeout), Reusable);
    w.end();
}

/// B13 · guards I7, LOAD-8, MSG-17: growth that is told re-arms the load timer; without growth it passes.
#[test]
fn b13_growth_rearms_the_load_timer() {
    let mut w = World::pair_with(|_, config| {
        config.timing.load = 4.s();
        config.limits.write_bytes = 16;
        config.limits.window_bytes = 16;
    });
    w.open_pd(A, "r", B);
    w.hold(Writes(B));
    w.store(B, "r", &[1, 2, 3, 4], &[1, 2, 3, 4]);
    let load = w.load(A, "r", &[1, 2, 3, 4], &[9, 10, 11, 12]);
    w.run();
    for _ in 0..3 {
        w.advance(3.s());
        let write = w.write_of(B);
        w.done(write);
        w.run();
    }
    w.expect_open(load);
    let told = w.said(B, A);
    assert_eq!(
        told,
        [
            "fetch_progress r#0 matched 4 parked 0 landed 0",
            "fetch_progress r#0 matched 4 parked 0 landed 1",
            "fetch_progress r#0 matched 4 parked 0 landed 2",
            "fetch_progress r#0 matched 4 parked 0 landed 3",
        ]
    );
    w.advance(5.s());
    w.expect(A, B, &["fetch r#0 await k1->9 k2->10 k3->11 k4->12", "abort_fetch r#0"]);
    w.let_go(Writes(B));
    w.expect_failed(load, Timeout, Reusable);
    w.end();
}

/// Beyond the list · guards I3, LOAD-2, LOAD-3: two loads of one request end each from its own round, in any order.
#[test]
fn b_two_loads_end_by_round() {
    let mut w = pd();
    w.hold(Writes(B));
    let loads = [w.load(A, "r", &[1], &[9]), w.load(A, "r", &[2], &[10])];
    w.run();
    w.store(B, "r", &[1, 2], &[3, 4]);
    let writes = w.writes_of(B);
    w.done(writes[1]);
    w.run();
    w.expect_open(loads[0]);
    w.expect_loaded(loads[1]);
    w.done(writes[0]);
    w.run();
    w.expect(B, A, &["transfer_done r#1 ok", "transfer_done r#0 ok"]);
    w.expect_loaded(loads[0]);
    w.end();
}
