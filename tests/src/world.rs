//! The world itself: nodes, a clock, and what connects them.

use std::collections::{BTreeMap, BTreeSet};

use kvpeer_core::{Config, ConnId, Endpoint, Epoch, Input, LinkStatus, PeerStatus, Sink, Time};

use crate::cache::Asked;
use crate::control::{Item, Wires};
use crate::effects::{Effect, Effects};
use crate::judge::talk::Talk;
use crate::names::EMPTY;
use crate::node::{Dial, Node, Registered, Registration, config};
use crate::rma::{Right, Target, Write};
use crate::states;
use crate::steps::Hold;
use crate::text::{is_heartbeat, say};
use crate::trace::Trace;
use crate::{A, B, News, Who, X};

/// Nodes, one clock, and everything around the nodes that can fail.
#[derive(Clone)]
pub struct World {
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Node>,
    pub(crate) wires: Wires,
    pub(crate) writes: Vec<Write>,
    pub(crate) holds: BTreeSet<Hold>,
    /// Directions in which messages vanish.
    pub(crate) vanishing: BTreeSet<(Who, Who)>,
    /// Directions in which dials are refused.
    pub(crate) unreachable: BTreeSet<(Who, Who)>,
    /// Which connection an epoch of a node uses.
    pub(crate) links: BTreeMap<(Who, u32, Epoch), ConnId>,
    /// What was said on a connection, by the consumer's end of it.
    pub(crate) talks: BTreeMap<ConnId, Talk>,
    /// What was said and no expectation has taken yet.
    pub(crate) said: BTreeMap<(Who, Who), Vec<String>>,
    pub(crate) trace: Trace,
    /// Whether X has stopped answering pings.
    pub(crate) rogue_silent: bool,
    /// A node is being woken: deadlines may pass.
    pub(crate) ticking: bool,
    /// The last job id of a story.
    pub(crate) jobs: u64,
    /// What has happened at all, for those who ask what a set of worlds covers.
    pub(crate) seen: BTreeSet<String>,
    /// How many effects the nodes have asked for.
    pub(crate) effects: usize,
    pub(crate) ended: Ended,
}

/// A story that forgets its end proves nothing about what it leaves behind.
pub(crate) struct Ended(pub(crate) bool);

impl Drop for Ended {
    fn drop(&mut self) {
        assert!(self.0 || std::thread::panicking(), "a story must end with World::end()");
    }
}

impl Clone for Ended {
    fn clone(&self) -> Self {
        Self(true)
    }
}

impl World {
    /// `count` nodes that do not know each other.
    pub fn strangers(count: usize) -> Self {
        Self::with(count, |_, _| {})
    }

    /// Nodes whose configuration the story has changed.
    pub fn with(count: usize, mut change: impl FnMut(Who, &mut Config)) -> Self {
        let node = |at| {
            let who = Who(at);
            let mut config = config(who);
            change(who, &mut config);
            Node::new(who, config)
        };
        Self {
            now: Time::from_micros(0),
            nodes: (0..count).map(node).collect(),
            wires: Wires::default(),
            writes: Vec::new(),
            holds: BTreeSet::new(),
            vanishing: BTreeSet::new(),
            unreachable: BTreeSet::new(),
            links: BTreeMap::new(),
            talks: BTreeMap::new(),
            said: BTreeMap::new(),
            trace: Trace::default(),
            rogue_silent: false,
            ticking: false,
            jobs: 0,
            seen: BTreeSet::new(),
            effects: 0,
            ended: Ended(false),
        }
    }

    /// How a node is configured, before a story changes it.
    pub fn config(who: Who) -> Config {
        config(who)
    }

    /// Two nodes, A and B, with a session that A dialled.
    pub fn pair() -> Self {
        Self::pair_with(|_, _| {})
    }

    /// A pair of changed configuration.
    pub fn pair_with(change: impl FnMut(Who, &mut Config)) -> Self {
        let mut world = Self::with(2, change);
        world.introduce(A, B);
        world
    }

    /// Brings up the session that `from` dials to `to`.
    #[track_caller]
    pub fn introduce(&mut self, from: Who, to: Who) {
        self.connect(from, to);
        self.run();
        for (who, whom) in [(from, to), (to, from)] {
            self.expect_link(who, whom, LinkStatus::Up);
            self.said.remove(&(who, whom));
            self.node_mut(who).news.clear();
        }
    }

