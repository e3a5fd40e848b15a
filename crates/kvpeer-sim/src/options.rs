//! What can happen next.

use kvpeer_core::{ProbeId, Time, TransferEnd};

use crate::control::{EndState, Flow};
use crate::names::{ConnKey, RightKey, Side, Who, WriteKey};
use crate::node::{Node, RightState};
use crate::rma::{Write, WriteState};
use crate::setup::{Ask, Choice, Fault, Fence, Landing, When};
use crate::step::{ProbeAnswer, Step};
use crate::wish::Wish;
use crate::world::World;

/// Whether time can pass before something happens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Urgency {
    /// It cannot: this comes first, in some order with what else is prompt.
    Prompt,
    /// It can: this comes at any time, or never.
    Free,
}

/// The steps of one moment, as they are found.
struct Options<'a> {
    world: &'a World,
    found: Vec<(Step, Urgency)>,
}

impl World {
    /// Everything that can happen next, in an order that depends on the world only. None once a promise is broken.
    pub fn steps(&self) -> Vec<Step> {
        if self.broken.is_some() {
            return Vec::new();
        }
        let found = Options::of(self).found;
        let prompt = found.iter().any(|(_, urgency)| *urgency == Urgency::Prompt);
        let mut steps: Vec<Step> = found.into_iter().map(|(step, _)| step).collect();
        let horizon = self.setup.horizon.map_or(Time::NEVER, |span| Time::ZERO + span);
        if !prompt && self.next_deadline().is_some_and(|next| next <= horizon) {
            steps.push(Step::Time);
        }
        steps
    }

    /// What must happen before time passes.
    pub fn prompt_steps(&self) -> Vec<Step> {
        let found = Options::of(self).found.into_iter();
        found.filter(|(_, urgency)| *urgency == Urgency::Prompt).map(|(step, _)| step).collect()
    }

    /// Whether nothing moves any more of its own accord, and no deadline is left.
    pub fn is_at_rest(&self) -> bool {
        self.next_deadline().is_none() && self.prompt_steps().is_empty()
    }

    /// The first thing that is answered in the same step.
    pub(crate) fn eager_step(&self) -> Option<Step> {
        let eager = &self.setup.eager;
        if eager.is_empty() {
            return None;
        }
        for node in self.nodes.iter().filter(|node| node.is_alive()) {
            for (epoch, right) in &node.rights {
                let asked = right.asked.iter().find(|ask| eager.contains(ask) && !right.late.contains(ask));
                if let Some(ask) = asked {
                    let right = RightKey { owner: node.process, epoch: *epoch };
                    let ok = *ask != Ask::Close || self.setup.fence == Fence::Proves;
                    return Some(Step::Answer { right, ask: *ask, ok });
                }
            }
            if let Some(probe) = node.probes.keys().next().filter(|_| eager.contains(&Ask::Probe)) {
                let answer = ProbeAnswer::All;
                return Some(Step::Probe { who: node.process.who, probe: *probe, answer });
            }
        }
        let waiting = self.conns.values().find(|conn| conn.end(Side::Acceptor).state == EndState::Waiting);
        waiting.filter(|_| eager.contains(&Ask::Accept)).map(|conn| Step::Accept(conn.key))
    }

    /// What a step costs.
    pub(crate) fn fault_of(&self, step: &Step) -> Option<Fault> {
        match step {
            Step::Dial { conn, up: false } => {
                let dial = self.node(conn.dialler.who).dials.get(&conn.epoch);
                let natural =
                    dial.is_some_and(|dial| dial.cancelled || !self.reaches(conn.dialler.who, dial.to));
                (!natural).then_some(Fault::DialRefused)
            }
            Step::Answer { ask: Ask::Admit, ok: false, .. } => Some(Fault::NotAdmitted),
            Step::Answer { ask: Ask::Open, ok: false, .. } => Some(Fault::RightFails),
            Step::Answer { ask: Ask::Register, ok: false, .. } => Some(Fault::RegisterFails),
            Step::Answer { ask: Ask::Close, ok: false, .. } => {
                (self.setup.fence == Fence::Proves).then_some(Fault::Unfenced)
            }
            Step::Complete { write, end: TransferEnd::Errored } => {
                let target = self.writes.get(write).map(|write| write.target);
                let open = target.is_some_and(|target| self.node(target.owner.who).lets_land(target));
                open.then_some(Fault::WriteErrors)
            }
            Step::Complete { write, end: TransferEnd::NotPosted } => {
                let cancelled =
                    self.writes.get(write).map(|write| write.state) == Some(WriteState::Cancelled);
                (!cancelled).then_some(Fault::WriteRefused)
            }
            Step::Cut(_) => Some(Fault::Cut),
            Step::Tear(..) => Some(Fault::Tear),
            Step::Garble(..) => Some(Fault::Garble),
            Step::Versions(_) => Some(Fault::Versions),
            Step::Mute(..) => Some(Fault::Mute),
            Step::DelayLink(..) => Some(Fault::DelayLink),
            Step::DelayAnswer(..) => Some(Fault::DelayAnswer),
            Step::DelayWrite(_) => Some(Fault::DelayWrite),
            Step::PeerFault(_) => Some(Fault::PeerFault),
            Step::Crash(_) => Some(Fault::Crash),
            Step::Wish { .. }
            | Step::Tick(_)
            | Step::Time
            | Step::Wait(_)
            | Step::Dial { .. }
            | Step::Lie { .. }
            | Step::Call(_)
            | Step::Accept(_)
            | Step::Deliver { .. }
            | Step::HangUp { .. }
            | Step::Answer { .. }
            | Step::Probe { .. }
            | Step::Land { .. }
            | Step::Complete { .. }
            | Step::Restart(_) => None,
        }
    }

