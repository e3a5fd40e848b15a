//! What can happen next, one thing at a time.

use std::time::Duration;

use kvpeer_core::{ConnId, Count, Epoch, Input, Origin, ProbeId, Time, Timer, TransferEnd};

use kvpeer_wire::Msg;

use crate::control::{Item, other};
use crate::node::Registered;
use crate::rma::{Right, Target};
use crate::text::{is_heartbeat, say};
use crate::{Who, World, WriteId, X};

/// Something that a node has asked for and that can happen now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// A dial ends, with a connection if the other side is reachable.
    Dial(Who, Epoch),
    /// The embedder admits a peer.
    Admit(Who, Epoch),
    /// A right opens.
    OpenRight(Who, Epoch),
    /// A peer's region is registered, if the right that it names is open.
    Register(Who, Epoch),
    /// A right is closed.
    CloseRight(Who, Epoch),
    /// The next item on its way to this end of a connection arrives.
    Deliver(Who, ConnId),
    /// The cache answers a lookup.
    Answer(Who, ProbeId),
    /// A WRITE lands and completes, or ends in error where its target is closed.
    Complete(Who, WriteId),
}

/// A kind of step that [`World::run`] leaves for the story to take.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hold {
    /// Dials of a node.
    Dials(Who),
    /// Admissions by a node.
    Admits(Who),
    /// Rights that a node opens.
    Rights(Who),
    /// Regions that a node registers.
    Registrations(Who),
    /// Rights that a node closes.
    Fences(Who),
    /// Messages from the first to the second.
    Messages(Who, Who),
    /// Lookups that wait for a node's cache.
    Lookups(Who),
    /// WRITEs of a node.
    Writes(Who),
}