    /// What a node says about a peer.
    pub fn status(&self, who: Who, whom: Who) -> Option<PeerStatus> {
        self.endpoint(who).peer(whom.peer())
    }

    /// A node's endpoint, to be looked at.
    pub fn endpoint(&self, who: Who) -> &Endpoint {
        self.node(who).endpoint.as_ref().expect("a node that lives")
    }

    pub(crate) fn node(&self, who: Who) -> &Node {
        &self.nodes[who.0]
    }

    pub(crate) fn node_mut(&mut self, who: Who) -> &mut Node {
        &mut self.nodes[who.0]
    }

    pub(crate) fn log(&mut self, text: impl AsRef<str>) {
        self.trace.line(self.now, text.as_ref());
    }

    pub(crate) fn see(&mut self, label: String) {
        self.seen.insert(label);
    }

    /// Fails the story, with all that happened in it.
    #[track_caller]
    pub(crate) fn fail(&self, why: &str) -> ! {
        panic!("{why}\n--- the world until then ---\n{}\n--- {why}", self.trace.print());
    }

    /// Gives a node a fact.
    pub(crate) fn feed(&mut self, who: Who, input: Input<'_>) {
        let before = states::before_fact(self.endpoint(who), &input);
        self.call(who, |endpoint, now, out| endpoint.handle(now, input, out));
        before.after(self.endpoint(who));
    }

    /// Calls a node's endpoint, brings about what it asks for, and judges.
    pub(crate) fn call<R>(
        &mut self,
        who: Who,
        call: impl FnOnce(&mut Endpoint, Time, &mut dyn Sink) -> R,
    ) -> R {
        let mut effects = Effects::default();
        let now = self.now;
        let endpoint = self.node_mut(who).endpoint.as_mut().expect("a node that lives");
        let result = call(endpoint, now, &mut effects);
        let law = endpoint.check();
        self.effects += effects.0.len();
        for effect in effects.0 {
            self.carry_out(who, effect);
        }
        if let Err(violation) = law {
            self.fail(&format!("{who}: {violation}"));
        }
        result
    }

    fn carry_out(&mut self, who: Who, effect: Effect) {
        match effect {
            Effect::Dial { epoch, peer, address } => {
                self.log(format!("{who}: dials {peer} at {address}, epoch {}", epoch.0));
                self.node_mut(who).dials.insert(epoch, Dial { peer, address });
            }
            Effect::CancelDial { epoch } => {
                self.log(format!("{who}: gives up dial {}", epoch.0));
                self.node_mut(who).dials.remove(&epoch);
            }
            Effect::Send { conn, frame } => self.send(who, conn, frame),
            Effect::Close { conn } => self.close(who, conn),
            Effect::Admit { epoch, conn, peer } => {
                self.log(format!("{who}: admit {peer}? epoch {}", epoch.0));
                self.link(who, epoch, conn);
                self.node_mut(who).admits.insert(epoch, peer);
            }
            Effect::OpenRight { epoch } => {
                self.log(format!("{who}: opens right {}", epoch.0));
                self.judge_open_right(who, epoch);
                self.node_mut(who).rights.insert(epoch, Right::Opening);
            }
            Effect::Register { epoch, region, metadata } => {
                self.log(format!("{who}: registers {:?} in {}", String::from_utf8_lossy(&metadata), epoch.0));
                let registration = Registration { region, metadata, state: Registered::Pending };
                self.node_mut(who).registrations.insert(epoch, registration);
            }
            Effect::CloseRight { epoch } => {
                self.log(format!("{who}: closes right {}", epoch.0));
                self.judge_close_right(who, epoch);
                self.node_mut(who).rights.insert(epoch, Right::Closing);
            }
            Effect::Write { xfer, src, dst } => self.post(who, xfer, src, dst),
            // Cancels nothing: the worst plane that is allowed.
            Effect::Cancel { xfer } => {
                match self.node(who).cancels {
                    0 => self.log(format!("{who}: cancel {}", crate::text::xfer(xfer))),
                    _ => self.trace.routine(),
                }
                self.node_mut(who).cancels += 1;
            }
            Effect::Probe { probe, keys, open } => {
                self.log(format!("{who}: probe {} {keys:?} open {open:?}", crate::text::probe(probe)));
                self.node_mut(who).cache.asked.insert(probe, Asked { keys, open, ended: false });
            }
            Effect::EndProbe { probe } => {
                self.log(format!("{who}: ends probe {}", crate::text::probe(probe)));
                if let Some(asked) = self.node_mut(who).cache.asked.get_mut(&probe) {
                    asked.ended = true;
                }
            }
            Effect::Tell(news) => self.tell(who, news),
            Effect::Count(count) => {
                self.log(format!("{who}: counts {count:?}"));
                self.see(format!("count {count:?}"));
                *self.node_mut(who).counts.entry(count).or_default() += 1;
            }
        }
    }

