//! G: validation, limits, security.

use kvpeer_wire::{Connect, NameError};

use crate::prelude::*;

/// G1 · guards I8, MSG-8, SUP-4: a block outside the requester's region is refused for that request; nothing of it is
/// posted.
#[test]
fn g01_block_outside_the_region() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    w.store(A, "r", &[1, 2], &[1, 2]);
    for (round, block) in [(0, 64), (1, u32::MAX)] {
        w.rogue_fetches(line, "r", round, &[1, 2], &[3, block]);
        w.expect_heard(line, &[&format!("transfer_done r#{round} Malformed settled 00")]);
    }
    // Neither may a block stand twice.
    w.rogue_fetches(line, "r", 2, &[1, 2], &[3, 3]);
    w.expect_heard(line, &["transfer_done r#2 Malformed settled 00"]);
    w.expect_link(A, X, LinkStatus::Up);
    w.rogue_fetches(line, "r", 3, &[1, 2], &[62, 63]);
    let heard = w.rogue_heard(line);
    assert_eq!(heard.last().map(String::as_str), Some("transfer_done r#3 ok"));
    w.end();
}

/// G1 · guards I8, LOAD-1, CMD-4: the same of one's own region, as misuse.
#[test]
fn g01_own_blocks() {
    let mut w = pd();
    let (two, job) = (keys(&[1, 2]), JobId(99));
    let keys = two.as_keys();
    let load = |blocks| Command::Load { job, request: name("r"), keys, blocks };
    w.refuses(A, load(&[1, 64]), Misuse::OutOfRange(64));
    w.refuses(A, load(&[1, 1]), Misuse::DoubledBlock(1));
    w.refuses(A, load(&[1]), Misuse::Unequal { keys: 2, blocks: 1 });
    let store = |blocks| Command::Store { job, request: name("r"), keys, blocks, consumer: None };
    w.refuses(B, store(&[1, 64]), Misuse::OutOfRange(64));
    w.refuses(B, store(&[1]), Misuse::Unequal { keys: 2, blocks: 1 });
    w.end();
}

/// G3 · guards I9, MSG-10, CMD-14: a live (request, round) that comes again is ignored and counted; nothing else on the
/// session suffers.
#[test]
fn g03_duplicate_fetch() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    w.hold(Writes(A));
    w.store(A, "r", &[1], &[1]);
    w.rogue_fetches(line, "r", 0, &[1], &[9]);
    w.rogue_heard(line);
    w.rogue_fetches(line, "r", 0, &[1], &[10]);
    w.expect_heard(line, &[]);
    w.expect_count(A, Count::DuplicateFetch, 1);
    w.expect_writes(A, &["1->9"]);
    w.let_go(Writes(A));
    w.expect_heard(line, &["transfer_done r#0 ok"]);
    w.end();
}

/// G4 · guards I7, HS-16: work that waits for a session is bounded, in count and in bytes; the newest fails at once.
#[test]
fn g04_held_work_is_bounded() {
    let mut w = World::with(1, |_, config| config.limits.held_bytes = 60);
    w.hold(Dials(A));
    w.open_pd(A, "r", X);
    let loads: Vec<Job> = (0..20).map(|n| w.load(A, "r", &[n, n + 100], &[2 * n, 2 * n + 1])).collect();
    let held = loads.iter().take_while(|load| w.is_open(**load)).count();
    assert!((1..20).contains(&held), "{held} are held");
    for load in &loads[held..] {
        w.expect_failed(*load, LoadFailure::Overloaded, Reusable);
    }
    assert_eq!(w.totals(A).held, held);
    w.expect_count(A, Count::HeldOverflow, 20 - held as u64);
    w.end();
}

