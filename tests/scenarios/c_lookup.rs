//! C: lookups and rounds.

use crate::prelude::*;

/// `r` at A, symmetric from B, whose cache holds `k1` to `k4` in blocks 1 to 4.
fn cached() -> World {
    let mut w = symmetric();
    w.caches(B, &[1, 2, 3, 4], &[1, 2, 3, 4]);
    w
}

/// The pins that B's cache has given away, oldest first.
fn pin(n: u64) -> Job {
    Job { who: B, id: JobId(1_000 + n) }
}

/// C1 · guards I6, ID-9, ID-10, PIN-6: the end of round 0 does not touch round 1's pins.
#[test]
fn c01_end_of_one_round_spares_the_next() {
    let mut w = cached();
    w.hold(Writes(B));
    w.ask(A, "r", &[1]);
    w.run();
    let first = w.load(A, "r", &[1], &[11]);
    w.run();
    w.ask(A, "r", &[2]);
    w.run();
    w.done(w.write_of(B));
    w.run();
    w.expect_loaded(first);
    w.expect_store(pin(1), Delivered);
    w.expect_pinned(pin(2));
    let second = w.load(A, "r", &[2], &[12]);
    w.run();
    w.expect(
        A,
        B,
        &["lookup r#0 L0 k1", "fetch r#0 pinned k1->11", "lookup r#1 L1 k2", "fetch r#1 pinned k2->12"],
    );
    w.expect_writes(B, &["2->12"]);
    w.let_go(Writes(B));
    w.expect_loaded(second);
    w.expect_store(pin(2), Delivered);
    w.end();
}

/// C2 · guards I6, LOAD-3: rounds end in any order, each for its own load.
#[test]
fn c02_rounds_end_in_any_order() {
    let mut w = cached();
    w.hold(Writes(B));
    w.ask(A, "r", &[1]);
    w.run();
    let first = w.load(A, "r", &[1], &[11]);
    w.ask(A, "r", &[2]);
    w.run();
    let second = w.load(A, "r", &[2], &[12]);
    w.run();
    let writes = w.writes_of(B);
    w.done(writes[1]);
    w.run();
    w.expect_loaded(second);
    w.expect_open(first);
    w.done(writes[0]);
    w.run();
    w.expect_loaded(first);
    w.end();
}

/// C3 · guards I6, PIN-6: aborting one round leaves the next its pins.
#[test]
fn c03_abort_of_one_round_spares_the_next() {
    let mut w = cached();
    w.hold(Writes(B));
    w.ask(A, "r", &[1]);
    w.run();
    let first = w.load(A, "r", &[1], &[11]);
    w.ask(A, "r", &[2]);
    w.run();
    w.abort(first);
    w.run();
    w.done(w.write_of(B));
    w.run();
    w.expect_failed(first, LoadFailure::Aborted, Reusable);
    w.expect_store(pin(1), StoreOutcome::Failed(StoreFailure::Aborted));
    w.expect_pinned(pin(2));
    w.let_go(Writes(B));
    let second = w.load(A, "r", &[2], &[12]);
    w.run();
    w.expect_loaded(second);
    w.end();
}

/// C5 · guards I4, I7, PIN-1, PIN-4: a fetch that names a block which is not pinned for its round fails at once, and
/// nothing of it is written.
#[test]
fn c05_unmatched_fetch_fails_at_once() {
    let mut w = cached();
    w.ask(A, "r", &[1]);
    w.run();
    let load = w.load(A, "r", &[1, 7], &[11, 12]);
    w.run();
    w.expect(B, A, &["lookup_resp L0 +0 1", "transfer_done r#0 NoSupply settled 00"]);
    w.expect_failed(load, Producer(Failure::NoSupply), Reusable);
    w.expect_store(pin(1), Unclaimed);
    w.end();
}

/// C7 · guards I6, LKP-5, ID-12, MSG-13: a late answer of round 0 does not answer round 1's question for the same key.
#[test]
fn c07_late_answer_of_an_old_round() {
    let mut w = cached();
    w.expects_keys(B, &[7]);
    w.ask(A, "r", &[1]);
    w.ask(A, "r", &[7]);
    w.run();
    assert_eq!(w.lookup(A, "r", &[1, 7]), "HP");
    w.hold(Messages(B, A));
    // B finds `k7` in the first round, but its answer is still on its way when that round is closed.
    w.caches(B, &[7], &[7]);
    w.advance(1.s());
    let load = w.load(A, "r", &[1], &[11]);
    w.hold(Lookups(B));
    w.ask(A, "r", &[7]);
    w.run();
    w.expect(A, B, &["lookup r#0 L0 k1", "lookup r#0 L1 k7", "fetch r#0 pinned k1->11", "lookup r#1 L2 k7"]);
    w.let_go(Messages(B, A));
    w.expect_loaded(load);
    assert_eq!(w.lookup(A, "r", &[7]), "P");
    w.expect_count(A, Count::LateLookupResp, 1);
    w.let_go(Lookups(B));
    assert_eq!(w.lookup(A, "r", &[7]), "H");
    w.end();
}

