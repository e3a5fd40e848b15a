//! A: abort, cancel, and the destination's next life.

use crate::prelude::*;

/// A1 · guards I1, I2, I5, SUP-11: an abort is acknowledged only when its WRITEs are terminal, however long that takes;
/// until then the source stays pinned and the destination reserved.
/// Rules PD-6, SUP-2.
#[test]
fn a01_ack_waits_for_the_write() {
    let mut w = World::pair_with(|_, config| config.timing.abort_ack = 60.s());
    w.open_pd(A, "r", B);
    w.hold(Writes(B));
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    let store = w.store(B, "r", &[1], &[3]);
    let write = w.write_of(B);
    w.abort(load);
    w.advance(25.s());
    w.expect_silence(B, A);
    w.expect_open(load);
    w.expect_pinned(store);
    w.land(write);
    w.run();
    w.expect_silence(B, A);
    w.done(write);
    w.run();
    w.expect(B, A, &["abort_ack r#0 settled"]);
    w.expect_failed(load, LoadFailure::Aborted, Reusable);
    // The block goes to another load, whose content nothing disturbs.
    w.let_go(Writes(B));
    w.open_pd(A, "s", B);
    w.store(B, "s", &[2], &[4]);
    let next = w.load(A, "s", &[2], &[9]);
    w.run();
    w.expect_loaded(next);
    w.end();
}

/// A2 · guards I1, LOAD-1, LOAD-10: the consumer's own ack timer frees nothing. The load fails, so that the engine can
/// go on; the block is quarantined until our endpoint is closed.
#[test]
fn a02_ack_timer_quarantines() {
    let (mut w, load, store, write) = in_flight();
    w.hold(Fences(A));
    w.abort(load);
    w.advance(11.s());
    w.expect_failed(load, LoadFailure::Aborted, Quarantined);
    // B has closed its endpoint, which frees its source. It proves nothing to A.
    let why = Goodbye(DisconnectReason::AbortUnacked);
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::Session(why)));
    w.refuses(
        A,
        Command::Load { job: JobId(77), request: name("r"), keys: keys(&[2]).as_keys(), blocks: &[9] },
        Misuse::Reserved(9),
    );
    w.advance(40.s());
    assert_eq!(w.land(write), Landing::Landed, "40 s late, into quarantine");
    w.expect_quarantined(load);
    w.let_go(Fences(A));
    w.expect_released(load);
    w.end();
}

/// A3 · guards I6, ID-9, MSG-12: a round's number is not used again, so the ack of an old abort cannot fail the next
/// load of the same request.
#[test]
fn a03_old_ack_does_not_fail_the_next_load() {
    let (mut w, first, _, write) = in_flight();
    w.hold(Messages(B, A));
    w.done(write);
    w.abort(first);
    w.run();
    w.expect(B, A, &["transfer_done r#0 ok", "abort_ack r#0 settled"]);
    // The success arrives, the ack is still on its way when the next load begins.
    w.deliver_from(B, A, 2);
    w.expect_loaded(first);
    let second = w.load(A, "r", &[2], &[10]);
    w.store(B, "r", &[2], &[4]);
    w.run();
    w.expect(A, B, &["abort_fetch r#0", "fetch r#1 await k2->10"]);
    let write = w.write_of(B);
    w.let_go(Messages(B, A));
    w.expect_open(second);
    w.done(write);
    w.run();
    w.expect_loaded(second);
    w.end();
}

/// A5 · guards I5, I1, MSG-20: an errored WRITE does not make its round quiet: the ack waits for the others, and is not
/// settled.
/// Rules SUP-2.
#[test]
fn a05_errored_is_not_quiet() {
    let (mut w, load, _, [first, second]) = two_in_flight();
    w.hold(Fences(A));
    w.error(first);
    w.abort(load);
    w.run();
    w.expect_silence(B, A);
    w.expect_open(load);
    w.done(second);
    w.run();
    w.expect(B, A, &["abort_ack r#0 unsettled", "disconnect DataPlane"]);
    w.expect_failed(load, LoadFailure::Aborted, Quarantined);
    assert_eq!(w.land(first), Landing::Landed);
    w.let_go(Fences(A));
    w.expect_released(load);
    w.end();
}

/// A7 · guards I5, FR-2: what an ack means belongs to the version. A peer that speaks another one is refused, not
/// trusted.
#[test]
fn a07_other_versions_are_refused() {
    let mut w = World::strangers(1);
    let line = w.rogue_dials(A);
    w.rogue_speaks(line, (7, 9));
    w.expect_heard(line, &["reject Version(version) ours \"1..=1\" theirs \"7..=9\"", "closed"]);
    w.expect_count(A, Count::Rejected, 1);
    w.end();
}

/// A8 · guards I5, MSG-11, MSG-19: a repeated abort neither restarts the drain nor brings a second ack; one after the
/// ack is answered and leaves no state.
#[test]
fn a08_repeated_abort() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    w.hold(Writes(A));
    let store = w.store(A, "r", &[1], &[3]);
    w.rogue_fetches(line, "r", 4, &[1], &[9]);
    w.rogue_heard(line);
    let write = w.write_of(A);
    for _ in 0..3 {
        w.rogue_aborts(line, "r", 4);
    }
    w.expect_heard(line, &[]);
    w.done(write);
    w.run();
    w.expect_heard(line, &["abort_ack r#4 settled"]);
    w.rogue_aborts(line, "r", 4);
    w.expect_heard(line, &["abort_ack r#4 settled"]);
    assert_eq!(w.totals(A).rounds, 0);
    w.withdraw(store);
    w.expect_store(store, Unclaimed);
    w.end();
}

