//! What the world of a seed is made of.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Dice;
use crate::names::Who;
use crate::setup::{Ask, Choice, Fault, Fence, Landing, Setup, short_timing};

const FAULTS: [Fault; 14] = [
    Fault::Cut,
    Fault::Mute,
    Fault::DelayLink,
    Fault::DialRefused,
    Fault::NotAdmitted,
    Fault::RightFails,
    Fault::RegisterFails,
    Fault::DelayAnswer,
    Fault::Unfenced,
    Fault::WriteErrors,
    Fault::WriteRefused,
    Fault::DelayWrite,
    Fault::PeerFault,
    Fault::Crash,
];

const CHOICES: [Choice; 5] =
    [Choice::Pending, Choice::Part, Choice::LateProbe, Choice::StaleAnswers, Choice::CancelDrops];

const ASKS: [Ask; 6] = [Ask::Admit, Ask::Open, Ask::Register, Ask::Close, Ask::Probe, Ask::Accept];

/// The setup of a world that is named after its seed.
pub fn setup_of(name: &str) -> Option<Setup> {
    let seed = name.strip_prefix("seed-")?.parse().ok()?;
    Some(setup(seed, &mut Dice::new(seed)))
}

pub(super) fn setup(seed: u64, dice: &mut Dice) -> Setup {
    let nodes = if dice.one_in(4) { 3 } else { 2 };
    let mut setup = Setup::quiet(&format!("seed-{seed}"));
    setup.nodes = nodes;
    setup.blocks = 24;
    setup.budget = u8::try_from(dice.below(7)).unwrap_or(0);
    setup.faults = half(dice, &FAULTS);
    setup.choices = half(dice, &CHOICES);
    setup.eager = if dice.one_in(2) { half(dice, &ASKS) } else { BTreeSet::new() };
    setup.fence = if dice.one_in(6) { Fence::Cannot } else { Fence::Proves };
    setup.landing = if dice.one_in(2) { Landing::Blockwise } else { Landing::Whole };
    if dice.one_in(6) {
        setup.unreachable.insert((Who(0), Who(1)));
    }
    let keys: Vec<u8> = (0..8).collect();
    setup.stock = (0..nodes).map(|at| (Who(at), dice.some(&keys, 8))).collect();
    setup.limits.write_bytes = 1024 << dice.below(3);
    setup.limits.window_bytes = 1024 << dice.below(4);
    timing(&mut setup, dice);
    if dice.one_in(8) {
        small_limits(&mut setup, dice);
    }
    setup
}

fn timing(setup: &mut Setup, dice: &mut Dice) {
    let mut secs = |most: u64| Duration::from_secs(1 + dice.below(most));
    let timing = &mut setup.timing;
    *timing = short_timing();
    timing.handshake = secs(10);
    timing.load = secs(8);
    timing.parked = secs(6);
    timing.write = secs(8);
    timing.abort_ack = secs(5);
    timing.close_right = secs(4);
    timing.lookup = secs(6);
    timing.probe = secs(4);
    timing.store = secs(8);
    timing.unbound = secs(8);
    timing.pin = secs(5);
    timing.drain = secs(4);
    timing.remembered = secs(4);
    timing.redial = (secs(2), secs(4));
    if dice.one_in(3) {
        timing.heartbeat = Duration::from_secs(1);
        timing.dead = Duration::from_secs(3);
        timing.max_peer_heartbeat = Duration::from_secs(2);
        timing.idle = Duration::from_secs(6);
    }
}

fn small_limits(setup: &mut Setup, dice: &mut Dice) {
    let limits = &mut setup.limits;
    let mut small = |most: u64| 1 + usize::try_from(dice.below(most)).unwrap_or(0);
    limits.held = small(3);
    limits.rounds = small(2);
    limits.requests = small(3);
    limits.parked_blocks = small(4);
    limits.pinned_blocks = small(4);
    limits.lookups = small(2);
    limits.remembered = small(2);
    limits.handshakes = small(2);
    limits.peer_bytes = 1024 * small(4);
    limits.timers_per_tick = 8 + small(8);
}

fn half<T: Copy + Ord>(dice: &mut Dice, all: &[T]) -> BTreeSet<T> {
    all.iter().copied().filter(|_| dice.one_in(2)).collect()
}
