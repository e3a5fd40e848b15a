//! vLLM consumes.

use kvpeer_wire::Failure;

use super::*;

#[test]
fn looked_up_then_fetched_from_the_pins() {
    let mut story = Story::up();
    let (asked, hit) = (keys(&["a", "b", "c"]), keys(&["a", "b"]));
    story.vllm(&vllm_lookup("q", 0, &asked)).are(&[lookup(0, "q", 0, &asked)]);
    story.core(&resp(0, 0, &bits("110"), 30_000)).is(&vllm_resp("q", &asked, &bits("110")));
    story.vllm(&vllm_fetch("q", 0, &hit, &[5, 6])).are(&[fetch(
        "q",
        0,
        Supply::Pinned,
        &hit,
        &[5, 6],
        u32::MAX,
    )]);
    story.core(&done("q", 0, Outcome::Ok)).is(&vllm_done("q", 0, wire::Success::Yes));
    assert_eq!(story.kept(), 0);
}

#[test]
fn fetched_without_a_lookup_waits_for_stores() {
    let mut story = Story::up();
    let k = keys(&["a"]);
    let await_fetch = fetch("p", 0, Supply::Await, &k, &[5], u32::MAX);
    story.vllm(&vllm_fetch("p", 0, &k, &[5])).are(&[await_fetch]);
    story.core(&done("p", 0, failed(Failure::SupplyTimeout, true))).is(&vllm_done("p", 0, wire::Success::No));
    assert_eq!(story.kept(), 0);
}

/// vLLM parks such a fetch, too: nothing of its round was ever pinned.
#[test]
fn a_round_of_misses_is_forgotten() {
    let mut story = Story::up();
    let k = keys(&["a", "b"]);
    story.vllm(&vllm_lookup("q", 0, &k));
    story.core(&resp(0, 0, &bits("0"), 0)).is(&vllm_resp("q", &keys(&["a"]), &bits("0")));
    story.core(&resp(0, 1, &bits("0"), 0)).is(&vllm_resp("q", &keys(&["b"]), &bits("0")));
    assert_eq!(story.kept(), 0);
    story.vllm(&vllm_fetch("q", 0, &k, &[1, 2])).are(&[fetch("q", 1, Supply::Await, &k, &[1, 2], u32::MAX)]);
}

/// A fetch while its lookup is open cannot know a hit: the core refuses it, as nothing is pinned.
#[test]
fn a_fetch_before_its_answer_is_from_pins() {
    let mut story = Story::up();
    let k = keys(&["a"]);
    story.vllm(&vllm_lookup("q", 0, &k));
    story.vllm(&vllm_fetch("q", 0, &k, &[1])).are(&[fetch("q", 0, Supply::Pinned, &k, &[1], u32::MAX)]);
    // The lookup is closed by it; no answer may be taken for the next round's.
    story.core(&resp(0, 0, &bits("1"), 30_000)).nothing();
    story.core(&done("q", 0, failed(Failure::NoSupply, true))).is(&vllm_done("q", 0, wire::Success::No));
    assert_eq!(story.kept(), 0);
}

/// I6: vLLM counts from 0 again when an id comes back; to the core that is a new round.
#[test]
fn rounds_that_start_again_are_other_rounds() {
    let mut story = Story::up();
    let k = keys(&["a"]);
    for life in 0..3 {
        story.vllm(&vllm_fetch("q", 0, &k, &[1])).are(&[fetch("q", life, Supply::Await, &k, &[1], u32::MAX)]);
        story.core(&done("q", life, Outcome::Ok)).is(&vllm_done("q", 0, wire::Success::Yes));
    }
    assert_eq!(story.kept(), 0);
}

#[test]
fn a_live_rounds_second_fetch_is_the_same_round() {
    let mut story = Story::up();
    let k = keys(&["a"]);
    let first = story.vllm(&vllm_fetch("q", 0, &k, &[1]));
    assert_eq!(story.vllm(&vllm_fetch("q", 0, &k, &[1])), first);
}

