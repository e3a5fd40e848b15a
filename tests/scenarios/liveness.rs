//! Heartbeats, back-off, idle eviction, shutdown (docs/protocol.md, "Liveness", "Refusals", "Endings").

use kvpeer_wire::{Connect, ConnectAck, Nonce, Reject, Text};

use crate::prelude::*;

/// LIV-1 · guards I7: a quiet session is kept alive by pings, for as long as anybody likes.
#[test]
fn quiet_session_lives() {
    let mut w = World::pair();
    w.advance(200.s());
    w.expect_link(A, B, LinkStatus::Up);
    w.expect_silence(A, B);
    w.end();
}

/// LIV-1 · guards I7, MSG-14: each ping is answered with its own nonce, also before the handshake.
#[test]
fn pings_are_answered() {
    let mut w = World::strangers(1);
    let line = w.rogue_dials(A);
    w.rogue_says(line, &Msg::Ping(Nonce(77)));
    assert_eq!(w.pongs(line), [77]);
    w.rogue_says(line, &Msg::Connect(rogue_connect()));
    w.rogue_says(line, &Msg::Ping(Nonce(u64::MAX)));
    assert_eq!(w.pongs(line), [u64::MAX]);
    w.end();
}

/// LIV-2 · guards I7, FR-15: a peer is dead after our dead interval, or five of its own heartbeats if these are longer,
/// within our own bound.
#[test]
fn dead_interval_follows_the_peer() {
    for (heartbeat_ms, dead_after) in [(2_000, 10), (4_000, 20), (600_000, 50)] {
        let mut w = World::strangers(1);
        let line = w.rogue_dials(A);
        w.rogue_says(line, &Msg::Connect(Connect { heartbeat_ms, ..rogue_connect() }));
        w.rogue_says(line, &Msg::ConnectAck(ConnectAck { incarnation: 1 }));
        w.rogue_is_silent();
        w.advance((dead_after - 1).s());
        w.expect_link(A, X, LinkStatus::Up);
        w.advance(2.s());
        w.expect_down(A, X, Silent);
        w.end();
    }
}

/// LIV-3 · guards I7: any byte shows life, also one that completes no message.
#[test]
fn trickling_bytes_show_life() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    w.rogue_is_silent();
    for _ in 0..8 {
        w.advance(9.s());
        w.rogue_trickles(line);
    }
    w.expect_link(A, X, LinkStatus::Up);
    w.advance(11.s());
    w.expect_down(A, X, Silent);
    w.end();
}

/// HS-21 · guards I7, HS-4: a stranger has its handshake time and not more, however much it trickles.
#[test]
fn trickling_stranger_has_a_deadline() {
    let mut w = World::strangers(1);
    let line = w.rogue_dials(A);
    for _ in 0..29 {
        w.advance(1.s());
        w.rogue_trickles(line);
    }
    w.expect_heard(line, &[]);
    w.advance(2.s());
    w.expect_heard(line, &["closed"]);
    w.end();
}

/// HS-20 · guards I7: refused dials are repeated, ever more slowly, while work waits; a peer that starts meanwhile is
/// found.
#[test]
fn dials_are_repeated() {
    let mut w = World::strangers(2);
    w.unreachable(A, B);
    w.open_pd(A, "r", B);
    w.store(B, "r", &[1], &[1]);
    let load = w.load(A, "r", &[1], &[9]);
    w.advance(20.s());
    assert_eq!(w.dials(A), 9, "at 0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 11.3, 16.3 s");
    w.expect_open(load);
    w.heal(A, B);
    w.advance(5.s());
    w.expect_loaded(load);
    w.end();
}

