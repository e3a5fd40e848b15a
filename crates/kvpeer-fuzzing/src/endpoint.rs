//! `endpoint`: facts and wishes of every kind, in any order, sensible or not.
//!
//! Planes that break their contracts and engines that err: nothing is promised to them but that the endpoint never
//! panics, keeps its structural laws, is not changed by a wish that it refuses, and tells no job two results.

use std::time::Duration;

use kvpeer_core::{
    Action, BlockIdx, Command, Compatibility, Config, ConnId, Endpoint, Epoch, Event, Identity, Input, JobId,
    KeyAt, Origin, Part, ProbeId, Role, Sink, Time, TransferEnd, XferId,
};
use kvpeer_wire::{Key, PeerId, RegionInfo, Supply};

use crate::dice::Dice;
use crate::ledger::{Ledger, Load, LoadState};
use crate::messages::{self, BLOCK_LEN, PEERS, keys, peer, request};

/// Blocks of the endpoint's region.
pub(crate) const NUM_BLOCKS: u32 = 64;
/// Blocks that may be in flight to one peer.
pub(crate) const WINDOW_BLOCKS: usize = 4;

/// Runs the bytes' facts and wishes on one endpoint.
pub fn endpoint(bytes: &[u8]) {
    let mut dice = Dice::new(bytes);
    let mut node = Node::new(&mut dice);
    while !dice.is_over() {
        match dice.below(3) {
            0 => node.wish(&mut dice),
            _ => node.fact(&mut dice),
        }
        if let Err(violation) = node.endpoint.check() {
            panic!("{violation}\n{:#?}", node.endpoint);
        }
        let limits = &node.endpoint.config().limits;
        assert!(node.endpoint.totals().kept_bytes <= limits.total_bytes, "LIM-1: too much is kept");
        let _ = (node.endpoint.next_deadline(), node.endpoint.is_idle(), node.endpoint.peers().count());
    }
}

/// A configuration with small limits, some of them chosen.
pub(crate) fn config(dice: &mut Dice<'_>) -> Config {
    let identity = Identity { peer_id: PeerId::from(peer("a")), incarnation: 2, loopback: false };
    let region = RegionInfo { base_addr: 0x8000, num_blocks: NUM_BLOCKS, block_len: BLOCK_LEN };
    let mut config = Config::new(identity, region, Compatibility::default());
    let limits = &mut config.limits;
    limits.handshakes = 3;
    limits.write_bytes = BLOCK_LEN * 2;
    limits.window_bytes = BLOCK_LEN * WINDOW_BLOCKS as u64;
    if dice.one_in(2) {
        limits.peers = 2;
        limits.spare_peers = dice.below(3);
        limits.held = 2;
        limits.requests = 3;
        limits.rounds = 2;
        limits.lookups = 2;
        limits.pinned_blocks = 4;
        limits.parked_blocks = 4;
        limits.remembered = 2;
        limits.peer_bytes = 3_000;
        limits.total_bytes = 4_000;
        limits.timers_per_tick = 2;
    }
    config
}

struct Node {
    endpoint: Endpoint,
    now: Time,
    next_conn: u64,
    next_pin: u64,
    out: Out,
}

/// What the endpoint has asked for: names for facts to pick from.
#[derive(Default)]
struct Out {
    conns: Vec<ConnId>,
    dials: Vec<Epoch>,
    epochs: Vec<Epoch>,
    writes: Vec<XferId>,
    probes: Vec<ProbeId>,
    effects: usize,
    ledger: Ledger,
}

impl Sink for Out {
    fn act(&mut self, action: Action<'_>) {
        self.effects += 1;
        match action {
            Action::Dial { epoch, .. } => self.dials.push(epoch),
            Action::Admit { epoch, .. } | Action::OpenRight { epoch } | Action::CloseRight { epoch } => {
                self.epochs.push(epoch);
            }
            Action::Write { xfer, .. } => self.writes.push(xfer),
            Action::Probe { probe, .. } => self.probes.push(probe),
            Action::Send { msg, .. } => {
                msg.encode(&mut Vec::new()).expect("what the core sends can be written");
            }
            Action::CancelDial { .. }
            | Action::Close { .. }
            | Action::Register { .. }
            | Action::Cancel { .. }
            | Action::EndProbe { .. } => {}
        }
    }

    fn tell(&mut self, event: Event<'_>) {
        self.effects += 1;
        self.ledger.note(&event);
    }
}

/// One of the newest, or one that never was.
fn newest<T: Copy>(dice: &mut Dice<'_>, from: &[T], unknown: T) -> T {
    match dice.below(6) {
        5 => unknown,
        n => from.iter().rev().nth(n % from.len().max(1)).copied().unwrap_or(unknown),
    }
}

