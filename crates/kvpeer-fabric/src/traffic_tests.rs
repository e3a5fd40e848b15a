//! The accounts without a fabric: every order of posting, completing, failing, cancelling and closing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::provider::Provider;

const SHAPE: Shape = Shape { block_len: 8, max_part: 8, max_pieces: 1 };

fn error() -> FabricError {
    FabricError::RefusedProvider { name: Provider::Shm.to_string(), reason: "stands for any error" }
}

fn admit(traffic: &mut Traffic, seq: u64, blocks: &[u32], at: Instant) -> Result<Option<Ended>, Refusal> {
    traffic.admit(seq, (blocks, blocks), SHAPE, 100, at)
}

/// Posts the next part and answers its ticket.
fn post(traffic: &mut Traffic) -> Ticket {
    let (ticket, ..) = traffic.next().expect("a part waits");
    traffic.posted();
    ticket
}

#[test]
fn a_transfer_is_done_when_its_last_part_is() {
    let mut traffic = Traffic::default();
    assert_eq!(admit(&mut traffic, 5, &[0, 2], Instant::now()), Ok(None));
    let first = post(&mut traffic);
    assert_eq!(traffic.completed(first, Ok(())), None);
    let last = post(&mut traffic);
    assert_eq!(traffic.completed(last, Ok(())), Some((5, TransferEnd::Done)));
    assert_eq!(traffic.completed(last, Ok(())), None, "over is over");
}

#[test]
fn an_error_is_told_only_when_no_part_is_in_flight() {
    let mut traffic = Traffic::default();
    assert_eq!(admit(&mut traffic, 5, &[0, 2, 4], Instant::now()), Ok(None));
    let (a, b) = (post(&mut traffic), post(&mut traffic));
    assert_eq!(traffic.completed(a, Err(error())), None);
    let mut ended = Vec::new();
    traffic.cut_all(Refusal::RightFailed, |end| ended.push(end));
    assert_eq!(ended, [], "one part is still in flight");
    assert_eq!(traffic.completed(b, Ok(())), Some((5, TransferEnd::Errored(error()))));
}

#[test]
fn cutting_leaves_posted_parts_and_other_transfers_alone() {
    let mut traffic = Traffic::default();
    for seq in [1, 2, 3] {
        assert_eq!(admit(&mut traffic, seq, &[0, 2], Instant::now()), Ok(None));
    }
    let of_1 = post(&mut traffic);
    assert_eq!(traffic.cut(1, Refusal::Cancelled), None);
    assert_eq!(traffic.cut(2, Refusal::Cancelled), Some((2, TransferEnd::NotPosted(Refusal::Cancelled))));
    // The id is free again, while parts of its first use still stand in the queue.
    assert_eq!(admit(&mut traffic, 2, &[6], Instant::now()), Ok(None));
    let of_3 = post(&mut traffic);
    assert_eq!(post(&mut traffic), of_3);
    let of_new_2 = post(&mut traffic);
    assert!(traffic.next().is_none());
    assert_eq!(traffic.completed(of_1, Ok(())), Some((1, TransferEnd::NotPosted(Refusal::Cancelled))));
    assert_eq!(traffic.completed(of_new_2, Ok(())), Some((2, TransferEnd::Done)));
    assert_eq!(traffic.completed(of_3, Ok(())), None);
    assert_eq!(traffic.completed(of_3, Ok(())), Some((3, TransferEnd::Done)));
}

#[test]
fn deadlines_are_told_once_and_only_of_what_has_not_ended() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut traffic = Traffic::default();
    for seq in 1..=3u64 {
        assert_eq!(admit(&mut traffic, seq, &[0], at(seq)), Ok(None));
    }
    let first = post(&mut traffic);
    assert_eq!(traffic.next_deadline(), Some(at(1)));
    assert!(traffic.completed(first, Ok(())).is_some());
    assert_eq!(traffic.next_deadline(), Some(at(2)));
    let mut told = Vec::new();
    for now in [1, 2, 2, 9, 9] {
        traffic.stalled(at(now), |seq| told.push((now, seq)));
    }
    assert_eq!(told, [(2, 2), (9, 3)]);
    assert_eq!(traffic.next_deadline(), None);
}

