//! `world`: whole nodes of the simulator under its faults, judged by its judge.
//!
//! The bytes choose the world, the engines' wishes, and which of the things that can happen happens next.

use std::fmt::Write as _;
use std::sync::Arc;

use kvpeer_core::{BlockIdx, JobId, Role};
use kvpeer_sim::{Log, Setup, Step, Tale, Who, Wish, World, setup_of};
use kvpeer_wire::Supply;

use crate::dice::Dice;

/// Runs the bytes' world until they are used up, and then until it is at rest.
pub fn world(bytes: &[u8]) {
    let mut dice = Dice::new(bytes);
    let mut story = Story::new(&mut dice);
    while !dice.is_over() {
        story.go_on(&mut dice);
    }
    story.come_to_rest();
}

struct Story {
    world: World,
    taken: Vec<Step>,
    next_job: u64,
}

/// How many steps a world may take to come to rest.
const PATIENCE: usize = 20_000;
/// Engines use each block once, so that they never err; blocks before the first are the caches'.
const FIRST_BLOCK: BlockIdx = 8;
const BLOCKS_PER_JOB: BlockIdx = 3;
const JOBS: BlockIdx = 40;

impl Story {
    fn new(dice: &mut Dice<'_>) -> Self {
        let seed = dice.number(u8::MAX);
        let drawn = setup_of(&format!("seed-{seed}")).unwrap_or_else(|| Setup::quiet("quiet"));
        let setup = Setup { blocks: FIRST_BLOCK + BLOCKS_PER_JOB * JOBS, ..drawn };
        Self { world: World::new(Arc::new(setup)), taken: Vec::new(), next_job: 0 }
    }

    fn take(&mut self, step: Step) {
        self.world.apply(&step, &mut Log::default());
        self.taken.push(step);
        if let Some(broken) = self.world.broken() {
            let mut report = format!("{broken}\n");
            let tale = Tale { world: self.world.setup().name.clone(), steps: self.taken.clone() };
            let _ = write!(report, "{tale}");
            panic!("{report}");
        }
    }

    fn go_on(&mut self, dice: &mut Dice<'_>) {
        match dice.below(4) {
            0 => {
                let who = Who(dice.number(self.world.setup().nodes));
                if let (true, Some(wish)) = (self.world.is_alive(who), self.wish(who, dice)) {
                    self.take(Step::Wish { who, script: None, wish });
                }
            }
            1 => {
                let steps = self.world.steps();
                let at = dice.below(steps.len());
                if let Some(step) = steps.into_iter().nth(at) {
                    self.take(step);
                }
            }
            _ => {
                let prompt = self.world.prompt_steps();
                let at = dice.below(prompt.len());
                match prompt.into_iter().nth(at) {
                    Some(step) => self.take(step),
                    None if self.world.can(&Step::Time) => self.take(Step::Time),
                    None => {}
                }
            }
        }
    }

    fn wish(&mut self, who: Who, dice: &mut Dice<'_>) -> Option<Wish> {
        let nodes = self.world.setup().nodes;
        let other = Who((who.0 + 1 + dice.number(nodes - 1)) % nodes);
        let request = dice.number(4);
        let keys: Vec<u8> = (0..=dice.number(3)).map(|at| request + at).collect();
        let named = |dice: &mut Dice<'_>| dice.one_in(4).then_some(other);
        Some(match dice.below(24) {
            0..3 => Wish::Consume {
                request,
                source: other,
                // Even requests are awaited, as a rule.
                supply: if request.is_multiple_of(2) { Supply::Await } else { Supply::Pinned },
            },
            3..7 => {
                let (job, blocks) = self.job(&keys)?;
                Wish::Load { job, request, keys, blocks }
            }
            7 | 8 => {
                let (job, blocks) = self.job(&keys)?;
                Wish::LoadHits { job, request, keys, blocks }
            }
            9..11 => Wish::Ask { request, keys },
            11..16 => {
                let (job, blocks) = self.job(&keys)?;
                Wish::Store { job, request, keys, blocks, consumer: named(dice) }
            }
            16 => Wish::Abort { job: self.some_job(dice) },
            17 => Wish::Withdraw { job: self.some_job(dice) },
            18 => Wish::Release { job: self.some_job(dice) },
            19 => Wish::Produce { request, consumer: named(dice) },
            20 | 21 => {
                let role = [Role::Both, Role::Consumer, Role::Producer][dice.below(3)];
                Wish::Finish { request, role }
            }
            22 => Wish::Connect { peer: other },
            _ if dice.one_in(4) => Wish::Shutdown { within: u64::from(dice.number(4)) },
            _ => Wish::Close { peer: other },
        })
    }

    /// A new job and blocks of its own.
    fn job(&mut self, keys: &[u8]) -> Option<(JobId, Vec<BlockIdx>)> {
        let number = u32::try_from(self.next_job).ok().filter(|number| *number < JOBS)?;
        self.next_job += 1;
        let first = FIRST_BLOCK + number * BLOCKS_PER_JOB;
        let blocks = (first..first + BLOCKS_PER_JOB).take(keys.len()).collect();
        Some((JobId(self.next_job), blocks))
    }

    fn some_job(&self, dice: &mut Dice<'_>) -> JobId {
        JobId(1 + dice.below(usize::try_from(self.next_job).unwrap_or(0)) as u64)
    }

    /// No more wishes and faults: what is left must end, and so must the nodes.
    fn come_to_rest(&mut self) {
        for who in (0..self.world.setup().nodes).map(Who) {
            if self.world.is_alive(who) {
                self.take(Step::Wish { who, script: None, wish: Wish::Shutdown { within: 2 } });
            }
        }
        for _ in 0..PATIENCE {
            if self.world.is_at_rest() {
                return;
            }
            let next = self.world.prompt_steps().into_iter().next().unwrap_or(Step::Time);
            self.take(next);
        }
        panic!("I7: the world does not come to rest\n{:?}", self.taken);
    }
}
