//! E: death, partitions, teardown.

use crate::prelude::*;

/// E1 · guards I1: a lost control connection says nothing about the data plane: the load fails at once, its block waits
/// for the fence, also when the writer is merely paused and goes on later.
/// Rules END-4.
#[test]
fn e01_one_way_partition() {
    let (mut w, load, store, write) = in_flight();
    w.hold(Fences(A));
    w.vanish(B, A);
    w.advance(9.s());
    w.hold(Messages(A, B));
    w.advance(3.s());
    w.expect_failed(load, Session(Silent), Quarantined);
    // B does not know yet and goes on writing.
    w.expect_pinned(store);
    assert_eq!(w.land(write), Landing::Landed);
    w.expect_quarantined(load);
    w.let_go(Fences(A));
    w.expect_released(load);
    w.let_go(Messages(A, B));
    w.end();
}

/// E2 · guards I9: version 1 has no failure domains: the death of one peer says nothing about another one.
#[test]
fn e02_no_failure_domains() {
    let mut w = World::strangers(3);
    w.introduce(A, B);
    w.introduce(A, C);
    w.open_pd(A, "r", C);
    let load = w.load(A, "r", &[1], &[9]);
    w.crash(B);
    w.advance(11.s());
    w.expect_open(load);
    w.expect_link(A, C, LinkStatus::Up);
    w.store(C, "r", &[1], &[3]);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// E3 · guards I7, LIV-2, END-6: a host that vanishes is found within the dead interval, by both roles, loads and
/// lookups alike.
#[test]
fn e03_silent_death() {
    let (mut w, load, _, _) = in_flight();
    w.open_symmetric(A, "s", B);
    w.ask(A, "s", &[1]);
    w.vanish_from_the_earth(B);
    w.advance(9.s());
    w.expect_open(load);
    w.advance(2.s());
    w.expect_failed(load, Session(Silent), Quarantined);
    assert_eq!(w.lookup(A, "s", &[1]), "M");
    w.expect_released(load);
    w.end();
}

/// E4 · guards I1, I2, I7, SUP-9, SUP-10: a WRITE that never ends is no terminal: it is reported as a stall and ends
/// the session, and only the closed endpoint frees its source.
#[test]
fn e04_stalled_write() {
    let (mut w, load, store, _) = in_flight();
    w.hold(Fences(B));
    w.hold(Messages(B, A));
    w.advance(9.s());
    w.let_go(Messages(B, A));
    w.advance(20.s());
    w.expect_pinned(store);
    w.advance(2.s());
    // The load timer passes at the same time; the abort cannot be acknowledged.
    w.expect_pinned(store);
    w.advance(11.s());
    w.expect_down(B, A, WriteStalled);
    w.expect_pinned(store);
    w.let_go(Fences(B));
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::Session(WriteStalled)));
    w.expect_released(load);
    w.end();
}

/// E5 · guards I3, I8, SUP-7, HS-22, END-1: the data plane is dead, the control plane is not: no new WRITE, one result
/// for every job, the drain is bounded, and the next session comes after a back-off that grows.
#[test]
fn e05_dead_data_plane() {
    let (mut w, load, store, _) = in_flight();
    w.peer_fault(B, A);
    // What comes during the drain is refused.
    let late = w.load(A, "r", &[2], &[10]);
    w.store(B, "q", &[2], &[4]);
    w.run();
    w.expect(B, A, &["transfer_done r#1 Closing settled 0"]);
    w.expect_failed(late, Producer(Failure::Closing), Reusable);
    w.advance(9.s());
    w.expect_pinned(store);
    w.advance(2.s());
    w.expect(B, A, &["disconnect DataPlane"]);
    w.expect_failed(load, Session(Goodbye(DisconnectReason::DataPlane)), Quarantined);
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::Session(DataPlane)));
    w.let_go(Writes(B));
    w.expect_released(load);

    // The first attempt may come at once, the next ones wait 1 s, 2 s, ….
    for wait in [0, 1_000, 2_000, 4_000] {
        w.connect(B, A);
        w.run();
        if wait > 0 {
            w.expect_link(B, A, LinkStatus::Waiting);
            w.advance((wait - 1).ms());
            w.expect_link(B, A, LinkStatus::Waiting);
            w.advance(1.ms());
        }
        w.expect_link(B, A, LinkStatus::Up);
        w.peer_fault(B, A);
        w.run();
    }
    w.end();
}

/// E6 · guards I1, I2, END-2: a protocol verdict with WRITEs in flight: sources stay pinned, the goodbye goes last, and
/// whoever hears it trusts no word of it.
/// Rules END-3.
#[test]
fn e06_verdict_with_writes_in_flight() {
    let (mut w, load, store, write) = in_flight();
    w.hold(Fences(A));
    w.garbage(A, B);
    w.advance(5.s());
    w.expect_silence(B, A);
    w.expect_pinned(store);
    w.done(write);
    w.run();
    w.expect(B, A, &["transfer_done r#0 ok", "disconnect Protocol"]);
    w.expect_loaded(load);
    w.expect_store(store, Delivered);
    w.let_go(Fences(A));
    w.end();
}