    /// From here on, `epoch` of a node is the link that uses `conn`.
    pub(crate) fn link(&mut self, who: Who, epoch: Epoch, conn: ConnId) {
        let life = self.node(who).life;
        self.links.insert((who, life, epoch), conn);
    }

    pub(crate) fn conn_of(&self, who: Who, epoch: Epoch) -> Option<ConnId> {
        self.links.get(&(who, self.node(who).life, epoch)).copied()
    }

    fn send(&mut self, who: Who, conn: ConnId, frame: Vec<u8>) {
        let to = match self.wires.peer_of(conn) {
            Some(peer) => peer.who,
            None => self.fail(&format!("{who} sends on {conn:?}, which never was")),
        };
        let msg = crate::control::decode(&frame);
        self.judge_sent(who, conn, &msg);
        if is_heartbeat(&msg) {
            self.trace.routine();
        } else {
            let text = say(&msg);
            self.see(crate::text::label(&msg));
            self.log(format!("{who} -> {to}  {text}"));
            self.said.entry((who, to)).or_default().push(text);
        }
        let open = self.wires.end(conn).is_some_and(|end| end.open);
        if open && !self.vanishing.contains(&(who, to)) {
            self.put(conn, Item::Frame(frame));
        }
    }

    /// Puts something on its way to the other end of a connection.
    pub(crate) fn put(&mut self, conn: ConnId, item: Item) {
        if let Some(peer) = self.wires.peer_of_mut(conn)
            && peer.open
        {
            peer.inbox.push_back(item);
        }
    }

    fn close(&mut self, who: Who, conn: ConnId) {
        self.log(format!("{who}: closes {conn:?}"));
        if let Some(end) = self.wires.end_mut(conn) {
            end.open = false;
            end.closed = true;
            end.inbox.clear();
        }
        let to = self.wires.peer_of(conn).map_or(X, |peer| peer.who);
        if !self.vanishing.contains(&(who, to)) {
            self.put(conn, Item::Eof);
        }
    }

    fn post(&mut self, who: Who, xfer: kvpeer_core::XferId, src: Vec<u32>, dst: Vec<u32>) {
        let target = self.target_of(who, xfer.epoch);
        let arrow = src.iter().zip(&dst).map(|(s, d)| format!("{s}->{d}")).collect::<Vec<_>>().join(" ");
        self.log(format!("{who}: WRITE {} {arrow}", crate::text::xfer(xfer)));
        let (round, loads) = self.judge_post(who, xfer, &src, &dst, target);
        self.writes.push(Write {
            writer: who,
            life: self.node(who).life,
            xfer,
            landed: vec![false; src.len()],
            src,
            dst,
            target,
            loads,
            round,
            captured: None,
            end: None,
            absolved: false,
        });
    }

    fn tell(&mut self, who: Who, news: News) {
        self.log(format!("{who}: told {news:?}"));
        self.see(news.label());
        self.judge_news(who, &news);
        self.node_mut(who).news.push(news);
    }

    /// The engine takes a block that a load does not hold any more.
    pub(crate) fn reuse(&mut self, who: Who, block: u32, bytes: [u8; crate::BLOCK_LEN]) {
        self.node_mut(who).memory[block as usize] = bytes;
    }

    /// What a right of a node tells its peer.
    pub(crate) fn metadata(&self, who: Who, epoch: Epoch) -> Vec<u8> {
        Target { who, life: self.node(who).life, epoch }.metadata()
    }

    /// Blocks that wait for a load hold nothing that could be taken for their content.
    pub(crate) fn clear(&mut self, who: Who, blocks: &[u32]) {
        for block in blocks {
            self.reuse(who, *block, EMPTY);
        }
    }
}