impl World {
    /// Everything that can happen now, held back or not, in a fixed order.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for node in self.nodes.iter().filter(|node| node.endpoint.is_some()) {
            let who = node.who;
            steps.extend(node.dials.keys().map(|epoch| Step::Dial(who, *epoch)));
            steps.extend(node.admits.keys().map(|epoch| Step::Admit(who, *epoch)));
            for (epoch, right) in &node.rights {
                match right {
                    Right::Opening => steps.push(Step::OpenRight(who, *epoch)),
                    Right::Closing => steps.push(Step::CloseRight(who, *epoch)),
                    Right::Open | Right::Closed { .. } | Right::Failed => {}
                }
            }
            let pending = node.registrations.iter().filter(|(_, r)| r.state == Registered::Pending);
            steps.extend(pending.map(|(epoch, _)| Step::Register(who, *epoch)));
            let asked = node.cache.asked.iter().filter(|(_, asked)| !asked.ended);
            steps.extend(asked.map(|(probe, _)| Step::Answer(who, *probe)));
            steps.extend(self.writes_of(who).into_iter().map(|write| Step::Complete(who, write)));
        }
        let waiting = self.wires.ends().filter(|end| end.open && !end.inbox.is_empty());
        steps.extend(waiting.map(|end| Step::Deliver(end.who, end.conn)));
        steps
    }

    /// Keeps a kind of step for the story.
    pub fn hold(&mut self, kind: Hold) {
        self.holds.insert(kind);
    }

    /// Lets a kind of step happen by itself again.
    pub fn unhold(&mut self, kind: Hold) {
        self.holds.remove(&kind);
    }

    /// Lets a kind of step happen by itself again, and happen now.
    pub fn let_go(&mut self, kind: Hold) {
        self.holds.remove(&kind);
        self.run();
    }

    fn kind(&self, step: Step) -> Hold {
        match step {
            Step::Dial(who, _) => Hold::Dials(who),
            Step::Admit(who, _) => Hold::Admits(who),
            Step::OpenRight(who, _) => Hold::Rights(who),
            Step::Register(who, _) => Hold::Registrations(who),
            Step::CloseRight(who, _) => Hold::Fences(who),
            Step::Deliver(who, conn) => {
                Hold::Messages(self.wires.peer_of(conn).map_or(X, |peer| peer.who), who)
            }
            Step::Answer(who, _) => Hold::Lookups(who),
            Step::Complete(who, _) => Hold::Writes(who),
        }
    }

    /// Lets everything happen that is not held back, until nothing can.
    #[track_caller]
    pub fn run(&mut self) {
        for _ in 0..100_000 {
            let next = self.steps().into_iter().find(|step| !self.holds.contains(&self.kind(*step)));
            match next {
                Some(step) => self.take(step),
                None => return,
            }
        }
        self.fail("the nodes keep each other busy for ever");
    }

    /// Lets `span` pass: every deadline in it comes due, in order, after what had arrived by then.
    #[track_caller]
    pub fn advance(&mut self, span: Duration) {
        self.run();
        self.until(self.now + span, World::run);
    }

    #[track_caller]
    fn until(&mut self, until: Time, between: impl Fn(&mut World)) {
        let mut at_once = 0;
        while let Some((who, deadline)) = self.next_deadline().filter(|(_, at)| *at <= until) {
            at_once = if deadline > self.now { 0 } else { at_once + 1 };
            if at_once > 10_000 {
                self.fail(&format!("{who} wants to be woken again and again for the same moment"));
            }
            self.now = self.now.max(deadline);
            self.tick(who);
            between(self);
        }
        self.now = until;
    }

    /// Lets time pass without waking anybody: a driver that is late.
    pub fn sleep(&mut self, span: Duration) {
        self.now = self.now + span;
        self.log("--- nobody was woken until now");
    }

    /// The clock is set back, as a broken driver might.
    pub fn turn_back(&mut self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.now = Time::from_micros(self.now.as_micros().saturating_sub(micros));
        self.log("--- the clock is set back");
    }

    /// The clock stands at the last moment there is.
    pub fn at_the_end_of_time(&mut self) {
        self.now = Time::NEVER;
    }

    /// Wakes a node, whether or not it wants to be.
    pub fn wake(&mut self, who: Who) {
        self.tick(who);
        self.run();
    }

    /// Gives a node a fact that the world would not have come up with.
    pub fn fact(&mut self, who: Who, input: Input<'_>) {
        self.log(format!("--- {who} is told {input:?}"));
        self.feed(who, input);
        self.run();
    }

    /// Lets time pass while all that is under way stays so: deadlines come due, nothing arrives.
    #[track_caller]
    pub fn pass(&mut self, span: Duration) {
        self.until(self.now + span, |_| {});
    }

    /// Who wants to be woken first, and when.
    pub(crate) fn next_deadline(&self) -> Option<(Who, Time)> {
        let deadlines = self.nodes.iter().filter_map(|node| Some((node.deadline()?.at, node.who)));
        deadlines.min().map(|(at, who)| (who, at))
    }

    /// Lets time pass up to a node's next deadline and wakes it.
    pub(crate) fn tick(&mut self, who: Who) {
        let why = self.node(who).deadline().map(|deadline| deadline.why);
        self.see(format!("timer {why:?}"));
        match why {
            Some(Timer::Heartbeat | Timer::CancelRetry) => self.trace.routine(),
            why => self.log(format!("{who}: tick for {why:?}")),
        }
        self.ticking = true;
        self.feed(who, Input::Tick);
        self.ticking = false;
    }

    /// Takes one step.
    #[track_caller]
    pub fn take(&mut self, step: Step) {
        match step {
            Step::Dial(who, epoch) => self.dial(who, epoch),
            Step::Admit(who, epoch) => self.admit(who, epoch, true),
            Step::OpenRight(who, epoch) => self.open_right(who, epoch, true),
            Step::Register(who, epoch) => self.register(who, epoch, true),
            Step::CloseRight(who, epoch) => self.close_right(who, epoch),
            Step::Deliver(who, conn) => self.deliver(who, conn),
            Step::Answer(who, probe) => {
                self.answer(who, probe);
            }
            Step::Complete(_, write) => self.finish_write(write),
        }
    }

    fn dial(&mut self, who: Who, epoch: Epoch) {
        let dial = self.node_mut(who).dials.remove(&epoch).expect("a dial");
        self.node_mut(who).dialled += 1;
        let listens = |node: &&crate::node::Node| node.who.name() == dial.address && node.endpoint.is_some();
        let to = match self.nodes.iter().find(listens) {
            Some(node) => Some(node.who),
            None => (dial.address == X.name()).then_some(X),
        };
        match to.filter(|to| !self.unreachable.contains(&(who, *to))) {
            Some(to) => {
                let conn = self.wires.connect(who, to);
                self.log(format!("{who}: dial {} of {} is {conn:?}", epoch.0, dial.peer));
                self.link(who, epoch, conn);
                self.feed(who, Input::Connected { conn, origin: Origin::Dialed(epoch) });
            }
            None => {
                self.log(format!("{who}: dial {} of {} fails", epoch.0, dial.peer));
                self.feed(who, Input::DialFailed { epoch });
            }
        }
    }

    pub(crate) fn admit(&mut self, who: Who, epoch: Epoch, admit: bool) {
        self.node_mut(who).admits.remove(&epoch);
        self.log(format!("{who}: epoch {} is {}", epoch.0, if admit { "admitted" } else { "turned away" }));
        self.feed(who, Input::Admitted { epoch, admit });
    }

    pub(crate) fn open_right(&mut self, who: Who, epoch: Epoch, ok: bool) {
        let metadata = ok.then(|| self.metadata(who, epoch));
        let state = if ok { Right::Open } else { Right::Failed };
        self.node_mut(who).rights.insert(epoch, state);
        self.log(format!("{who}: right {} {}", epoch.0, if ok { "is open" } else { "cannot be opened" }));
        self.feed(who, Input::RightOpened { epoch, metadata: metadata.as_deref() });
    }

    pub(crate) fn register(&mut self, who: Who, epoch: Epoch, ok: bool) {
        let ok = ok && self.can_register(who, epoch);
        let registration = self.node_mut(who).registrations.get_mut(&epoch).expect("a registration");
        registration.state = if ok { Registered::Yes } else { Registered::No };
        self.log(format!(
            "{who}: epoch {} {}",
            epoch.0,
            if ok { "is registered" } else { "cannot be registered" }
        ));
        self.feed(who, Input::Registered { epoch, ok });
    }

    /// A plane takes metadata that it understands, and such as no node of this world has made.
    fn can_register(&self, who: Who, epoch: Epoch) -> bool {
        let metadata = &self.node(who).registrations[&epoch].metadata;
        metadata.starts_with(b"right ").then(|| Target::parse(metadata)).is_none_or(|target| target.is_some())
    }

    /// Closes a right: its WRITEs are reported as fenced, and nothing lands through it any more if the plane fences.
    pub(crate) fn close_right(&mut self, who: Who, epoch: Epoch) {
        let fenced = self.node(who).fences;
        let writes = self.writes_of(who).into_iter();
        let of_right: Vec<WriteId> =
            writes.filter(|write| self.writes[write.0].xfer.epoch == epoch).collect();
        for write in &of_right {
            self.end_write(*write, TransferEnd::Fenced);
        }
        if fenced {
            of_right.into_iter().for_each(|write| self.capture(write));
        }
        self.node_mut(who).rights.insert(epoch, Right::Closed { fenced });
        self.log(format!(
            "{who}: right {} is closed{}",
            epoch.0,
            if fenced { "" } else { ", but does not fence" }
        ));
        self.feed(who, Input::RightClosed { epoch, fenced });
    }

    /// Delivers the next thing that is on its way to this end.
    pub(crate) fn deliver(&mut self, who: Who, conn: ConnId) {
        let end = self.wires.end_mut(conn).expect("a connection");
        let item = end.inbox.pop_front().expect("something on its way");
        if matches!(item, Item::Eof) {
            end.open = false;
        }
        if who == X {
            return self.rogue_hears(conn, item);
        }
        match item {
            Item::Accept => {
                self.log(format!("{who}: accepts {conn:?}"));
                self.feed(who, Input::Connected { conn, origin: Origin::Accepted });
            }
            Item::Frame(frame) => {
                let msg = crate::control::decode(&frame);
                if is_heartbeat(&msg) {
                    self.trace.routine();
                } else {
                    self.log(format!("{who} <-    {}", say(&msg)));
                }
                self.read(who, conn, msg);
            }
            Item::Trickle => self.feed(who, Input::Heard { conn }),
            Item::Garbage(detail) => {
                self.log(format!("{who} <-    garbage: {detail}"));
                self.feed(who, Input::Malformed { conn, detail: &detail });
            }
            Item::Versions { theirs } => {
                self.log(format!("{who} <-    a preamble of versions {theirs:?}"));
                self.feed(who, Input::NoCommonVersion { conn, ours: (1, 1), theirs });
            }
            Item::Eof => {
                self.log(format!("{who}: {conn:?} is gone"));
                self.feed(who, Input::Disconnected { conn });
            }
        }
    }

    /// Delivers the next `count` items of the newest connection that `from` has dialled to `to`, held back or not.
    #[track_caller]
    pub fn deliver_newest(&mut self, from: Who, to: Who, count: usize) {
        match self.wires.between(from, to).last().copied() {
            Some(conn) => (0..count).for_each(|_| self.deliver(to, other(conn))),
            None => self.fail(&format!("{from} has no connection with {to}")),
        }
    }

    /// A node reads a message. What comes after its verdict on the peer is not read, whatever it says.
    fn read(&mut self, who: Who, conn: ConnId, msg: Msg<'_>) {
        let before = (self.wires.end(conn).cloned(), self.talks.get(&other(conn)).cloned());
        let unread = self.counted(who, Count::AfterEnd);
        self.judge_arrived(conn, other(conn), &msg);
        self.feed(who, Input::Message { conn, msg });
        if self.counted(who, Count::AfterEnd) > unread {
            if let (Some(end), Some(was)) = (self.wires.end_mut(conn), before.0) {
                *end = was;
            }
            self.talks.insert(other(conn), before.1.unwrap_or_default());
        }
    }

    /// Takes up to `count` steps, one after the other, of those that are possible at each time.
    pub fn take_steps(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(step) = self.steps().first().copied() {
                self.take(step);
            }
        }
    }

    /// Delivers the next item from one node to another, if there is one, held back or not.
    pub fn deliver_if_any(&mut self, from: Who, to: Who) {
        let waiting = Hold::Messages(from, to);
        let next = self.steps().into_iter().find(|step| self.kind(*step) == waiting);
        if let Some(step) = next {
            self.take(step);
        }
    }

    /// Delivers the next `count` items from one node to another, held back or not.
    #[track_caller]
    pub fn deliver_from(&mut self, from: Who, to: Who, count: usize) {
        for _ in 0..count {
            let ends = self.wires.ends().filter(|end| end.who == to && end.open && !end.inbox.is_empty());
            let from_there = |conn: &ConnId| self.wires.peer_of(*conn).is_some_and(|peer| peer.who == from);
            let next = ends.map(|end| end.conn).find(from_there);
            match next {
                Some(conn) => self.deliver(to, conn),
                None => self.fail(&format!("nothing is on its way from {from} to {to}")),
            }
        }
    }
}