impl Node {
    fn new(dice: &mut Dice<'_>) -> Self {
        let endpoint = Endpoint::new(config(dice)).expect("a sound configuration");
        Self { endpoint, now: Time::ZERO, next_conn: 0, next_pin: 1_000, out: Out::default() }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.endpoint.handle(self.now, input, &mut self.out);
    }

    fn conn(&self, dice: &mut Dice<'_>) -> ConnId {
        newest(dice, &self.out.conns, ConnId(u64::MAX))
    }

    fn epoch(&self, dice: &mut Dice<'_>) -> Epoch {
        newest(dice, &self.out.epochs, Epoch(u32::MAX))
    }

    fn connected(&mut self, origin: Origin) {
        self.next_conn += 1;
        let conn = ConnId(self.next_conn);
        self.out.conns.push(conn);
        self.handle(Input::Connected { conn, origin });
    }

    fn fact(&mut self, dice: &mut Dice<'_>) {
        match dice.below(24) {
            0 => self.connected(Origin::Accepted),
            1 => self.connected(Origin::Dialed(newest(dice, &self.out.dials, Epoch(u32::MAX)))),
            2 => self.handle(Input::DialFailed { epoch: newest(dice, &self.out.dials, Epoch(u32::MAX)) }),
            3 => self.handle(Input::Disconnected { conn: self.conn(dice) }),
            4 => self.handle(Input::Heard { conn: self.conn(dice) }),
            5 => self.handle(Input::Malformed { conn: self.conn(dice), detail: "no message" }),
            6 => {
                let conn = self.conn(dice);
                self.handle(Input::NoCommonVersion { conn, ours: (1, 1), theirs: (2, 3) });
            }
            7 => {
                let (epoch, admit) = (self.epoch(dice), !dice.one_in(8));
                self.handle(Input::Admitted { epoch, admit });
            }
            8 => {
                let (epoch, metadata) = (self.epoch(dice), [7; 5000]);
                let len = [3, 5000, 0][dice.below(3)];
                let metadata = (!dice.one_in(8)).then(|| &metadata[..len]);
                self.handle(Input::RightOpened { epoch, metadata });
            }
            9 => {
                let (epoch, fenced) = (self.epoch(dice), !dice.one_in(4));
                self.handle(Input::RightClosed { epoch, fenced });
            }
            10 => {
                let (epoch, ok) = (self.epoch(dice), !dice.one_in(8));
                self.handle(Input::Registered { epoch, ok });
            }
            11 => self.handle(Input::PeerFault { epoch: self.epoch(dice) }),
            12 => {
                let xfer = newest(dice, &self.out.writes, XferId { epoch: Epoch(1), seq: 999 });
                let ends =
                    [TransferEnd::Done, TransferEnd::NotPosted, TransferEnd::Errored, TransferEnd::Fenced];
                self.handle(Input::Transfer { xfer, end: ends[dice.below(4)] });
            }
            13 => self.probed(dice),
            14 => {
                let millis = [0, 100, 1_000, 5_000, 11_000, 31_000, 61_000, 400_000][dice.below(8)];
                self.now = self.now + Duration::from_millis(millis);
            }
            15 => {
                let back = dice.wild(9).saturating_mul(1_000_000);
                self.now = Time::from_micros(self.now.as_micros().saturating_sub(back));
            }
            16 => self.handle(Input::Tick),
            17 => {
                self.now = self.endpoint.next_deadline().map_or(self.now, |next| self.now.max(next.at));
                self.handle(Input::Tick);
            }
            _ => {
                let (conn, name) = (self.conn(dice), dice.pick(&PEERS).unwrap_or("b"));
                messages::any(dice, name, |msg| self.handle(Input::Message { conn, msg }));
            }
        }
    }

    fn probed(&mut self, dice: &mut Dice<'_>) {
        let probe = newest(dice, &self.out.probes, ProbeId { epoch: Epoch(1), seq: 999 });
        let hits = dice.some(4, |dice| (KeyAt(dice.wild(5) as u32), dice.wild(70) as BlockIdx));
        let misses = dice.some(4, |dice| KeyAt(dice.wild(5) as u32));
        let pin = (!dice.one_in(5)).then(|| self.pin(dice));
        if let Some(pin) = pin {
            self.out.ledger.stores.insert(pin, Vec::new());
        }
        self.handle(Input::Probed { probe, pin, hits: &hits, misses: &misses });
    }

    /// A new job's id, or one that is or was another's.
    fn pin(&mut self, dice: &mut Dice<'_>) -> JobId {
        if dice.one_in(8) {
            let job = JobId(dice.wild(8));
            self.out.ledger.muddled.insert(job);
            return job;
        }
        self.next_pin += 1;
        JobId(self.next_pin)
    }