#[test]
fn rounds_of_one_request_are_apart() {
    let mut story = Story::up();
    let (a, b) = (keys(&["a"]), keys(&["b"]));
    story.vllm(&vllm_lookup("q", 0, &a)).are(&[lookup(0, "q", 0, &a)]);
    story.core(&resp(0, 0, &bits("1"), 1));
    story.vllm(&vllm_fetch("q", 0, &a, &[1]));
    story.vllm(&vllm_lookup("q", 1, &b)).are(&[lookup(1, "q", 1, &b)]);
    story.core(&resp(1, 0, &bits("1"), 1));
    story.vllm(&vllm_fetch("q", 1, &b, &[2])).are(&[fetch("q", 1, Supply::Pinned, &b, &[2], u32::MAX)]);
    story.core(&done("q", 1, Outcome::Ok)).is(&vllm_done("q", 1, wire::Success::Yes));
    story.core(&done("q", 0, Outcome::Ok)).is(&vllm_done("q", 0, wire::Success::Yes));
    assert_eq!(story.kept(), 0);
}

#[test]
fn an_abort_is_acknowledged_by_its_own_number() {
    let mut story = Story::up();
    let k = keys(&["a"]);
    story.vllm(&vllm_fetch("q", 4, &k, &[1]));
    story.vllm(&vllm_abort("q", 4)).are(&[abort("q", 0)]);
    story.core(&ack("q", 0, true)).is(&vllm_abort_ack("q", 4));
    assert_eq!(story.kept(), 0);
}

#[test]
fn an_abort_of_nothing_is_acknowledged_and_leaves_nothing() {
    let mut story = Story::up();
    story.vllm(&vllm_abort("q", 9)).are(&[abort("q", 0)]);
    story.core(&ack("q", 0, true)).is(&vllm_abort_ack("q", 9));
    assert_eq!(story.kept(), 0);
}

/// I5: vLLM takes each of these for leave to use its blocks again.
#[test]
fn what_is_not_settled_is_not_told() {
    let mut story = Story::up();
    let k = keys(&["a"]);
    story.vllm(&vllm_fetch("q", 0, &k, &[1]));
    story.core(&done("q", 0, failed(Failure::WriteFailed, false))).nothing();
    story.vllm(&vllm_fetch("q", 0, &k, &[1]));
    story.vllm(&vllm_abort("q", 0));
    story.core(&ack("q", 1, false)).nothing();
    assert_eq!(story.kept(), 0);
}

#[test]
fn the_empty_fetch_is_release() {
    let mut story = Story::up();
    let (a, b, none) = (keys(&["a"]), keys(&["b"]), keys(&[]));
    story.vllm(&vllm_lookup("q", 0, &a));
    story.core(&resp(0, 0, &bits("1"), 1));
    story.vllm(&vllm_fetch("q", 0, &a, &[1]));
    story.vllm(&vllm_lookup("q", 1, &b));
    story.vllm(&vllm_fetch("q", 1, &none, &[])).are(&[release("q")]);
    // The open lookup is dropped, the live fetch runs to its own end.
    story.core(&resp(1, 0, &bits("1"), 1)).nothing();
    story.core(&done("q", 0, Outcome::Ok)).is(&vllm_done("q", 0, wire::Success::Yes));
    assert_eq!(story.kept(), 0);
}

#[test]
fn a_lookup_of_nothing_is_not_answered() {
    assert_eq!(Story::up().ignored(&vllm_lookup("q", 0, &keys(&[]))), Ignored::EmptyLookup);
}

#[test]
fn rounds_that_are_never_fetched_are_bounded() {
    let mut story = Story::up_with(Terms { probed_rounds: 3, ..Terms::default() });
    let k = keys(&["a"]);
    for id in 0..20 {
        let name = format!("q{id}");
        story.vllm(&vllm_lookup(&name, 0, &k));
        story.core(&resp(id, 0, &bits("1"), 1));
    }
    assert_eq!(story.kept(), 9, "three rounds under three names");
    // The oldest is forgotten: its fetch waits like one that was never looked up.
    story.vllm(&vllm_fetch("q0", 0, &k, &[1])).are(&[fetch("q0", 20, Supply::Await, &k, &[1], u32::MAX)]);
    story.vllm(&vllm_fetch("q19", 0, &k, &[1])).are(&[fetch("q19", 19, Supply::Pinned, &k, &[1], u32::MAX)]);
}
