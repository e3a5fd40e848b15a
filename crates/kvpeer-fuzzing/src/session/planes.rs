//! Planes, cache and bookkeeping on the endpoint's side: they keep their contracts, in any order and at any time.

use std::collections::{BTreeMap, BTreeSet};

use kvpeer_core::{
    Action, BlockIdx, ConnId, Epoch, Event, Input, JobId, KeyAt, Origin, ProbeId, Sink, Time, TransferEnd,
    XferId,
};
use kvpeer_wire::{Keys, Msg, RequestId, Round};

use super::World;
use super::rules::Moment;
use crate::dice::Dice;
use crate::ledger::Ledger;

/// Where the cache's key `k` lies: `CACHE + k`. Blocks below are the engine's.
pub(super) const CACHE: BlockIdx = 40;

/// What the endpoint has asked for and nobody has answered yet, and what is known of its links.
#[derive(Default)]
pub(super) struct Planes {
    pub(super) open: BTreeSet<ConnId>,
    pub(super) dials: BTreeSet<Epoch>,
    pub(super) links: BTreeMap<Epoch, Link>,
    pub(super) asked: BTreeSet<(Epoch, Ask)>,
    pub(super) writes: BTreeMap<XferId, Write>,
    pub(super) probes: BTreeMap<ProbeId, Probe>,
    /// Connections on which the endpoint has said goodbye.
    pub(super) parted: BTreeSet<ConnId>,
    /// On which connection a load's fetch was sent, and under which names.
    pub(super) fetches: BTreeMap<JobId, (ConnId, RequestId, Round)>,
    pub(super) ledger: Ledger,
    pub(super) moment: Moment,
}

/// What a plane, or the embedder, still has to answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Ask {
    Admit,
    Open,
    Register,
    Close,
}

#[derive(Default)]
pub(super) struct Link {
    pub(super) conn: Option<ConnId>,
    /// Blocks in the peer's region.
    pub(super) blocks: u32,
    pub(super) right: Right,
    pub(super) registered: bool,
    /// The peer has said goodbye.
    pub(super) left: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Right {
    #[default]
    None,
    Open,
    Closing,
}

pub(super) struct Write {
    pub(super) src: Vec<BlockIdx>,
    /// It was reported as fenced, or its right was closed without proof: it may read its source still.
    pub(super) ended: bool,
}

pub(super) struct Probe {
    keys: Vec<u8>,
    open: Vec<KeyAt>,
    /// The cache has been asked and has not answered.
    waiting: bool,
}

impl Sink for Planes {
    fn act(&mut self, action: Action<'_>) {
        match action {
            Action::Dial { epoch, .. } => drop(self.dials.insert(epoch)),
            Action::CancelDial { epoch } => drop(self.dials.remove(&epoch)),
            Action::Send { conn, msg } => self.send(conn, &msg),
            Action::Close { conn } => drop(self.open.remove(&conn)),
            Action::Admit { epoch, conn, .. } => {
                self.links.entry(epoch).or_default().conn = Some(conn);
                self.asked.insert((epoch, Ask::Admit));
            }
            Action::OpenRight { epoch } => {
                assert!(!self.asked.contains(&(epoch, Ask::Admit)), "HS-11: a right before admission");
                self.asked.insert((epoch, Ask::Open));
            }
            Action::Register { epoch, region, .. } => {
                let link = self.links.entry(epoch).or_default();
                assert_eq!(link.right, Right::Open, "HS-8: registered without a right");
                link.blocks = region.num_blocks;
                self.asked.insert((epoch, Ask::Register));
            }
            Action::CloseRight { epoch } => {
                let link = self.links.entry(epoch).or_default();
                assert_ne!(link.right, Right::Closing, "END-9: a right is closed once");
                link.right = Right::Closing;
                self.asked.remove(&(epoch, Ask::Open));
                self.asked.remove(&(epoch, Ask::Register));
                self.asked.insert((epoch, Ask::Close));
            }
            Action::Write { xfer, src, dst } => self.write(xfer, src, dst),
            Action::Cancel { .. } => {}
            Action::Probe { probe, keys, open, .. } => self.probe(probe, keys, open),
            Action::EndProbe { probe } => drop(self.probes.remove(&probe)),
        }
    }

    fn tell(&mut self, event: Event<'_>) {
        if let Some(told) = self.ledger.note(&event) {
            self.judge(&told);
        }
    }
}

impl Planes {
    pub(super) fn some_conn(&self, dice: &mut Dice<'_>) -> Option<ConnId> {
        let at = dice.below(self.open.len().min(4));
        self.open.iter().rev().nth(at).copied()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.asked.is_empty() && self.dials.is_empty()
    }

    /// A fact is about to be given to the endpoint.
    pub(super) fn hears(&mut self, input: &Input<'_>) {
        self.moment = Moment::of(input);
        if let Input::Message { conn, msg: Msg::Disconnect(_) } = input {
            self.links.values_mut().filter(|link| link.conn == Some(*conn)).for_each(|link| link.left = true);
        }
    }

    pub(super) fn hears_nothing(&mut self) {
        self.moment = Moment::Other;
    }

