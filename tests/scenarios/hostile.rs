//! Legal bytes in the wrong place: what breaks a rule costs the session, what does not fit is ignored and counted
//! (docs/protocol.md, "Rules for receivers").

use kvpeer_wire::{
    AbortAck, Bits, ConnectAck, Disconnect, FetchProgress, Lookup, LookupId, Nonce, Outcome, Reject, Text,
    TransferDone,
};

use crate::prelude::*;

fn done<'a>(request: &'a str, round: u64, outcome: Outcome<'a>) -> Msg<'a> {
    Msg::TransferDone(TransferDone { request: name(request), round: Round(round), outcome })
}

fn ack(request: &str, round: u64, settled: bool) -> Msg<'_> {
    Msg::AbortAck(AbortAck { request: name(request), round: Round(round), settled })
}

/// A's load of `k1` and `k2` into 9 and 10, fetched from X.
fn fetching() -> (World, Job, kvpeer_tests::Line) {
    let mut w = World::strangers(1);
    w.open_pd(A, "r", X);
    let load = w.load(A, "r", &[1, 2], &[9, 10]);
    let line = w.rogue_accepts(A);
    w.expect_heard(line, &["fetch r#0 await k1->9 k2->10"]);
    (w, load, line)
}

/// MSG-2 · guards I8: nothing but `connect` may come first; pings, rejects and goodbyes may.
#[test]
fn first_words() {
    let (request, round) = (name("r"), Round(0));
    let one = keys(&[1]);
    let lookup = Lookup { lookup_id: LookupId(0), request, round, keys: one.as_keys() };
    for msg in [
        Msg::Lookup(lookup),
        ack("r", 0, true),
        done("r", 0, Outcome::Ok),
        Msg::FetchProgress(FetchProgress { request, round, matched: 0, parked: 0, landed: 0 }),
    ] {
        let mut w = World::strangers(1);
        let line = w.rogue_dials(A);
        w.rogue_says(line, &msg);
        w.expect_heard(line, &["disconnect Protocol", "closed"]);
        w.expect_count(A, Count::Misbehaved, 1);
        w.end();
    }
    for msg in [
        Msg::Disconnect(Disconnect { reason: DisconnectReason::Closed, detail: Text::default() }),
        Msg::Reject(Reject {
            code: RejectCode::Version,
            field: Text::default(),
            ours: Text::default(),
            theirs: Text::default(),
            retry_after_ms: 0,
        }),
    ] {
        let mut w = World::strangers(1);
        let line = w.rogue_dials(A);
        w.rogue_says(line, &Msg::Pong(Nonce(3)));
        w.rogue_says(line, &msg);
        w.expect_heard(line, &["closed"]);
        w.expect_count(A, Count::Misbehaved, 0);
        w.end();
    }
}

/// MSG-6 · guards I3: a `reject` of a session that is up is a broken rule.
#[test]
fn reject_of_a_session() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    let (field, ours, theirs) = (Text::default(), Text::default(), Text::default());
    let code = RejectCode::Duplicate;
    w.rogue_says(line, &Msg::Reject(Reject { code, field, ours, theirs, retry_after_ms: 0 }));
    w.expect_heard(line, &["disconnect Protocol", "closed"]);
    w.end();
}

/// MSG-12 · guards I6: what names no live round, or another request's, changes nothing.
#[test]
fn answers_for_other_rounds() {
    let (mut w, load, line) = fetching();
    for msg in [
        done("r", 1, Outcome::Ok),
        done("q", 0, Outcome::Ok),
        ack("r", 7, true),
        ack("q", 0, true),
        // Nobody has aborted this one.
        ack("r", 0, true),
        ack("r", 0, false),
    ] {
        w.rogue_says(line, &msg);
        w.expect_open(load);
    }
    w.expect_link(A, X, LinkStatus::Up);
    w.expect_count(A, Count::UnknownRound, 6);
    let landed = Bits::new(2, &[0]).expect("two bits");
    let failed = Outcome::Failed { why: Failure::NoSupply, settled: true, landed };
    w.rogue_says(line, &done("r", 0, failed));
    w.expect_failed(load, Producer(Failure::NoSupply), Reusable);
    // It is over: nothing changes that either.
    w.rogue_says(line, &done("r", 0, failed));
    w.expect_count(A, Count::UnknownRound, 7);
    w.end();
}

/// MSG-15 · guards I4: `landed` bits that do not fit the fetch are no bits.
#[test]
fn landed_bits_that_do_not_fit() {
    for (count, bytes) in [(1, [1]), (3, [7]), (8, [255])] {
        let (mut w, load, line) = fetching();
        let landed = Bits::new(count, &bytes).expect("bits");
        let failed = Outcome::Failed { why: Failure::WriteFailed, settled: true, landed };
        w.rogue_says(line, &done("r", 0, failed));
        w.expect_failed(load, Producer(Failure::WriteFailed), Reusable);
        w.expect_nothing_landed(load);
        w.end();
    }
}

