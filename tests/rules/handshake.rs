//! The checks of a `connect` (docs/protocol.md, "Handshake", "Refusals", "Duplicates").

use std::num::NonZeroU8;

use kvpeer_core::CloseReason::RejectedByPeer;
use kvpeer_core::Destination::Reusable;
use kvpeer_core::LoadFailure::Session;
use kvpeer_core::{Config, Epoch, LinkStatus};
use kvpeer_tests::Hold::{Admits, Registrations};
use kvpeer_tests::{A, B, News, Span, Step, World, X, rogue_connect};
use kvpeer_wire::{
    Compat, Connect, ConnectAck, FingerprintBuf, Msg, PeerName, RegionInfo, Reject, RejectCode, Text,
};

/// The code that A answers this `connect` with.
fn refusal(w: &mut World, connect: Connect<'_>) -> String {
    let line = w.rogue_dials(A);
    w.rogue_says(line, &Msg::Connect(connect));
    let heard = w.rogue_heard(line);
    assert_eq!(heard[1..], ["closed"], "{heard:?}");
    let code = heard[0].strip_prefix("reject ").and_then(|rest| rest.split([' ', '(']).next());
    code.expect("a reject").to_owned()
}

/// HS-5, HS-4 · guards I8: a `connect` that is wrong in every way is refused for the first check that it fails; none of
/// them costs a right.
#[test]
fn checks_have_an_order() {
    let mut w = World::strangers(1);
    w.rogue_session(A);
    let rights = w.rights(A).len();
    let right = rogue_connect();
    let mut fingerprint = FingerprintBuf::new();
    fingerprint.push("model", "another").expect("short");
    let peer_id = PeerName::new("a").expect("a legal name");
    let region = RegionInfo { base_addr: u64::MAX, block_len: 99, ..right.region };
    let hash_seed = Text::new("another").expect("short");
    let compat = Compat { hash_seed, fingerprint: fingerprint.as_fingerprint() };
    let mut connect = Connect { peer_id, region, compat, incarnation: 0, ..right };

    assert_eq!(refusal(&mut w, connect), "UnexpectedPeer");
    connect.peer_id = right.peer_id;
    assert_eq!(refusal(&mut w, connect), "BlockLen");
    connect.region.block_len = right.region.block_len;
    assert_eq!(refusal(&mut w, connect), "RegistrationFailed", "beyond the address space");
    connect.region = right.region;
    assert_eq!(refusal(&mut w, connect), "HashSeed");
    connect.compat.hash_seed = right.compat.hash_seed;
    assert_eq!(refusal(&mut w, connect), "Fingerprint");
    connect.compat = right.compat;
    assert_eq!(refusal(&mut w, connect), "StaleIncarnation");
    assert_eq!(w.rights(A).len(), rights);
    w.expect_link(A, X, LinkStatus::Up);
    w.end();
}

/// HS-5, HS-22 · guards I7: the back-off is told before the want of a slot.
#[test]
fn backoff_comes_before_slots() {
    let mut w = World::with(2, |who, config: &mut Config| {
        if who == A {
            config.limits.peers = 1;
        }
    });
    for _ in 0..2 {
        let line = w.rogue_session(A);
        w.peer_fault(A, X);
        w.run();
        w.expect_heard(line, &["disconnect DataPlane", "closed"]);
    }
    w.introduce(B, A);
    assert_eq!(refusal(&mut w, rogue_connect()), "Backoff");
    w.advance(2.s());
    assert_eq!(refusal(&mut w, rogue_connect()), "TooManyPeers");
    w.end();
}

/// HS-5, DUP-1 · guards I3: admission takes time; a newer process that was admitted meanwhile makes an older one stale.
#[test]
fn incarnations_are_compared_again_after_admission() {
    let mut w = World::strangers(1);
    w.hold(Admits(A));
    let old = w.rogue_dials(A);
    w.rogue_says(old, &Msg::Connect(rogue_connect()));
    let new = w.rogue_dials(A);
    w.rogue_says(new, &Msg::Connect(Connect { incarnation: 2, ..rogue_connect() }));
    // Nobody is refused by a mere claim.
    w.expect_heard(old, &[]);
    w.take(Step::Admit(A, Epoch(2)));
    w.run();
    w.expect_heard(new, &["connect a 1", "connect_ack 2"]);
    w.let_go(Admits(A));
    w.expect_heard(old, &["closed"]);
    w.end();
}

/// DUP-6 · guards I3: a link whose last ack comes late does not come up beside a newer one that is up.
#[test]
fn an_older_link_does_not_come_up_beside_a_newer_one() {
    let mut w = World::strangers(1);
    w.hold(Registrations(A));
    let old = w.rogue_dials(A);
    w.rogue_says(old, &Msg::Connect(rogue_connect()));
    w.rogue_says(old, &Msg::ConnectAck(ConnectAck { incarnation: 1 }));
    let new = w.rogue_dials(A);
    w.rogue_says(new, &Msg::Connect(rogue_connect()));
    w.take(Step::Register(A, Epoch(2)));
    w.run();
    w.expect_link(A, X, LinkStatus::Connecting);
    // The ack on the newer one ends the older one, which was never up.
    w.rogue_says(new, &Msg::ConnectAck(ConnectAck { incarnation: 1 }));
    w.expect_heard(old, &["connect a 1", "closed"]);
    w.let_go(Registrations(A));
    w.expect_link(A, X, LinkStatus::Up);
    assert_eq!(w.told(A, |news| matches!(news, News::PeerUp { .. })), 1);
    w.end();
}

/// HS-18, MSG-1 · guards I7: a code that we do not know is lasting: work fails at once, and is tried again only after the
/// back-off.
#[test]
fn unknown_refusals_are_lasting() {
    let mut w = World::strangers(1);
    w.open_pd(A, "r", X);
    let load = w.load(A, "r", &[1], &[9]);
    let line = w.rogue_dialled();
    let code = RejectCode::from_code(NonZeroU8::new(99).expect("not zero"));
    let (field, ours, theirs) = (Text::default(), Text::default(), Text::default());
    w.rogue_says(line, &Msg::Reject(Reject { code, field, ours, theirs, retry_after_ms: 0 }));
    w.expect_failed(load, Session(RejectedByPeer(code)), Reusable);
    w.open_pd(A, "s", X);
    let soon = w.load(A, "s", &[1], &[10]);
    w.expect_failed(soon, Session(RejectedByPeer(code)), Reusable);
    assert_eq!(w.dials(A), 1);
    w.advance(2.s());
    w.open_pd(A, "t", X);
    w.load(A, "t", &[1], &[11]);
    w.run();
    assert_eq!(w.dials(A), 2);
    w.end();
}

/// HS-22 · guards I7: who has been without a fault for twice the longest back-off begins anew.
#[test]
fn old_faults_are_forgotten() {
    let mut w = World::strangers(1);
    let fault = |w: &mut World| {
        let line = w.rogue_session(A);
        w.peer_fault(A, X);
        w.run();
        w.expect_heard(line, &["disconnect DataPlane", "closed"]);
    };
    fault(&mut w);
    fault(&mut w);
    assert_eq!(refusal(&mut w, rogue_connect()), "Backoff");
    w.advance(1.s());
    // A session that comes up is no proof; time is.
    let line = w.rogue_session(A);
    w.advance(121.s());
    w.rogue_heard(line);
    w.peer_fault(A, X);
    w.run();
    fault(&mut w);
    assert_eq!(refusal(&mut w, rogue_connect()), "Backoff", "the second one again");
    w.advance(1.s());
    let line = w.rogue_session(A);
    w.expect_heard(line, &[]);
    w.end();
}