/// G5 · guards I7, LIM-1: parked demand has a cap and a deadline at the producer.
#[test]
fn g05_parked_demand_is_bounded() {
    let mut w = World::with(1, |_, config| {
        config.limits.parked_blocks = 5;
        config.limits.rounds = 3;
    });
    let line = w.rogue_session(A);
    for round in 0..3 {
        w.rogue_fetches(line, "r", round, &[1, 2], &[1, 2]);
    }
    let heard = w.rogue_heard(line);
    assert_eq!(heard.last().map(String::as_str), Some("transfer_done r#2 Overloaded settled 00"));
    assert_eq!(w.totals(A).parked, 4);
    // Nor may one request have any number of rounds.
    w.rogue_fetches(line, "r", 3, &[1], &[1]);
    w.rogue_fetches(line, "r", 4, &[], &[]);
    w.rogue_fetches(line, "r", 5, &[2], &[1]);
    let heard = w.rogue_heard(line);
    assert_eq!(heard.last().map(String::as_str), Some("transfer_done r#5 Overloaded settled 0"));
    w.advance(61.s());
    let mut heard = w.rogue_heard(line);
    heard.sort();
    assert_eq!(
        heard,
        [
            "transfer_done r#0 SupplyTimeout settled 00",
            "transfer_done r#1 SupplyTimeout settled 00",
            "transfer_done r#3 SupplyTimeout settled 0",
        ]
    );
    assert_eq!(w.totals(A).parked, 0);
    w.end();
}

/// G5 · guards I7, LIM-3, LIM-4: what a peer makes us keep is bounded in bytes, for one peer and for all; another peer
/// does not suffer from the bound of one.
#[test]
fn g05_kept_bytes_are_bounded() {
    let mut w = World::with(2, |who, config| {
        if who == A {
            config.limits.peer_bytes = 2_000;
        }
    });
    let line = w.rogue_session(A);
    let mut refused = 0;
    for round in 0..200 {
        w.rogue_fetches(line, &format!("r{round}"), round, &[1, 2, 3], &[1, 2, 3]);
        refused += w.rogue_heard(line).iter().filter(|text| text.contains("Overloaded")).count();
    }
    assert!((1..200).contains(&refused), "{refused} are refused");
    assert!(w.totals(A).kept_bytes <= 2_000, "{:?}", w.totals(A));
    w.introduce(B, A);
    w.open_pd(B, "q", A);
    let load = w.load(B, "q", &[9], &[9]);
    w.store(A, "q", &[9], &[9]);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// G5 · guards I7, PD-13: fetches that demand nothing leave nothing behind, however many there are.
/// Rules LIM-3.
#[test]
fn g05_empty_fetches_leave_nothing() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    for round in 0..100 {
        w.rogue_fetches(line, &format!("r{round}"), round, &[], &[]);
    }
    let heard = w.rogue_heard(line);
    assert!(heard.iter().all(|text| text.ends_with(" ok")), "{heard:?}");
    assert!(w.totals(A).kept_bytes < 1_000, "{:?}", w.totals(A));
    w.end();
}

/// G6 · guards I7, LKP-10: lookups are queued up to a cap; over it the answer is miss, at once.
#[test]
fn g06_lookup_backlog_is_bounded() {
    let mut w = World::with(1, |_, config| config.limits.lookups = 3);
    w.hold(Lookups(A));
    let line = w.rogue_session(A);
    for id in 0..5 {
        w.rogue_asks(line, id, "r", 0, &[1, 2]);
    }
    w.expect_heard(line, &["lookup_resp L3 +0 00", "lookup_resp L4 +0 00"]);
    assert_eq!(w.probes(A).len(), 3);
    w.expect_count(A, Count::Overloaded, 2);
    w.end();
}

/// G6 · guards I7, LKP-10: so are the blocks that lookups pin, and only those that do not fit are misses.
#[test]
fn g06_pinned_blocks_are_bounded() {
    let mut w = World::with(1, |_, config| config.limits.pinned_blocks = 3);
    w.caches(A, &[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5]);
    let line = w.rogue_session(A);
    w.rogue_asks(line, 0, "r", 0, &[1, 2]);
    w.rogue_asks(line, 1, "r", 0, &[3, 4]);
    w.rogue_asks(line, 2, "r", 0, &[5]);
    w.expect_heard(line, &["lookup_resp L0 +0 11", "lookup_resp L1 +0 10", "lookup_resp L2 +0 0"]);
    assert_eq!(w.totals(A).pinned, 3);
    w.expect_count(A, Count::Overloaded, 2);
    w.end();
}

