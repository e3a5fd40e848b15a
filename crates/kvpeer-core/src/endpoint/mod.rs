//! One node.

use kvpeer_wire::{Key, PeerName, RequestName};

use crate::{Command, Config, ConfigError, Deadline, Input, LookupState, Misuse, PeerStatus, Sink, Time, Totals};

/// The whole protocol state of one node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    config: Config,
    now: Time,
}

/// A structural law that does not hold: a bug of this crate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("law broken: {0}")]
pub struct Violation(pub &'static str);

impl Endpoint {
    /// A node that knows nobody yet.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self { config, now: Time::ZERO })
    }

    /// Applies one fact.
    pub fn handle(&mut self, now: Time, input: Input<'_>, out: &mut dyn Sink) {
        let _ = (now, input, out);
    }

    /// Applies one wish of the engine, or refuses it and changes nothing.
    pub fn command(&mut self, now: Time, command: Command<'_>, out: &mut dyn Sink) -> Result<(), Misuse> {
        let _ = (now, command, out);
        Ok(())
    }

    /// What is known about a key; its first sight puts it down for the next `FlushLookups`.
    pub fn lookup(&mut self, now: Time, request: RequestName<'_>, key: Key<'_>) -> LookupState {
        let _ = (now, request, key);
        LookupState::Miss
    }

    /// When to call `handle` with a `Tick`, and why. A deadline that has passed means: at once.
    pub fn next_deadline(&self) -> Option<Deadline> {
        None
    }

    /// Whether nothing at all is going on: no link, no work, no quarantine.
    pub fn is_idle(&self) -> bool {
        true
    }

    /// Checks the structural laws; cheap enough for tests, not for production.
    pub fn check(&self) -> Result<(), Violation> {
        Ok(())
    }

    /// One peer, if it is known.
    pub fn peer(&self, peer: PeerName<'_>) -> Option<PeerStatus> {
        let _ = peer;
        None
    }

    /// All known peers, by name.
    pub fn peers(&self) -> impl Iterator<Item = PeerStatus> {
        core::iter::empty()
    }

    /// The work of all peers together.
    pub fn totals(&self) -> Totals {
        Totals::default()
    }

    /// What the node was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }
}
