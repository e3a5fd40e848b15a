//! vLLM produces.

use std::num::NonZeroU8;

use kvpeer_wire::Failure;

use super::*;
use crate::dialect::Answer;

const PIN_MS: u32 = 25_000;

fn unsaid() -> Failure {
    Failure::from_code(NonZeroU8::MAX)
}

#[test]
fn looked_up_then_fetched() {
    let mut story = Story::up();
    let (asked, hit) = (keys(&["a", "b", "c"]), keys(&["a", "c"]));
    story.core(&lookup(0, "q", 0, &asked)).is(&vllm_lookup("q", 1, &asked));
    story.vllm(&vllm_resp("q", &asked, &bits("101"))).are(&[resp(0, 0, &bits("101"), PIN_MS)]);
    story.core(&fetch("q", 0, Supply::Pinned, &hit, &[5, 6], 60_000)).is(&vllm_fetch("q", 1, &hit, &[5, 6]));
    story.vllm(&vllm_done("q", 1, wire::Success::Yes)).are(&[done("q", 0, Outcome::Ok)]);
    story.core(&release("q")).is(&vllm_fetch("q", 2, &keys(&[]), &[]));
    assert_eq!(story.kept(), 0);
}

/// vLLM meets what it stores for a request only with a fetch of round 0. It has no `fetch_progress`: the load gets
/// the patience for parked demand.
#[test]
fn a_fetch_that_may_wait_is_round_0_and_taken_for_parked() {
    let mut story = Story::up();
    let k = keys(&["a", "b"]);
    let sent = story.core(&fetch("p", 7, Supply::Await, &k, &[5, 6], 60_000));
    sent.is(&vllm_fetch("p", 0, &k, &[5, 6]));
    let Said::PayloadAnd(answer) = sent.said else { panic!("{:?}", sent.said) };
    let parked = Answer::Parked { request: request("p").into(), round: Round(7), blocks: 2 };
    assert_eq!(answer, parked);
    let Msg::FetchProgress(progress) = answer.as_msg() else { panic!("{answer:?}") };
    assert_eq!((progress.matched, progress.parked, progress.landed), (0, 2, 0));
    story.vllm(&vllm_done("p", 0, wire::Success::Yes)).are(&[done("p", 7, Outcome::Ok)]);
    assert_eq!(story.kept(), 0);
}

/// A second one could not be told from the first: vLLM would end the session.
#[test]
fn a_second_waiting_fetch_of_a_request_is_refused_here() {
    let mut story = Story::up();
    let k = keys(&["a"]);
    story.core(&fetch("p", 0, Supply::Await, &k, &[5], 60_000));
    let refused = story.core(&fetch("p", 1, Supply::Await, &k, &[6], 60_000));
    let Said::Instead(answer) = refused.said else { panic!("{:?}", refused.said) };
    let Msg::TransferDone(end) = answer.as_msg() else { panic!("{answer:?}") };
    assert_eq!((end.round, end.outcome), (Round(1), failed(Failure::Overloaded, true)));
    // An abort that crosses the refusal has nothing to stop.
    story.core(&abort("p", 1)).nothing();
    // Another request's is another matter, and so is this one's when the first is over.
    story.core(&fetch("o", 2, Supply::Await, &k, &[7], 60_000)).is(&vllm_fetch("o", 0, &k, &[7]));
    story.vllm(&vllm_done("p", 0, wire::Success::Yes));
    story.core(&fetch("p", 3, Supply::Await, &k, &[5], 60_000)).is(&vllm_fetch("p", 0, &k, &[5]));
}

/// I1: vLLM counts a WRITE that failed as stopped.
#[test]
fn no_word_of_vllms_settles_a_round() {
    let mut story = Story::up();
    let k = keys(&["a"]);
    for round in 0..2 {
        story.core(&fetch("q", round, Supply::Pinned, &k, &[5], 60_000));
    }
    story.vllm(&vllm_done("q", 1, wire::Success::No)).are(&[done("q", 0, failed(unsaid(), false))]);
    story.core(&abort("q", 1)).is(&vllm_abort("q", 2));
    story.vllm(&vllm_abort_ack("q", 2)).are(&[ack("q", 1, false)]);
    assert_eq!(story.kept(), 0);
}

#[test]
fn vllms_word_may_be_taken() {
    let mut story = Story::up_with(trusting());
    let k = keys(&["a"]);
    for round in 0..2 {
        story.core(&fetch("q", round, Supply::Pinned, &k, &[5], 60_000));
    }
    story.vllm(&vllm_done("q", 1, wire::Success::No)).are(&[done("q", 0, failed(unsaid(), true))]);
    story.core(&abort("q", 1));
    story.vllm(&vllm_abort_ack("q", 2)).are(&[ack("q", 1, true)]);
}

/// vLLM's own client ends a load at any ack.
#[test]
fn an_ack_that_nobody_asked_for_ends_nothing() {
    let mut story = Story::up();
    let k = keys(&["a"]);
    story.core(&fetch("q", 0, Supply::Pinned, &k, &[5], 60_000));
    story.core(&fetch("p", 1, Supply::Await, &k, &[6], 60_000));
    assert_eq!(story.ignored(&vllm_abort_ack("q", 1)), Ignored::UnknownRound);
    assert_eq!(story.ignored(&vllm_abort_ack("p", 0)), Ignored::UnknownRound);
    story.vllm(&vllm_done("q", 1, wire::Success::Yes)).are(&[done("q", 0, Outcome::Ok)]);
    story.vllm(&vllm_done("p", 0, wire::Success::Yes)).are(&[done("p", 1, Outcome::Ok)]);
    assert_eq!(story.ignored(&vllm_done("q", 1, wire::Success::Yes)), Ignored::UnknownRound);
}

