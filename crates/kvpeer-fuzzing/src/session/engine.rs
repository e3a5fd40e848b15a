//! An engine that keeps its contracts, and wishes for anything else.

use kvpeer_core::{BlockIdx, Command, JobId, Part, Role};
use kvpeer_wire::{Key, Supply};

use super::World;
use super::planes::CACHE;
use super::rules::Moment;
use crate::dice::Dice;
use crate::ledger::{Load, LoadState};
use crate::messages::{self, PEERS, keys, peer, request};

impl World {
    /// Ids of pins and of the engine's jobs come from one range.
    pub(super) fn mint(&mut self) -> JobId {
        self.next_job += 1;
        JobId(self.next_job)
    }

    pub(super) fn engine_wishes(&mut self, dice: &mut Dice<'_>) {
        let q = request(dice.number(4));
        let name = dice.pick(&PEERS).unwrap_or("b");
        match dice.below(16) {
            0 | 1 => {
                let supply = if dice.one_in(2) { Supply::Pinned } else { Supply::Await };
                self.command(Command::Open {
                    request: q,
                    part: Part::Consume { source: peer(name), address: name, supply },
                });
            }
            2 => {
                let consumer = dice.one_in(2).then(|| peer(name));
                self.command(Command::Open { request: q, part: Part::Produce { consumer } });
            }
            3..6 => self.load(dice),
            6..9 => self.store(dice),
            9 | 10 => {
                let key = [messages::key(dice)];
                let _ = self.endpoint.lookup(self.now, q, Key::new(&key).expect("a short key"));
                if dice.one_in(2) {
                    self.command(Command::FlushLookups);
                }
            }
            11 => {
                if let Some(job) = self.some_job(dice) {
                    self.command(Command::Abort { job });
                }
            }
            12 => {
                if let Some(job) = self.some_job(dice) {
                    self.command(Command::Withdraw { job });
                }
            }
            13 => {
                let role = [Role::Both, Role::Consumer, Role::Producer][dice.below(3)];
                self.command(Command::Finish { request: q, role });
            }
            14 => drop(self.command(Command::Connect { peer: peer(name), address: name })),
            _ if dice.one_in(2) => drop(self.command(Command::ClosePeer { peer: peer(name) })),
            _ => {
                if let Some(job) = self.some_job(dice) {
                    self.release(job);
                }
            }
        }
    }

    fn some_job(&self, dice: &mut Dice<'_>) -> Option<JobId> {
        let ledger = &self.planes.ledger;
        let jobs: Vec<JobId> = ledger.loads.keys().chain(ledger.stores.keys()).copied().collect();
        dice.pick(&jobs)
    }

    /// The engine says that it has a proof of its own.
    pub(super) fn release(&mut self, job: JobId) {
        let blocks = self.planes.ledger.stores.get(&job).cloned().unwrap_or_default();
        let before = self.endpoint.clone();
        self.planes.moment = Moment::Released;
        let release = Command::ReleaseQuarantine { job };
        if self.endpoint.command(self.now, release, &mut self.planes).is_err() {
            assert_eq!(self.endpoint, before, "CMD-1: {release:?} is refused and changes the endpoint");
        } else {
            // The engine knows that nobody reads them any more.
            self.planes
                .writes
                .retain(|_, write| !write.ended || !write.src.iter().any(|at| blocks.contains(at)));
        }
        self.look();
    }

    /// Blocks that are neither read nor written.
    fn free(&self, count: usize) -> Option<Vec<BlockIdx>> {
        let ledger = &self.planes.ledger;
        let free = (0..CACHE).filter(|block| !ledger.is_reserved(*block) && !ledger.is_pinned(*block));
        let free: Vec<BlockIdx> = free.take(count).collect();
        (free.len() == count).then_some(free)
    }

    fn load(&mut self, dice: &mut Dice<'_>) {
        let q = request(dice.number(4));
        let numbers = distinct(dice);
        let Some(blocks) = self.free(numbers.len()) else { return };
        let (job, keys) = (self.mint(), keys(&numbers));
        let load = Load { blocks: blocks.clone(), state: LoadState::Asked };
        self.planes.ledger.loads.insert(job, load);
        if !self.command(Command::Load { job, request: q, keys: keys.as_keys(), blocks: &blocks }) {
            self.planes.ledger.loads.remove(&job);
        }
    }

    fn store(&mut self, dice: &mut Dice<'_>) {
        let q = request(dice.number(4));
        let numbers = distinct(dice);
        let Some(blocks) = self.free(numbers.len()) else { return };
        let consumer = dice.one_in(4).then(|| peer("b"));
        let (job, keys) = (self.mint(), keys(&numbers));
        self.planes.ledger.stores.insert(job, blocks.clone());
        let (keys, blocks) = (keys.as_keys(), blocks.as_slice());
        if !self.command(Command::Store { job, request: q, keys, blocks, consumer }) {
            self.planes.ledger.stores.remove(&job);
        }
    }
}

fn distinct(dice: &mut Dice<'_>) -> Vec<u8> {
    let mut numbers = dice.some(5, messages::key);
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
