//! From strangers to a session.

use std::collections::BTreeSet;

use kvpeer_sim::Wish;
use kvpeer_sim::setup::{Ask, Choice, Fault, Setup};
use kvpeer_wire::Supply;

use super::{A, B, consume, faults, load, now, script, store};
use crate::case::{Case, Expect, Size};

pub(super) fn cases() -> Vec<Case> {
    vec![crossing(), crossing_faults(), one_way(), any_order(), restart()]
}

fn work(setup: &mut Setup) {
    setup.scripts = vec![
        script(A, [now(consume(0, B, Supply::Await)), now(load(1, 0, &[0], &[4]))]),
        script(B, [now(store(11, 0, &[0], &[0])), now(Wish::Connect { peer: A })]),
    ];
}

fn crossing() -> Case {
    let mut setup = Setup::quiet("crossing");
    setup.eager = [Ask::Admit, Ask::Open, Ask::Register, Ask::Close].into();
    work(&mut setup);
    Case {
        covers: "both dial, connects cross or lie in a buffer, nothing fails",
        setup,
        size: Size::Small,
        expects: vec![Expect::Loaded, Expect::Rejected, Expect::AtRest],
    }
}

fn crossing_faults() -> Case {
    let mut setup = Setup::quiet("crossing-faults");
    setup.eager = [Ask::Admit, Ask::Close].into();
    work(&mut setup);
    faults(
        &mut setup,
        2,
        [Fault::Cut, Fault::DialRefused, Fault::DelayAnswer, Fault::DelayLink, Fault::Mute],
    );
    Case {
        covers: "both dial, rights and registrations take their time, two faults of links, dials and answers",
        setup,
        size: Size::Deep,
        expects: vec![Expect::Loaded, Expect::Failed, Expect::Rejected, Expect::AtRest],
    }
}

fn one_way() -> Case {
    let mut setup = Setup::quiet("one-way");
    setup.eager = [Ask::Admit, Ask::Register, Ask::Close].into();
    setup.unreachable = BTreeSet::from([(A, B)]);
    work(&mut setup);
    faults(&mut setup, 2, [Fault::Cut, Fault::DelayLink]);
    Case {
        covers: "both dial, but the smaller id cannot reach the other",
        setup,
        size: Size::Quick,
        expects: vec![Expect::Loaded, Expect::Waited, Expect::AtRest],
    }
}

fn any_order() -> Case {
    let mut setup = Setup::quiet("handshake-faults");
    setup.choices.insert(Choice::StaleAnswers);
    setup.eager.insert(Ask::Accept);
    work(&mut setup);
    setup.scripts[1].wishes.pop();
    faults(
        &mut setup,
        2,
        [
            Fault::Cut,
            Fault::DialRefused,
            Fault::NotAdmitted,
            Fault::RightFails,
            Fault::RegisterFails,
            Fault::DelayAnswer,
            Fault::DelayLink,
        ],
    );
    Case {
        covers: "one dials; admission, rights and registration in any order, refused, failing or late, also for lost links",
        setup,
        size: Size::Quick,
        expects: vec![Expect::Loaded, Expect::Failed, Expect::Rejected, Expect::Waited, Expect::AtRest],
    }
}

fn restart() -> Case {
    let mut setup = Setup::quiet("restart");
    setup.eager = [Ask::Admit, Ask::Open, Ask::Register, Ask::Close, Ask::Accept].into();
    setup.connected = vec![(A, B)];
    setup.scripts = vec![
        script(A, [now(consume(0, B, Supply::Await)), now(load(1, 0, &[0], &[4]))]),
        script(B, [now(store(11, 0, &[0], &[0]))]),
    ];
    let again = script(B, [now(store(12, 0, &[0], &[0])), now(Wish::Connect { peer: A })]);
    setup.scripts.push(kvpeer_sim::setup::Script { life: 2, ..again });
    faults(&mut setup, 2, [Fault::Crash, Fault::Mute]);
    Case {
        covers: "the producer dies at any moment, its connection half open or not, and comes back as a newer process",
        setup,
        size: Size::Quick,
        expects: vec![Expect::Loaded, Expect::Failed, Expect::Restarted, Expect::Released],
    }
}
