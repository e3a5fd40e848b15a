//! Heartbeats: silence is found, and idle sessions make room.
//!
//! Such a world never comes to rest, so time stands still at a horizon.

use std::time::Duration;

use kvpeer_sim::setup::{Fault, Setup};
use kvpeer_wire::Supply;

use super::{A, B, any_time, consume, faults, load, now, script, session, store};
use crate::case::{Case, Expect, Size};

pub(super) fn cases() -> Vec<Case> {
    vec![half_open("half-open", 1, Size::Quick), half_open("half-open-deep", 2, Size::Deep), idle()]
}

fn beating(name: &str, horizon: u64) -> Setup {
    let mut setup = session(name);
    let s = Duration::from_secs;
    setup.timing.heartbeat = s(2);
    setup.timing.dead = s(5);
    setup.timing.max_peer_heartbeat = s(1);
    setup.horizon = Some(s(horizon));
    setup
}

fn half_open(name: &str, budget: u8, size: Size) -> Case {
    let mut setup = beating(name, 10);
    setup.scripts = vec![
        script(A, [now(consume(0, B, Supply::Await)), now(load(1, 0, &[0], &[4]))]),
        script(B, [now(store(11, 0, &[0], &[0]))]),
    ];
    faults(&mut setup, budget, [Fault::Mute, Fault::DelayLink, Fault::DelayWrite]);
    Case {
        covers: "heartbeats; one direction or both fall silent, or are late, at any moment",
        setup,
        size,
        expects: vec![Expect::Loaded, Expect::Failed, Expect::Silent, Expect::Released],
    }
}

fn idle() -> Case {
    let mut setup = beating("idle", 16);
    setup.timing.idle = Duration::from_secs(4);
    setup.limits.peers = 4;
    setup.limits.spare_peers = 3;
    setup.scripts = vec![
        script(A, [now(consume(0, B, Supply::Await)), any_time(load(1, 0, &[0], &[4]))]),
        script(B, [any_time(store(11, 0, &[0], &[0]))]),
    ];
    Case {
        covers: "slots are short: sessions are given up when nothing happens on them, never under work",
        setup,
        size: Size::Quick,
        expects: vec![Expect::Loaded, Expect::Idle, Expect::Goodbye],
    }
}
