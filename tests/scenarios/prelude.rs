//! The words of the stories.

pub(crate) use kvpeer_core::CloseReason::*;
pub(crate) use kvpeer_core::Destination::{Quarantined, Reusable};
pub(crate) use kvpeer_core::LoadFailure::{self, Producer, Session, Timeout};
pub(crate) use kvpeer_core::StoreOutcome::{self, Delivered, Partly, Unclaimed};
pub(crate) use kvpeer_core::{
    Command, Count, Input, JobId, LinkStatus, Misuse, Role, StoreFailure, TransferEnd,
};
pub(crate) use kvpeer_tests::Hold::*;
pub(crate) use kvpeer_tests::{A, B, C, Job, Landing, News, Span, World, X, keys, rogue_connect};
pub(crate) use kvpeer_wire::{DisconnectReason, Failure, Msg, RejectCode, RequestName, Round};

/// A session between A and B, and a request `r` that A consumes from B, prefill/decode.
pub(crate) fn pd() -> World {
    let mut w = World::pair();
    w.open_pd(A, "r", B);
    w
}

/// As [`pd`], symmetric.
pub(crate) fn symmetric() -> World {
    let mut w = World::pair();
    w.open_symmetric(A, "r", B);
    w
}

/// A session, `r` with a load of `k1` into block 9, and its WRITE posted by B from block 3.
pub(crate) fn in_flight() -> (World, Job, Job, kvpeer_tests::WriteId) {
    let mut w = pd();
    w.hold(Writes(B));
    let load = w.load(A, "r", &[1], &[9]);
    let store = w.store(B, "r", &[1], &[3]);
    w.run();
    w.expect(A, B, &["fetch r#0 await k1->9"]);
    w.expect_silence(B, A);
    let write = w.write_of(B);
    (w, load, store, write)
}

/// As [`in_flight`], with two WRITEs of one round: `k1` from 3 to 9, `k2` from 4 to 10.
pub(crate) fn two_in_flight() -> (World, Job, [Job; 2], [kvpeer_tests::WriteId; 2]) {
    let mut w = pd();
    w.hold(Writes(B));
    let load = w.load(A, "r", &[1, 2], &[9, 10]);
    w.run();
    let stores = [w.store(B, "r", &[1], &[3]), w.store(B, "r", &[2], &[4])];
    w.expect(A, B, &["fetch r#0 await k1->9 k2->10"]);
    w.expect_silence(B, A);
    w.expect_writes(B, &["3->9", "4->10"]);
    let writes = w.writes_of(B);
    (w, load, stores, [writes[0], writes[1]])
}

pub(crate) fn name(request: &str) -> RequestName<'_> {
    RequestName::new(request).expect("a legal name")
}
