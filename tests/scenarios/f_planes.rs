//! F: completions and the data plane, as far as the core decides; the adapters' own rows are in `tests/README.md`.

use kvpeer_wire::Connect;

use crate::prelude::*;

/// F1 · guards I9: completions belong to their own peer's round, in whatever order they come.
#[test]
fn f01_completions_of_two_peers() {
    let mut w = World::strangers(3);
    w.introduce(A, B);
    w.introduce(C, B);
    w.hold(Writes(B));
    w.open_pd(A, "r", B);
    w.open_pd(C, "s", B);
    let loads = [w.load(A, "r", &[1], &[9]), w.load(C, "s", &[2], &[9])];
    w.store(B, "r", &[1], &[1]);
    w.store(B, "s", &[2], &[2]);
    w.run();
    let writes = w.writes_of(B);
    w.done(writes[1]);
    w.run();
    let open = loads.into_iter().filter(|load| w.is_open(*load)).count();
    assert_eq!(open, 1, "one completion, one result");
    w.done(writes[0]);
    w.run();
    loads.into_iter().for_each(|load| w.expect_loaded(load));
    w.end();
}

/// F3 · guards I4, MSG-21: bytes that have arrived are not enough: only the delivery-complete completion ends a round.
#[test]
fn f03_arrival_is_not_completion() {
    let (mut w, load, _, write) = in_flight();
    assert_eq!(w.land(write), Landing::Landed);
    w.advance(20.s());
    w.expect_open(load);
    w.expect_silence(B, A);
    w.done(write);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// F4 · guards I3, I7: completion is decided at the writer and told in one message; if that is lost, the session's
/// liveness ends the load.
#[test]
fn f04_lost_completion_message() {
    let (mut w, load, store, write) = in_flight();
    w.vanish(B, A);
    w.done(write);
    w.run();
    w.expect(B, A, &["transfer_done r#0 ok"]);
    w.expect_store(store, Delivered);
    w.expect_open(load);
    w.advance(11.s());
    w.expect_failed(load, Session(Silent), Quarantined);
    w.expect_released(load);
    w.end();
}

/// F5 · guards I7, SUP-10: a plane that tries for ever is bounded by the WRITE's timer: the epoch ends.
#[test]
fn f05_endless_retries_are_bounded() {
    let mut w = World::pair_with(|_, config| config.timing.load = 300.s());
    w.open_pd(A, "r", B);
    w.hold(Writes(B));
    let load = w.load(A, "r", &[1], &[9]);
    let store = w.store(B, "r", &[1], &[3]);
    w.advance(29.s());
    w.expect_link(B, A, LinkStatus::Up);
    w.advance(2.s());
    w.expect_link(B, A, LinkStatus::Draining);
    w.expect_open(load);
    w.expect_pinned(store);
    w.advance(10.s());
    w.expect(B, A, &["disconnect WriteStalled"]);
    w.expect_down(B, A, WriteStalled);
    w.expect_failed(load, Session(Goodbye(DisconnectReason::WriteStalled)), Quarantined);
    w.end();
}

/// F6 · guards I5, SUP-6, SUP-8, PD-5: a cancel may cancel, come too late, or fail; the ack follows the WRITE's own
/// end, and says which.
#[test]
fn f06_cancel_is_best_effort() {
    for (end, ack) in [
        (TransferEnd::Done, "abort_ack r#0 settled"),
        (TransferEnd::NotPosted, "abort_ack r#0 settled"),
        (TransferEnd::Errored, "abort_ack r#0 unsettled"),
    ] {
        let (mut w, load, store, write) = in_flight();
        w.abort(load);
        w.run();
        match end {
            TransferEnd::Done => w.done(write),
            TransferEnd::NotPosted => w.not_posted(write),
            TransferEnd::Errored | TransferEnd::Fenced => w.error(write),
        }
        w.run();
        assert_eq!(w.said(B, A).first().map(String::as_str), Some(ack));
        match end {
            // What the abort has stopped is supply again.
            TransferEnd::Done | TransferEnd::NotPosted => {
                w.expect_failed(load, LoadFailure::Aborted, Reusable);
                w.let_go(Writes(B));
                let again = w.load(A, "r", &[1], &[10]);
                w.run();
                w.expect_loaded(again);
                w.expect_store(store, Delivered);
            }
            TransferEnd::Errored | TransferEnd::Fenced => {
                w.expect_failed(load, LoadFailure::Aborted, Quarantined);
            }
        }
        w.end();
    }
}

/// F8 · guards I1, I2, END-14: closing proves nothing on a plane that says so: both ends keep what they hold.
#[test]
fn f08_a_plane_that_cannot_fence() {
    let (mut w, load, store, write) = in_flight();
    w.without_fence(A);
    w.without_fence(B);
    w.close_peer(B, A);
    w.advance(15.s());
    w.expect_quarantined(load);
    w.expect_pinned(store);
    assert_eq!(w.land(write), Landing::Landed);
    w.refuses(
        A,
        Command::Load { job: JobId(77), request: name("r"), keys: keys(&[2]).as_keys(), blocks: &[9] },
        Misuse::Reserved(9),
    );
    // A new session of the two goes on beside it.
    w.let_go(Writes(B));
    w.open_pd(A, "s", B);
    w.store(B, "s", &[2], &[4]);
    let other = w.load(A, "s", &[2], &[10]);
    w.run();
    w.expect_loaded(other);
    w.release_quarantine(load);
    w.expect_released(load);
    w.end();
}

/// F10 · guards I8: what the data plane says about a peer's memory is the plane's to understand; what it does not
/// understand is refused, before any WRITE.
/// Rules HS-9.
#[test]
fn f10_unknown_metadata_is_refused() {
    let mut w = World::strangers(1);
    let line = w.rogue_dials(A);
    w.rogue_says(line, &Msg::Connect(Connect { metadata: b"right of another kind", ..rogue_connect() }));
    let heard = w.rogue_heard(line);
    assert_eq!(heard[0], "connect a 1");
    assert!(heard[1].starts_with("reject RegistrationFailed(metadata)"), "{heard:?}");
    w.expect_down(A, X, RejectedByUs(RejectCode::RegistrationFailed));
    w.end();
}

/// F11 · guards I8: a block index is checked against the region that its peer announced before anything is posted.
/// Rule SUP-4.
#[test]
fn f11_bounds_are_checked_before_posting() {
    let mut w = World::strangers(1);
    let line = w.rogue_dials(A);
    let small = kvpeer_wire::RegionInfo { num_blocks: 4, ..rogue_connect().region };
    w.rogue_says(line, &Msg::Connect(Connect { region: small, ..rogue_connect() }));
    w.rogue_says(line, &Msg::ConnectAck(kvpeer_wire::ConnectAck { incarnation: 1 }));
    w.rogue_heard(line);
    w.store(A, "r", &[1, 2], &[60, 61]);
    w.rogue_fetches(line, "r", 0, &[1], &[4]);
    w.expect_heard(line, &["transfer_done r#0 Malformed settled 0"]);
    w.rogue_fetches(line, "r", 1, &[1, 2], &[0, 3]);
    let heard = w.rogue_heard(line);
    assert_eq!(heard.last().map(String::as_str), Some("transfer_done r#1 ok"));
    w.end();
}

/// F12 · guards I7, SUP-3, MSG-17, LIM-5: a huge fetch goes out in bounded WRITEs, a bounded number at a time, and its
/// progress is told.
#[test]
fn f12_bounded_batches() {
    let mut w = World::pair_with(|_, config| {
        config.limits.write_bytes = 4 * 16;
        config.limits.window_bytes = 8 * 16;
    });
    let (numbers, sources): (Vec<u32>, Vec<u32>) = (0..20).map(|n| (n + 1, n)).unzip();
    let destinations: Vec<u32> = (30..50).collect();
    w.open_pd(A, "r", B);
    w.hold(Writes(B));
    let load = w.load(A, "r", &numbers, &destinations);
    w.store(B, "r", &numbers, &sources);
    w.run();
    let mut rounds = 0;
    while w.is_open(load) {
        let writes = w.writes_of(B);
        let lens: Vec<usize> = writes.iter().map(|write| w.show_write(*write).split(' ').count()).collect();
        assert!(lens.iter().all(|len| *len <= 4) && lens.iter().sum::<usize>() <= 8, "{lens:?}");
        w.advance(1.s());
        w.done(writes[0]);
        w.run();
        rounds += 1;
    }
    assert_eq!(rounds, 5);
    w.expect_progress(
        B,
        A,
        &[
            "r#0 matched 20 parked 0 landed 0",
            "r#0 matched 20 parked 0 landed 4",
            "r#0 matched 20 parked 0 landed 8",
            "r#0 matched 20 parked 0 landed 12",
            "r#0 matched 20 parked 0 landed 16",
        ],
    );
    w.end();
}

/// F12 · guards I9, SUP-3: rounds of one peer take turns: a huge one does not make a small one wait for all of it.
#[test]
fn f12_rounds_take_turns() {
    let mut w = World::pair_with(|_, config| {
        config.limits.write_bytes = 16;
        config.limits.window_bytes = 2 * 16;
    });
    w.open_pd(A, "r", B);
    w.hold(Writes(B));
    let numbers: Vec<u32> = (1..=20).collect();
    w.store(B, "r", &numbers, &numbers);
    let huge = w.load(A, "r", &numbers[..19], &(30..49).collect::<Vec<_>>());
    w.run();
    let small = w.load(A, "r", &[20], &[60]);
    w.run();
    let mut turns = 0;
    while w.is_open(small) {
        let next = w.writes_of(B)[0];
        w.done(next);
        w.run();
        turns += 1;
    }
    assert!(turns <= 4, "after {turns} WRITEs");
    w.expect_open(huge);
    w.let_go(Writes(B));
    w.expect_loaded(huge);
    w.end();
}

/// F13 · guards I7: many small blocks go out as few WRITEs; merging adjacent ones is the plane's.
/// Rules SUP-3.
#[test]
fn f13_runs_of_blocks() {
    let mut w = pd();
    let numbers: Vec<u32> = (1..=30).collect();
    w.hold(Writes(B));
    w.store(B, "r", &numbers, &numbers);
    let load = w.load(A, "r", &numbers, &(31..61).collect::<Vec<_>>());
    w.run();
    assert_eq!(w.writes_of(B).len(), 1);
    w.let_go(Writes(B));
    w.expect_loaded(load);
    w.end();
}
