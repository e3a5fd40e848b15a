//! Supply and demand beyond the list: bindings, releases, bounds, odd answers of a cache (docs/protocol.md, "Supply").

use kvpeer_core::{Epoch, KeyAt, LookupState, ProbeId};
use kvpeer_wire::{Blocks, Demand, Fetch, Supply};

use crate::prelude::*;

/// Rules PD-4, PD-12 · guards I3: a binding ends with its session; then another peer may have the request.
#[test]
fn binding_ends_with_the_session() {
    let mut w = World::strangers(3);
    w.introduce(A, B);
    w.introduce(C, B);
    w.open_pd(A, "r", B);
    w.open_pd(C, "r", B);
    w.load(A, "r", &[1], &[9]);
    w.run();
    let bound = w.store(B, "r", &[2], &[4]);
    w.cut(A, B);
    w.run();
    w.expect_store(bound, StoreOutcome::Failed(StoreFailure::Session(Lost)));
    let load = w.load(C, "r", &[3], &[9]);
    w.store(B, "r", &[3], &[5]);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// Rule PD-4 · guards I7: a binding without demand and supply ends after the unbound time.
#[test]
fn binding_ends_when_nothing_happens() {
    let mut w = World::strangers(3);
    w.introduce(A, B);
    w.introduce(C, B);
    w.open_pd(A, "r", B);
    w.open_pd(C, "r", B);
    let first = w.load(A, "r", &[1], &[9]);
    w.store(B, "r", &[1], &[3]);
    w.run();
    w.expect_loaded(first);
    let thief = w.load(C, "r", &[2], &[9]);
    w.run();
    w.expect_failed(thief, Producer(Failure::NotYours), Reusable);
    w.advance(61.s());
    let second = w.load(C, "r", &[2], &[9]);
    w.store(B, "r", &[2], &[3]);
    w.run();
    w.expect_loaded(second);
    w.end();
}

/// Rules SUP-16, SUP-17, SUP-18 · guards I3: a release gives back what is offered; a round that is live, parked demand
/// too, runs to its own end.
#[test]
fn release_spares_live_rounds() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    w.hold(Writes(A));
    let stores = [w.store(A, "r", &[1], &[1]), w.store(A, "r", &[2], &[2])];
    w.rogue_fetches(line, "r", 0, &[1, 3], &[9, 10]);
    w.rogue_heard(line);
    w.rogue_releases(line, "r");
    w.expect_heard(line, &[]);
    w.expect_store(stores[1], Unclaimed);
    w.expect_pinned(stores[0]);
    // What the parked demand still waits for may come.
    let late = w.store(A, "r", &[3, 4], &[3, 4]);
    w.let_go(Writes(A));
    w.expect_heard(line, &["fetch_progress r#0 matched 2 parked 0 landed 0", "transfer_done r#0 ok"]);
    w.expect_store(stores[0], Delivered);
    w.expect_store(late, Partly { delivered: 1 });
    // The id is over for `await`, until its memory has passed.
    w.rogue_fetches(line, "r", 1, &[1], &[9]);
    w.expect_heard(line, &["transfer_done r#1 SupplyTimeout settled 0"]);
    w.advance(61.s());
    w.rogue_fetches(line, "r", 2, &[1], &[9]);
    w.expect_heard(line, &["fetch_progress r#2 matched 0 parked 1 landed 0"]);
    w.end();
}