/// HS-19 · guards I7: a passing refusal is tried again, not before the time that it names; a lasting one is not.
#[test]
fn passing_refusals_are_repeated() {
    let reject = |code, retry_after_ms| {
        let (field, ours, theirs) = (Text::default(), Text::default(), Text::default());
        Msg::Reject(Reject { code, field, ours, theirs, retry_after_ms })
    };
    let mut w = World::strangers(1);
    w.open_pd(A, "r", X);
    let load = w.load(A, "r", &[1], &[9]);
    let line = w.rogue_dialled();
    w.rogue_says(line, &reject(RejectCode::TooManyPeers, 7_000));
    w.expect_open(load);
    w.advance(6.s());
    assert_eq!(w.dials(A), 1);
    w.advance(2.s());
    assert_eq!(w.dials(A), 2);
    let line = w.rogue_dialled();
    w.rogue_says(line, &reject(RejectCode::Unauthorized, 0));
    w.expect_failed(load, Session(RejectedByPeer(RejectCode::Unauthorized)), Reusable);
    w.advance(60.s());
    assert_eq!(w.dials(A), 2);
    w.end();
}

/// HS-22 · guards I7: who comes during our back-off is told how long it lasts.
#[test]
fn backoff_is_told() {
    let mut w = World::strangers(1);
    for _ in 0..3 {
        let line = w.rogue_session(A);
        w.peer_fault(A, X);
        w.run();
        w.expect_heard(line, &["disconnect DataPlane", "closed"]);
        w.advance(2.s());
    }
    let line = w.rogue_session(A);
    w.peer_fault(A, X);
    w.run();
    w.rogue_heard(line);
    let early = w.rogue_dials(A);
    w.rogue_says(early, &Msg::Connect(rogue_connect()));
    w.expect_heard(early, &["reject Backoff retry 4000 ms", "closed"]);
    w.end();
}

/// LIV-5 · guards I3: an idle session gives up its slot, but only when slots are short and nothing at all is pending.
#[test]
fn idle_eviction() {
    let short = |_, config: &mut kvpeer_core::Config| config.limits.peers = 4;
    let mut w = World::pair_with(short);
    w.advance(301.s());
    w.expect_down(A, B, Idle);
    w.end();
    // Slots are plenty.
    let mut w = World::pair();
    w.advance(301.s());
    w.expect_link(A, B, LinkStatus::Up);
    w.end();
    // Something is pending: parked demand, with a timer that is longer than the idle time.
    let mut w = World::pair_with(|who, config| {
        short(who, config);
        config.timing.parked = 900.s();
    });
    w.open_pd(A, "r", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.advance(400.s());
    w.expect_link(A, B, LinkStatus::Up);
    w.expect_open(load);
    w.store(B, "r", &[1], &[1]);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// END-8 · guards I3: at every moment of a load's life, a shutdown of either side answers everything and ends.
#[test]
fn shutdown_at_every_moment() {
    for who in [A, B] {
        for moment in 0..60 {
            let mut w = World::strangers(2);
            w.open_pd(A, "r", B);
            w.open_symmetric(B, "s", A);
            w.caches(A, &[7], &[7]);
            w.load(A, "r", &[1, 2], &[9, 10]);
            w.store(B, "r", &[1], &[1]);
            w.ask(B, "s", &[7, 8]);
            w.take_steps(moment);
            w.shutdown(who, 3.s());
            w.refuses(who, Command::Connect { peer: X.peer(), address: "x" }, Misuse::ShuttingDown);
            w.advance(4.s());
            assert!(w.endpoint(who).is_idle(), "{who} at step {moment}");
            w.end();
        }
    }
}

/// END-1 · guards I3: who is closed drains in order: loads are aborted and answered, parked demand is refused.
#[test]
fn closing_a_peer_drains() {
    let (mut w, load, store, write) = in_flight();
    w.open_pd(B, "s", A);
    let parked = w.load(B, "s", &[5], &[20]);
    w.run();
    w.close_peer(A, B);
    w.run();
    w.expect(A, B, &["transfer_done s#0 Closing settled 0", "abort_fetch r#0"]);
    w.expect_failed(parked, Producer(Failure::Closing), Reusable);
    w.expect_open(load);
    w.done(write);
    w.run();
    w.expect(B, A, &["fetch s#0 await k5->20", "abort_ack r#0 settled"]);
    w.expect(A, B, &["disconnect Closed"]);
    w.expect_failed(load, Session(Closed), Reusable);
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::Session(Goodbye(DisconnectReason::Closed))));
    w.end();
}