/// E6 · guards I1, I2, END-2, SUP-9: when the drain's time is up the goodbye goes all the same, and the reader
/// quarantines.
#[test]
fn e06_drain_deadline() {
    let (mut w, load, store, write) = in_flight();
    w.hold(Fences(A));
    w.hold(Fences(B));
    w.close_peer(B, A);
    w.advance(9.s());
    w.expect_silence(B, A);
    w.advance(2.s());
    w.expect(B, A, &["disconnect Closed"]);
    w.expect_failed(load, Session(Goodbye(DisconnectReason::Closed)), Quarantined);
    w.expect_pinned(store);
    assert_eq!(w.land(write), Landing::Landed);
    w.let_go(Fences(B));
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::Session(Closed)));
    w.expect_quarantined(load);
    w.let_go(Fences(A));
    w.expect_released(load);
    w.end();
}

/// E9 · guards I3: a connection that breaks while we send is dead at once.
#[test]
fn e09_send_failure() {
    let mut w = symmetric();
    w.cut(A, B);
    w.hold(Messages(A, B));
    w.ask(A, "r", &[1]);
    w.open_pd(A, "s", B);
    let load = w.load(A, "s", &[1], &[9]);
    w.run();
    w.expect_failed(load, Session(Lost), Quarantined);
    assert_eq!(w.lookup(A, "r", &[1]), "M");
    w.end();
}

/// E10 · guards I7, SUP-15: what a dead peer has left is released when it dies, not when somebody else comes.
#[test]
fn e10_release_on_death() {
    let (mut w, _, store, _) = in_flight();
    w.caches(B, &[7], &[7]);
    w.open_symmetric(A, "s", B);
    w.ask(A, "s", &[7]);
    w.run();
    w.crash(A);
    w.run();
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::Session(Lost)));
    assert_eq!(w.pins(B, 7), 0);
    w.expect_no_work(B);
    w.end();
}

/// E11 · guards I1, I3, I7, END-8: a shutdown with a wedged WRITE ends in the caller's time, and answers everything.
#[test]
fn e11_shutdown_is_bounded() {
    let (mut w, load, store, _) = in_flight();
    w.shutdown(B, 3.s());
    w.advance(2.s());
    w.expect_pinned(store);
    w.advance(2.s());
    w.expect(B, A, &["disconnect Shutdown"]);
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::Session(Shutdown)));
    w.expect_failed(load, Session(Goodbye(DisconnectReason::Shutdown)), Quarantined);
    w.expect_released(load);
    assert!(w.endpoint(B).is_idle());
    w.end();
}

/// E12 · guards I7: draining one peer has an end and an outcome, too; the others go on.
/// Rules END-1.
#[test]
fn e12_drain_of_one_peer_is_bounded() {
    let mut w = World::strangers(3);
    w.introduce(A, B);
    w.introduce(C, B);
    w.open_pd(A, "r", B);
    w.open_pd(C, "s", B);
    w.hold(Writes(B));
    let stuck = w.load(A, "r", &[1], &[9]);
    w.store(B, "r", &[1], &[3]);
    w.run();
    w.close_peer(B, A);
    w.advance(5.s());
    w.let_go(Writes(B));
    w.expect_loaded(stuck);
    w.expect_down(B, A, Closed);
    let load = w.load(C, "s", &[2], &[9]);
    w.store(B, "s", &[2], &[4]);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// E14 · guards I3, I7, SUP-19, PD-7: a consumer that gives up before it ever asked says so, and the producer's blocks
/// are free after a round trip; without its word they are reaped.
/// Rules SUP-16.
#[test]
fn e14_not_coming() {
    let mut w = World::strangers(2);
    let store = w.store_for(B, "r", &[1], &[3], A);
    w.open_pd(A, "r", B);
    w.finish(A, "r");
    w.run();
    w.expect(A, B, &["connect a 1", "connect_ack 1", "release r"]);
    w.expect_store(store, Unclaimed);
    let forgotten = w.store(B, "s", &[2], &[4]);
    w.advance(61.s());
    w.expect_store(forgotten, Unclaimed);
    w.end();
}

/// Beyond the list · guards I8, END-5: after the peer's goodbye nothing more is posted, though demand and supply are
/// there.
#[test]
fn e_no_write_after_the_goodbye() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    w.rogue_fetches(line, "r", 0, &[1], &[9]);
    let bye =
        kvpeer_wire::Disconnect { reason: DisconnectReason::Closed, detail: kvpeer_wire::Text::default() };
    w.rogue_whispers(line, &Msg::Disconnect(bye));
    w.rogue_fetches(line, "r", 1, &[2], &[10]);
    w.store(A, "r", &[1, 2], &[3, 4]);
    w.run();
    w.expect_writes(A, &[]);
    w.expect_down(A, X, Goodbye(DisconnectReason::Closed));
    w.end();
}
