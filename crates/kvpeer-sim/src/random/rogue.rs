//! A rogue that says anything at any time: mostly what hurts, now and then what must cost it its session.

use kvpeer_core::BlockIdx;
use kvpeer_wire::Supply;

use super::Dice;
use super::engine::{KEYS, REQUESTS};
use crate::control::Conn;
use crate::judge::{Round, Stage};
use crate::lie::{CALLS, Lie};
use crate::names::{ConnKey, RoundKey, Side, Who};
use crate::step::Step;
use crate::world::World;

/// Blocks of a rogue's region that its endpoint does not use: `OWN_BLOCKS` of them, from here on.
pub(super) const FIRST_OWN: BlockIdx = 24;
pub(super) const OWN_BLOCKS: BlockIdx = 200;

#[derive(Default)]
pub(super) struct Rogue {
    /// Numbers rounds, lookups and blocks that nobody else uses.
    next: u32,
}

impl Rogue {
    pub(super) fn lie(&mut self, world: &World, dice: &mut Dice) -> Option<Step> {
        let rogue = world.setup().rogue.filter(|rogue| world.is_alive(*rogue))?;
        let nodes = (0..world.setup().nodes).map(Who);
        let others: Vec<Who> = nodes.filter(|who| *who != rogue && world.is_alive(*who)).collect();
        if dice.one_in(16) {
            return dice.pick(&others).copied().map(Step::Call);
        }
        if let Some(step) = self.meddle(world, rogue).filter(|_| dice.one_in(3)) {
            return Some(step);
        }
        let keys = world.conns.keys().flat_map(|key| Side::BOTH.map(|side| (*key, side)));
        let ends: Vec<(ConnKey, Side)> = keys.filter(|(key, side)| world.can_lie(*key, *side)).collect();
        let (conn, from) = *dice.pick(&ends)?;
        let found = world.conns.get(&conn)?;
        let lie = if world.is_called(conn, from) && !found.end(from).said.connect {
            self.introduce(world, conn, found, dice)
        } else {
            self.choose(world, found, from, dice)
        };
        Some(Step::Lie { conn, from, lie: lie? })
    }

    /// Aborts a round, again and again, while WRITEs of it are out; else fetches what another peer waits for.
    fn meddle(&mut self, world: &World, rogue: Who) -> Option<Step> {
        let mut writes = world.writes.values().filter(|write| write.is_outstanding());
        let read = writes.find(|write| world.can_lie(write.conn, write.side.other()));
        if let Some(write) = read {
            let RoundKey { request, round } = write.round;
            let (conn, from) = (write.conn, write.side.other());
            return Some(Step::Lie { conn, from, lie: Lie::Abort { request, round } });
        }
        let sides =
            |conn: &Conn| Side::BOTH.map(|side| (conn.process(side), conn.end(side.other()).talk.clone()));
        let waits = world.conns.values().flat_map(|conn| sides(conn)).find_map(|(producer, talk)| {
            let mut rounds = talk.rounds.iter();
            let found = rounds.find(|(_, round)| {
                round.stage == Stage::Live && round.supply == Supply::Await && round.parked.is_some()
            });
            found.filter(|_| producer.who != rogue).map(|(id, _)| (producer, id.request))
        });
        let (producer, request) = waits?;
        let (conn, from) = world.conns.iter().find_map(|(key, conn)| {
            let to =
                Side::BOTH.into_iter().find(|side| conn.process(*side) == producer && conn.is_up(*side))?;
            world.can_lie(*key, to.other()).then_some((*key, to.other()))
        })?;
        let (round, block) = (1000 + u64::from(self.number()), FIRST_OWN + self.number() % OWN_BLOCKS);
        let lie =
            Lie::Fetch { request, round, supply: Supply::Await, keys: vec![request], blocks: vec![block] };
        Some(Step::Lie { conn, from, lie })
    }

    /// The first word on a connection of its own: every other one goes under the name of another.
    fn introduce(&mut self, world: &World, key: ConnKey, conn: &Conn, dice: &mut Dice) -> Option<Lie> {
        if dice.one_in(8) {
            return Some(self.work(dice));
        }
        let names = (0..world.setup().nodes).map(Who).filter(|who| *who != conn.acceptor.who);
        let steals = (key.epoch.0 - CALLS) % 2 == 1;
        let names: Vec<Who> = names.filter(|who| (*who == key.dialler.who) != steals).collect();
        let name = *dice.pick(&names)?;
        let life = world.node(name).process.life;
        Some(Lie::Connect { name, life: if dice.one_in(2) { life } else { life.saturating_sub(1) } })
    }