    fn reaches(&self, from: Who, to: Who) -> bool {
        self.node(to).is_alive() && !self.setup.unreachable.contains(&(from, to))
    }
}

impl Fault {
    /// Whether it may end a session, and not only one request.
    pub(crate) fn may_cost_a_session(self) -> bool {
        match self {
            Fault::WriteRefused => false,
            Fault::Cut
            | Fault::Tear
            | Fault::Garble
            | Fault::Versions
            | Fault::Mute
            | Fault::DelayLink
            | Fault::DialRefused
            | Fault::NotAdmitted
            | Fault::RightFails
            | Fault::RegisterFails
            | Fault::DelayAnswer
            | Fault::Unfenced
            | Fault::WriteErrors
            | Fault::DelayWrite
            | Fault::PeerFault
            | Fault::Crash => true,
        }
    }
}

impl<'a> Options<'a> {
    fn of(world: &'a World) -> Self {
        let mut options = Self { world, found: Vec::new() };
        options.engines();
        for node in &world.nodes {
            options.node(node);
        }
        for (key, conn) in &world.conns {
            options.conn(*key, conn);
        }
        for (key, write) in &world.writes {
            options.write(*key, write);
        }
        options
    }

    fn prompt(&mut self, step: Step) {
        self.found.push((step, Urgency::Prompt));
    }

    fn free(&mut self, step: Step) {
        self.found.push((step, Urgency::Free));
    }

    fn at_leisure(&mut self, late: bool, step: Step) {
        self.found.push((step, if late { Urgency::Free } else { Urgency::Prompt }));
    }

    /// A fault, if it may still happen.
    fn fault(&mut self, step: Step) {
        let setup = self.world.setup();
        let fault = self.world.fault_of(&step);
        let left = self.world.spent < setup.budget;
        if left && fault.is_some_and(|fault| setup.faults.contains(&fault)) {
            self.free(step);
        }
    }

    fn allows(&self, choice: Choice) -> bool {
        self.world.setup.choices.contains(&choice)
    }

    fn engines(&mut self) {
        let setup = self.world.setup.clone();
        for (at, (script, done)) in (0u8..).zip(setup.scripts.iter().zip(&self.world.scripts)) {
            let node = self.world.node(script.who);
            let Some((when, wish)) = script.wishes.get(usize::from(*done)) else { continue };
            if !node.is_alive() || node.process.life != script.life || !is_ready(node, wish) {
                continue;
            }
            let step = Step::Wish { who: script.who, script: Some(at), wish: wish.clone() };
            match when {
                When::Now => self.prompt(step),
                When::AnyTime => self.free(step),
            }
        }
    }

    fn node(&mut self, node: &Node) {
        let who = node.process.who;
        if !node.is_alive() {
            return self.free(Step::Restart(who));
        }
        if node.next_deadline().is_some_and(|deadline| deadline.at <= self.world.now) {
            self.prompt(Step::Tick(who));
        }
        for (epoch, dial) in &node.dials {
            let conn = ConnKey { dialler: node.process, epoch: *epoch };
            let reaches = self.world.reaches(who, dial.to);
            if reaches {
                self.prompt(Step::Dial { conn, up: true });
                self.fault(Step::Dial { conn, up: false });
            } else {
                self.prompt(Step::Dial { conn, up: false });
            }
        }
        for (epoch, right) in &node.rights {
            let key = RightKey { owner: node.process, epoch: *epoch };
            for ask in &right.asked {
                let late = right.late.contains(ask);
                let ok = *ask != Ask::Close || self.world.setup.fence == Fence::Proves;
                self.at_leisure(late, Step::Answer { right: key, ask: *ask, ok });
                if ok {
                    self.fault(Step::Answer { right: key, ask: *ask, ok: false });
                }
                if !late {
                    self.fault(Step::DelayAnswer(key, *ask));
                }
            }
            if right.state == RightState::Open && !right.asked.contains(&Ask::Close) {
                self.fault(Step::PeerFault(key));
            }
        }
        for (probe, asked) in &node.probes {
            self.probe(who, *probe, asked.open.len(), asked.over);
        }
        self.fault(Step::Crash(who));
    }