/// G7 · guards I9, PD-2, PD-12: a request is bound to the first peer that fetches it; nobody else gets its blocks.
#[test]
fn g07_no_takeover() {
    let mut w = World::strangers(3);
    w.introduce(A, B);
    w.introduce(C, B);
    w.open_pd(A, "r", B);
    w.open_pd(C, "r", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    let thief = w.load(C, "r", &[1], &[9]);
    w.run();
    w.expect_failed(thief, Producer(Failure::NotYours), Reusable);
    w.store(B, "r", &[1], &[3]);
    w.run();
    w.expect_loaded(load);
    w.expect_count(B, Count::NotYours, 1);
    w.end();
}

/// G7 · guards I9, PD-3: nor can a store be given to another peer than it names, though the request is bound already.
#[test]
fn g07_a_store_names_its_consumer() {
    let mut w = World::strangers(3);
    w.introduce(A, B);
    w.introduce(C, B);
    w.open_pd(A, "r", B);
    w.load(A, "r", &[1], &[9]);
    w.run();
    let one = keys(&[1]);
    let (job, request, keys) = (JobId(99), name("r"), one.as_keys());
    let store = Command::Store { job, request, keys, blocks: &[3], consumer: Some(C.peer()) };
    w.refuses(B, store, Misuse::OtherConsumer);
    let open = kvpeer_core::Part::Produce { consumer: Some(C.peer()) };
    w.refuses(B, Command::Open { request, part: open }, Misuse::OtherConsumer);
    w.end();
}

/// G7 · guards I9, SUP-16: another peer's `release`, `abort_fetch` and pins change nothing.
#[test]
fn g07_no_interference() {
    let (mut w, load, _, write) = in_flight();
    let line = w.rogue_session(B);
    w.rogue_aborts(line, "r", 0);
    w.rogue_releases(line, "r");
    w.expect_heard(line, &["abort_ack r#0 settled"]);
    w.done(write);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// G9 · guards I8, HS-4, HS-11, HS-12: who gets a memory key is the embedder's decision, asked for by name before any
/// right is opened; both sides ask.
#[test]
fn g09_admission() {
    let mut w = World::strangers(2);
    w.hold(Admits(B));
    w.open_pd(A, "r", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.turn_away(B);
    w.run();
    w.expect(B, A, &["reject Unauthorized"]);
    w.expect_failed(load, Session(RejectedByPeer(RejectCode::Unauthorized)), Reusable);
    assert!(w.rights(B).is_empty());

    // A name that the router made up is not even dialled into.
    let mut w2 = World::strangers(2);
    w2.hold(Admits(A));
    w2.open_pd(A, "r", B);
    let load = w2.load(A, "r", &[1], &[9]);
    w2.run();
    w2.turn_away(A);
    w2.run();
    w2.expect_failed(load, Session(RejectedByUs(RejectCode::Unauthorized)), Reusable);
    assert!(w2.rights(A).is_empty());
    w.end();
    w2.end();
}

/// G10 · guards I9, MSG-7: bytes that are no message cost that connection, with one named goodbye; nobody else notices.
#[test]
fn g10_malformed_bytes() {
    let mut w = World::strangers(2);
    w.introduce(B, A);
    w.open_pd(B, "r", A);
    let load = w.load(B, "r", &[1], &[9]);
    let stranger = w.rogue_dials(A);
    w.rogue_garbles(stranger);
    w.expect_heard(stranger, &["disconnect Protocol", "closed"]);
    let line = w.rogue_session(A);
    w.rogue_garbles(line);
    w.expect_heard(line, &["disconnect Protocol", "closed"]);
    w.expect_count(A, Count::Misbehaved, 2);
    w.store(A, "r", &[1], &[3]);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// G10 · guards I8, ID-1, ID-8, FR-14: names that are no names cannot even be written down.
#[test]
fn g10_names_are_checked_by_their_types() {
    assert_eq!(RequestName::new(""), Err(NameError::Empty));
    assert_eq!(RequestName::new(&"x".repeat(256)), Err(NameError::TooLong { len: 256 }));
    assert!(RequestName::new(&"x".repeat(255)).is_ok());
    assert!(kvpeer_wire::Key::new(&[]).is_err());
    assert!(kvpeer_wire::Key::new(&[0; 65]).is_err());
}

/// G11 · guards I4, I2: a key whose block was evicted is a miss; one that was pinned before is served as it was.
#[test]
fn g11_no_stale_source() {
    let mut w = symmetric();
    w.caches(B, &[1, 2], &[1, 2]);
    w.evict(B, 2);
    w.ask(A, "r", &[1, 2]);
    w.run();
    assert_eq!(w.lookup(A, "r", &[1, 2]), "HM");
    let load = w.load(A, "r", &[1], &[11]);
    w.run();
    w.expect_loaded(load);
    w.evict(B, 1);
    w.ask(A, "r", &[1]);
    w.run();
    assert_eq!(w.lookup(A, "r", &[1]), "M");
    w.end();
}

/// G12 · guards I7: a node never waits for a peer that does not read: it goes on with the others, and the silent one dies.
/// Rules LIM-4.
#[test]
fn g12_slow_reader() {
    let mut w = World::strangers(3);
    w.introduce(A, B);
    w.introduce(C, B);
    w.open_pd(A, "r", B);
    w.open_pd(C, "s", B);
    w.hold(Messages(B, A));
    let stuck = w.load(A, "r", &[1], &[9]);
    let load = w.load(C, "s", &[2], &[9]);
    w.store(B, "r", &[1], &[3]);
    w.store(B, "s", &[2], &[4]);
    w.run();
    w.expect_loaded(load);
    w.expect_open(stuck);
    w.advance(11.s());
    w.expect_failed(stuck, Session(Silent), Quarantined);
    w.expect_link(C, B, LinkStatus::Up);
    w.end();
}

/// G13 · guards I4: keys are opaque: nothing but equality counts, so none is taken for another, however alike they are.
/// (That different contents have different keys is for the host's hash to see to.)
#[test]
fn g13_keys_are_opaque() {
    let mut w = pd();
    // `k1`, `k11`, `k111`, `k1111`: each the beginning of the next.
    let load = w.load(A, "r", &[1111, 1, 11], &[9, 10, 11]);
    w.run();
    let store = w.store(B, "r", &[111, 11, 1111], &[3, 4, 5]);
    w.run();
    w.expect_open(load);
    w.store(B, "r", &[1], &[6]);
    w.run();
    w.expect_loaded(load);
    w.withdraw(store);
    w.expect_store(store, Partly { delivered: 2 });
    w.end();
}

/// LIM-1 · guards I7, HS-4: inbound connections that have not finished their handshake are bounded.
#[test]
fn g_handshakes_are_bounded() {
    let mut w = World::with(1, |_, config| config.limits.handshakes = 2);
    let lines: Vec<_> = (0..4).map(|_| w.rogue_dials(A)).collect();
    w.expect_heard(lines[0], &[]);
    w.expect_heard(lines[1], &[]);
    w.expect_heard(lines[2], &["closed"]);
    w.expect_heard(lines[3], &["closed"]);
    w.expect_count(A, Count::TooManyHandshakes, 2);
    w.advance(31.s());
    w.expect_heard(lines[0], &["closed"]);
    let again = w.rogue_session(A);
    w.expect_heard(again, &[]);
    w.end();
}

/// LIM-1 · guards I7: peers are bounded; one too many is told so, and when to come again.
#[test]
fn g_peers_are_bounded() {
    let mut w = World::with(3, |who, config| {
        if who == A {
            config.limits.peers = 1;
        }
    });
    w.introduce(B, A);
    let line = w.rogue_dials(A);
    w.rogue_says(line, &Msg::Connect(Connect { ..rogue_connect() }));
    let heard = w.rogue_heard(line);
    assert_eq!(heard, ["reject TooManyPeers retry 5000 ms", "closed"]);
    w.open_pd(A, "r", C);
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.expect_failed(load, Session(TooManyPeers), Reusable);
    // Work for the peer that has a slot goes on.
    w.open_pd(A, "s", B);
    w.store(B, "s", &[1], &[3]);
    let load = w.load(A, "s", &[1], &[9]);
    w.run();
    w.expect_loaded(load);
    w.end();
}
