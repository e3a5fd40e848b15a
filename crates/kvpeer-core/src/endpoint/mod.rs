//! One node: peers, their links, and the two roles that work over them.

mod check;
mod commands;
mod duplicates;
mod handshake;
mod link;
mod messages;
mod peers;
mod queries;
mod reach;
mod states;
mod teardown;
mod ticks;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use kvpeer_wire::{Key, Keys, RequestName};

use crate::client::Consumer;
use crate::cx::Cx;
use crate::deadlines::Deadlines;
use crate::server::Producer;
use crate::{
    Command, Config, ConfigError, ConnId, Count, Deadline, Epoch, Input, LookupState, Misuse, PeerId, Sink,
    Time, client, server,
};
pub use check::Violation;
pub(crate) use check::{count, law};
use link::Link;
use peers::Peer;
pub use states::Machine;

/// The whole protocol state of one node.
///
/// Four kinds of methods, called in this order by a run loop:
/// 1. [`handle`](Self::handle) for every fact that has arrived,
/// 2. [`command`](Self::command) and [`lookup_many`](Self::lookup_many) for the engine's wishes,
/// 3. [`handle`](Self::handle) with [`Input::Tick`] when [`next_deadline`](Self::next_deadline) has passed,
///    after everything that had arrived was applied,
/// 4. queries, at any time.
///
/// Effects and news come out through the [`Sink`], in causal order, during the call that causes them. The endpoint
/// has no clock, queue, callback or random numbers: equal states and inputs give equal effects.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    config: Config,
    /// The latest time seen; never runs backwards (TMR-3).
    now: Time,
    life: Life,
    deadlines: Deadlines,
    peers: BTreeMap<PeerId, Peer>,
    conns: BTreeMap<ConnId, Conn>,
    links: BTreeMap<Epoch, Link>,
    next_epoch: u32,
    client: client::Tables,
    server: server::Tables,
}

/// Whether new things begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Life {
    Running,
    ShuttingDown { by: Time },
}

/// Whose a connection is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Conn {
    /// Accepted, and it has not said who it is.
    Stranger {
        due: Option<Time>,
    },
    Link(Epoch),
}

impl Endpoint {
    /// A node that knows nobody yet.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        let client = client::Tables::new(config.region.num_blocks);
        Ok(Self {
            config,
            now: Time::ZERO,
            life: Life::Running,
            deadlines: Deadlines::default(),
            peers: BTreeMap::new(),
            conns: BTreeMap::new(),
            links: BTreeMap::new(),
            next_epoch: 1,
            client,
            server: server::Tables::default(),
        })
    }

    /// Applies one fact. Total: a fact that does not fit is counted and ignored (CMD-15).
    pub fn handle(&mut self, now: Time, input: Input<'_>, out: &mut dyn Sink) {
        self.now = self.now.max(now);
        match input {
            Input::Connected { conn, origin } => self.connected(conn, origin, out),
            Input::DialFailed { epoch } => self.dial_failed(epoch, out),
            Input::Disconnected { conn } => self.disconnected(conn, out),
            Input::Heard { conn } => self.heard(conn, out),
            Input::Message { conn, msg } => self.message(conn, msg, out),
            Input::Malformed { conn, detail } => self.malformed(conn, detail, out),
            Input::NoCommonVersion { conn, ours, theirs } => self.no_common_version(conn, ours, theirs, out),
            Input::Admitted { epoch, admit } => self.admitted(epoch, admit, out),
            Input::RightOpened { epoch, metadata } => self.right_opened(epoch, metadata, out),
            Input::RightClosed { epoch, fenced } => self.right_closed(epoch, fenced, out),
            Input::Registered { epoch, ok } => self.registered(epoch, ok, out),
            Input::PeerFault { epoch } => self.peer_fault(epoch, out),
            Input::Transfer { xfer, end } => self.transfer(xfer, end, out),
            Input::Probed { probe, pin, hits, misses } => {
                self.probed(probe, server::Answer { pin, hits, misses }, out);
            }
            // What arrived after this Tick's moment is not read yet, whatever the clock has come to.
            Input::Tick => self.tick(now, out),
        }
    }

    /// Applies one wish of the engine, or refuses it and changes nothing (CMD-1).
    pub fn command(&mut self, now: Time, command: Command<'_>, out: &mut dyn Sink) -> Result<(), Misuse> {
        let before = self.now;
        self.now = before.max(now);
        let result = self.apply(command, out);
        if result.is_err() {
            self.now = before;
        }
        result
    }

    /// What is known about a key at its request's source: [`lookup_many`](Self::lookup_many) of one key.
    pub fn lookup(&mut self, now: Time, request: RequestName<'_>, key: Key<'_>) -> LookupState {
        let mut known = Vec::new();
        self.lookup_many(now, request, key.into(), &mut known);
        known.pop().unwrap_or(LookupState::Miss)
    }

    /// Appends to `known`, for each key in order, what is known about it at its request's source.
    ///
    /// The first sight of a key puts it down for the next [`Command::FlushLookups`]. A hit is good for as long as
    /// the source pins it; after that the key is asked for again.
    pub fn lookup_many(
        &mut self,
        now: Time,
        request: RequestName<'_>,
        keys: Keys<'_>,
        known: &mut Vec<LookupState>,
    ) {
        self.now = self.now.max(now);
        self.client.lookup(self.now, request, keys, known);
    }

    /// When to call [`handle`](Self::handle) with a `Tick`, and why. A deadline that has passed means: at once.
    pub fn next_deadline(&self) -> Option<Deadline> {
        self.deadlines.next()
    }

    /// What the node was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// This call's context.
    fn cx<'a>(&'a mut self, out: &'a mut dyn Sink) -> Cx<'a> {
        Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out }
    }

    /// Runs a handler of the client role on one link.
    fn consumer<R>(
        &mut self,
        epoch: Epoch,
        out: &mut dyn Sink,
        run: impl FnOnce(&mut Consumer<'_>, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let link = self.links.get_mut(&epoch)?;
        let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        let mut consumer =
            Consumer { epoch, line: &mut link.line, session: &mut link.client, tables: &mut self.client };
        Some(run(&mut consumer, &mut cx))
    }

    /// Runs a handler of the server role on one link.
    fn producer<R>(
        &mut self,
        epoch: Epoch,
        out: &mut dyn Sink,
        run: impl FnOnce(&mut Producer<'_>, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let link = self.links.get_mut(&epoch)?;
        let mut cx = Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        let region = link.region();
        let mut producer = Producer {
            epoch,
            peer: &link.peer,
            region,
            line: &mut link.line,
            session: &mut link.server,
            tables: &mut self.server,
        };
        Some(run(&mut producer, &mut cx))
    }

    /// The link of an epoch, or a count of a fact that came too late (ID-7).
    fn link_or_count(&mut self, epoch: Epoch, out: &mut dyn Sink) -> Option<&mut Link> {
        let found = self.links.get_mut(&epoch);
        if found.is_none() {
            out.count(Count::StaleEpoch);
        }
        found
    }

    /// ID-5: no two links of this node share one, whoever their peers are.
    fn mint_epoch(&mut self) -> Option<Epoch> {
        let next = self.next_epoch.checked_add(1)?;
        Some(Epoch(core::mem::replace(&mut self.next_epoch, next)))
    }
}
