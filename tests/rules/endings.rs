//! What still holds while a session ends (docs/protocol.md, "Endings", "Rules for the ends of a fetch").

use kvpeer_core::CloseReason::{Closed, Goodbye};
use kvpeer_tests::Hold::Writes;
use kvpeer_tests::{A, Line, World, WriteId, X};
use kvpeer_wire::{Disconnect, DisconnectReason, Msg, Text};

/// X fetches `k1` and `k2` of A in rounds of their own; both WRITEs are in flight.
fn two_rounds() -> (World, Line, [WriteId; 2]) {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    w.hold(Writes(A));
    w.store(A, "r", &[1], &[1]);
    w.store(A, "r", &[2], &[2]);
    w.rogue_fetches(line, "r", 0, &[1], &[9]);
    w.rogue_fetches(line, "r", 1, &[2], &[10]);
    w.rogue_heard(line);
    let writes = w.writes_of(A);
    (w, line, [writes[0], writes[1]])
}

/// MSG-20, SUP-7 · guards I5: from the first errored WRITE on, every ack of the session says that it is not settled: of a
/// round that ended well, of one that is over, of one that never was.
#[test]
fn no_ack_is_settled_after_an_error() {
    let (mut w, line, [first, second]) = two_rounds();
    w.error(first);
    w.run();
    w.expect_heard(line, &["transfer_done r#0 WriteFailed unsettled 0"]);
    w.rogue_aborts(line, "r", 0);
    w.rogue_aborts(line, "never", 7);
    w.expect_heard(line, &["abort_ack r#0 unsettled", "abort_ack never#7 unsettled"]);
    w.rogue_aborts(line, "r", 1);
    w.done(second);
    w.run();
    w.expect_heard(line, &["abort_ack r#1 unsettled", "disconnect DataPlane", "closed"]);
    w.end();
}

/// SUP-7 · guards I8: a round without an errored WRITE ends as it went, though its session is over.
#[test]
fn neighbours_of_an_errored_write_say_how_they_went() {
    let (mut w, line, [first, second]) = two_rounds();
    w.error(first);
    w.done(second);
    w.run();
    w.expect_heard(
        line,
        &[
            "transfer_done r#0 WriteFailed unsettled 0",
            "transfer_done r#1 ok",
            "disconnect DataPlane",
            "closed",
        ],
    );
    w.end();
}

/// END-4, END-5 · guards I8: a session that drains says its own goodbye also when the peer's comes first, and tells the
/// engine its own reason.
#[test]
fn goodbyes_cross() {
    let (mut w, line, _) = two_rounds();
    w.close_peer(A, X);
    w.expect_heard(line, &[]);
    let bye = Disconnect { reason: DisconnectReason::Idle, detail: Text::default() };
    w.rogue_says(line, &Msg::Disconnect(bye));
    w.expect_heard(line, &["disconnect Closed", "closed"]);
    w.expect_down(A, X, Closed);
    w.end();
}

/// END-4 · guards I3: without a connection nothing is said, and the reason is still that of the drain.
#[test]
fn a_drain_without_a_connection() {
    let (mut w, line, _) = two_rounds();
    w.close_peer(A, X);
    w.rogue_leaves(line);
    w.expect_down(A, X, Closed);
    w.end();
}

/// MSG-1 · guards I3: a `disconnect` with a reason that we do not know ends the session like any other.
#[test]
fn unknown_reasons_end_a_session() {
    let mut w = World::strangers(1);
    let line = w.rogue_session(A);
    let reason = DisconnectReason::from_code(std::num::NonZeroU8::new(200).expect("not zero"));
    w.rogue_says(line, &Msg::Disconnect(Disconnect { reason, detail: Text::default() }));
    w.expect_heard(line, &["closed"]);
    w.expect_down(A, X, Goodbye(reason));
    w.end();
}