/// C10 · guards I4, LOAD-7, LKP-1: a fetch forgets what was known of the request's keys: the next look goes on the
/// wire.
#[test]
fn c10_fetch_forgets_hits() {
    let mut w = cached();
    w.ask(A, "r", &[1, 2, 9]);
    w.run();
    assert_eq!(w.lookup(A, "r", &[1, 2, 9]), "HHM");
    let load = w.load(A, "r", &[1], &[11]);
    w.run();
    w.expect_loaded(load);
    assert_eq!(w.lookup(A, "r", &[1, 2, 9]), "PPP");
    w.expect(A, B, &["lookup r#0 L0 k1 k2 k9", "fetch r#0 pinned k1->11"]);
    w.ask(A, "r", &[1]);
    w.expect(A, B, &["lookup r#1 L1 k1 k2 k9"]);
    w.end();
}

/// C10 · guards I4, I7, LKP-2, FR-15: a hit is good for the time that the producer keeps its pin, no longer.
/// Rules PIN-2.
#[test]
fn c10_hits_expire() {
    let mut w = World::pair_with(|who, config| {
        if who == B {
            config.timing.pin = 7.s();
        }
    });
    w.open_symmetric(A, "r", B);
    w.caches(B, &[1], &[1]);
    w.ask(A, "r", &[1]);
    w.run();
    w.advance(6.s());
    assert_eq!(w.lookup(A, "r", &[1]), "H");
    w.advance(2.s());
    assert_eq!(w.lookup(A, "r", &[1]), "P");
    w.expect_store(pin(1), Unclaimed);
    w.end();
}

/// C11 · guards I7, I9, LKP-3: a peer that is alive and does not answer costs that request's lookups, and nothing else.
#[test]
fn c11_unanswered_lookup() {
    let mut w = World::strangers(1);
    w.open_symmetric(A, "r", X);
    w.open_pd(A, "s", X);
    w.ask(A, "r", &[1, 2]);
    let line = w.rogue_accepts(A);
    w.expect_heard(line, &["lookup r#0 L0 k1 k2"]);
    let load = w.load(A, "s", &[5], &[9]);
    w.rogue_parks(line, "s", 1, 1);
    w.advance(29.s());
    assert_eq!(w.lookup(A, "r", &[1, 2]), "PP");
    w.advance(2.s());
    assert_eq!(w.lookup(A, "r", &[1, 2]), "MM");
    w.expect_link(A, X, LinkStatus::Up);
    w.expect_open(load);
    w.end();
}

/// C11 · guards I7, LKP-4, MSG-13: only keys that had no answer keep the question alive; repeating an answer does not.
#[test]
fn c11_only_new_answers_count() {
    let mut w = World::strangers(1);
    w.open_symmetric(A, "r", X);
    w.ask(A, "r", &[1, 2, 3]);
    let line = w.rogue_accepts(A);
    w.advance(20.s());
    w.rogue_answers(line, 0, 0, &[true]);
    // The timer runs anew from here, and once only.
    w.advance(20.s());
    w.rogue_answers(line, 0, 0, &[true]);
    w.rogue_answers(line, 0, 0, &[false]);
    assert_eq!(w.lookup(A, "r", &[1, 2, 3]), "HPP");
    w.advance(11.s());
    assert_eq!(w.lookup(A, "r", &[2, 3]), "MM");
    w.end();
}

/// C12 · guards I3, I7, LKP-6, LKP-7, LKP-8, LKP-9, PIN-5, ID-7: a key that stays pending is a miss when its time is
/// up, is answered once, and what the cache pins for it afterwards is given back at once.
#[test]
fn c12_pending_becomes_a_miss() {
    let mut w = cached();
    w.expects_keys(B, &[7]);
    w.ask(A, "r", &[1, 7, 2]);
    w.run();
    w.expect(B, A, &["lookup_resp L0 +0 1"]);
    w.advance(4.s());
    assert_eq!(w.lookup(A, "r", &[1, 7, 2]), "HPP");
    w.hold(Lookups(B));
    w.advance(2.s());
    w.expect(B, A, &["lookup_resp L0 +1 01"]);
    assert_eq!(w.lookup(A, "r", &[1, 7, 2]), "HMH");
    // The cache finds it after all.
    w.caches(B, &[7], &[7]);
    let probe = w.probes(B)[0];
    let late = w.answer(B, probe).expect("a hit");
    w.expect_store(late, Unclaimed);
    w.expect_count(B, Count::LatePin, 1);
    w.run();
    w.expect_silence(B, A);
    w.end();
}

