//! The world: nodes, one clock, and what lies between the nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kvpeer_core::{Count, Input, Origin, Time};
use kvpeer_wire::{Decoded, Limits as WireLimits, Msg};

use crate::control::{Conn, EndState, Item};
use crate::effects::{Effect, Effects, News};
use crate::judge::{Broken, Cause, Promise};
use crate::names::{ConnKey, Process, Side, Who, WriteKey};
use crate::node::{Alive, Node, Right};
use crate::observe::Before;
use crate::rma::{Write, WriteState};
use crate::seen::{Log, Seen};
use crate::setup::{Ask, Choice, Setup};
use crate::shared::{Fixed, Shared};
use crate::step::Step;
use crate::wish::Wish;

/// A whole world in one moment. Equal worlds have equal futures.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    pub(crate) setup: Fixed<Setup>,
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Shared<Node>>,
    pub(crate) conns: BTreeMap<ConnKey, Shared<Conn>>,
    pub(crate) writes: BTreeMap<WriteKey, Shared<Write>>,
    /// How far each script is.
    pub(crate) scripts: Vec<u8>,
    /// Faults so far.
    pub(crate) spent: u8,
    /// Whether something has happened, or is so from the start, that may cost a session.
    pub(crate) disturbed: bool,
    /// Connections that a rogue has opened behind its endpoint's back.
    pub(crate) calls: u32,
    /// Who may rightly find that whom breaks the protocol, beside a rogue.
    pub(crate) suspects: BTreeSet<(Who, Who)>,
    /// Who may have taken a rogue for whom.
    pub(crate) deceived: BTreeSet<(Who, Who)>,
    /// Requests that a rogue has fetched for.
    pub(crate) tainted: BTreeSet<u8>,
    pub(crate) broken: Option<Broken>,
}

/// What a call has brought, apart from what it has done.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) news: Vec<News>,
    /// How often it was found that the peer breaks the protocol.
    pub(crate) verdicts: usize,
}

impl World {
    /// The world before anything has happened, apart from the sessions that it starts with.
    pub fn new(setup: Arc<Setup>) -> Self {
        let mut world = Self::empty(Arc::clone(&setup));
        if !setup.connected.is_empty() {
            // Nobody wishes for anything, and nothing fails, while these come up.
            let quiet = Setup { scripts: Vec::new(), choices: Default::default(), ..Setup::clone(&setup) };
            world.setup = Fixed(Arc::new(quiet));
            for (dialler, peer) in &setup.connected {
                world.connect(*dialler, *peer);
            }
            world.setup = Fixed(setup);
        }
        world
    }

    fn connect(&mut self, who: Who, peer: Who) {
        let log = &mut Log::default();
        self.apply(&Step::Wish { who, script: None, wish: Wish::Connect { peer } }, log);
        while let Some(step) = self.prompt_steps().first() {
            self.apply(step, log);
        }
    }

    fn empty(setup: Arc<Setup>) -> Self {
        let node = |at| Shared::new(Node::new(&setup, Process { who: Who(at), life: 1 }));
        Self {
            now: Time::from_micros(1),
            nodes: (0..setup.nodes).map(node).collect(),
            conns: BTreeMap::new(),
            writes: BTreeMap::new(),
            scripts: vec![0; setup.scripts.len()],
            spent: 0,
            disturbed: setup.denies_sessions(),
            calls: 0,
            suspects: BTreeSet::new(),
            deceived: BTreeSet::new(),
            tainted: BTreeSet::new(),
            broken: None,
            setup: Fixed(setup),
        }
    }

    /// Whether heartbeats go on for ever.
    pub(crate) fn beats(&self) -> bool {
        let ever = std::time::Duration::from_secs(1 << 20);
        self.nodes.iter().any(|node| node.endpoint.config().timing.heartbeat < ever)
    }

    /// What it is made of.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The first promise that was broken, if one was.
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    /// Faults so far.
    pub fn spent(&self) -> u8 {
        self.spent
    }

