//! Prefill and decode: `a` fetches what `b` stores, before or after.

use kvpeer_core::Role;
use kvpeer_sim::Wish;
use kvpeer_sim::setup::{Choice, Fault, Script, Setup};
use kvpeer_wire::Supply;

use super::{A, B, C, abort, any_time, consume, faults, load, now, script, session, store};
use crate::case::{Case, Expect, Size};

pub(super) fn cases() -> Vec<Case> {
    vec![
        store_and_fetch(),
        write_faults(),
        two_requests(),
        two_requests_deep(),
        crossing_aborts(),
        slow_supply(),
        two_consumers(),
    ]
}

/// One request of two blocks in two stores; the producer finishes, the consumer aborts, at any moment.
fn scripts() -> Vec<Script> {
    vec![
        script(A, [now(consume(0, B, Supply::Await)), now(load(1, 0, &[0, 1], &[4, 5]))]),
        script(A, [any_time(abort(1))]),
        script(B, [any_time(store(11, 0, &[0], &[0])), any_time(store(12, 0, &[1], &[1]))]),
        script(B, [any_time(Wish::Finish { request: 0, role: Role::Producer })]),
    ]
}

fn store_and_fetch() -> Case {
    let mut setup = Setup { scripts: scripts(), ..session("pd") };
    setup.choices.insert(Choice::CancelDrops);
    Case {
        covers: "fetch before, between and after two stores, with abort, producer's finish and every timer, no faults",
        setup,
        size: Size::Small,
        expects: vec![Expect::Loaded, Expect::Failed, Expect::Settled, Expect::Waited, Expect::AtRest],
    }
}

fn write_faults() -> Case {
    let mut setup = Setup { scripts: scripts(), ..session("pd-write-faults") };
    // Refused for as long as the first load holds the block.
    setup.scripts.push(script(A, [any_time(load(3, 0, &[0], &[4]))]));
    faults(&mut setup, 2, [Fault::WriteErrors, Fault::WriteRefused, Fault::DelayWrite]);
    Case {
        covers: "the same, with two WRITEs that fail, are refused or take for ever; a load of the same block at any moment",
        setup,
        size: Size::Quick,
        expects: vec![Expect::Loaded, Expect::Unsettled, Expect::Released, Expect::Loose],
    }
}

fn two_requests() -> Case {
    let mut setup = two_requests_setup("pd-two-requests");
    faults(&mut setup, 2, [Fault::WriteErrors, Fault::WriteRefused, Fault::DelayWrite]);
    Case {
        covers: "two requests of two blocks at once: a fault of one is none of the other, unless it costs the session",
        setup,
        size: Size::Small,
        expects: vec![Expect::Loaded, Expect::Unsettled, Expect::Released, Expect::Loose],
    }
}

fn two_requests_deep() -> Case {
    let mut setup = two_requests_setup("pd-two-requests-deep");
    setup.limits.write_bytes = 1 << 10;
    setup.choices.insert(Choice::CancelDrops);
    setup.scripts.push(script(A, [any_time(abort(1))]));
    let write = [Fault::WriteErrors, Fault::WriteRefused, Fault::DelayWrite];
    faults(&mut setup, 2, write.into_iter().chain([Fault::Cut, Fault::PeerFault, Fault::DelayLink]));
    Case {
        covers: "the same with WRITEs of one block, an abort at any moment, and two faults of any kind",
        setup,
        size: Size::Deep,
        expects: vec![Expect::Loaded, Expect::Unsettled, Expect::Released, Expect::Loose, Expect::StaleRound],
    }
}

fn two_requests_setup(name: &str) -> Setup {
    let mut setup = session(name);
    setup.scripts = vec![
        script(
            A,
            [
                now(consume(0, B, Supply::Await)),
                now(load(1, 0, &[0, 1], &[4, 5])),
                now(consume(1, B, Supply::Await)),
                now(load(2, 1, &[2, 3], &[6, 7])),
            ],
        ),
        script(B, [now(store(11, 0, &[0, 1], &[0, 1]))]),
        script(B, [now(store(12, 1, &[2, 3], &[2, 3]))]),
    ];
    setup
}

fn crossing_aborts() -> Case {
    let mut setup = session("pd-crossing-aborts");
    setup.scripts = vec![
        script(
            A,
            [
                now(consume(0, B, Supply::Await)),
                now(load(1, 0, &[0, 1], &[4, 5])),
                now(load(2, 0, &[0, 1], &[6, 7])),
            ],
        ),
        script(A, [any_time(abort(1))]),
        script(A, [any_time(abort(2))]),
        script(B, [now(store(11, 0, &[0, 1], &[0, 1])), now(store(12, 0, &[0, 1], &[2, 3]))]),
    ];
    faults(&mut setup, 1, [Fault::DelayWrite, Fault::DelayLink]);
    Case {
        covers: "two loads of one request, whose aborts cross their ends; blocks of an aborted round serve the other",
        setup,
        size: Size::Quick,
        expects: vec![Expect::Loaded, Expect::Failed, Expect::StaleRound, Expect::Settled],
    }
}

fn slow_supply() -> Case {
    let mut setup = session("pd-release");
    setup.scripts = vec![
        script(
            A,
            [
                now(consume(0, B, Supply::Await)),
                now(load(1, 0, &[0, 1], &[4, 5])),
                any_time(Wish::Finish { request: 0, role: Role::Consumer }),
                now(consume(0, B, Supply::Await)),
                now(load(2, 0, &[0], &[6])),
            ],
        ),
        script(B, [any_time(store(11, 0, &[0], &[0])), any_time(store(12, 0, &[0, 1], &[1, 2]))]),
        script(B, [any_time(Wish::Withdraw { job: kvpeer_core::JobId(12) })]),
    ];
    faults(&mut setup, 1, [Fault::DelayWrite]);
    Case {
        covers: "release while demand is parked or in flight, the id used again, supply withdrawn and reaped",
        setup,
        size: Size::Quick,
        expects: vec![Expect::Loaded, Expect::Failed, Expect::Waited, Expect::AtRest],
    }
}

fn two_consumers() -> Case {
    let mut setup = session("pd-two-consumers");
    setup.nodes = 3;
    setup.connected = vec![(A, B), (C, B)];
    let consumer = |who, job| {
        script(
            who,
            [now(consume(0, B, Supply::Await)), any_time(load(job, 0, &[0], &[4])), any_time(abort(job))],
        )
    };
    setup.scripts = vec![
        consumer(A, 1),
        consumer(C, 2),
        script(B, [any_time(store(11, 0, &[0], &[0])), any_time(store(12, 0, &[0], &[1]))]),
    ];
    faults(&mut setup, 1, [Fault::Cut, Fault::DelayWrite]);
    Case {
        covers: "two consumers want the same request of one producer; the bound one aborts or is lost",
        setup,
        size: Size::Deep,
        expects: vec![Expect::Loaded, Expect::Failed, Expect::NotYours, Expect::Waited, Expect::AtRest],
    }
}
