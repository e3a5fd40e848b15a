//! How a load ends, and when its blocks may be used again: every row of docs/protocol.md, "How a load ends".

use crate::prelude::*;

/// Row 1 · guards I3, HS-20: a load whose peer cannot be reached fails when the handshake deadline passes.
/// Rules LOAD-9.
#[test]
fn row01_unreachable() {
    let mut w = World::strangers(2);
    w.unreachable(A, B);
    w.open_pd(A, "r", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.advance(29.s());
    w.expect_open(load);
    w.advance(2.s());
    w.expect_failed(load, Session(Unreachable), Reusable);
    w.end();
}

/// Row 1 · guards I3: a peer that takes every connection and says nothing.
/// Rules HS-21.
#[test]
fn row01_silent_peer() {
    let mut w = World::strangers(2);
    w.vanish(B, A);
    w.open_pd(A, "r", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.advance(29.s());
    w.expect_open(load);
    w.advance(2.s());
    w.expect_failed(load, Session(HandshakeTimeout), Reusable);
    w.end();
}

/// Row 1 · guards I3, I7, HS-21: a handshake that gets stuck, though the peer lives.
#[test]
fn row01_stuck_handshake() {
    let mut w = World::strangers(2);
    w.hold(Registrations(B));
    w.open_pd(A, "r", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.advance(29.s());
    w.expect_open(load);
    w.advance(2.s());
    w.expect_failed(load, Session(HandshakeTimeout), Reusable);
    w.end();
}

/// Row 1 · guards I3: a peer that refuses us.
/// Rules HS-18.
#[test]
fn row01_refused() {
    let mut w = World::with(2, |who, config| {
        if who == B {
            config.region.block_len = 32;
        }
    });
    w.open_pd(A, "r", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.expect_failed(load, Session(RejectedByPeer(RejectCode::BlockLen)), Reusable);
    w.end();
}

/// Row 1 · guards I3, HS-17, LOAD-6: a load that is aborted while it is held ends at once, and never goes on the wire.
#[test]
fn row01_aborted_while_held() {
    let mut w = World::strangers(2);
    w.hold(Dials(A));
    w.open_pd(A, "r", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.abort(load);
    w.expect_failed(load, LoadFailure::Aborted, Reusable);
    w.let_go(Dials(A));
    w.expect(A, B, &["connect a 1", "connect_ack 1"]);
    w.end();
}

/// Row 1 · guards I3, HS-15, HS-16: over the bound on held work the newest fails at once.
#[test]
fn row01_overloaded() {
    let mut w = World::with(2, |_, config| config.limits.held = 2);
    w.hold(Dials(A));
    w.open_pd(A, "r", B);
    let loads = [w.load(A, "r", &[1], &[1]), w.load(A, "r", &[2], &[2]), w.load(A, "r", &[3], &[3])];
    w.expect_open(loads[0]);
    w.expect_open(loads[1]);
    w.expect_failed(loads[2], LoadFailure::Overloaded, Reusable);
    w.store(B, "r", &[1, 2], &[1, 2]);
    w.let_go(Dials(A));
    w.expect_loaded(loads[0]);
    w.expect_loaded(loads[1]);
    w.end();
}

/// Row 2 · guards I3, LOAD-4: an empty load succeeds at once, without a word.
#[test]
fn row02_empty() {
    let mut w = pd();
    let load = w.load(A, "r", &[], &[]);
    w.expect_loaded(load);
    w.run();
    w.expect_silence(A, B);
    w.end();
}

/// Row 3 · guards I4, LOAD-9, MSG-18, MSG-21: success.
/// Rules SUP-12.
#[test]
fn row03_done() {
    let (mut w, load, store, write) = in_flight();
    w.land(write);
    w.run();
    w.expect_open(load);
    w.done(write);
    w.run();
    w.expect(B, A, &["transfer_done r#0 ok"]);
    w.expect_loaded(load);
    w.expect_store(store, Delivered);
    w.end();
}

/// Row 4 · guards I3, MSG-18: a success that crosses our abort counts; the ack that follows changes nothing.
/// Rules LOAD-9, MSG-12.
#[test]
fn row04_success_crosses_the_abort() {
    let (mut w, load, store, write) = in_flight();
    w.hold(Messages(B, A));
    w.done(write);
    w.abort(load);
    w.expect_open(load);
    w.run();
    w.expect(A, B, &["abort_fetch r#0"]);
    w.expect(B, A, &["transfer_done r#0 ok", "abort_ack r#0 settled"]);
    w.let_go(Messages(B, A));
    w.expect_loaded(load);
    w.expect_store(store, Delivered);
    w.end();
}

/// Row 4 · guards I3: so does a failure, with its own reason.
/// Rules LOAD-9.
#[test]
fn row04_failure_crosses_the_abort() {
    let mut w = pd();
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.hold(Messages(B, A));
    w.finish_as(B, "r", Role::Producer);
    w.abort(load);
    w.run();
    w.expect(B, A, &["transfer_done r#0 ProducerFinished settled 0", "abort_ack r#0 settled"]);
    w.let_go(Messages(B, A));
    w.expect_failed(load, Producer(Failure::ProducerFinished), Reusable);
    w.end();
}

/// Row 4 · guards I1: one that is not settled ends the epoch, abort or not.
/// Rules LOAD-9, MSG-20.
#[test]
fn row04_unsettled_crosses_the_abort() {
    let (mut w, load, _, write) = in_flight();
    w.hold(Messages(B, A));
    w.hold(Fences(A));
    w.error(write);
    w.abort(load);
    w.let_go(Messages(B, A));
    w.expect_failed(load, Producer(Failure::WriteFailed), Quarantined);
    assert_eq!(w.land(write), Landing::Landed, "late, but into quarantine");
    w.let_go(Fences(A));
    w.expect_released(load);
    w.end();
}

/// Row 5 · guards I4, LOAD-11: a settled failure lists what landed, and frees the rest.
/// Rules PD-9.
#[test]
fn row05_settled_failure() {
    let mut w = pd();
    let load = w.load(A, "r", &[1, 2], &[9, 10]);
    w.run();
    let store = w.store(B, "r", &[1], &[3]);
    w.run();
    w.expect_open(load);
    w.finish_as(B, "r", Role::Producer);
    w.run();
    w.expect(B, A, &["transfer_done r#0 ProducerFinished settled 10"]);
    w.expect_failed(load, Producer(Failure::ProducerFinished), Reusable);
    w.expect_landed(load, "10");
    w.expect_store(store, Delivered);
    w.expect_link(A, B, LinkStatus::Up);
    w.end();
}

/// Row 6 · guards I1, I9, LOAD-12, MSG-20: after an errored WRITE nothing is proven, whatever the peer says; the epoch
/// ends, and only the closed endpoint frees the blocks.
/// Rules SUP-7.
#[test]
fn row06_unsettled_failure() {
    let (mut w, load, _, [first, second]) = two_in_flight();
    w.hold(Fences(A));
    w.done(first);
    w.error(second);
    w.run();
    w.expect(B, A, &["transfer_done r#0 WriteFailed unsettled 10", "disconnect DataPlane"]);
    w.expect_failed(load, Producer(Failure::WriteFailed), Quarantined);
    w.expect_landed(load, "10");
    w.expect_down(B, A, DataPlane);
    assert_eq!(w.land(second), Landing::Landed, "an error at the writer proves nothing");
    w.let_go(Fences(A));
    w.expect_released(load);
    assert_eq!(w.told(A, |news| matches!(news, News::DestinationReleased { .. })), 1);
    w.end();
}

/// Row 7 and 8 · guards I1, I5, LOAD-6, CMD-7: nothing is told at the abort; the ack comes when the WRITE is terminal.
/// Rules LOAD-9, MSG-19, SUP-11.
#[test]
fn row07_and_row08_abort() {
    let (mut w, load, _, write) = in_flight();
    w.abort(load);
    w.advance(5.s());
    w.expect(A, B, &["abort_fetch r#0"]);
    w.expect_silence(B, A);
    w.expect_open(load);
    w.done(write);
    w.run();
    w.expect(B, A, &["abort_ack r#0 settled"]);
    w.expect_failed(load, LoadFailure::Aborted, Reusable);
    w.expect_link(A, B, LinkStatus::Up);
    w.end();
}

/// Row 7 and 8 · guards I3: the load timer aborts like the engine does, and says so.
/// Rules LOAD-6, LOAD-8.
#[test]
fn row07_and_row08_timeout() {
    let mut w = World::pair_with(|_, config| config.timing.load = 5.s());
    w.open_pd(A, "r", B);
    w.hold(Writes(B));
    w.store(B, "r", &[1], &[3]);
    let load = w.load(A, "r", &[1], &[9]);
    w.advance(6.s());
    w.expect(A, B, &["fetch r#0 await k1->9", "abort_fetch r#0"]);
    w.expect_open(load);
    w.let_go(Writes(B));
    w.expect(B, A, &["abort_ack r#0 settled"]);
    w.expect_failed(load, Timeout, Reusable);
    w.end();
}

/// Row 9 · guards I1: an ack that is not settled frees nothing and ends the epoch.
/// Rules LOAD-9, MSG-20.
#[test]
fn row09_unsettled_ack() {
    let (mut w, load, _, write) = in_flight();
    w.hold(Fences(A));
    w.abort(load);
    w.run();
    w.error(write);
    w.run();
    w.expect(B, A, &["abort_ack r#0 unsettled", "disconnect DataPlane"]);
    w.expect_failed(load, LoadFailure::Aborted, Quarantined);
    assert_eq!(w.land(write), Landing::Landed);
    w.let_go(Fences(A));
    w.expect_released(load);
    w.end();
}

/// Row 9 · guards I1, LOAD-10: the abort-ack timer frees nothing either.
#[test]
fn row09_ack_timer() {
    let (mut w, load, _, write) = in_flight();
    w.hold(Fences(A));
    w.abort(load);
    w.advance(9.s());
    w.expect_open(load);
    w.advance(2.s());
    w.expect_failed(load, LoadFailure::Aborted, Quarantined);
    w.expect_down(A, B, AbortUnacked);
    assert_eq!(w.land(write), Landing::Landed);
    w.let_go(Fences(A));
    w.expect_released(load);
    w.end();
}

/// Row 10 and 11 · guards I1, I3, END-4, END-6, END-7: the connection breaks. The engine can fall back at once, into
/// other blocks.
#[test]
fn row10_and_row11_connection_lost() {
    let (mut w, load, _, write) = in_flight();
    w.hold(Fences(A));
    w.cut(A, B);
    w.run();
    w.expect_failed(load, Session(Lost), Quarantined);
    w.expect_news(A, "RequestFailed", |news| matches!(news, News::RequestFailed { reason: Lost, .. }));
    assert_eq!(w.land(write), Landing::Landed, "the writer's data plane is still there");
    w.let_go(Fences(A));
    w.expect_released(load);
    w.end();
}

/// Row 10 and 11 · guards I1, I3: the peer falls silent.
/// Rules END-4, LIV-2.
#[test]
fn row10_and_row11_silence() {
    let (mut w, load, _, write) = in_flight();
    w.hold(Fences(A));
    w.vanish(B, A);
    w.advance(9.s());
    w.expect_open(load);
    w.advance(3.s());
    w.expect_failed(load, Session(Silent), Quarantined);
    assert_eq!(w.land(write), Landing::Landed);
    w.let_go(Fences(A));
    w.expect_released(load);
    w.end();
}

/// Row 10 and 11 · guards I1, I3, END-5: the peer says goodbye; its word proves nothing.
/// Rules END-2, END-4.
#[test]
fn row10_and_row11_goodbye() {
    let (mut w, load, _, write) = in_flight();
    w.hold(Fences(A));
    w.close_peer(B, A);
    w.advance(11.s());
    w.expect(B, A, &["disconnect Closed"]);
    w.expect_failed(load, Session(Goodbye(DisconnectReason::Closed)), Quarantined);
    assert_eq!(w.land(write), Landing::Landed, "B has closed its endpoint, A has not");
    w.let_go(Fences(A));
    w.expect_released(load);
    w.end();
}

/// Row 10 and 11 · guards I1, I3: the peer's next process takes its place.
/// Rules DUP-2, END-4.
#[test]
fn row10_and_row11_superseded() {
    let (mut w, load, _, write) = in_flight();
    w.hold(Fences(A));
    w.vanish_from_the_earth(B);
    w.restart(B);
    w.connect(B, A);
    w.run();
    w.expect_failed(load, Session(Superseded), Quarantined);
    w.expect_link(A, B, LinkStatus::Up);
    assert_eq!(w.land(write), Landing::Landed, "the dead process's WRITE is still on its way");
    w.let_go(Fences(A));
    w.expect_released(load);
    w.end();
}

/// Row 10 and 11 · guards I1, I3: the writer's process dies. That proves nothing.
/// Rules END-6.
#[test]
fn row10_and_row11_death() {
    let (mut w, load, _, write) = in_flight();
    w.hold(Fences(A));
    w.crash(B);
    w.run();
    w.expect_failed(load, Session(Lost), Quarantined);
    assert_eq!(w.land(write), Landing::Landed);
    w.let_go(Fences(A));
    w.expect_released(load);
    w.end();
}

/// Row 11 · guards I1, LOAD-12, ID-5: one fence frees every quarantined load of its epoch, once each, and none of
/// another.
#[test]
fn row11_every_load_of_the_epoch() {
    let mut w = World::pair();
    w.hold(Fences(A));
    w.open_pd(A, "q", B);
    w.open_pd(A, "r", B);
    let old = [w.load(A, "q", &[1], &[1]), w.load(A, "r", &[2], &[2])];
    w.run();
    w.cut(A, B);
    w.run();
    for load in old {
        w.expect_failed(load, Session(Lost), Quarantined);
    }
    let first = w.fences(A);
    w.open_pd(A, "s", B);
    let new = w.load(A, "s", &[3], &[3]);
    w.run();
    w.cut(A, B);
    w.run();
    w.expect_failed(new, Session(Lost), Quarantined);
    first.into_iter().for_each(|step| w.take(step));
    old.into_iter().for_each(|load| w.expect_released(load));
    w.expect_quarantined(new);
    w.let_go(Fences(A));
    w.expect_released(new);
    w.end();
}

/// Row 12 · guards I1, I2, END-14, CMD-11: what the plane cannot fence stays quarantined and pinned, is counted, and is
/// the engine's to release.
/// Rules SUP-9.
#[test]
fn row12_no_fence() {
    let (mut w, load, store, write) = in_flight();
    w.without_fence(A);
    w.without_fence(B);
    w.cut(A, B);
    w.advance(120.s());
    w.expect_quarantined(load);
    w.expect_pinned(store);
    assert_eq!(w.totals(A).quarantined, 1);
    assert_eq!(w.land(write), Landing::Landed, "two minutes later");
    w.release_quarantine(load);
    w.expect_released(load);
    w.release_quarantine(store);
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::Session(Lost)));
    w.end();
}

/// Row 12 · guards I7, END-13: a right that does not close counts as not fenced; a late proof still frees.
#[test]
fn row12_late_fence() {
    let (mut w, load, store, _) = in_flight();
    w.hold(Fences(A));
    w.hold(Fences(B));
    w.cut(A, B);
    w.advance(60.s());
    w.expect_quarantined(load);
    w.expect_pinned(store);
    w.let_go(Fences(A));
    w.expect_released(load);
    w.let_go(Fences(B));
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::Session(Lost)));
    w.end();
}