    /// Whether a node's process runs.
    pub fn is_alive(&self, who: Who) -> bool {
        self.broken.is_none() && self.node(who).is_alive()
    }

    /// Makes one of [`steps`](Self::steps) happen.
    pub fn apply(&mut self, step: &Step, log: &mut Log) {
        log.say(|| format!("{:>10} {step}", self.now.as_micros()));
        if let Some(fault) = self.fault_of(step) {
            self.spent = self.spent.saturating_add(1);
            self.disturbed |= fault.may_cost_a_session();
        }
        self.happen(step, log);
        self.answer_eagerly(log);
        self.tidy();
        self.judge_after(log);
        if let (Some(broken), Some(lines)) = (&self.broken, &mut log.lines) {
            lines.push(format!("BROKEN {broken}"));
        }
    }

    fn happen(&mut self, step: &Step, log: &mut Log) {
        match step {
            Step::Wish { who, script, wish } => {
                if let Some(at) = script.and_then(|script| self.scripts.get_mut(usize::from(script))) {
                    *at += 1;
                }
                self.wish(*who, wish, log);
            }
            Step::Tick(who) => {
                if let Some(deadline) = self.node(*who).next_deadline() {
                    log.see(Seen::Timer(deadline.why));
                }
                self.handle(*who, Input::Tick, log);
                if self.node(*who).next_deadline().is_some_and(|next| next.at <= self.now) {
                    self.fail(Promise::Bounded, "a tick leaves its deadline due".to_owned());
                }
                self.judge_silence(*who);
            }
            Step::Time => self.now = self.next_deadline().unwrap_or(self.now),
            Step::Wait(micros) => {
                let then = self.now + std::time::Duration::from_micros(*micros);
                self.now = self.next_deadline().map_or(then, |next| next.min(then));
            }
            Step::Dial { conn, up } => self.dialled(*conn, *up, log),
            Step::Accept(conn) => self.accept(*conn, log),
            Step::Deliver { conn, to } => self.deliver(*conn, *to, log),
            Step::HangUp { conn, at } => {
                let called = self.is_called(*conn, *at);
                let Some(found) = self.conns.get_mut(conn) else { return };
                let process = found.process(*at);
                found.edit().close(*at);
                if called {
                    return;
                }
                self.handle(process.who, Input::Disconnected { conn: conn.id(*at) }, log);
            }
            Step::Answer { right, ask, ok } => self.answer(*right, *ask, *ok, log),
            Step::Probe { who, probe, answer } => self.answer_probe(*who, *probe, *answer, log),
            Step::Land { write, at } => self.land(*write, usize::from(*at)),
            Step::Complete { write, end } => self.complete(*write, *end, log),
            Step::Cut(conn) => self.edit_conn(*conn, |conn| conn.cut = true),
            Step::Tear(conn, to, whole) => self.edit_conn(*conn, |conn| conn.tear(*to, usize::from(*whole))),
            Step::Garble(conn, to) => {
                if let Some(found) = self.conns.get_mut(conn) {
                    let ends = (found.process(*to).who, found.process(to.other()).who);
                    found.edit().put(to.other(), Item::Garbage);
                    self.suspects.insert(ends);
                }
            }
            Step::Versions(conn) => self.edit_conn(*conn, |conn| {
                Side::BOTH.into_iter().for_each(|side| conn.put(side, Item::Versions));
            }),
            Step::Lie { conn, from, lie } => self.lie(*conn, *from, lie, log),
            Step::Call(to) => self.call(*to),
            Step::Mute(conn, to) => self.edit_conn(*conn, |conn| {
                conn.end_mut(*to).flow = crate::control::Flow::Muted;
                conn.end_mut(*to).queue.clear();
            }),
            Step::DelayLink(conn, to) => {
                self.edit_conn(*conn, |conn| conn.end_mut(*to).flow = crate::control::Flow::Late);
            }
            Step::DelayAnswer(right, ask) => {
                let node = self.edit(right.owner.who);
                if let Some(found) = node.rights.get_mut(&right.epoch) {
                    found.late.insert(*ask);
                }
            }
            Step::DelayWrite(write) => {
                if let Some(write) = self.writes.get_mut(write) {
                    write.edit().late = true;
                }
            }
            Step::PeerFault(right) => {
                let who = right.owner.who;
                self.handle(who, Input::PeerFault { epoch: right.epoch }, log);
                if let Some(right) = self.edit(who).rights.get_mut(&right.epoch) {
                    right.closing = true;
                }
            }
            Step::Crash(who) => self.crash(*who),
            Step::Restart(who) => {
                let life = self.node(*who).process.life + 1;
                *self.edit(*who) = Node::new(&self.setup.clone(), Process { who: *who, life });
                log.see(Seen::Restarted);
            }
        }
    }

