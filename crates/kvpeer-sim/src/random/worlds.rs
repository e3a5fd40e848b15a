//! What the world of a seed is made of.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Dice;
use super::rogue::{FIRST_OWN, OWN_BLOCKS};
use crate::names::Who;
use crate::setup::{Ask, Choice, Fault, Fence, Fits, Landing, Other, Setup, short_timing};

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

const ODD_FAULTS: [Fault; 3] = [Fault::Tear, Fault::Garble, Fault::Versions];

const CHOICES: [Choice; 5] =
    [Choice::Pending, Choice::Part, Choice::LateProbe, Choice::StaleAnswers, Choice::CancelDrops];

const ASKS: [Ask; 6] = [Ask::Admit, Ask::Open, Ask::Register, Ask::Close, Ask::Probe, Ask::Accept];

/// What kind of world a seed brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Nodes that are alike and honest.
    Seed,
    /// Nodes that differ, connections that break inside of a message, and mostly a rogue.
    Odd,
}

impl Family {
    fn name(self, seed: u64) -> String {
        match self {
            Self::Seed => format!("seed-{seed}"),
            Self::Odd => format!("odd-{seed}"),
        }
    }
}

/// The setup of a world that is named after its seed.
pub fn setup_of(name: &str) -> Option<Setup> {
    let (family, seed) = name.split_once('-')?;
    let family = match family {
        "seed" => Family::Seed,
        "odd" => Family::Odd,
        _ => return None,
    };
    let seed = seed.parse().ok()?;
    Some(setup(family, seed, &mut Dice::new(seed)))
}

pub(super) fn setup(family: Family, seed: u64, dice: &mut Dice) -> Setup {
    let nodes = if dice.one_in(4) { 3 } else { 2 };
    let mut setup = Setup::quiet(&family.name(seed));
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
    match family {
        Family::Seed => {}
        Family::Odd => oddities(&mut setup, dice),
    }
    setup
}

fn oddities(setup: &mut Setup, dice: &mut Dice) {
    setup.faults.extend(half(dice, &ODD_FAULTS));
    if dice.one_in(3) {
        setup.budget = 0;
    }
    if dice.one_in(2) {
        setup.nodes = 3;
    }
    for who in (0..setup.nodes).map(Who) {
        if !dice.one_in(3) {
            continue;
        }
        let mut alone = setup.clone();
        timing(&mut alone, dice);
        if dice.one_in(4) {
            small_limits(&mut alone, dice);
        }
        let odd = [Fits::OtherLength, Fits::OtherSeed, Fits::OtherFingerprint];
        let fits = if dice.one_in(6) { dice.pick(&odd).copied() } else { None };
        let fits = fits.unwrap_or(Fits::Yes);
        let other = Other { timing: alone.timing, limits: alone.limits, blocks: setup.blocks, fits };
        setup.others.insert(who, other);
    }
    if dice.one_in(4) {
        return;
    }
    let rogue = Who(u8::try_from(dice.below(u64::from(setup.nodes))).unwrap_or(0));
    setup.rogue = Some(rogue);
    // Who floods a node with connections may keep it from taking others.
    let roomy = kvpeer_core::Limits::default().handshakes;
    setup.limits.handshakes = roomy;
    let blocks = FIRST_OWN + OWN_BLOCKS;
    let usual = Other { timing: setup.timing.clone(), limits: setup.limits.clone(), blocks, fits: Fits::Yes };
    setup.others.entry(rogue).or_insert(usual).blocks = blocks;
    setup.others.values_mut().for_each(|other| other.limits.handshakes = roomy);
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
