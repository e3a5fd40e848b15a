//! The session is lost, or ends, while WRITEs are under way.

use kvpeer_sim::Wish;
use kvpeer_sim::setup::{Ask, Choice, Fault, Fence, Landing, Setup};
use kvpeer_wire::Supply;

use super::{A, B, any_time, consume, faults, load, now, script, session, store};
use crate::case::{Case, Expect, Size};

pub(super) fn cases() -> Vec<Case> {
    vec![cut("loss", Fence::Proves), cut("loss-unfenced", Fence::Cannot), data_plane(), shutdown()]
}

fn work(setup: &mut Setup) {
    setup.eager.remove(&Ask::Close);
    setup.scripts = vec![
        script(
            A,
            [
                now(consume(0, B, Supply::Await)),
                now(load(1, 0, &[0, 1], &[4, 5])),
                now(load(2, 0, &[2], &[6])),
            ],
        ),
        script(B, [now(store(11, 0, &[0, 1], &[0, 1])), now(store(12, 0, &[2], &[2]))]),
    ];
}

fn cut(name: &str, fence: Fence) -> Case {
    let mut setup = Setup { fence, landing: Landing::Blockwise, ..session(name) };
    work(&mut setup);
    setup.limits.write_bytes = 1 << 10;
    faults(&mut setup, 2, [Fault::Cut, Fault::Mute, Fault::DelayWrite]);
    let held = match fence {
        Fence::Proves => Expect::Released,
        Fence::Cannot => Expect::HeldForEver,
    };
    Case {
        covers: match fence {
            Fence::Proves => {
                "the control connection breaks or goes half open, blocks land one by one and late"
            }
            Fence::Cannot => "the same, with a plane that cannot prove that nothing lands",
        },
        setup,
        size: Size::Deep,
        expects: vec![Expect::Loaded, Expect::Failed, held],
    }
}

fn data_plane() -> Case {
    let mut setup = session("data-plane");
    work(&mut setup);
    faults(&mut setup, 2, [Fault::PeerFault, Fault::WriteErrors, Fault::Unfenced, Fault::DelayAnswer]);
    Case {
        covers: "faults of the data plane, drains, rights that close late or without proof",
        setup,
        size: Size::Quick,
        expects: vec![
            Expect::Loaded,
            Expect::Failed,
            Expect::Unsettled,
            Expect::Goodbye,
            Expect::HeldForEver,
        ],
    }
}

fn shutdown() -> Case {
    let mut setup = session("shutdown");
    work(&mut setup);
    setup.choices.insert(Choice::CancelDrops);
    setup.scripts.push(script(A, [any_time(Wish::Shutdown { within: 1 })]));
    setup.scripts.push(script(B, [any_time(Wish::Shutdown { within: 2 })]));
    faults(&mut setup, 1, [Fault::DelayWrite, Fault::DelayLink, Fault::WriteErrors]);
    Case {
        covers: "one node or both shut down at any moment, with a WRITE or a link that is late",
        setup,
        size: Size::Quick,
        expects: vec![Expect::Loaded, Expect::Failed, Expect::Goodbye, Expect::AtRest],
    }
}