    fn dialled(&mut self, key: ConnKey, up: bool, log: &mut Log) {
        let who = key.dialler.who;
        let Some(dial) = self.edit(who).dials.remove(&key.epoch) else { return };
        if up {
            let acceptor = self.node(dial.to).process;
            self.conns.insert(key, Shared::new(Conn::new(key, acceptor, self.now)));
            let origin = Origin::Dialed(key.epoch);
            self.handle(who, Input::Connected { conn: key.id(Side::Dialler), origin }, log);
        } else if !dial.cancelled {
            self.handle(who, Input::DialFailed { epoch: key.epoch }, log);
        }
    }

    fn accept(&mut self, key: ConnKey, log: &mut Log) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        let acceptor = conn.acceptor.who;
        let end = conn.edit().end_mut(Side::Acceptor);
        (end.state, end.heard_at) = (EndState::Open, self.now);
        let conn = key.id(Side::Acceptor);
        self.handle(acceptor, Input::Connected { conn, origin: Origin::Accepted }, log);
    }

    fn deliver(&mut self, key: ConnKey, to: Side, log: &mut Log) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        let who = conn.process(to).who;
        let end = conn.edit().end_mut(to);
        end.heard_at = self.now;
        let Some(item) = end.queue.pop_front() else { return };
        if self.is_called(key, to) {
            return;
        }
        let frame = match item {
            Item::Frame(frame) => frame,
            Item::Part | Item::Garbage | Item::Versions => return self.deliver_bytes(key, to, &item, log),
        };
        let Some(msg) = decode(&frame) else {
            return self.fail(Promise::Law, "a frame of the core cannot be read".to_owned());
        };
        log.see(Seen::Message(msg.kind()));
        log.say(|| format!("{:>13}{who} hears {msg:?}", ""));
        let arrival = self.judge_arrived(key, to, &msg);
        let told = self.handle(who, Input::Message { conn: key.id(to), msg }, log);
        self.judge_delivered(key, to, &msg, &arrival, &told);
    }

    /// Bytes that are no message, as a control plane reports them; after what cannot be read it reads no more.
    fn deliver_bytes(&mut self, key: ConnKey, to: Side, item: &Item, log: &mut Log) {
        let conn = key.id(to);
        let input = match item {
            Item::Frame(_) | Item::Part => Input::Heard { conn },
            Item::Garbage => Input::Malformed { conn, detail: "no message" },
            Item::Versions => Input::NoCommonVersion { conn, ours: (1, 1), theirs: (2, 3) },
        };
        if *item != Item::Part {
            self.edit_conn(key, |conn| {
                let end = conn.end_mut(to);
                end.queue.clear();
                end.flow = crate::control::Flow::Muted;
            });
        }
        let Some(who) = self.conns.get(&key).map(|conn| conn.process(to).who) else { return };
        log.say(|| format!("{:>13}{who} reads {item:?}", ""));
        let told = self.handle(who, input, log);
        self.judge_bytes(key, to, item, &told);
    }

    fn crash(&mut self, who: Who) {
        let process = self.node(who).process;
        let mut dead = Node::new(&self.setup.clone(), process);
        dead.state = Alive::No;
        *self.edit(who) = dead;
        for conn in self.conns.values_mut() {
            for side in Side::BOTH {
                if conn.process(side) == process && conn.end(side).state != EndState::Closed {
                    conn.edit().close(side);
                }
            }
        }
        for (key, write) in &mut self.writes {
            if key.writer == process {
                write.edit().state = WriteState::Loose;
            }
        }
    }

    /// Gives a node a fact, and carries out what it asks for. Returns the news that it told.
    pub(crate) fn handle(&mut self, who: Who, input: Input<'_>, log: &mut Log) -> Told {
        let now = self.now;
        let before = Before::of(&self.node(who).endpoint, log);
        let cause = Cause::of(&input);
        let mut effects = Effects::default();
        self.edit(who).endpoint.handle(now, input, &mut effects);
        before.after(&self.node(who).endpoint, log);
        self.judge_call(who, cause, &effects);
        if let Input::Message { conn, msg: Msg::Connect(connect) } = input
            && let (conn, Side::Acceptor) = ConnKey::of(conn)
        {
            self.judge_introduction(who, conn, &connect, &effects);
        }
        let verdicts = effects.counts.iter().filter(|count| **count == Count::Misbehaved).count();
        Told { verdicts, news: self.carry_out(who, effects, log) }
    }

    pub(crate) fn carry_out(&mut self, who: Who, effects: Effects, log: &mut Log) -> Vec<News> {
        let mut told = Vec::new();
        for count in effects.counts {
            log.see(Seen::Counted(count));
            self.judge_count(who, count);
            if count == Count::LatePin {
                log.see(Seen::LatePin);
            }
        }
        for effect in effects.list {
            match effect {
                Effect::Dial { epoch, peer: Some(to) } => {
                    self.edit(who).dials.insert(epoch, crate::node::Dial { to, cancelled: false });
                }
                Effect::Dial { peer: None, .. } => {
                    self.fail(Promise::Law, "dials nobody".to_owned());
                }
                Effect::CancelDial(epoch) => {
                    let stale = self.setup.choices.contains(&Choice::StaleAnswers);
                    let node = self.edit(who);
                    match node.dials.get_mut(&epoch) {
                        Some(dial) if stale => dial.cancelled = true,
                        Some(_) | None => {
                            node.dials.remove(&epoch);
                        }
                    }
                }
                Effect::Send { conn, frame } => self.send(who, conn, frame, log),
                Effect::Close(conn) => {
                    let (key, side) = ConnKey::of(conn);
                    self.edit_conn(key, |conn| conn.close(side));
                }
                Effect::Admit { epoch, conn } => {
                    let (key, side) = ConnKey::of(conn);
                    let mut right = Right::new(key, side);
                    right.asked.insert(Ask::Admit);
                    let old = self.edit(who).rights.insert(epoch, right);
                    if old.is_some() {
                        self.blame(who, Promise::Law, format!("{who} uses epoch {} twice", epoch.0));
                    }
                }
                Effect::Open(epoch) => self.ask(who, epoch, Ask::Open),
                Effect::Register { epoch, num_blocks, metadata } => {
                    self.register(who, epoch, num_blocks, &metadata);
                }
                Effect::CloseRight(epoch) => self.close_right(who, epoch),
                Effect::Write { xfer, src, dst } => self.post(who, xfer, src, dst, log),
                Effect::Cancel(xfer) => {
                    let key = WriteKey { writer: self.node(who).process, xfer };
                    if let Some(write) = self.writes.get_mut(&key)
                        && write.state == WriteState::Posted
                    {
                        write.edit().state = WriteState::Cancelled;
                    }
                }
                Effect::Probe { probe, keys, open } => {
                    let probing = crate::node::Probe { keys, open, over: false };
                    self.edit(who).probes.insert(probe, probing);
                }
                Effect::EndProbe(probe) => {
                    let late = self.setup.choices.contains(&Choice::LateProbe);
                    let node = self.edit(who);
                    match node.probes.get_mut(&probe) {
                        Some(probe) if late => probe.over = true,
                        Some(_) | None => {
                            node.probes.remove(&probe);
                        }
                    }
                }
                Effect::News(news) => {
                    log.say(|| format!("{:>13}{who} tells {news:?}", ""));
                    self.judge_news(who, &news, log);
                    told.push(news);
                }
            }
        }
        told
    }

    fn send(&mut self, who: Who, conn: kvpeer_core::ConnId, frame: Arc<[u8]>, log: &mut Log) {
        let (key, side) = ConnKey::of(conn);
        if let Some(msg) = decode(&frame) {
            log.say(|| format!("{:>13}{who} says {msg:?} on {key}", ""));
            self.judge_sent(who, key, side, &msg, log);
        }
        self.edit_conn(key, |conn| conn.put(side, Item::Frame(frame)));
    }

    fn answer_eagerly(&mut self, log: &mut Log) {
        while let Some(step) = self.eager_step() {
            log.say(|| format!("{:>10} ({step})", ""));
            self.happen(&step, log);
        }
    }

    /// Forgets what is over.
    fn tidy(&mut self) {
        self.conns.retain(|_, conn| !conn.is_gone());
        let nodes = &self.nodes;
        self.writes.retain(|_, write| {
            let target = &nodes[usize::from(write.target.owner.who.0)];
            write.state != WriteState::Loose || target.lets_land(write.target)
        });
        for at in 0..self.nodes.len() {
            let (node, conns, writes) = (&self.nodes[at], &self.conns, &self.writes);
            let over = |epoch: &kvpeer_core::Epoch, right: &Right| {
                let conn = conns.get(&right.conn);
                let open = conn.is_some_and(|conn| conn.end(right.side).state == EndState::Open);
                let used = writes.iter().any(|(key, write)| {
                    key.writer == node.process && key.xfer.epoch == *epoch && write.reads()
                });
                !open && right.asked.is_empty() && right.is_closed() && !used
            };
            let gone: Vec<_> =
                node.rights.iter().filter(|(epoch, right)| over(epoch, right)).map(|(e, _)| *e).collect();
            if !gone.is_empty() {
                let rights = &mut self.nodes[at].edit().rights;
                gone.iter().for_each(|epoch| {
                    rights.remove(epoch);
                });
            }
        }
    }

    pub(crate) fn seal(&mut self) {
        self.nodes.iter_mut().for_each(Shared::seal);
        self.conns.values_mut().for_each(Shared::seal);
        self.writes.values_mut().for_each(Shared::seal);
    }

    pub(crate) fn node(&self, who: Who) -> &Node {
        &self.nodes[usize::from(who.0)]
    }

    pub(crate) fn edit(&mut self, who: Who) -> &mut Node {
        self.nodes[usize::from(who.0)].edit()
    }

    pub(crate) fn edit_conn(&mut self, key: ConnKey, change: impl FnOnce(&mut Conn)) {
        if let Some(conn) = self.conns.get_mut(&key) {
            change(conn.edit());
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.nodes.iter().filter_map(|node| node.next_deadline()).map(|deadline| deadline.at).min()
    }

    /// Puts down a promise that a node has broken. Nothing is demanded of a rogue.
    pub(crate) fn blame(&mut self, who: Who, promise: Promise, how: String) {
        if !self.is_rogue(who) {
            self.fail(promise, how);
        }
    }

    /// Puts down a broken promise; the first one counts.
    pub(crate) fn fail(&mut self, promise: Promise, how: String) {
        if self.broken.is_none() {
            self.broken = Some(Broken { promise, how });
        }
    }
}

pub(crate) fn decode(frame: &[u8]) -> Option<Msg<'_>> {
    match Msg::decode(*frame.get(4)?, frame.get(5..)?, &WireLimits::DEFAULT) {
        Ok(Decoded::Msg(msg)) => Some(msg),
        Ok(Decoded::Skipped { .. }) | Err(_) => None,
    }
}
