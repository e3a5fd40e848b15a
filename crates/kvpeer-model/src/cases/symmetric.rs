//! Symmetric sharing: `a` looks up what `b` holds, and fetches hits in rounds.

use kvpeer_core::Role;
use kvpeer_sim::Wish;
use kvpeer_sim::setup::{Ask, Choice, Fault};
use kvpeer_wire::Supply;

use super::{A, B, abort, any_time, ask, consume, faults, load_hits, now, script, session};
use crate::case::{Case, Expect, Size};

pub(super) fn cases() -> Vec<Case> {
    vec![two_rounds(), late_answers(), both_ways()]
}

fn two_rounds() -> Case {
    let mut setup = session("symmetric");
    setup.stock = vec![(B, vec![0, 1])];
    setup.eager.remove(&Ask::Probe);
    setup.choices = [Choice::Part, Choice::LateProbe].into();
    setup.scripts = vec![
        script(
            A,
            [
                now(consume(0, B, Supply::Pinned)),
                now(ask(0, &[0, 2])),
                any_time(load_hits(1, 0, &[0, 1, 2], &[4, 5, 6])),
                now(ask(0, &[1])),
                any_time(load_hits(2, 0, &[0, 1, 2], &[4, 5, 6])),
            ],
        ),
        script(A, [any_time(Wish::Finish { request: 0, role: Role::Consumer })]),
    ];
    Case {
        covers: "two rounds, in full and in parts, pins that expire or come late, finish at any moment",
        setup,
        size: Size::Small,
        expects: vec![
            Expect::Loaded,
            Expect::Failed,
            Expect::Hit,
            Expect::LatePin,
            Expect::Waited,
            Expect::AtRest,
        ],
    }
}

fn late_answers() -> Case {
    let mut setup = session("symmetric-faults");
    setup.stock = vec![(B, vec![0, 1])];
    setup.eager.remove(&Ask::Probe);
    setup.choices = [Choice::Pending, Choice::LateProbe, Choice::CancelDrops].into();
    setup.scripts = vec![
        script(
            A,
            [
                now(consume(0, B, Supply::Pinned)),
                now(ask(0, &[0, 1])),
                any_time(load_hits(1, 0, &[0, 1], &[4, 5])),
                now(ask(0, &[0])),
                any_time(load_hits(2, 0, &[0], &[6])),
            ],
        ),
        script(A, [any_time(abort(1))]),
    ];
    faults(&mut setup, 2, [Fault::DelayWrite, Fault::DelayLink, Fault::WriteErrors]);
    Case {
        covers: "the same with pending keys, and with messages and WRITEs that are late or fail",
        setup,
        size: Size::Deep,
        expects: vec![Expect::Loaded, Expect::Failed, Expect::Hit, Expect::Released, Expect::Unsettled],
    }
}

fn both_ways() -> Case {
    let mut setup = session("symmetric-both-ways");
    setup.stock = vec![(A, vec![0]), (B, vec![1])];
    let side = |who, other, key, block| {
        script(
            who,
            [
                now(consume(0, other, Supply::Pinned)),
                now(ask(0, &[key])),
                any_time(load_hits(u64::from(key) + 1, 0, &[key], &[block])),
            ],
        )
    };
    setup.scripts = vec![side(A, B, 1, 4), side(B, A, 0, 5)];
    faults(&mut setup, 1, [Fault::DelayWrite, Fault::WriteErrors, Fault::Cut]);
    Case {
        covers: "both nodes consume and produce the same request on one session, with one fault",
        setup,
        size: Size::Small,
        expects: vec![Expect::Loaded, Expect::Failed, Expect::Hit, Expect::Released],
    }
}