/// A9 · guards I5, I7, MSG-11: an abort of a round that never was is acknowledged at once, and leaves nothing.
#[test]
fn a09_unknown_abort_is_acknowledged() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    let before = w.endpoint(A).totals();
    w.rogue_aborts(line, "never", 12);
    w.expect_heard(line, &["abort_ack never#12 settled"]);
    assert_eq!(w.endpoint(A).totals(), before);
    w.expect_count(A, Count::UnknownRound, 1);
    w.end();
}

/// A10 · guards I5, I2, PD-5: what is stored for a round that was aborted is not written, and not lost either: it waits
/// for the next round.
#[test]
fn a10_store_after_the_abort() {
    let mut w = pd();
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.abort(load);
    w.run();
    w.expect_failed(load, LoadFailure::Aborted, Reusable);
    let store = w.store(B, "r", &[1], &[3]);
    w.run();
    w.expect_writes(B, &[]);
    w.expect_pinned(store);
    let again = w.load(A, "r", &[1], &[10]);
    w.run();
    w.expect_loaded(again);
    w.expect_store(store, Delivered);
    w.end();
}

/// A10 · guards I3, SUP-16, PD-10: when the request is over, too, the late store fails at once.
#[test]
fn a10_store_after_the_finish() {
    let mut w = pd();
    w.load(A, "r", &[1], &[9]);
    w.run();
    w.finish(A, "r");
    w.run();
    w.expect(A, B, &["fetch r#0 await k1->9", "abort_fetch r#0", "release r"]);
    let store = w.store(B, "r", &[1], &[3]);
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::SupplyOver));
    w.end();
}

/// A11 · guards I5, I7, SUP-11: aborting is the core's work, whatever the data plane can do: one that cancels nothing
/// is asked again and again, and the ack comes when the WRITE ends by itself.
/// Rules SUP-6.
#[test]
fn a11_a_plane_that_cancels_nothing() {
    let (mut w, load, _, write) = in_flight();
    w.abort(load);
    w.run();
    assert_eq!(w.cancels(B), 1);
    w.advance(1.s());
    assert_eq!(w.cancels(B), 11, "every 100 ms");
    w.done(write);
    w.run();
    w.expect(B, A, &["abort_ack r#0 settled"]);
    w.advance(1.s());
    assert_eq!(w.cancels(B), 11);
    w.end();
}

/// A12 · guards I4, LOAD-11, PD-5: a failed load publishes nothing but what its result lists. After an abort that is
/// nothing, though a block had landed.
#[test]
fn a12_failed_load_publishes_nothing() {
    let (mut w, load, stores, [first, second]) = two_in_flight();
    w.done(first);
    w.abort(load);
    w.run();
    w.expect_open(load);
    w.done(second);
    w.run();
    w.expect_failed(load, LoadFailure::Aborted, Reusable);
    w.expect_nothing_landed(load);
    // The aborted blocks are supply again; the next load gets them into blocks of its own.
    stores.into_iter().for_each(|store| w.expect_pinned(store));
    w.let_go(Writes(B));
    let again = w.load(A, "r", &[1, 2], &[11, 12]);
    w.run();
    w.expect_loaded(again);
    stores.into_iter().for_each(|store| w.expect_store(store, Delivered));
    w.end();
}

/// A13 · guards I3, ID-7, SUP-6, CMD-14: a WRITE's end that comes twice, or for a WRITE that never was, is ignored and
/// counted.
#[test]
fn a13_late_completions_are_ignored() {
    let (mut w, load, store, write) = in_flight();
    let xfer = w.xfer(write);
    w.done(write);
    w.run();
    w.expect_loaded(load);
    for end in [TransferEnd::Done, TransferEnd::Errored, TransferEnd::Fenced, TransferEnd::NotPosted] {
        w.fact(B, Input::Transfer { xfer, end });
    }
    w.expect_count(B, Count::StaleTransfer, 4);
    w.expect_store(store, Delivered);
    w.expect_link(B, A, LinkStatus::Up);
    w.end();
}

/// A14 · guards I3, PD-9: a producer that gives up says so at once; the consumer does not decode over an incomplete
/// cache.
#[test]
fn a14_producer_gives_up() {
    let mut w = pd();
    let load = w.load(A, "r", &[1, 2], &[9, 10]);
    w.run();
    w.finish(B, "r");
    w.run();
    w.expect(B, A, &["transfer_done r#0 ProducerFinished settled 00"]);
    w.expect_failed(load, Producer(Failure::ProducerFinished), Reusable);
    w.end();
}

/// A14 · guards I3, I5, PD-9, SUP-2: with a WRITE in flight it says so after that.
#[test]
fn a14_producer_gives_up_with_a_write_in_flight() {
    let mut w = pd();
    w.hold(Writes(B));
    let load = w.load(A, "r", &[1, 2], &[9, 10]);
    w.run();
    let store = w.store(B, "r", &[1], &[3]);
    let write = w.write_of(B);
    w.finish(B, "r");
    w.run();
    w.expect_silence(B, A);
    w.done(write);
    w.run();
    w.expect(B, A, &["transfer_done r#0 ProducerFinished settled 10"]);
    w.expect_failed(load, Producer(Failure::ProducerFinished), Reusable);
    w.expect_landed(load, "10");
    w.expect_store(store, Delivered);
    w.end();
}