#[test]
fn a_round_belongs_to_its_request() {
    let mut story = Story::up();
    let k = keys(&["a"]);
    story.core(&fetch("q", 0, Supply::Pinned, &k, &[5], 60_000));
    assert_eq!(story.ignored(&vllm_done("other", 1, wire::Success::Yes)), Ignored::UnknownRound);
    story.vllm(&vllm_done("q", 1, wire::Success::Yes)).are(&[done("q", 0, Outcome::Ok)]);
}

/// Its end crosses our abort, which vLLM still acknowledges. That ack must not end the next fetch, which is round
/// 0 again: I6.
#[test]
fn an_owed_ack_keeps_round_0_taken() {
    let mut story = Story::up_with(trusting());
    let k = keys(&["a"]);
    story.core(&fetch("p", 0, Supply::Await, &k, &[5], 60_000));
    story.core(&abort("p", 0));
    story.vllm(&vllm_done("p", 0, wire::Success::Yes)).are(&[done("p", 0, Outcome::Ok)]);
    let second = story.core(&fetch("p", 1, Supply::Await, &k, &[6], 60_000));
    assert!(matches!(second.said, Said::Instead(Answer::Refused { .. })), "{:?}", second.said);
    assert_eq!(story.ignored(&vllm_abort_ack("p", 0)), Ignored::UnknownRound);
    assert_eq!(story.kept(), 0);
    story.core(&fetch("p", 2, Supply::Await, &k, &[6], 60_000)).is(&vllm_fetch("p", 0, &k, &[6]));
}

/// I6: the answer names no round, and a fetch has closed the lookup's.
#[test]
fn a_late_answer_is_not_the_next_rounds() {
    let mut story = Story::up();
    let (k, other) = (keys(&["a"]), keys(&["b"]));
    story.core(&lookup(0, "q", 0, &k));
    story.core(&fetch("q", 0, Supply::Pinned, &other, &[5], 60_000));
    story.core(&lookup(1, "q", 1, &k)).is(&vllm_lookup("q", 2, &k));
    assert_eq!(story.ignored(&vllm_resp("q", &k, &bits("1"))), Ignored::UnknownLookup);
    story.vllm(&vllm_resp("q", &k, &bits("0"))).are(&[resp(1, 0, &bits("0"), PIN_MS)]);
}

/// Of a request that ended vLLM owes nothing; the id may come back.
#[test]
fn after_release_nothing_is_owed() {
    let mut story = Story::up();
    let k = keys(&["a"]);
    story.core(&lookup(0, "q", 0, &k));
    story.core(&release("q"));
    assert_eq!(story.ignored(&vllm_resp("q", &k, &bits("1"))), Ignored::UnknownLookup);
    story.core(&lookup(1, "q", 1, &k));
    story.vllm(&vllm_resp("q", &k, &bits("1"))).are(&[resp(1, 0, &bits("1"), PIN_MS)]);
    assert_eq!(story.kept(), 0);
}

/// 0.33.0 answers each lookup in one message; its protocol allows any parts.
#[test]
fn answers_may_be_split_and_coalesced() {
    let mut story = Story::up();
    let (first, second) = (keys(&["a", "b", "c"]), keys(&["d", "a"]));
    story.core(&lookup(0, "q", 0, &first));
    story.core(&lookup(1, "q", 0, &second));
    story
        .vllm(&vllm_resp("q", &keys(&["c", "b", "d"]), &bits("101")))
        .are(&[resp(0, 1, &bits("01"), PIN_MS), resp(1, 0, &bits("1"), PIN_MS)]);
    story
        .vllm(&vllm_resp("q", &keys(&["a", "a", "x", "a"]), &bits("1011")))
        .are(&[resp(0, 0, &bits("1"), PIN_MS), resp(1, 1, &bits("0"), PIN_MS)]);
    assert_eq!(story.kept(), 0);
    assert_eq!(story.ignored(&vllm_resp("q", &first, &bits("111"))), Ignored::UnknownLookup);
}

#[test]
fn lookups_that_are_never_answered_are_bounded() {
    let mut story = Story::up();
    for id in 0..1_000 {
        story.core(&lookup(id, "q", 0, &keys(&[format!("k{id}").as_str()])));
    }
    assert_eq!(story.kept(), 64);
}

/// vLLM takes a terminal fetch of a live round for a mistake and ends the session.
#[test]
fn the_terminal_fetch_names_no_live_round() {
    let mut story = Story::up();
    let (k, none) = (keys(&["a"]), keys(&[]));
    story.core(&release("unheard-of")).is(&vllm_fetch("unheard-of", 1, &none, &[]));
    story.core(&fetch("q", 40, Supply::Pinned, &k, &[5], 60_000)).is(&vllm_fetch("q", 41, &k, &[5]));
    story.core(&release("q")).is(&vllm_fetch("q", 42, &none, &[]));
}