    fn probe(&mut self, who: Who, probe: ProbeId, open: usize, over: bool) {
        self.at_leisure(over, Step::Probe { who, probe, answer: ProbeAnswer::All });
        if open > 1 && !over && self.allows(Choice::Part) {
            self.prompt(Step::Probe { who, probe, answer: ProbeAnswer::First });
        }
        if !over && self.allows(Choice::Pending) {
            self.prompt(Step::Probe { who, probe, answer: ProbeAnswer::None });
        }
    }

    fn conn(&mut self, key: ConnKey, conn: &crate::control::Conn) {
        if conn.end(Side::Acceptor).state == EndState::Waiting {
            self.prompt(Step::Accept(key));
        }
        for side in Side::BOTH {
            let end = conn.end(side);
            let late = end.flow == Flow::Late;
            if conn.can_deliver(side) {
                self.at_leisure(late, Step::Deliver { conn: key, to: side });
            }
            if conn.can_hang_up(side) {
                self.at_leisure(late, Step::HangUp { conn: key, at: side });
            }
            if end.state != EndState::Closed && end.flow == Flow::Prompt && !conn.cut {
                self.fault(Step::Mute(key, side));
                if !end.queue.is_empty() {
                    self.fault(Step::DelayLink(key, side));
                }
            }
        }
        if !conn.cut {
            self.fault(Step::Cut(key));
            self.broken_bytes(key, conn);
        }
    }

    /// What can become of bytes under way.
    fn broken_bytes(&mut self, key: ConnKey, conn: &crate::control::Conn) {
        for side in Side::BOTH {
            let end = conn.end(side);
            if end.state == EndState::Closed || end.flow != Flow::Prompt {
                continue;
            }
            for whole in (0u8..=2).take(end.queue.len() + 1) {
                self.fault(Step::Tear(key, side, whole));
            }
            self.fault(Step::Garble(key, side));
        }
        let fresh = |side: Side| {
            let end = conn.end(side);
            !end.said.connect && !end.heard.connect && end.queue.is_empty() && end.state != EndState::Closed
        };
        if Side::BOTH.into_iter().all(fresh) {
            self.fault(Step::Versions(key));
        }
    }

    fn write(&mut self, key: WriteKey, write: &Write) {
        let open = self.world.node(write.target.owner.who).lets_land(write.target);
        let landed = write.landed.iter().filter(|landed| **landed).count();
        let all = landed == write.landed.len();
        if open && self.world.setup.landing == Landing::Blockwise {
            let prompt = write.is_outstanding() && !write.late;
            for (at, _) in (0u8..).zip(&write.landed).filter(|(_, landed)| !**landed) {
                self.at_leisure(!prompt, Step::Land { write: key, at });
            }
        }
        if !write.is_outstanding() {
            return;
        }
        let complete = |end| Step::Complete { write: key, end };
        let arrives = all || self.world.setup.landing == Landing::Whole;
        if open && arrives {
            self.at_leisure(write.late, complete(TransferEnd::Done));
        }
        if open {
            self.fault(complete(TransferEnd::Errored));
        } else {
            self.at_leisure(write.late, complete(TransferEnd::Errored));
        }
        if landed == 0 {
            match write.state {
                WriteState::Cancelled if self.allows(Choice::CancelDrops) => {
                    self.free(complete(TransferEnd::NotPosted));
                }
                WriteState::Posted => self.fault(complete(TransferEnd::NotPosted)),
                WriteState::Cancelled | WriteState::Held | WriteState::Loose => {}
            }
        }
        if !write.late {
            self.fault(Step::DelayWrite(key));
        }
    }
}

/// Whether an engine would wish for this now: it loads hits when its lookups are answered.
fn is_ready(node: &Node, wish: &Wish) -> bool {
    match wish {
        Wish::LoadHits { .. } => {
            let totals = node.endpoint.totals();
            totals.lookups == 0 && totals.held == 0
        }
        Wish::Consume { .. }
        | Wish::Produce { .. }
        | Wish::Ask { .. }
        | Wish::Load { .. }
        | Wish::Store { .. }
        | Wish::Finish { .. }
        | Wish::Abort { .. }
        | Wish::Withdraw { .. }
        | Wish::Release { .. }
        | Wish::Connect { .. }
        | Wish::Close { .. }
        | Wish::Shutdown { .. } => true,
    }
}