#[test]
fn deadlines_of_ended_transfers_do_not_pile_up_behind_a_stuck_one() {
    let now = Instant::now();
    let mut traffic = Traffic::default();
    assert_eq!(admit(&mut traffic, 0, &[0], now), Ok(None));
    post(&mut traffic);
    for seq in 1..10_000 {
        assert_eq!(admit(&mut traffic, seq, &[0], now), Ok(None));
        let ticket = post(&mut traffic);
        assert!(traffic.completed(ticket, Ok(())).is_some());
    }
    assert!(traffic.deadlines.len() < 100 && traffic.slots.len() == 2);
}

#[derive(Clone, Debug)]
enum Step {
    Admit(u64, usize),
    Post,
    Complete(usize, bool),
    Cut(u64),
    CutAll,
    Fence,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6u64, 0..4usize).prop_map(|(seq, parts)| Step::Admit(seq, parts)),
        4 => Just(Step::Post),
        4 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(which, well)| Step::Complete(which, well)),
        1 => (0..6u64).prop_map(Step::Cut),
        1 => Just(Step::CutAll),
        1 => Just(Step::Fence),
    ]
}

proptest! {
    /// SUP-6: the law, against a plain count: each admitted transfer ends once, never with a part in flight, and `Done`
    /// only if all parts went well.
    #[test]
    fn every_transfer_ends_once_and_not_before_its_parts(steps in prop::collection::vec(step(), 0..80)) {
        let now = Instant::now();
        let mut traffic = Traffic::default();
        // seq -> (parts, in flight, gone well); the tickets in flight.
        let mut open: BTreeMap<u64, (usize, usize, usize)> = BTreeMap::new();
        let mut in_flight: Vec<(u64, Ticket)> = Vec::new();
        for step in steps.into_iter().chain([Step::Fence]) {
            let mut ended: Vec<Ended> = Vec::new();
            let mut fenced = false;
            match step {
                Step::Admit(seq, parts) => {
                    let blocks: Vec<u32> = (0..parts as u32).map(|i| 2 * i).collect();
                    match admit(&mut traffic, seq, &blocks, now) {
                        Ok(None) => prop_assert!(open.insert(seq, (parts, 0, 0)).is_none()),
                        Ok(Some(end)) => prop_assert!(parts == 0 && end == (seq, TransferEnd::Done)),
                        Err(why) => prop_assert!(why == Refusal::DuplicateId && open.contains_key(&seq)),
                    }
                }
                Step::Post => {
                    if let Some((ticket, ..)) = traffic.next() {
                        let seq = live(&traffic.slots, ticket).expect("live").seq;
                        traffic.posted();
                        in_flight.push((seq, ticket));
                        open.get_mut(&seq).expect("open").1 += 1;
                    }
                }
                Step::Complete(which, well) if !in_flight.is_empty() => {
                    let (seq, ticket) = in_flight.swap_remove(which % in_flight.len());
                    let account = open.get_mut(&seq).expect("open while in flight");
                    account.1 -= 1;
                    account.2 += usize::from(well);
                    ended.extend(traffic.completed(ticket, if well { Ok(()) } else { Err(error()) }));
                }
                Step::Complete(..) => {}
                Step::Cut(seq) => ended.extend(traffic.cut(seq, Refusal::Cancelled)),
                Step::CutAll => traffic.cut_all(Refusal::RightFailed, |end| ended.push(end)),
                Step::Fence => {
                    fenced = true;
                    in_flight.clear();
                    traffic.fence(|end| ended.push(end));
                }
            }
            for (seq, end) in ended {
                let (parts, in_flight, well) = open.remove(&seq).expect("ends once");
                match end {
                    TransferEnd::Done => prop_assert!(in_flight == 0 && well == parts),
                    TransferEnd::NotPosted(_) => prop_assert!(in_flight == 0 && well < parts),
                    TransferEnd::Errored(_) => prop_assert!(in_flight == 0 && well < parts),
                    TransferEnd::Fenced => prop_assert!(fenced),
                }
            }
            if fenced {
                prop_assert!(open.is_empty() && !traffic.has_queue() && traffic.by_seq.is_empty());
            }
        }
    }
}