/// Rules SUP-16, SUP-18 · guards I3: a release drops the sender's open lookups and pins; a `pinned` id may be used again
/// at once.
#[test]
fn release_of_pins() {
    let mut w = symmetric();
    w.caches(B, &[1, 2], &[1, 2]);
    w.ask(A, "r", &[1]);
    w.run();
    w.hold(Lookups(B));
    w.ask(A, "r", &[2]);
    w.run();
    let pin = Job { who: B, id: JobId(1_001) };
    w.expect_pinned(pin);
    w.finish(A, "r");
    w.run();
    w.expect(A, B, &["lookup r#0 L0 k1", "lookup r#0 L1 k2", "release r"]);
    w.expect_store(pin, Unclaimed);
    w.expect_no_work(B);
    w.let_go(Lookups(B));
    w.open_symmetric(A, "r", B);
    w.ask(A, "r", &[2]);
    w.run();
    assert_eq!(w.lookup(A, "r", &[2]), "H");
    let load = w.load(A, "r", &[2], &[9]);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// Rule SUP-19: a `pinned` request of which nothing was sent needs no release; it does not even cause a dial.
#[test]
fn nothing_to_release() {
    let mut w = World::strangers(2);
    w.open_symmetric(A, "r", B);
    w.lookup(A, "r", &[1]);
    w.finish(A, "r");
    w.run();
    w.expect_silence(A, B);
    assert_eq!(w.dials(A), 0);
    w.end();
}

/// Rules PD-8, FR-15 · guards I7: a wait that a peer names is clamped to our own.
#[test]
fn waits_are_clamped() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    let one = keys(&[1]);
    let demand = Demand::new(one.as_keys(), Blocks::new(&[9])).expect("one of each");
    for (round, wait_ms, lasts) in [(0, u32::MAX, 60), (1, 5_000, 5)] {
        let (request, round) = (name("r"), Round(round));
        w.rogue_says(line, &Msg::Fetch(Fetch { request, round, supply: Supply::Await, demand, wait_ms }));
        w.rogue_heard(line);
        w.advance((lasts - 1).s());
        w.expect_heard(line, &[]);
        w.advance(2.s());
        w.expect_heard(line, &[&format!("transfer_done r#{} SupplyTimeout settled 0", round.0)]);
    }
    w.end();
}

/// Rule ID-11: rounds need not grow on the wire; a number that is over may come again.
#[test]
fn any_round_number_will_do() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    for (turn, round) in [(0, 9), (1, 3), (2, u64::MAX), (3, 3)] {
        w.store(A, "r", &[turn], &[turn]);
        w.rogue_fetches(line, "r", round, &[turn], &[9]);
        let heard = w.rogue_heard(line);
        assert_eq!(heard.last(), Some(&format!("transfer_done r#{round} ok")));
    }
    w.end();
}

/// Rule PD-13: a fetch that demands nothing is complete.
#[test]
fn empty_fetch_is_complete() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    w.rogue_fetches(line, "r", 0, &[], &[]);
    w.expect_heard(line, &["transfer_done r#0 ok"]);
    w.end();
}

/// Rule LKP-1: all new keys go out in as few messages as the limit on keys allows, in order; a key that was seen does not
/// go out again.
#[test]
fn lookups_are_bundled() {
    let mut w = World::pair_with(|_, config| config.limits.keys = 3);
    w.open_symmetric(A, "r", B);
    w.hold(Messages(A, B));
    assert_eq!(w.lookup(A, "r", &[5, 1, 4, 2, 3, 1]), "PPPPPP");
    w.command(A, Command::FlushLookups);
    w.command(A, Command::FlushLookups);
    w.expect(A, B, &["lookup r#0 L0 k5 k1 k4", "lookup r#0 L1 k2 k3"]);
    w.end();
}