/// LOAD-8 · guards I7: progress that shows no growth keeps nothing alive, whatever it claims.
#[test]
fn progress_without_growth() {
    let (mut w, load, line) = fetching();
    let (request, round) = (name("r"), Round(0));
    let say = |matched, parked, landed| {
        Msg::FetchProgress(FetchProgress { request, round, matched, parked, landed })
    };
    w.rogue_says(line, &say(2, 0, 1));
    for _ in 0..8 {
        w.advance(3.s());
        w.rogue_says(line, &say(2, 0, 1));
        w.rogue_says(line, &say(2, 0, 0));
    }
    w.advance(7.s());
    w.expect_heard(line, &["abort_fetch r#0"]);
    w.rogue_says(line, &ack("r", 0, true));
    w.expect_failed(load, Timeout, Reusable);
    w.end();
}

/// LOAD-8 · guards I7: nor does demand that is said to be parked, again and again.
#[test]
fn parked_for_ever() {
    let (mut w, load, line) = fetching();
    for _ in 0..13 {
        w.rogue_parks(line, "r", 0, 2);
        w.advance(4_900.ms());
    }
    w.expect_open(load);
    w.advance(2.s());
    w.expect_heard(line, &["abort_fetch r#0"]);
    w.rogue_says(line, &ack("r", 0, true));
    w.expect_failed(load, Timeout, Reusable);
    w.end();
}

/// LOAD-8 · guards I7: demand finds its supply once; a peer that takes that back gets no more time for it.
#[test]
fn parked_back_and_forth() {
    let (mut w, load, line) = fetching();
    for _ in 0..4 {
        w.rogue_parks(line, "r", 0, 2);
        w.advance(5.s());
        w.rogue_parks(line, "r", 0, 0);
        w.advance(5.s());
    }
    w.expect_heard(line, &["abort_fetch r#0"]);
    w.rogue_says(line, &ack("r", 0, true));
    w.expect_failed(load, Timeout, Reusable);
    w.end();
}

/// MSG-13 · guards I6: an answer that reaches past its lookup's keys, and one of a closed lookup, are cut off and counted.
#[test]
fn answers_past_the_end() {
    let mut w = World::strangers(1);
    w.open_symmetric(A, "r", X);
    w.ask(A, "r", &[1, 2]);
    let line = w.rogue_accepts(A);
    w.rogue_answers(line, 0, 1, &[true, true, true]);
    w.expect_count(A, Count::LateLookupResp, 1);
    w.rogue_answers(line, 0, 16_000, &[true]);
    w.rogue_answers(line, 9, 0, &[true]);
    w.expect_count(A, Count::LateLookupResp, 3);
    assert_eq!(w.lookup(A, "r", &[1, 2]), "PH");
    w.rogue_answers(line, 0, 0, &[true]);
    w.rogue_answers(line, 0, 0, &[false]);
    assert_eq!(w.lookup(A, "r", &[1, 2]), "HH");
    w.end();
}

/// END-3 · guards I8: after our verdict nothing more is read from that peer, while our WRITEs to it finish.
#[test]
fn nothing_is_read_after_the_verdict() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    w.hold(Writes(A));
    w.store(A, "r", &[1, 2], &[1, 2]);
    w.rogue_fetches(line, "r", 0, &[1], &[9]);
    w.rogue_says(line, &Msg::ConnectAck(ConnectAck { incarnation: 1 }));
    w.rogue_heard(line);
    w.rogue_fetches(line, "r", 1, &[2], &[10]);
    w.rogue_aborts(line, "r", 0);
    w.expect_heard(line, &[]);
    w.expect_count(A, Count::AfterEnd, 2);
    w.let_go(Writes(A));
    w.expect_heard(line, &["transfer_done r#0 ok", "disconnect Protocol", "closed"]);
    w.end();
}

/// Guards I9: one peer's broken rules do not touch another peer's work.
#[test]
fn neighbours_do_not_suffer() {
    let mut w = World::strangers(2);
    w.introduce(B, A);
    w.open_pd(B, "r", A);
    w.hold(Writes(A));
    let load = w.load(B, "r", &[1], &[9]);
    w.store(A, "r", &[1], &[3]);
    w.run();
    // The first comes at once, the second after a back-off of 1 s, the third after 2 s, ….
    for wait in [0, 1, 2, 4, 8] {
        w.advance(wait.s());
        let line = w.rogue_session(A);
        w.rogue_fetches(line, "r", 0, &[1], &[9]);
        w.expect_heard(line, &["transfer_done r#0 NotYours settled 0"]);
        w.rogue_garbles(line);
        w.expect_heard(line, &["disconnect Protocol", "closed"]);
    }
    w.expect_open(load);
    w.let_go(Writes(A));
    w.expect_loaded(load);
    w.end();
}