/// C13 · guards I7, LKP-3: a lookup that timed out says nothing about the key: it is a miss once, then asked again.
#[test]
fn c13_unknown_is_not_absent() {
    let mut w = World::strangers(1);
    w.open_symmetric(A, "r", X);
    w.ask(A, "r", &[1]);
    let line = w.rogue_accepts(A);
    w.advance(31.s());
    assert_eq!(w.lookup(A, "r", &[1]), "M");
    assert_eq!(w.lookup(A, "r", &[1]), "P");
    w.rogue_heard(line);
    w.ask(A, "r", &[1]);
    w.run();
    w.expect_heard(line, &["lookup r#0 L1 k1"]);
    w.rogue_answers(line, 1, 0, &[true]);
    assert_eq!(w.lookup(A, "r", &[1]), "H");
    w.end();
}

/// C14 · guards I3, I7, PIN-1, PIN-2: a pin that no fetch claims ends with its time, and leaves the offer at that
/// instant.
#[test]
fn c14_pins_expire() {
    let mut w = cached();
    w.ask(A, "r", &[1]);
    w.run();
    w.hold(Messages(A, B));
    w.advance(8.s());
    // The fetch is on its way while the pin expires.
    w.let_go(Messages(A, B));
    w.advance(21.s());
    w.expect_pinned(pin(1));
    w.hold(Messages(A, B));
    let load = w.load(A, "r", &[1], &[11]);
    w.advance(2.s());
    w.expect_store(pin(1), Unclaimed);
    w.let_go(Messages(A, B));
    w.expect_failed(load, Producer(Failure::NoSupply), Reusable);
    w.end();
}

/// C14 · guards I3, SUP-15: a consumer that vanishes leaves no pin behind.
#[test]
fn c14_pins_of_the_dead() {
    let mut w = cached();
    w.ask(A, "r", &[1, 2]);
    w.run();
    w.crash(A);
    w.run();
    w.expect_store(pin(1), Unclaimed);
    w.end();
}

/// C15 · guards I7, I9, MSG-8, MSG-9: a key that stands twice in a fetch or a lookup is refused for that request, on
/// both sides.
#[test]
fn c15_doubled_keys() {
    let mut w = pd();
    let doubled = keys(&[1, 1]);
    let load = Command::Load { job: JobId(99), request: name("r"), keys: doubled.as_keys(), blocks: &[1, 2] };
    w.refuses(A, load, Misuse::DoubledKey);
    w.end();

    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    w.store(A, "r", &[1], &[3]);
    w.rogue_fetches(line, "r", 0, &[1, 1], &[1, 2]);
    w.expect_heard(line, &["transfer_done r#0 Malformed settled 00"]);
    w.rogue_asks(line, 0, "r", 1, &[1, 1]);
    w.expect_heard(line, &["lookup_resp L0 +0 00"]);
    w.expect_count(A, Count::MalformedFetch, 1);
    w.expect_count(A, Count::MalformedLookup, 1);
    // The session lives.
    w.rogue_fetches(line, "r", 2, &[1], &[1]);
    let heard = w.rogue_heard(line);
    assert_eq!(heard, ["fetch_progress r#2 matched 1 parked 0 landed 0", "transfer_done r#2 ok"]);
    w.end();
}

/// C17 · guards I3, END-7, LKP-12, ID-7: a session that dies with open lookups: the consumer's are misses, once, and
/// its request is told; the producer's are given back.
#[test]
fn c17_session_dies_with_open_lookups() {
    let mut w = cached();
    w.ask(A, "r", &[1]);
    w.run();
    w.hold(Lookups(B));
    w.ask(A, "r", &[2, 3]);
    w.run();
    assert_eq!(w.lookup(A, "r", &[1, 2, 3]), "HPP");
    w.cut(A, B);
    w.run();
    w.expect_news(A, "RequestFailed", |news| matches!(news, News::RequestFailed { reason: Lost, .. }));
    assert_eq!(w.lookup(A, "r", &[1, 2, 3]), "MMM");
    w.expect_store(pin(1), Unclaimed);
    // The cache answers B after the end: what it pins is given back.
    w.answer_late(B);
    w.expect_store(pin(2), Unclaimed);
    w.finish(A, "r");
    w.open_symmetric(A, "r", B);
    assert_eq!(w.lookup(A, "r", &[1]), "P");
    w.end();
}
