//! D9 and docs/protocol.md, "Duplicates": two links between the same two nodes. Exactly one session comes out of it,
//! no job is lost, none is done twice (that the judge sees), and no link is ended by a word that may be stale.

use kvpeer_wire::{Connect, ConnectAck};

use crate::prelude::*;

/// A and B have dialled each other, each with a load for the other; supply is there.
fn both_dial() -> (World, [Job; 2]) {
    let mut w = World::strangers(2);
    w.hold(Dials(A));
    w.hold(Dials(B));
    w.open_pd(A, "r", B);
    w.open_pd(B, "s", A);
    w.store(B, "r", &[1], &[1]);
    w.store(A, "s", &[2], &[2]);
    let loads = [w.load(A, "r", &[1], &[9]), w.load(B, "s", &[2], &[9])];
    w.run();
    (w, loads)
}

/// Both loads succeed, over one session.
#[track_caller]
fn all_is_well(mut w: World, loads: [Job; 2]) {
    w.run();
    loads.into_iter().for_each(|load| w.expect_loaded(load));
    for (who, whom) in [(A, B), (B, A)] {
        w.expect_link(who, whom, LinkStatus::Up);
        assert_eq!(w.told(who, |news| matches!(news, News::PeerUp { .. })), 1, "{who}");
        let said = w.said(who, whom);
        assert_eq!(said.iter().filter(|text| text.starts_with("fetch ")).count(), 1, "{who}: {said:?}");
    }
    w.end();
}

/// D9 · guards I3, DUP-7: both connections are there before anybody has said a word.
#[test]
fn d09_connections_cross() {
    let (mut w, loads) = both_dial();
    for kind in [Messages(A, B), Messages(B, A)] {
        w.hold(kind);
    }
    w.let_go(Dials(A));
    w.let_go(Dials(B));
    for kind in [Messages(A, B), Messages(B, A)] {
        w.let_go(kind);
    }
    all_is_well(w, loads);
}

/// D9 · guards I3: A's link is up before B's dial comes through.
#[test]
fn d09_late_second_dial() {
    let (mut w, loads) = both_dial();
    w.let_go(Dials(A));
    loads.into_iter().for_each(|load| w.expect_loaded(load));
    w.let_go(Dials(B));
    all_is_well(w, loads);
}

/// D9 · guards I3: B's link is up before A's dial comes through.
#[test]
fn d09_late_first_dial() {
    let (mut w, loads) = both_dial();
    w.let_go(Dials(B));
    loads.into_iter().for_each(|load| w.expect_loaded(load));
    w.let_go(Dials(A));
    all_is_well(w, loads);
}

/// D9 · guards I3: the smaller id's own dial does not get through; then the other's is the one.
/// Rules DUP-4, DUP-5.
#[test]
fn d09_one_way_reachability() {
    for blocked in [(A, B), (B, A)] {
        let (mut w, loads) = both_dial();
        w.unreachable(blocked.0, blocked.1);
        w.let_go(Dials(blocked.0));
        w.let_go(Dials(blocked.1));
        all_is_well(w, loads);
    }
}

/// D9 · guards I3: a dial that hangs for ever does not hold up the other one, on either side.
#[test]
fn d09_hanging_dial() {
    for hanging in [A, B] {
        let (mut w, loads) = both_dial();
        w.let_go(Dials(if hanging == A { B } else { A }));
        w.advance(1.s());
        loads.into_iter().for_each(|load| w.expect_loaded(load));
        all_is_well(w, loads);
    }
}

/// D9 · guards I3: every order in which the two handshakes can interleave, up to a length.
/// Rules DUP-4, DUP-7.
#[test]
fn d09_every_order_of_two_handshakes() {
    // Each bit says which of the two directions delivers next; what is left runs by itself.
    for order in 0..1_u32 << 9 {
        let (mut w, loads) = both_dial();
        w.hold(Messages(A, B));
        w.hold(Messages(B, A));
        w.let_go(Dials(A));
        w.let_go(Dials(B));
        for bit in 0..9 {
            let (from, to) = if order >> bit & 1 == 0 { (A, B) } else { (B, A) };
            w.deliver_if_any(from, to);
        }
        w.let_go(Messages(A, B));
        w.let_go(Messages(B, A));
        w.advance(10.s());
        all_is_well(w, loads);
    }
}