    fn choose(&mut self, world: &World, conn: &Conn, from: Side, dice: &mut Dice) -> Option<Lie> {
        let (ours, theirs) = (&conn.end(from).talk, &conn.end(from.other()).talk);
        let victim = conn.process(from.other());
        let steals = conn.key.epoch.0 >= CALLS && (conn.key.epoch.0 - CALLS) % 2 == 1;
        let of = |rounds: &std::collections::BTreeMap<RoundKey, Round>, dice: &mut Dice| {
            let live = rounds.iter().filter(|(_, round)| matches!(round.stage, Stage::Live | Stage::Aborted));
            let live: Vec<(RoundKey, Round)> = live.map(|(key, round)| (*key, round.clone())).collect();
            dice.pick(&live).cloned()
        };
        Some(match dice.below(24) {
            0..2 => {
                let (RoundKey { request, round }, live) = of(&ours.rounds, dice)?;
                Lie::Fetch { request, round, supply: live.supply, keys: live.keys, blocks: live.dst }
            }
            2..6 => {
                let (RoundKey { request, round }, _) = of(&ours.rounds, dice)?;
                Lie::Abort { request, round }
            }
            6..13 => self.work(dice),
            13 => {
                let (id, asked) = theirs.some_lookup(dice.below(1 << 16))?;
                let hits = asked.keys.iter().map(|_| u8::from(dice.one_in(2))).collect();
                Lie::Answer { id, offset: u32::from(dice.one_in(4)), hits }
            }
            14 => Lie::Answer { id: dice.below(4), offset: 0, hits: vec![1] },
            15 => {
                let (RoundKey { request, round }, _) = of(&theirs.rounds, dice)?;
                Lie::Done { request, round, ok: dice.one_in(2) }
            }
            16 => {
                let (RoundKey { request, round }, _) = of(&theirs.rounds, dice)?;
                Lie::AbortAck { request, round, settled: !dice.one_in(4) }
            }
            17 => {
                let (RoundKey { request, round }, live) = of(&theirs.rounds, dice)?;
                let other = if dice.one_in(2) { request } else { request ^ 1 };
                let landed = u32::try_from(live.keys.len()).unwrap_or(0);
                Lie::Progress { request: other, round, landed }
            }
            18 => {
                let (request, round) = (self.request(dice), dice.below(4));
                if dice.one_in(2) {
                    Lie::Done { request, round, ok: true }
                } else {
                    Lie::AbortAck { request, round, settled: true }
                }
            }
            19 => Lie::Trickle,
            20 | 21 if !steals => Lie::Ack { life: victim.life },
            22 if dice.one_in(3) => match dice.below(4) {
                0 => Lie::Connect { name: world.setup().rogue?, life: conn.process(from).life },
                1 => Lie::Ack { life: victim.life + 1 },
                2 => Lie::Reject,
                _ => Lie::Disconnect,
            },
            23 if dice.one_in(3) => {
                if dice.one_in(2) {
                    Lie::Garbage
                } else {
                    Lie::Hush
                }
            }
            _ => return None,
        })
    }

    /// Work for the other side: anybody's requests, with keys and blocks that fit or do not.
    fn work(&mut self, dice: &mut Dice) -> Lie {
        let request = self.request(dice);
        let mut keys: Vec<u8> = (0..=dice.below(u64::from(KEYS)) as u8).map(|at| request + at).collect();
        let round = 1000 + u64::from(self.number());
        match dice.below(8) {
            0..5 => {
                let mut blocks: Vec<BlockIdx> =
                    keys.iter().map(|_| FIRST_OWN + self.number() % OWN_BLOCKS).collect();
                match dice.below(9) {
                    0 => blocks.fill(FIRST_OWN + OWN_BLOCKS),
                    1 => blocks.fill(0),
                    2 => keys.fill(request),
                    _ => {}
                }
                let supply = if request.is_multiple_of(2) { Supply::Await } else { Supply::Pinned };
                Lie::Fetch { request, round, supply, keys, blocks }
            }
            5 => {
                if dice.one_in(3) {
                    keys.fill(request);
                }
                Lie::Lookup { id: round, request, round: round + 1, keys }
            }
            6 => Lie::Abort { request, round },
            _ => Lie::Release { request },
        }
    }

    fn request(&self, dice: &mut Dice) -> u8 {
        u8::try_from(dice.below(REQUESTS)).unwrap_or(0)
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}
