//! What can be asked of a node (CMD-13).

use kvpeer_wire::PeerName;

use super::Endpoint;
use super::link::{Link, Phase};
use super::peers::Peer;
use crate::{LinkStatus, PeerId, PeerStatus, Totals};

impl Endpoint {
    /// Whether nothing at all is going on: no connection, no work, no pin, no quarantine.
    ///
    /// Open requests without work, and what is remembered for a while, do not count.
    pub fn is_idle(&self) -> bool {
        self.conns.is_empty()
            && self.links.is_empty()
            && self.client.loads.is_empty()
            && self.server.jobs.is_empty()
            && self.peers.values().all(Peer::is_at_rest)
    }

    /// One peer, if it is known.
    pub fn peer(&self, peer: PeerName<'_>) -> Option<PeerStatus> {
        let (peer, record) = self.peers.get_key_value(peer.as_str())?;
        Some(self.status(peer, record))
    }

    /// All known peers, by name.
    pub fn peers(&self) -> impl Iterator<Item = PeerStatus> {
        self.peers.iter().map(|(peer, record)| self.status(peer, record))
    }

    /// The work of all peers together.
    pub fn totals(&self) -> Totals {
        let held = self.peers.values().map(|record| record.held.len()).sum();
        self.links.values().fold(Totals { held, ..Totals::default() }, Totals::plus)
    }

    fn status(&self, peer: &PeerId, record: &Peer) -> PeerStatus {
        let links = || self.links.values().filter(|link| link.peer == *peer);
        let waiting = if record.wanted.is_some() { LinkStatus::Waiting } else { LinkStatus::Absent };
        let best = links().max_by_key(|link| rank(link.status()));
        PeerStatus {
            peer: peer.clone(),
            link: match best.map(Link::status) {
                Some(LinkStatus::Down) | None if record.wanted.is_some() => waiting,
                Some(status) => status,
                None => waiting,
            },
            last_end: record.last_end,
            incarnation: best.and_then(|link| link.announced.as_ref()).map(|it| it.incarnation),
            last_activity: best.map(|link| link.line.last_activity()),
            totals: links().fold(Totals { held: record.held.len(), ..Totals::default() }, Totals::plus),
        }
    }
}

/// The link that says most about a peer has the highest rank.
fn rank(status: LinkStatus) -> u8 {
    match status {
        LinkStatus::Absent => 0,
        LinkStatus::Waiting => 1,
        LinkStatus::Down => 2,
        LinkStatus::Draining => 3,
        LinkStatus::Connecting => 4,
        LinkStatus::Up => 5,
    }
}

impl Link {
    fn status(&self) -> LinkStatus {
        match self.phase {
            Phase::Dialing { .. } | Phase::Handshaking { .. } => LinkStatus::Connecting,
            Phase::Up => LinkStatus::Up,
            Phase::Draining { .. } => LinkStatus::Draining,
            Phase::Down => LinkStatus::Down,
        }
    }
}

impl Totals {
    fn plus(self, link: &Link) -> Self {
        let server = &link.server;
        Self {
            held: self.held,
            loads: self.loads + link.client.rounds.len(),
            lookups: self.lookups + link.client.lookups.len(),
            quarantined: self.quarantined + link.client.quarantined.len(),
            rounds: self.rounds + server.live_fetches(),
            writes: self.writes + server.xfers.len(),
            blocks_in_flight: self.blocks_in_flight + server.blocks_in_flight,
            parked: self.parked + server.parked,
            pinned: self.pinned + server.pinned,
            probes: self.probes + server.lookups.len(),
            kept_bytes: self.kept_bytes + server.kept,
        }
    }
}
