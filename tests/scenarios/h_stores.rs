//! H: stores, the order of prefill and decode, timers of supply.

use crate::prelude::*;

/// H2 · guards I3, MSG-16, PD-2: demand before supply.
/// Rules PD-1.
#[test]
fn h02_fetch_before_store() {
    let mut w = pd();
    let load = w.load(A, "r", &[1, 2], &[9, 10]);
    w.run();
    w.expect_news(B, "FetchArrived", |news| matches!(news, News::FetchArrived { .. }));
    w.expect(A, B, &["fetch r#0 await k1->9 k2->10"]);
    w.expect_progress(B, A, &["r#0 matched 0 parked 2 landed 0"]);
    let first = w.store(B, "r", &[2], &[4]);
    w.run();
    w.expect_open(load);
    let second = w.store(B, "r", &[1], &[3]);
    w.run();
    w.expect(B, A, &["transfer_done r#0 ok"]);
    w.expect_loaded(load);
    w.expect_store(first, Delivered);
    w.expect_store(second, Delivered);
    w.end();
}

/// H2 · guards I3: supply before demand, also from a producer that has finished already.
/// Rules PD-1, PD-9.
#[test]
fn h02_store_and_finish_before_fetch() {
    let mut w = pd();
    let store = w.store(B, "r", &[1], &[3]);
    w.finish(B, "r");
    w.run();
    w.expect_pinned(store);
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.expect_loaded(load);
    w.expect_store(store, Delivered);
    w.end();
}

/// H3 · guards I3, I7, PD-7, PD-10: supply that nobody claims is reaped, once; a late fetch is refused in the same
/// step.
#[test]
fn h03_reaped_supply() {
    let mut w = pd();
    let stores = [w.store(B, "r", &[1], &[3]), w.store(B, "r", &[2], &[4])];
    w.advance(59.s());
    stores.into_iter().for_each(|store| w.expect_pinned(store));
    w.advance(2.s());
    stores.into_iter().for_each(|store| w.expect_store(store, Unclaimed));
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.expect(B, A, &["transfer_done r#0 SupplyTimeout settled 0"]);
    w.expect_progress(B, A, &[]);
    w.expect_failed(load, Producer(Failure::SupplyTimeout), Reusable);
    w.end();
}

/// H3 · guards I3, PD-9, PD-10: the same when the producer had finished and all was claimed.
#[test]
fn h03_claimed_and_finished_supply() {
    let mut w = pd();
    w.store(B, "r", &[1], &[3]);
    w.finish(B, "r");
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.expect_loaded(load);
    let late = w.load(A, "r", &[2], &[10]);
    w.run();
    w.expect(B, A, &["transfer_done r#0 ok", "transfer_done r#1 ProducerFinished settled 0"]);
    w.expect_failed(late, Producer(Failure::ProducerFinished), Reusable);
    w.end();
}

/// H4 · guards I3, PD-10: a store for an id whose supply is over fails at once; it does not park again.
#[test]
fn h04_store_after_the_reap() {
    let mut w = pd();
    let store = w.store(B, "r", &[1], &[3]);
    w.advance(61.s());
    w.expect_store(store, Unclaimed);
    let late = w.store(B, "r", &[2], &[4]);
    w.expect_store(late, StoreOutcome::Failed(StoreFailure::SupplyOver));
    w.end();
}

/// H4 · guards I3, PD-11: unless the producer's engine opens the id anew, or its memory has passed.
/// Rules PD-10.
#[test]
fn h04_open_clears_the_memory() {
    let mut w = pd();
    w.store(B, "r", &[1], &[3]);
    w.advance(61.s());
    w.open_producer(B, "r", None);
    let store = w.store(B, "r", &[2], &[4]);
    w.expect_pinned(store);
    let load = w.load(A, "r", &[2], &[9]);
    w.run();
    w.expect_loaded(load);
    w.expect_store(store, Delivered);

    let mut w2 = pd();
    w2.store(B, "r", &[1], &[3]);
    w2.advance(121.s());
    let store = w2.store(B, "r", &[2], &[4]);
    w2.expect_pinned(store);
    w.end();
    w2.end();
}

/// H8 · guards I2: with a push there is no lease that could run out under a transfer: what a WRITE reads stays pinned,
/// whatever timers pass.
/// Rules SUP-9, SUP-13.
#[test]
fn h08_no_timer_unpins_a_source_under_a_write() {
    let mut w = World::pair_with(|_, config| {
        config.timing.write = 600.s();
        config.timing.load = 600.s();
        config.timing.abort_ack = 600.s();
    });
    w.open_pd(A, "r", B);
    w.hold(Writes(B));
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    let store = w.store(B, "r", &[1], &[3]);
    w.advance(200.s());
    w.expect_pinned(store);
    w.abort(load);
    w.advance(200.s());
    w.expect_pinned(store);
    w.let_go(Writes(B));
    w.expect_failed(load, LoadFailure::Aborted, Reusable);
    w.end();
}

