//! D: handshake, registration, identity.

use kvpeer_core::{Compatibility, Config, ConfigError, Endpoint, FingerprintCheck, Refusal};
use kvpeer_wire::{Connect, ConnectAck, FingerprintBuf, PeerName};

use crate::prelude::*;

fn fingerprint(pairs: &[(&str, &str)]) -> FingerprintBuf {
    let mut fingerprint = FingerprintBuf::new();
    pairs.iter().for_each(|(name, value)| fingerprint.push(name, value).expect("short pairs"));
    fingerprint
}

/// A pair of strangers, of which B has another `compat`, and a load that waits for their session.
fn differing(ours: &Compatibility, theirs: &Compatibility) -> (World, Job) {
    let mut w = World::with(2, |who, config| config.compat = if who == A { ours } else { theirs }.clone());
    w.open_pd(A, "r", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    (w, load)
}

/// D1 · guards I3, HS-18, HS-23, CMD-14: an incompatible peer is told why, both sides report it, and the work fails at
/// once.
/// Rules HS-5.
#[test]
fn d01_refusal_names_the_reason() {
    let mut w = World::with(2, |who, config: &mut Config| {
        if who == B {
            config.region.block_len = 8192;
        }
    });
    w.open_pd(A, "r", B);
    let load = w.load(A, "r", &[1], &[9]);
    w.run();
    w.expect(A, B, &["connect a 1"]);
    w.expect(B, A, &["reject BlockLen(block_len) ours \"8192\" theirs \"16\""]);
    let why = RejectedByPeer(RejectCode::BlockLen);
    w.expect_failed(load, Session(why), Reusable);
    w.expect_down(A, B, why);
    w.expect_news(
        B,
        "PeerRefused",
        |news| matches!(news, News::PeerRefused { peer, code: RejectCode::BlockLen } if peer == "a"),
    );
    // B has opened no right for it, and both count it.
    w.expect_count(A, Count::Rejected, 1);
    w.expect_count(B, Count::Rejected, 1);
    // What comes during the back-off fails at once, without another dial.
    w.open_pd(A, "s", B);
    let soon = w.load(A, "s", &[1], &[9]);
    w.expect_failed(soon, Session(why), Reusable);
    w.run();
    w.expect_silence(A, B);
    w.end();
}

/// D2 · guards I3: hash seeds that differ would make every lookup miss; they are refused by name.
/// Rules HS-5.
#[test]
fn d02_hash_seed() {
    let seed = |seed: &str| Compatibility { hash_seed: seed.into(), ..Compatibility::default() };
    let (mut w, load) = differing(&seed("one"), &seed("two"));
    w.expect(B, A, &["reject HashSeed(hash_seed) ours \"two\" theirs \"one\""]);
    w.expect_failed(load, Session(RejectedByPeer(RejectCode::HashSeed)), Reusable);
    w.end();
}

/// D3 · guards I4, HS-7: an empty fingerprint is no wildcard; taking any must be asked for by name, by each side.
#[test]
fn d03_empty_fingerprint_is_no_wildcard() {
    let ours = Compatibility::default();
    let theirs = Compatibility { fingerprint: fingerprint(&[("model", "m1")]), ..Compatibility::default() };
    let (mut w, load) = differing(&ours, &theirs);
    w.expect(B, A, &["reject Fingerprint(model) ours \"model=m1\" theirs \"(absent)\""]);
    w.expect_failed(load, Session(RejectedByPeer(RejectCode::Fingerprint)), Reusable);
    w.end();

    let any = |compat: &Compatibility| Compatibility { check: FingerprintCheck::AcceptAny, ..compat.clone() };
    let (mut w, load) = differing(&any(&ours), &any(&theirs));
    w.expect_link(A, B, LinkStatus::Up);
    w.store(B, "r", &[1], &[3]);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// D4 · guards I4, HS-7: the fingerprint is the host's own set of fields, in order; the first that differs is named,
/// also one that only one side has.
#[test]
fn d04_fingerprint_names_the_field() {
    let compat = |pairs: &[(&str, &str)]| Compatibility {
        fingerprint: fingerprint(pairs),
        ..Compatibility::default()
    };
    let (mut w, _) = differing(
        &compat(&[("model", "m"), ("revision", "r1"), ("push", "1")]),
        &compat(&[("model", "m"), ("revision", "r2"), ("push", "0")]),
    );
    w.expect(B, A, &["reject Fingerprint(revision) ours \"revision=r2\" theirs \"revision=r1\""]);
    w.end();

    let (mut w, _) = differing(&compat(&[("model", "m")]), &compat(&[("model", "m"), ("eagle", "2")]));
    w.expect(B, A, &["reject Fingerprint(eagle) ours \"eagle=2\" theirs \"(absent)\""]);
    w.end();
}

/// D5 · guards I8, MSG-5: work before our `connect_ack` is a broken rule: no WRITE, no crash.
#[test]
fn d05_fetch_before_our_ack() {
    let mut w = World::strangers(1);
    w.hold(Registrations(A));
    w.store(A, "r", &[1], &[3]);
    let line = w.rogue_dials(A);
    w.rogue_says(line, &Msg::Connect(rogue_connect()));
    w.rogue_fetches(line, "r", 0, &[1], &[9]);
    w.expect_heard(line, &["connect a 1", "disconnect Protocol", "closed"]);
    w.expect_writes(A, &[]);
    w.expect_down(A, X, Misbehaved(kvpeer_core::Misbehaved::EarlyWork));
    w.end();
}

/// D5 · guards I8, HS-8: the ack comes only after the registration.
#[test]
fn d05_ack_follows_registration() {
    let mut w = World::strangers(1);
    w.hold(Registrations(A));
    let line = w.rogue_dials(A);
    w.rogue_says(line, &Msg::Connect(rogue_connect()));
    w.expect_heard(line, &["connect a 1"]);
    w.advance(8.s());
    w.expect_heard(line, &[]);
    w.let_go(Registrations(A));
    w.expect_heard(line, &["connect_ack 1"]);
    w.end();
}

/// D8 · guards I8, HS-3, HS-10: an ack that overtakes the peer's own `connect` is legal, and makes nothing ready by
/// itself.
#[test]
fn d08_ack_before_connect() {
    let mut w = World::strangers(1);
    w.open_pd(A, "r", X);
    let load = w.load(A, "r", &[1], &[9]);
    let line = w.rogue_dialled();
    w.expect_heard(line, &["connect a 1"]);
    w.rogue_says(line, &Msg::ConnectAck(ConnectAck { incarnation: 1 }));
    w.expect_heard(line, &[]);
    w.expect_open(load);
    w.rogue_says(line, &Msg::Connect(rogue_connect()));
    w.expect_heard(line, &["connect_ack 1", "fetch r#0 await k1->9"]);
    w.end();
}

/// D8 · guards I8, MSG-4: an ack is valid once, after our `connect`, and for this process only.
/// Rules MSG-2.
#[test]
fn d08_misplaced_acks() {
    let ack = |incarnation| Msg::ConnectAck(ConnectAck { incarnation });
    // Before our `connect` has left.
    let mut w = World::strangers(1);
    w.hold(Rights(A));
    let line = w.rogue_dials(A);
    w.rogue_says(line, &Msg::Connect(rogue_connect()));
    w.rogue_says(line, &ack(1));
    w.expect_heard(line, &["disconnect Protocol", "closed"]);
    w.end();
    // Twice.
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    w.rogue_says(line, &ack(1));
    w.expect_heard(line, &["disconnect Protocol", "closed"]);
    w.end();
    // Of another process.
    let mut w = World::strangers(1);
    let line = w.rogue_dials(A);
    w.rogue_says(line, &Msg::Connect(rogue_connect()));
    w.rogue_heard(line);
    w.rogue_says(line, &ack(7));
    w.expect_heard(line, &["disconnect Protocol", "closed"]);
    w.end();
    // As the first thing.
    let mut w = World::strangers(1);
    let line = w.rogue_dials(A);
    w.rogue_says(line, &ack(1));
    w.expect_heard(line, &["disconnect Protocol", "closed"]);
    w.end();
}

/// D8 · guards I3, MSG-3: a second `connect` is a broken rule in every state.
#[test]
fn d08_second_connect() {
    let mut w = World::strangers(1);
    w.hold(Rights(A));
    let line = w.rogue_dials(A);
    w.rogue_says(line, &Msg::Connect(rogue_connect()));
    w.rogue_says(line, &Msg::Connect(rogue_connect()));
    w.expect_heard(line, &["disconnect Protocol", "closed"]);
    w.let_go(Rights(A));
    let line = w.rogue_session(A);
    w.rogue_says(line, &Msg::Connect(rogue_connect()));
    w.expect_heard(line, &["disconnect Protocol", "closed"]);
    w.end();
}

/// D12 · guards I7: three nodes that connect in a ring do not wait for each other.
#[test]
fn d12_ring_of_connects() {
    let mut w = World::strangers(3);
    let ring = [(A, B), (B, C), (C, A)];
    let loads = ring.map(|(who, whom)| {
        w.open_pd(who, "r", whom);
        w.load(who, "r", &[1], &[9])
    });
    // `r` is three requests of the same name; each node gives and takes.
    for who in [A, B, C] {
        w.store(who, "r", &[1], &[3]);
    }
    w.run();
    loads.into_iter().for_each(|load| w.expect_loaded(load));
    w.end();
}

/// D13 · guards I7, LIM-1, CMD-10: any number of dead addresses costs a bounded number of slots; what is over the cap
/// fails at once, and every attempt is reclaimed.
/// Rules HS-20.
#[test]
fn d13_dead_addresses() {
    let mut w = World::with(1, |_, config| config.limits.peers = 4);
    w.hold(Dials(A));
    let names: Vec<String> = (0..50).map(|n| format!("dead-{n}")).collect();
    for name in &names {
        let peer = PeerName::new(name).expect("a legal name");
        w.command(A, Command::Connect { peer, address: name });
    }
    assert_eq!(w.endpoint(A).peers().filter(|peer| peer.link == LinkStatus::Connecting).count(), 4);
    w.let_go(Dials(A));
    w.advance(200.s());
    assert_eq!(w.endpoint(A).peers().count(), 0);
    w.end();
}

/// D14 · guards I3, HS-15: work that comes while a dead connection is still known goes to the next session, once.
#[test]
fn d14_work_for_the_next_session() {
    let mut w = pd();
    w.cut(A, B);
    w.hold(Messages(B, A));
    w.hold(Messages(A, B));
    // Neither has noticed; the fetch is lost with its connection.
    let lost = w.load(A, "r", &[1], &[9]);
    w.let_go(Messages(B, A));
    w.let_go(Messages(A, B));
    w.expect_failed(lost, Session(Lost), Quarantined);
    w.expect_released(lost);
    w.finish(A, "r");
    w.open_pd(A, "s", B);
    let load = w.load(A, "s", &[1], &[9]);
    w.store(B, "s", &[1], &[3]);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// D14 · guards I3: the peer's new connection arrives before we notice that the old one is dead.
#[test]
fn d14_new_connection_before_the_old_one_is_known_dead() {
    let mut w = World::strangers(2);
    w.introduce(B, A);
    w.hold(Messages(B, A));
    w.cut(A, B);
    w.run();
    w.open_pd(B, "r", A);
    let load = w.load(B, "r", &[1], &[9]);
    w.store(A, "r", &[1], &[3]);
    w.run();
    // The new connection's first words come before the old one's end.
    w.deliver_newest(B, A, 2);
    w.let_go(Messages(B, A));
    w.expect_link(A, B, LinkStatus::Up);
    w.expect_loaded(load);
    w.end();
}

/// D16 · guards I1, I3, DUP-2, ID-5: a restarted peer's `connect` supersedes the old session: its loads fail once, in
/// quarantine, and the new session has a right of its own.
/// Rules DUP-8.
#[test]
fn d16_newer_process_supersedes() {
    let (mut w, load, _, write) = in_flight();
    w.hold(Fences(A));
    w.vanish_from_the_earth(B);
    w.restart(B);
    w.let_go(Writes(B));
    w.open_pd(B, "s", A);
    w.store(A, "s", &[5], &[5]);
    let other = w.load(B, "s", &[5], &[9]);
    w.run();
    w.expect_failed(load, Session(Superseded), Quarantined);
    w.expect_down(A, B, Superseded);
    w.expect_loaded(other);
    assert_eq!(w.land(write), Landing::Landed);
    w.let_go(Fences(A));
    w.expect_released(load);
    w.end();
}

/// D16 · guards I3, DUP-1: an older process is refused while the newer one is connected, with both numbers.
#[test]
fn d16_older_process_is_refused() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    let old = w.rogue_dials(A);
    w.rogue_says(old, &Msg::Connect(Connect { incarnation: 0, ..rogue_connect() }));
    w.expect_heard(old, &["reject StaleIncarnation(incarnation) ours \"1\" theirs \"0\"", "closed"]);
    w.expect_link(A, X, LinkStatus::Up);
    // Only live links are compared.
    w.rogue_leaves(line);
    w.advance(61.s());
    let old = w.rogue_dials(A);
    w.rogue_says(old, &Msg::Connect(Connect { incarnation: 0, ..rogue_connect() }));
    w.expect_heard(old, &["connect a 1", "connect_ack 0"]);
    w.end();
}

/// D17 · guards I3, ID-2, ID-3: an identity that names no host, or is our own, is refused: as ours, as a peer's, and by
/// command.
#[test]
fn d17_identities() {
    let config = |id: &str| {
        let mut config = World::config(A);
        config.identity.peer_id = PeerName::new(id).expect("a legal name").into();
        Endpoint::new(config).map(|_| ())
    };
    for id in ["0.0.0.0:5710", "[::]:5710", "::", "*:5710", ":5710"] {
        assert_eq!(config(id), Err(ConfigError::Identity(Refusal::AnyAddress)), "{id}");
    }
    for id in ["127.0.0.1:5710", "[::1]:5710", "localhost:5710", "127.8.8.8"] {
        assert_eq!(config(id), Err(ConfigError::Identity(Refusal::Loopback)), "{id}");
    }
    assert_eq!(config("10.0.0.7:5710"), Ok(()));

    let mut w = World::strangers(1);
    for (id, why) in
        [("a", Refusal::OwnId), ("0.0.0.0:1", Refusal::AnyAddress), ("127.0.0.1:1", Refusal::Loopback)]
    {
        let peer = PeerName::new(id).expect("a legal name");
        w.refuses(A, Command::Connect { peer, address: "x" }, Misuse::Peer(why));
        let line = w.rogue_dials(A);
        w.rogue_says(line, &Msg::Connect(Connect { peer_id: peer, ..rogue_connect() }));
        let heard = w.rogue_heard(line);
        assert!(heard[0].starts_with("reject UnexpectedPeer(peer_id)"), "{heard:?}");
        assert_eq!(heard[1..], ["closed"]);
    }
    w.end();
}

/// D17 · guards I3, HS-6: a dialled address where somebody else answers.
#[test]
fn d17_unexpected_peer() {
    let mut w = World::strangers(2);
    let peer = PeerName::new("c").expect("a legal name");
    w.command(A, Command::Connect { peer, address: "b" });
    w.run();
    w.expect(A, B, &["connect a 1", "reject UnexpectedPeer(peer_id) ours \"c\" theirs \"b\""]);
    w.expect_down(A, C, RejectedByUs(RejectCode::UnexpectedPeer));
    w.end();
}

/// D18 · guards I7: a slow registration delays its own session, and nothing else.
/// Rules HS-8.
#[test]
fn d18_slow_registration() {
    let mut w = World::strangers(3);
    w.hold(Registrations(B));
    w.open_pd(A, "r", B);
    let slow = w.load(A, "r", &[1], &[9]);
    w.run();
    w.introduce(C, A);
    w.open_pd(C, "s", A);
    w.store(A, "s", &[2], &[4]);
    let load = w.load(C, "s", &[2], &[9]);
    w.run();
    w.expect_loaded(load);
    w.store(B, "r", &[1], &[3]);
    w.advance(14.s());
    w.expect_open(slow);
    w.let_go(Registrations(B));
    w.expect_loaded(slow);
    w.end();
}

/// D18 · guards I3, HS-9: rights and registrations may fail; both sides hear why.
/// Rules HS-23.
#[test]
fn d18_planes_that_fail() {
    for (kind, peer_says) in [(Rights(B), "right"), (Registrations(B), "metadata")] {
        let mut w = World::strangers(2);
        w.hold(kind);
        w.open_pd(A, "r", B);
        let load = w.load(A, "r", &[1], &[9]);
        w.run();
        w.fail_rights(B);
        w.fail_registrations(B);
        w.run();
        let said = w.said(B, A);
        let last = said.last().expect("something");
        assert!(last.starts_with(&format!("reject RegistrationFailed({peer_says})")), "{last}");
        w.expect_failed(load, Session(RejectedByPeer(RejectCode::RegistrationFailed)), Reusable);
        w.expect_down(B, A, RejectedByUs(RejectCode::RegistrationFailed));
        w.end();
    }
}

/// D19 · guards I1, I3: a reader that exits without goodbye leaves nothing that a later one could stumble over.
#[test]
fn d19_no_state_of_the_dead_is_used_again() {
    let (mut w, _, store, _) = in_flight();
    w.crash(A);
    w.run();
    w.let_go(Writes(B));
    w.expect_store(store, StoreOutcome::Failed(StoreFailure::Session(Lost)));
    w.restart(A);
    w.open_pd(A, "s", B);
    let load = w.load(A, "s", &[2], &[9]);
    w.store(B, "s", &[2], &[4]);
    w.run();
    w.expect_loaded(load);
    w.end();
}

/// D19 · guards I3, END-2: every exit that a node chooses says goodbye.
#[test]
fn d19_goodbye_on_every_exit() {
    let mut w = World::pair();
    w.close_peer(A, B);
    w.run();
    w.expect(A, B, &["disconnect Closed"]);
    w.end();
    let mut w = World::pair();
    w.shutdown(A, 5.s());
    w.run();
    w.expect(A, B, &["disconnect Shutdown"]);
    w.expect_down(B, A, Goodbye(DisconnectReason::Shutdown));
    w.end();
}