/// Rules LKP-11, PIN-5, CMD-5 · guards I2, I3: answers of a cache that make no sense are counted, what is odd in them
/// becomes a miss, and every pin is given back once.
#[test]
fn odd_answers_of_a_cache() {
    let mut w = World::strangers(1);
    w.hold(Lookups(A));
    let line = w.rogue_session(A);
    let store = w.store(A, "q", &[9], &[9]);
    let hit = |at, block| (KeyAt(at), block);
    // A hit without a pin, a block outside the region, a key past the lookup's, an id that a store uses.
    let odd = [
        (None, hit(0, 1)),
        (Some(JobId(501)), hit(0, 64)),
        (Some(JobId(502)), hit(7, 1)),
        (Some(store.id), hit(0, 1)),
    ];
    for (id, (pin, hits)) in odd.into_iter().enumerate() {
        w.rogue_asks(line, id as u64, "r", 0, &[1]);
        let probe = w.probes(A)[0];
        if let Some(pin) = pin.filter(|pin| *pin != store.id) {
            w.books_pin(A, pin, &[1]);
        }
        w.fact(A, Input::Probed { probe, pin, hits: &[hits], misses: &[] });
        w.drop_probe(A, probe);
        w.advance(6.s());
        let heard = w.rogue_heard(line);
        assert_eq!(heard, [format!("lookup_resp L{id} +0 0")], "{pin:?} {hits:?}");
        w.probes(A).into_iter().for_each(|probe| w.drop_probe(A, probe));
    }
    w.expect_count(A, Count::BadAnswer, 4);
    w.expect_pinned(store);
    for id in [501, 502] {
        w.expect_store(Job { who: A, id: JobId(id) }, Unclaimed);
    }
    w.end();
}

/// Rules LKP-11, CMD-5 · guards I2, I3: a late answer of a cache that names a job in use changes nothing.
#[test]
fn late_pin_of_a_job_in_use() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    let store = w.store(A, "q", &[9], &[9]);
    w.rogue_asks(line, 0, "r", 0, &[1]);
    let probe = ProbeId { epoch: w.epoch(A, X), seq: 0 };
    for probe in [probe, ProbeId { seq: 99, ..probe }, ProbeId { epoch: Epoch(77), seq: 0 }] {
        w.fact(A, Input::Probed { probe, pin: Some(store.id), hits: &[], misses: &[] });
        w.expect_pinned(store);
    }
    w.expect_count(A, Count::BadAnswer, 3);
    w.end();
}

/// Rules LOAD-5, END-7 · guards I3: a request whose session failed says so once; what comes for it fails at once, until
/// the engine finishes it.
#[test]
fn failed_request() {
    let mut w = pd();
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.cut(A, B);
    w.run();
    w.expect_failed(load, Session(Lost), Quarantined);
    let late = w.load(A, "r", &[2], &[10]);
    w.expect_failed(late, Session(Lost), Reusable);
    assert_eq!(w.told(A, |news| matches!(news, News::RequestFailed { .. })), 1);
    w.finish(A, "r");
    w.open_pd(A, "r", B);
    let again = w.load(A, "r", &[2], &[10]);
    w.store(B, "r", &[2], &[3]);
    w.run();
    w.expect_loaded(again);
    w.end();
}

/// Rule LKP-1: what is not open, or not a consumer's, is a miss.
#[test]
fn lookup_of_nothing() {
    let mut w = World::pair();
    assert_eq!(w.lookup(A, "never", &[1]), "M");
    assert_ne!(LookupState::Hit, LookupState::Miss);
    w.end();
}

/// Rules SUP-12, SUP-15, END-14 · guards I2, I3: when a session ends on a plane that cannot fence, only what a WRITE reads
/// stays pinned; what was merely claimed is free.
#[test]
fn only_what_is_read_is_held() {
    let mut w = World::pair_with(|_, config| {
        config.limits.write_bytes = 16;
        config.limits.window_bytes = 16;
    });
    w.without_fence(B);
    w.open_pd(A, "r", B);
    w.hold(Writes(B));
    w.load(A, "r", &[1, 2], &[9, 10]);
    w.run();
    let stores = [w.store(B, "r", &[1], &[1]), w.store(B, "r", &[2], &[2])];
    w.expect_writes(B, &["1->9"]);
    w.cut(A, B);
    w.run();
    w.expect_pinned(stores[0]);
    w.expect_store(stores[1], StoreOutcome::Failed(StoreFailure::Session(Lost)));
    assert_eq!(w.totals(B).parked, 0);
    w.release_quarantine(stores[0]);
    w.expect_store(stores[0], StoreOutcome::Failed(StoreFailure::Session(Lost)));
    w.end();
}