/// DUP-3 · guards I3, DUP-6: the same dialler connects again: its newer connection replaces the older one.
#[test]
fn later_connection_of_the_same_dialler() {
    let mut w = World::strangers(1);
    let first = w.rogue_session(A);
    w.open_pd(A, "r", X);
    let load = w.load(A, "r", &[1], &[9]);
    w.rogue_heard(first);
    let second = w.rogue_dials(A);
    w.rogue_says(second, &Msg::Connect(rogue_connect()));
    w.expect_heard(second, &["connect a 1", "connect_ack 1"]);
    // The `connect` alone ends nothing: it may be stale.
    w.expect_heard(first, &["fetch r#0 await k1->9"]);
    w.expect_open(load);
    w.rogue_says(second, &Msg::ConnectAck(ConnectAck { incarnation: 1 }));
    w.expect_heard(first, &["closed"]);
    w.expect_failed(load, Session(Lost), Quarantined);
    w.expect_link(A, X, LinkStatus::Up);
    w.end();
}

/// DUP-5 · guards I3: a `connect` that was lying in a buffer, and whose sender has given it up, changes nothing.
#[test]
fn stale_connect_changes_nothing() {
    let mut w = World::strangers(1);
    w.rogue_session(A);
    w.open_pd(A, "r", X);
    let load = w.load(A, "r", &[1], &[9]);
    let stale = w.rogue_dials(A);
    w.rogue_whispers(stale, &Msg::Connect(rogue_connect()));
    w.rogue_leaves(stale);
    w.expect_open(load);
    w.expect_link(A, X, LinkStatus::Up);
    w.end();
}

/// DUP-4 · guards I3: the smaller id keeps its dial once its `connect` has left, and says `duplicate` to the other one.
#[test]
fn smaller_id_keeps_its_dial() {
    let mut w = World::strangers(1);
    w.connect(A, X);
    let dialled = w.rogue_dialled();
    w.expect_heard(dialled, &["connect a 1"]);
    let crossing = w.rogue_dials(A);
    w.rogue_says(crossing, &Msg::Connect(rogue_connect()));
    w.expect_heard(crossing, &["reject Duplicate", "closed"]);
    w.rogue_says(dialled, &Msg::Connect(rogue_connect()));
    w.rogue_says(dialled, &Msg::ConnectAck(ConnectAck { incarnation: 1 }));
    w.expect_link(A, X, LinkStatus::Up);
    w.end();
}

/// DUP-4 · guards I3: before its `connect` has left, its dial yields: it may be unable to reach the other.
#[test]
fn smaller_id_yields_before_its_connect_left() {
    let mut w = World::strangers(1);
    w.hold(Dials(A));
    w.connect(A, X);
    let crossing = w.rogue_dials(A);
    w.rogue_says(crossing, &Msg::Connect(rogue_connect()));
    w.expect_heard(crossing, &["connect a 1", "connect_ack 1"]);
    w.rogue_says(crossing, &Msg::ConnectAck(ConnectAck { incarnation: 1 }));
    w.expect_link(A, X, LinkStatus::Up);
    w.let_go(Dials(A));
    w.expect_link(A, X, LinkStatus::Up);
    w.expect_heard(crossing, &[]);
    w.end();
}

/// DUP-2 · guards I3, I9: a stranger that claims to be a newer process of a peer must pass all checks and admission
/// before the old session ends.
#[test]
fn impostor_must_pass_first() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    w.hold(Admits(A));
    let newer = Connect { incarnation: 9, ..rogue_connect() };
    let wrong = kvpeer_wire::RegionInfo { block_len: 99, ..newer.region };
    let other = w.rogue_dials(A);
    w.rogue_says(other, &Msg::Connect(Connect { region: wrong, ..newer }));
    let heard = w.rogue_heard(other);
    assert!(heard[0].starts_with("reject BlockLen"), "{heard:?}");
    let other = w.rogue_dials(A);
    w.rogue_says(other, &Msg::Connect(newer));
    w.expect_heard(line, &[]);
    w.turn_away(A);
    w.run();
    w.expect_heard(other, &["reject Unauthorized", "closed"]);
    w.expect_heard(line, &[]);
    w.expect_link(A, X, LinkStatus::Up);
    w.let_go(Admits(A));
    let other = w.rogue_dials(A);
    w.rogue_says(other, &Msg::Connect(newer));
    w.expect_heard(other, &["connect a 1", "connect_ack 9"]);
    w.expect_heard(line, &["closed"]);
    w.end();
}

/// DUP-8 · guards I1, HS-2, END-9: the right of a link that lost while it was still opening is closed, and its late
/// opening changes nothing.
#[test]
fn right_of_a_loser() {
    let mut w = World::strangers(1);
    w.hold(Rights(A));
    w.connect(A, X);
    let dialled = w.rogue_dialled();
    w.expect_heard(dialled, &[]);
    let crossing = w.rogue_dials(A);
    w.rogue_says(crossing, &Msg::Connect(rogue_connect()));
    w.expect_heard(dialled, &["closed"]);
    w.let_go(Rights(A));
    w.expect_heard(crossing, &["connect a 1", "connect_ack 1"]);
    w.end();
}
