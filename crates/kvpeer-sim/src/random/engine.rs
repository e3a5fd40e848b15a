//! Engines that wish for anything at any time.

use kvpeer_core::{BlockIdx, JobId, Role};
use kvpeer_wire::Supply;

use super::Dice;
use crate::names::Who;
use crate::node::{LoadState, Node};
use crate::step::Step;
use crate::wish::Wish;
use crate::world::World;

/// Even requests are `await`, odd ones `pinned`. Each has a node that mostly consumes it, and keys of its own.
pub(super) const REQUESTS: u64 = 4;
pub(super) const KEYS: u8 = 3;
/// Blocks from here on are not the cache's.
const FIRST_FREE: BlockIdx = 8;

pub(super) struct Engines {
    next_job: u64,
}

impl Engines {
    pub(super) fn new() -> Self {
        Self { next_job: 0 }
    }

    pub(super) fn wish(&mut self, world: &World, dice: &mut Dice) -> Option<Step> {
        let nodes = world.setup().nodes;
        let who = Who(u8::try_from(dice.below(u64::from(nodes))).unwrap_or(0));
        let node = world.node(who);
        if !node.is_alive() {
            return None;
        }
        let request = u8::try_from(dice.below(REQUESTS)).unwrap_or(0);
        let wish = self.choose(node, request, nodes, dice)?;
        Some(Step::Wish { who, script: None, wish })
    }

    fn choose(&mut self, node: &Node, request: u8, nodes: u8, dice: &mut Dice) -> Option<Wish> {
        let others: Vec<Who> = (0..nodes).map(Who).filter(|who| *who != node.process.who).collect();
        let other = *dice.pick(&others)?;
        let awaited = request.is_multiple_of(2);
        let supply = if awaited { Supply::Await } else { Supply::Pinned };
        let all: Vec<u8> = (0..KEYS).map(|at| request + at).collect();
        let keys = if dice.one_in(2) { all } else { dice.some(&all, u64::from(KEYS)) };
        let consumes = (request / 2) % nodes == node.process.who.0;
        if consumes != dice.one_in(10) {
            return self.consume(node, (request, other), supply, keys, dice);
        }
        self.produce(node, (request, other), awaited, keys, dice)
    }

    fn consume(
        &mut self,
        node: &Node,
        (request, source): (u8, Who),
        supply: Supply,
        keys: Vec<u8>,
        dice: &mut Dice,
    ) -> Option<Wish> {
        Some(match (dice.below(20), supply) {
            (0..4, _) => Wish::Consume { request, source, supply },
            (4..11, Supply::Await) => {
                let blocks = free(node, dice, keys.len())?;
                Wish::Load { job: self.job(), request, keys, blocks }
            }
            (4..7, Supply::Pinned) => Wish::Ask { request, keys },
            (7..11, Supply::Pinned) => {
                let blocks = free(node, dice, keys.len())?;
                Wish::LoadHits { job: self.job(), request, keys, blocks }
            }
            (11..13, _) => Wish::Abort { job: one_of(node.book.loads.keys(), dice)? },
            (13, _) => Wish::Release { job: one_of(node.book.loads.keys(), dice)? },
            (14..16, _) => Wish::Finish { request, role: *dice.pick(&[Role::Consumer, Role::Both])? },
            (16, _) => Wish::Connect { peer: source },
            (17, _) => return Self::end(source, dice),
            _ => return None,
        })
    }

    fn produce(
        &mut self,
        node: &Node,
        (request, consumer): (u8, Who),
        awaited: bool,
        keys: Vec<u8>,
        dice: &mut Dice,
    ) -> Option<Wish> {
        let named = dice.one_in(4).then_some(consumer);
        Some(match dice.below(20) {
            0..10 if awaited => {
                let blocks = free(node, dice, keys.len())?;
                Wish::Store { job: self.job(), request, keys, blocks, consumer: named }
            }
            10..12 => Wish::Withdraw { job: one_of(node.book.stores.keys(), dice)? },
            12 => Wish::Release { job: one_of(node.book.stores.keys(), dice)? },
            13..15 => Wish::Finish { request, role: *dice.pick(&[Role::Producer, Role::Both])? },
            15..17 => Wish::Produce { request, consumer: named },
            17 => return Self::end(consumer, dice),
            _ => return None,
        })
    }

    fn end(peer: Who, dice: &mut Dice) -> Option<Wish> {
        match dice.below(10) {
            0..2 => Some(Wish::Close { peer }),
            2 => Some(Wish::Shutdown { within: dice.below(4) }),
            _ => None,
        }
    }
    fn job(&mut self) -> JobId {
        self.next_job += 1;
        JobId(self.next_job)
    }
}

fn one_of<'a>(jobs: impl Iterator<Item = &'a JobId>, dice: &mut Dice) -> Option<JobId> {
    let jobs: Vec<JobId> = jobs.copied().collect();
    dice.pick(&jobs).copied()
}

/// Blocks that are neither pinned nor reserved; now and then the engine errs.
fn free(node: &Node, dice: &mut Dice, count: usize) -> Option<Vec<BlockIdx>> {
    let all = FIRST_FREE..u32::try_from(node.cells.len()).unwrap_or(0);
    let careless = dice.one_in(30);
    let held = node.book.loads.values().find(|load| load.state == LoadState::Quarantined);
    if let Some(held) = held.filter(|_| dice.one_in(6)) {
        // Blocks that are not free: the endpoint must refuse.
        return Some(held.blocks.iter().copied().cycle().take(count).collect());
    }
    let is_free =
        |block: &BlockIdx| careless || (node.book.pins(*block) == 0 && node.book.holder(*block).is_none());
    let free: Vec<BlockIdx> = all.filter(is_free).take(count).collect();
    (free.len() == count).then_some(free)
}