    fn probe(&mut self, probe: ProbeId, keys: Keys<'_>, open: &[KeyAt]) {
        let keys = keys.iter().filter_map(|key| key.as_bytes().first().copied()).collect();
        self.probes.insert(probe, Probe { keys, open: open.to_vec(), waiting: true });
    }
}

impl World {
    /// The next answer of a plane, or of the cache.
    pub(super) fn planes_answer(&mut self, dice: &mut Dice<'_>) {
        let ok = !dice.one_in(12);
        match dice.below(8) {
            0 => self.answer_dial(dice, ok),
            1 | 2 => {
                let asked: Vec<_> = self.planes.asked.iter().copied().collect();
                if let Some((epoch, ask)) = dice.pick(&asked) {
                    self.answer(epoch, ask, ok);
                }
            }
            3..6 => self.end_write(dice),
            6 => self.answer_probe(dice),
            _ => {
                let epochs: Vec<_> = self.planes.links.keys().copied().collect();
                if let (true, Some(epoch)) = (dice.one_in(4), dice.pick(&epochs)) {
                    self.handle(Input::PeerFault { epoch });
                }
            }
        }
    }

    /// Everything that is asked is answered well; what is `after` the end of time is answered in full.
    pub(super) fn answer_all(&mut self, after: Time) {
        for _ in 0..64 {
            if let Some(&(epoch, ask)) = self.planes.asked.iter().next() {
                self.answer(epoch, ask, true);
            } else if let (true, Some(&epoch)) = (after == Time::NEVER, self.planes.dials.iter().next()) {
                self.planes.dials.remove(&epoch);
                self.handle(Input::DialFailed { epoch });
            } else if let (true, Some(xfer)) = (after == Time::NEVER, self.planes.running()) {
                self.transfer(xfer, TransferEnd::Done);
            } else {
                return;
            }
        }
    }

    fn answer_dial(&mut self, dice: &mut Dice<'_>, ok: bool) {
        let dials: Vec<_> = self.planes.dials.iter().copied().collect();
        let Some(epoch) = dice.pick(&dials) else { return };
        self.planes.dials.remove(&epoch);
        match ok {
            true => drop(self.connected(Origin::Dialed(epoch))),
            false => self.handle(Input::DialFailed { epoch }),
        }
    }

    fn answer(&mut self, epoch: Epoch, ask: Ask, ok: bool) {
        self.planes.asked.remove(&(epoch, ask));
        match ask {
            Ask::Admit => self.handle(Input::Admitted { epoch, admit: ok }),
            Ask::Open => {
                let link = self.planes.links.entry(epoch).or_default();
                link.right = if ok { Right::Open } else { Right::None };
                self.handle(Input::RightOpened { epoch, metadata: ok.then_some(&[1, 2, 3]) });
            }
            Ask::Register => {
                self.planes.links.entry(epoch).or_default().registered = ok;
                self.handle(Input::Registered { epoch, ok });
            }
            Ask::Close => self.close(epoch, ok),
        }
    }

    /// Every outstanding WRITE is reported, then the end of the right, with proof or without.
    fn close(&mut self, epoch: Epoch, fenced: bool) {
        let running = self.planes.writes.iter().filter(|(xfer, write)| xfer.epoch == epoch && !write.ended);
        let running: Vec<XferId> = running.map(|(xfer, _)| *xfer).collect();
        for xfer in running {
            if let Some(write) = self.planes.writes.get_mut(&xfer) {
                write.ended = true;
            }
            self.handle(Input::Transfer { xfer, end: TransferEnd::Fenced });
        }
        if fenced {
            self.planes.writes.retain(|xfer, _| xfer.epoch != epoch);
        }
        self.handle(Input::RightClosed { epoch, fenced });
    }

    fn end_write(&mut self, dice: &mut Dice<'_>) {
        let running: Vec<_> = self.planes.writes.iter().filter(|(_, write)| !write.ended).collect();
        let running: Vec<XferId> = running.into_iter().map(|(xfer, _)| *xfer).collect();
        let Some(xfer) = dice.pick(&running) else { return };
        let end = match dice.below(8) {
            6 => TransferEnd::NotPosted,
            7 => TransferEnd::Errored,
            _ => TransferEnd::Done,
        };
        self.transfer(xfer, end);
    }

    fn transfer(&mut self, xfer: XferId, end: TransferEnd) {
        self.planes.writes.remove(&xfer);
        self.handle(Input::Transfer { xfer, end });
    }

    /// The cache pins what it holds; odd keys are there, even ones are pending or missing.
    fn answer_probe(&mut self, dice: &mut Dice<'_>) {
        let waiting: Vec<_> = self.planes.probes.iter().filter(|(_, probe)| probe.waiting).collect();
        let waiting: Vec<ProbeId> = waiting.into_iter().map(|(id, _)| *id).collect();
        let Some(id) = dice.pick(&waiting) else { return };
        let Some(probe) = self.planes.probes.get_mut(&id) else { return };
        probe.waiting = false;
        let (mut hits, mut misses) = (Vec::new(), Vec::new());
        for at in &probe.open {
            let key = probe.keys.get(at.0 as usize).copied().unwrap_or_default();
            match (key % 2, dice.below(4)) {
                (_, 3) => {}
                (1, _) => hits.push((*at, CACHE + BlockIdx::from(key))),
                _ => misses.push(*at),
            }
        }
        let pin = (!hits.is_empty()).then(|| self.mint());
        if let Some(pin) = pin {
            let blocks = hits.iter().map(|(_, block)| *block).collect();
            self.planes.ledger.stores.insert(pin, blocks);
        }
        self.handle(Input::Probed { probe: id, pin, hits: &hits, misses: &misses });
    }
}

impl Planes {
    fn running(&self) -> Option<XferId> {
        self.writes.iter().find(|(_, write)| !write.ended).map(|(xfer, _)| *xfer)
    }
}
