//! The structural laws: what must hold between any two calls.

use alloc::collections::{BTreeMap, BTreeSet};

use super::link::{Link, Ours, Phase, Right, Theirs};
use super::{Conn, Endpoint};
use crate::client::LoadState;
use crate::deadlines::Due;
use crate::{BlockIdx, Epoch, JobId, PeerId, Time};

/// A structural law that does not hold: a bug of this crate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("law broken: {0}")]
pub struct Violation(pub &'static str);

pub(crate) fn law(holds: bool, what: &'static str) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(what)) }
}

/// How many of these deadlines are armed.
pub(crate) fn count(slots: &[Option<Time>]) -> usize {
    slots.iter().flatten().count()
}

impl Link {
    fn armed(&self) -> usize {
        let phase = match &self.phase {
            Phase::Dialing { due } | Phase::Handshaking { due, .. } | Phase::Draining { due, .. } => {
                count(&[*due])
            }
            Phase::Up | Phase::Down => 0,
        };
        let right = match &self.right {
            Right::Closing { due } => count(&[*due]),
            Right::None | Right::Opening | Right::Open | Right::Unfenced => 0,
        };
        let pulse = count(&[self.pulse.heartbeat_due, self.pulse.dead_due, self.pulse.idle_due]);
        phase + right + pulse + self.server.armed()
    }
}

impl Endpoint {
    /// Checks the structural laws: counters against what they count, deadlines against their owners, both ends of
    /// every reference. For tests, fuzzers and checkers: it looks at everything.
    pub fn check(&self) -> Result<(), Violation> {
        self.check_conns()?;
        self.check_peers()?;
        self.check_loads()?;
        for (epoch, link) in &self.links {
            self.check_link(*epoch, link)?;
            link.server.check(*epoch, &self.server, &self.deadlines)?;
        }
        let kept =
            self.links.iter().map(|(epoch, link)| (*epoch, link.server.kept)).filter(|(_, kept)| *kept > 0);
        law(
            kept.eq(self.server.kept.iter().map(|it| (*it.0, *it.1))),
            "bytes kept are known for each session",
        )?;
        law(self.armed() == self.deadlines.len(), "every deadline has an owner")?;
        self.server.check(&self.deadlines, self.claims())
    }

    fn check_conns(&self) -> Result<(), Violation> {
        for (conn, owner) in &self.conns {
            match owner {
                Conn::Stranger { due } => {
                    let armed = due.is_some_and(|at| self.deadlines.contains(at, &Due::Stranger(*conn)));
                    law(armed, "a stranger has a deadline")?;
                }
                Conn::Link(epoch) => {
                    let known = self.links.get(epoch).is_some_and(|link| link.line.conn() == Some(*conn));
                    law(known, "a link's connection is its own")?;
                }
            }
        }
        let lines = self.links.values().filter(|link| link.line.conn().is_some()).count();
        let owned = self.conns.values().filter(|conn| matches!(conn, Conn::Link(_))).count();
        law(lines == owned, "a line has a connection that knows its link")
    }

    fn check_peers(&self) -> Result<(), Violation> {
        let mut up: BTreeSet<&PeerId> = BTreeSet::new();
        for link in self.links.values() {
            law(self.peers.contains_key(&link.peer), "a link's peer is known")?;
            law(!link.is_up() || up.insert(&link.peer), "one session a peer")?;
        }
        for (peer, record) in &self.peers {
            if let Some(at) = record.wanted {
                law(self.deadlines.contains(at, &Due::Wanted(peer.clone())), "a wanted peer has a deadline")?;
            }
            if let Some(at) = record.due {
                law(self.deadlines.contains(at, &Due::Redial(peer.clone())), "a peer's deadline is armed")?;
            }
            law(record.held.is_empty() || record.wanted.is_some(), "held work wants a link")?;
            law(record.held.len() <= self.config.limits.held, "held work is bounded")?;
            let idle = record.held.is_empty() || !up.contains(peer);
            law(idle, "no work is held while there is a session")?;
        }
        Ok(())
    }

    fn check_link(&self, epoch: Epoch, link: &Link) -> Result<(), Violation> {
        let pulse = &link.pulse;
        let beats = pulse.heartbeat_due.is_some_and(|at| self.deadlines.contains(at, &Due::Heartbeat(epoch)))
            && pulse.dead_due.is_some_and(|at| self.deadlines.contains(at, &Due::Dead(epoch)));
        match &link.phase {
            Phase::Dialing { due } => {
                let armed = due.is_some_and(|at| self.deadlines.contains(at, &Due::Handshake(epoch)));
                law(armed, "a dial has a deadline")?;
                law(link.right == Right::None, "no right before a connection")?;
            }
            Phase::Handshaking { ours, theirs, due } => {
                let armed = due.is_some_and(|at| self.deadlines.contains(at, &Due::Handshake(epoch)));
                law(armed && beats, "a handshake has a deadline and a pulse")?;
                let right = match ours {
                    Ours::Admitting => Right::None,
                    Ours::OpeningRight => Right::Opening,
                    Ours::ConnectSent | Ours::Acked => Right::Open,
                };
                law(link.right == right, "the right follows our half of the handshake")?;
                let known = *theirs == Theirs::Awaited || link.announced.is_some();
                law(known, "what is registered has announced itself")?;
                law(link.server.is_empty() && link.client.rounds.is_empty(), "no work in a handshake")?;
            }
            Phase::Up => law(beats && link.right == Right::Open, "a session has a pulse and an open right")?,
            Phase::Draining { due, reason } => {
                let armed = due.is_some_and(|at| self.deadlines.contains(at, &Due::Drain(epoch)));
                law(
                    armed && beats && link.right == Right::Open,
                    "a drain has a deadline, a pulse and a right",
                )?;
                let waits = !link.server.is_quiet() || !link.client.rounds.is_empty();
                law(
                    waits && (!reason.stops_reading() || !link.server.is_quiet()),
                    "a drain waits for something",
                )?;
            }
            Phase::Down => {
                law(link.line.conn().is_none(), "nothing is sent after the end")?;
                law(
                    link.client.rounds.is_empty() && link.client.lookups.is_empty(),
                    "a link that is down asks nothing",
                )?;
                let due = match &link.right {
                    Right::Closing { due } => {
                        due.is_some_and(|at| self.deadlines.contains(at, &Due::CloseRight(epoch)))
                    }
                    Right::Unfenced => !link.client.quarantined.is_empty() || !link.server.is_empty(),
                    Right::None | Right::Opening | Right::Open => false,
                };
                law(due, "a link that is down waits for its fence, or holds what has none")?;
            }
        }
        Ok(())
    }

    fn check_loads(&self) -> Result<(), Violation> {
        let mut taken: BTreeSet<BlockIdx> = BTreeSet::new();
        for (job, load) in &self.client.loads {
            for block in &load.blocks {
                let reserved = self.client.reserved.contains(*block) && taken.insert(*block);
                law(reserved, "a destination is reserved, and by one load")?;
            }
            self.check_load(*job, &load.state)?;
            let over = matches!(load.state, LoadState::Quarantined { .. } | LoadState::Aborting { .. });
            let listed = self.client.requests.get(&load.request).is_some_and(|it| it.loads.contains(job));
            law(over || listed, "a live load belongs to an open request")?;
        }
        law(taken.len() == self.client.reserved.len(), "only destinations of loads are reserved")?;
        let sent = self
            .client
            .loads
            .values()
            .filter(|load| matches!(load.state, LoadState::Fetching(_) | LoadState::Aborting { .. }));
        let rounds: usize = self.links.values().map(|link| link.client.rounds.len()).sum();
        law(sent.count() == rounds, "every load on the wire has a round")
    }

    fn check_load(&self, job: JobId, state: &LoadState) -> Result<(), Violation> {
        let has_round = |epoch: &Epoch, round| {
            self.links.get(epoch).is_some_and(|link| link.client.rounds.get(&round) == Some(&job))
        };
        match state {
            LoadState::Held { .. } => {
                let held = self.peers.values().flat_map(|record| &record.held);
                let count =
                    held.filter(|work| matches!(work, super::peers::Work::Load(it) if *it == job)).count();
                law(count == 1, "a held load stands in one queue, once")
            }
            LoadState::Fetching(fetching) => {
                law(has_round(&fetching.epoch, fetching.round), "a fetch has its round")?;
                let armed = fetching.due.is_some_and(|at| self.deadlines.contains(at, &Due::Load(job)));
                law(armed, "a fetch has a deadline")
            }
            LoadState::Aborting { epoch, round, due, .. } => {
                law(has_round(epoch, *round), "an abort has its round")?;
                let armed = due.is_some_and(|at| self.deadlines.contains(at, &Due::AbortAck(job)));
                law(armed, "an abort has a deadline")
            }
            LoadState::Quarantined { epoch } => {
                let held = self.links.get(epoch).is_some_and(|link| link.client.quarantined.contains(&job));
                law(held, "a quarantined load is released by its link's fence")
            }
        }
    }

    /// How many deadlines their owners know of.
    fn armed(&self) -> usize {
        let strangers = self.conns.values().filter(|conn| matches!(conn, Conn::Stranger { due: Some(_) }));
        let peers = self.peers.values().map(|record| count(&[record.wanted, record.due]));
        strangers.count()
            + peers.sum::<usize>()
            + self.client.armed()
            + self.server.armed()
            + self.links.values().map(Link::armed).sum::<usize>()
    }

    /// How many blocks of each job are claimed by rounds.
    fn claims(&self) -> BTreeMap<JobId, u32> {
        let mut claims = BTreeMap::new();
        for link in self.links.values() {
            link.server.count_claims(&mut claims);
        }
        claims
    }
}
