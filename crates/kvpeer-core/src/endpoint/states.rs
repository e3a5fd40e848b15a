//! The state machines of a node, by name: for pictures, and for checkers that count which transitions they take.

use kvpeer_wire::Round;

use super::Endpoint;
use super::link::{Ours, Phase, Right, Theirs};
use crate::client::LoadState;
use crate::{Epoch, JobId, RequestId};

/// One state machine of a node, as `docs/states` draws it. What is not there is before its first state or after its
/// last.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Machine {
    /// A link: its phase, and in the handshake our half and theirs.
    Link(Epoch),
    /// The right of a link.
    Right(Epoch),
    /// A round of a peer, from its lookups or its fetch on.
    Round(Epoch, RequestId, Round),
    /// An own load.
    Load(JobId),
    /// The supply of an `await` request.
    Pool(RequestId),
    /// A store, or the pin of a lookup.
    Store(JobId),
}

impl Machine {
    /// What kind of machine it is, in one lower-case word.
    pub fn kind(&self) -> &'static str {
        match self {
            Machine::Link(_) => "link",
            Machine::Right(_) => "right",
            Machine::Round(..) => "round",
            Machine::Load(_) => "load",
            Machine::Pool(_) => "pool",
            Machine::Store(_) => "store",
        }
    }
}

impl Endpoint {
    /// Every state machine and the name of its state, in the order of [`Machine`].
    pub fn states(&self) -> impl Iterator<Item = (Machine, &'static str)> {
        let links = self.links.iter().map(|(epoch, link)| (Machine::Link(*epoch), link.phase.state()));
        let rights = self.links.iter().map(|(epoch, link)| (Machine::Right(*epoch), link.right.state()));
        let rounds = self.links.iter().flat_map(|(epoch, link)| {
            let of = link.server.rounds.iter();
            of.map(|(id, serving)| (Machine::Round(*epoch, id.request.clone(), id.round), serving.state()))
        });
        let loads = self.client.loads.iter().map(|(job, load)| (Machine::Load(*job), load.state.state()));
        let pools = self.server.pools.iter().map(|(id, pool)| (Machine::Pool(id.clone()), pool.state()));
        let stores = self.server.jobs.iter().map(|(id, job)| (Machine::Store(*id), job.state()));
        links.chain(rights).chain(rounds).chain(loads).chain(pools).chain(stores)
    }
}

impl Phase {
    fn state(&self) -> &'static str {
        match self {
            Phase::Dialing { .. } => "Dialing",
            Phase::Handshaking { ours, theirs, .. } => handshake(*ours, theirs),
            Phase::Up => "Up",
            Phase::Draining { .. } => "Draining",
            Phase::Down => "Down",
        }
    }
}

fn handshake(ours: Ours, theirs: &Theirs) -> &'static str {
    match (ours, theirs) {
        (Ours::Admitting, Theirs::Awaited) => "Handshaking: Admitting / Awaited",
        (Ours::Admitting, Theirs::Announced { .. }) => "Handshaking: Admitting / Announced",
        (Ours::Admitting, Theirs::Registering) => "Handshaking: Admitting / Registering",
        (Ours::Admitting, Theirs::Registered) => "Handshaking: Admitting / Registered",
        (Ours::OpeningRight, Theirs::Awaited) => "Handshaking: OpeningRight / Awaited",
        (Ours::OpeningRight, Theirs::Announced { .. }) => "Handshaking: OpeningRight / Announced",
        (Ours::OpeningRight, Theirs::Registering) => "Handshaking: OpeningRight / Registering",
        (Ours::OpeningRight, Theirs::Registered) => "Handshaking: OpeningRight / Registered",
        (Ours::ConnectSent, Theirs::Awaited) => "Handshaking: ConnectSent / Awaited",
        (Ours::ConnectSent, Theirs::Announced { .. }) => "Handshaking: ConnectSent / Announced",
        (Ours::ConnectSent, Theirs::Registering) => "Handshaking: ConnectSent / Registering",
        (Ours::ConnectSent, Theirs::Registered) => "Handshaking: ConnectSent / Registered",
        (Ours::Acked, Theirs::Awaited) => "Handshaking: Acked / Awaited",
        (Ours::Acked, Theirs::Announced { .. }) => "Handshaking: Acked / Announced",
        (Ours::Acked, Theirs::Registering) => "Handshaking: Acked / Registering",
        (Ours::Acked, Theirs::Registered) => "Handshaking: Acked / Registered",
    }
}

impl Right {
    fn state(&self) -> &'static str {
        match self {
            Right::None => "None",
            Right::Opening => "Opening",
            Right::Open => "Open",
            Right::Closing { .. } => "Closing",
            Right::Unfenced => "Unfenced",
        }
    }
}

impl LoadState {
    fn state(&self) -> &'static str {
        match self {
            LoadState::Held { .. } => "Held",
            LoadState::Fetching(_) => "Fetching",
            LoadState::Aborting { .. } => "Aborting",
            LoadState::Quarantined { .. } => "Quarantined",
        }
    }
}