/// H8 · guards I2, I7, PIN-3: the same for a lookup's pin: its time runs out only before a fetch has matched it.
#[test]
fn h08_a_pin_does_not_expire_under_a_write() {
    let mut w = symmetric();
    w.caches(B, &[1], &[3]);
    w.ask(A, "r", &[1]);
    w.run();
    assert_eq!(w.lookup(A, "r", &[1]), "H");
    w.hold(Writes(B));
    w.advance(29.s());
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.advance(25.s());
    w.let_go(Writes(B));
    w.expect_loaded(load);
    w.end();
}

/// H10 · guards I2, PIN-4, PD-6: an eviction during a slow transfer finds the block pinned.
#[test]
fn h10_claim_outlives_the_offer() {
    let mut w = symmetric();
    w.caches(B, &[1, 2], &[3, 4]);
    w.hold(Writes(B));
    w.ask(A, "r", &[1, 2]);
    w.run();
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    // `k2` was not fetched: its pin went with the fetch, the block may go. `k1` is being read.
    assert_eq!(w.pins(B, 4), 1, "one job pins both");
    w.let_go(Writes(B));
    w.expect_loaded(load);
    w.evict(B, 1);
    w.evict(B, 2);
    w.end();
}

/// H12 · guards I3: the accounts of one request and of the node agree after every step of a long and busy life.
/// Rules CMD-13.
#[test]
fn h12_accounts_agree() {
    let mut w = pd();
    w.open_symmetric(A, "s", B);
    w.open_pd(B, "t", A);
    w.caches(B, &[11, 12], &[11, 12]);
    w.hold(Writes(B));
    let loads = [w.load(A, "r", &[1, 2], &[21, 22]), w.load(B, "t", &[5], &[25])];
    w.ask(A, "s", &[11, 12, 13]);
    w.run();
    assert_eq!(w.lookup(A, "s", &[11, 12, 13]), "HHM");
    w.store(A, "t", &[5], &[5]);
    w.store(B, "r", &[1], &[1]);
    w.run();
    w.expect_loaded(loads[1]);
    let symmetric = w.load(A, "s", &[12], &[32]);
    w.run();
    assert_eq!(w.totals(A).loads, 2);
    assert_eq!(w.totals(B).rounds, 2);
    assert_eq!(w.totals(B).writes, 2);
    assert_eq!(w.totals(B).parked, 1);
    w.let_go(Writes(B));
    w.expect_loaded(symmetric);
    w.store(B, "r", &[2], &[2]);
    w.run();
    w.expect_loaded(loads[0]);
    for who in [A, B] {
        let totals = w.totals(who);
        assert_eq!(
            (totals.loads, totals.rounds, totals.writes, totals.parked, totals.pinned),
            (0, 0, 0, 0, 0)
        );
    }
    w.end();
}

/// Beyond the list · guards I3, PD-3: a store names its consumer; another peer's fetch is refused, the right one's is
/// served.
#[test]
fn h_store_for_one_consumer() {
    let mut w = World::strangers(3);
    w.introduce(A, B);
    w.introduce(C, B);
    let store = w.store_for(B, "r", &[1], &[3], A);
    w.open_pd(C, "r", B);
    let thief = w.load(C, "r", &[1], &[9]);
    w.run();
    w.expect_failed(thief, Producer(Failure::NotYours), Reusable);
    w.expect_pinned(store);
    w.open_pd(A, "r", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// Beyond the list · guards I3, SUP-12, SUP-14, CMD-8: withdrawing takes back only what no round has claimed.
#[test]
fn h_withdraw() {
    let mut w = pd();
    w.hold(Writes(B));
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    let stores = [w.store(B, "r", &[1, 2], &[3, 4]), w.store(B, "r", &[3], &[5])];
    w.withdraw(stores[0]);
    w.withdraw(stores[1]);
    w.expect_pinned(stores[0]);
    w.expect_store(stores[1], Unclaimed);
    let late = w.load(A, "r", &[2, 3], &[10, 11]);
    w.run();
    w.let_go(Writes(B));
    w.expect_loaded(load);
    w.expect_store(stores[0], Partly { delivered: 1 });
    w.expect_open(late);
    w.end();
}
