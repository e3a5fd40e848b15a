//! Worlds from seeds: one seed, one world, one run.

mod engine;
mod rogue;
mod worlds;

use std::sync::Arc;

use crate::judge::{Broken, Promise};
use crate::names::Who;
use crate::seen::Log;
use crate::setup::{Ask, Setup};
use crate::step::Step;
use crate::tale::Tale;
use crate::wish::Wish;
use crate::world::World;
use engine::Engines;
use rogue::Rogue;
pub use worlds::{Family, setup_of};

/// A small generator of numbers, the same everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

/// One run of one seed.
#[derive(Debug)]
pub struct Run {
    /// What it was made of.
    pub setup: Arc<Setup>,
    /// What happened.
    pub tale: Tale,
    /// The promise that was broken, if one was.
    pub broken: Option<Broken>,
    /// What was seen.
    pub log: Log,
}

/// How many steps a world may take to come to rest after the last wish and the last fault.
const PATIENCE: usize = 20_000;

/// Runs the world of `seed`: at most `steps` steps with wishes and faults, then until everything is at rest.
pub fn simulate(family: Family, seed: u64, steps: usize) -> Run {
    let mut dice = Dice::new(seed);
    let setup = Arc::new(worlds::setup(family, seed, &mut dice));
    let mut run = Runner {
        world: World::new(Arc::clone(&setup)),
        engines: Engines::new(),
        rogue: Rogue::default(),
        dice,
        taken: Vec::new(),
        log: Log::default(),
    };
    run.live(steps);
    run.come_to_rest();
    let tale = Tale { world: setup.name.clone(), steps: run.taken };
    Run { setup, tale, broken: run.world.broken().cloned(), log: run.log }
}

struct Runner {
    world: World,
    engines: Engines,
    rogue: Rogue,
    dice: Dice,
    taken: Vec<Step>,
    log: Log,
}

impl Runner {
    fn take(&mut self, step: Step) {
        self.world.apply(&step, &mut self.log);
        self.taken.push(step);
    }

    fn is_over(&self) -> bool {
        self.world.broken().is_some()
    }

    fn live(&mut self, steps: usize) {
        for _ in 0..steps {
            if self.is_over() {
                return;
            }
            if self.world.setup().rogue.is_some()
                && self.dice.one_in(5)
                && let Some(step) = self.rogue.lie(&self.world, &mut self.dice)
            {
                self.take(step);
                continue;
            }
            let often = if self.world.prompt_steps().is_empty() { 2 } else { 6 };
            if self.dice.one_in(often)
                && let Some(step) = self.engines.wish(&self.world, &mut self.dice)
            {
                self.take(step);
                continue;
            }
            let Some(step) = self.next() else { continue };
            self.take(step);
        }
    }

    /// Mostly what must happen, now and then a fault, something late, or the passing of time.
    fn next(&mut self) -> Option<Step> {
        let all = self.world.steps();
        let (faults, usual): (Vec<Step>, Vec<Step>) =
            all.into_iter().partition(|step| self.world.fault_of(step).is_some());
        let hot: Vec<Step> = faults.iter().filter(|step| is_about_work(step)).cloned().collect();
        if !hot.is_empty() && self.dice.one_in(8) {
            return self.dice.pick(&hot).cloned();
        }
        if !faults.is_empty() && self.dice.one_in(80) {
            return self.dice.pick(&faults).cloned();
        }
        let prompt = self.world.prompt_steps();
        if !prompt.is_empty() && !self.dice.one_in(8) {
            return self.dice.pick(&prompt).cloned();
        }
        if prompt.is_empty() {
            return match self.dice.below(12) {
                0 => self.world.next_deadline().map(|_| Step::Time),
                1..3 => Some(Step::Wait(self.dice.below(2_000_000))),
                _ => None,
            };
        }
        self.dice.pick(&usual).cloned()
    }

    /// No more wishes, no more faults, nothing late: what is left must end. Then the nodes shut down.
    fn come_to_rest(&mut self) {
        let beats = self.world.beats();
        if !beats {
            self.settle();
        }
        if beats || self.dice.one_in(2) {
            for who in (0..self.world.setup().nodes).map(Who) {
                if self.world.is_alive(who) && !self.is_over() {
                    let within = self.dice.below(4);
                    self.take(Step::Wish { who, script: None, wish: Wish::Shutdown { within } });
                }
            }
            self.settle();
        }
    }

    fn settle(&mut self) {
        for _ in 0..PATIENCE {
            if self.is_over() || self.world.is_at_rest() {
                return;
            }
            let prompt = self.world.prompt_steps();
            let step = self.dice.pick(&prompt).cloned().unwrap_or(Step::Time);
            self.take(step);
        }
        self.world.fail(Promise::Bounded, "the world does not come to rest".to_owned());
    }
}

/// Faults that are seldom possible, and hit work that is under way.
fn is_about_work(step: &Step) -> bool {
    matches!(
        step,
        Step::Complete { .. }
            | Step::DelayWrite(_)
            | Step::DelayLink(..)
            | Step::DelayAnswer(_, Ask::Close)
            | Step::Answer { ask: Ask::Close, .. }
    )
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `limit - 1`; 0 when `limit` is 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = self.below(from.len() as u64);
        from.get(usize::try_from(at).unwrap_or(0))
    }

    /// Some of them, in another order.
    pub(crate) fn some<T: Copy>(&mut self, from: &[T], most: u64) -> Vec<T> {
        let mut left = from.to_vec();
        let count = 1 + self.below(most);
        let mut taken = Vec::new();
        for _ in 0..count {
            if left.is_empty() {
                break;
            }
            let at = usize::try_from(self.below(left.len() as u64)).unwrap_or(0);
            taken.push(left.swap_remove(at));
        }
        taken
    }
}