    fn command(&mut self, command: Command<'_>) -> bool {
        let (before, effects) = (self.endpoint.clone(), self.out.effects);
        let refused = self.endpoint.command(self.now, command, &mut self.out).is_err();
        if refused {
            assert_eq!(self.endpoint, before, "CMD-1: {command:?} is refused and changes the endpoint");
            assert_eq!(self.out.effects, effects, "CMD-1: {command:?} is refused and has effects");
        }
        !refused
    }

    fn wish(&mut self, dice: &mut Dice<'_>) {
        let q = request(dice.number(4));
        match dice.below(16) {
            0 | 1 => {
                let name = if dice.one_in(8) { "a" } else { dice.pick(&PEERS).unwrap_or("b") };
                let supply = if dice.one_in(2) { Supply::Pinned } else { Supply::Await };
                let part = Part::Consume { source: peer(name), address: name, supply };
                self.command(Command::Open { request: q, part });
            }
            2 => {
                let consumer = dice.one_in(2).then(|| peer("b"));
                self.command(Command::Open { request: q, part: Part::Produce { consumer } });
            }
            3 | 4 => self.load(dice),
            5 | 6 => self.store(dice),
            7 => {
                let role = [Role::Both, Role::Consumer, Role::Producer][dice.below(3)];
                self.command(Command::Finish { request: q, role });
            }
            8 => {
                self.command(Command::Abort { job: job(dice) });
            }
            9 => {
                self.command(Command::Withdraw { job: job(dice) });
            }
            10 => {
                self.command(Command::ReleaseQuarantine { job: job(dice) });
            }
            11 => {
                let key = [messages::key(dice)];
                let _ = self.endpoint.lookup(self.now, q, Key::new(&key).expect("a short key"));
            }
            12 => {
                self.command(Command::FlushLookups);
            }
            13 => {
                let name = dice.pick(&PEERS).unwrap_or("b");
                self.command(Command::Connect { peer: peer(name), address: name });
            }
            14 => {
                let name = dice.pick(&PEERS).unwrap_or("b");
                self.command(Command::ClosePeer { peer: peer(name) });
            }
            _ if dice.one_in(8) => {
                self.command(Command::Shutdown { within: Duration::from_secs(dice.wild(20)) });
            }
            _ => {}
        }
    }

    fn load(&mut self, dice: &mut Dice<'_>) {
        let (job, q) = (job(dice), request(dice.number(4)));
        let pairs = dice.some(4, |dice| (messages::key(dice), dice.wild(66) as BlockIdx));
        let keys = keys(&pairs.iter().map(|(key, _)| *key).collect::<Vec<_>>());
        let blocks: Vec<BlockIdx> = pairs.iter().map(|(_, block)| *block).collect();
        let before = self.out.ledger.loads.clone();
        let free = self.out.ledger.is_free(job);
        if free {
            let load = Load { blocks: blocks.clone(), state: LoadState::Asked };
            self.out.ledger.loads.insert(job, load);
        }
        let taken = self.command(Command::Load { job, request: q, keys: keys.as_keys(), blocks: &blocks });
        let muddled = self.out.ledger.muddled.contains(&job);
        assert!(!taken || free || muddled, "CMD-5: {job:?} is in use");
        if !taken {
            self.out.ledger.loads = before;
        }
    }

    fn store(&mut self, dice: &mut Dice<'_>) {
        let (job, q) = (job(dice), request(dice.number(4)));
        let pairs = dice.some(4, |dice| (messages::key(dice), dice.wild(66) as BlockIdx));
        let keys = keys(&pairs.iter().map(|(key, _)| *key).collect::<Vec<_>>());
        let blocks: Vec<BlockIdx> = pairs.iter().map(|(_, block)| *block).collect();
        let consumer = dice.one_in(4).then(|| peer("b"));
        let before = self.out.ledger.stores.clone();
        let free = self.out.ledger.is_free(job);
        if free {
            self.out.ledger.stores.insert(job, Vec::new());
        }
        let (keys, blocks) = (keys.as_keys(), blocks.as_slice());
        let taken = self.command(Command::Store { job, request: q, keys, blocks, consumer });
        let muddled = self.out.ledger.muddled.contains(&job);
        assert!(!taken || free || muddled, "CMD-5: {job:?} is in use");
        if !taken {
            self.out.ledger.stores = before;
        }
    }
}

/// Engine's jobs are few, so that they are often named again.
fn job(dice: &mut Dice<'_>) -> JobId {
    JobId(dice.wild(8))
}
