//! Two links to one peer: which one stays.
//!
//! Every rule here keeps to one principle: an existing link is ended by proof that another one works (the peer's
//! `connect_ack` on it) or by a newer process of the peer, never by a `connect` that may have been lying in a buffer
//! (DUP-5).

use alloc::vec::Vec;

use kvpeer_wire::RejectCode;

use super::Endpoint;
use super::handshake::Refused;
use super::link::{Dialler, Link, Phase};
use crate::faults::{Fault, seeded};
use crate::{CloseReason, Epoch, PeerId, Sink};

impl Endpoint {
    fn links_to<'a>(&'a self, peer: &'a PeerId) -> impl Iterator<Item = (Epoch, &'a Link)> + 'a {
        self.links.iter().filter(move |(_, link)| link.peer == *peer).map(|(epoch, link)| (*epoch, link))
    }

    pub(super) fn has_live_link(&self, peer: &PeerId) -> bool {
        self.links_to(peer).any(|(_, link)| link.is_live())
    }

    /// The link that work for this peer goes out on; there is none before one is up (HS-10).
    pub(super) fn up_link(&self, peer: &PeerId) -> Option<Epoch> {
        self.links_to(peer).find(|(_, link)| link.is_up()).map(|(epoch, _)| epoch)
    }

    /// Why new work for a peer fails although it has a session: that session is ending, and no other is on its way.
    pub(super) fn draining(&self, peer: &PeerId) -> Option<CloseReason> {
        if self.links_to(peer).any(|(_, link)| link.is_hopeful()) {
            return None;
        }
        self.links_to(peer).find_map(|(_, link)| match link.phase {
            Phase::Draining { reason, .. } => Some(reason),
            Phase::Dialing { .. } | Phase::Handshaking { .. } | Phase::Up | Phase::Down => None,
        })
    }

    /// Peers with a link.
    pub(super) fn live_peers(&self) -> usize {
        let mut live: Vec<&PeerId> =
            self.links.values().filter(|link| link.is_live()).map(|link| &link.peer).collect();
        live.sort_unstable();
        live.dedup();
        live.len()
    }

    /// A process that is older than the one we have a live link with is refused (DUP-1).
    pub(super) fn check_incarnation(
        &self,
        peer: &PeerId,
        incarnation: u64,
        except: Option<Epoch>,
    ) -> Result<(), Refused> {
        let newest = self
            .links_to(peer)
            .filter(|(epoch, link)| Some(*epoch) != except && link.is_live() && link.is_trusted())
            .filter_map(|(_, link)| link.announced.as_ref().map(|it| it.incarnation))
            .max();
        match newest {
            Some(newest) if newest > incarnation && !seeded(Fault::StaleTaken) => {
                Err(Refused::field(RejectCode::StaleIncarnation, "incarnation", newest, incarnation))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A newer process has passed all checks: links with an older one are over (DUP-2).
    pub(super) fn supersede(&mut self, epoch: Epoch, peer: &PeerId, incarnation: u64, out: &mut dyn Sink) {
        let older = self.links_to(peer).filter(|(other, link)| {
            let older = link.announced.as_ref().is_some_and(|it| it.incarnation < incarnation);
            *other != epoch && link.is_live() && older
        });
        let older: Vec<Epoch> = older.map(|(epoch, _)| epoch).collect();
        older.into_iter().for_each(|old| self.end(old, CloseReason::Superseded, out));
    }

    /// Our own dialled link to a peer who has dialled us as well, if it is for us to decide: the smaller id does
    /// (DUP-4).
    fn crossing(&self, peer: &PeerId, incarnation: u64) -> Option<(Epoch, &Link)> {
        if self.config.identity.peer_id > *peer {
            return None;
        }
        self.links.iter().map(|(epoch, link)| (*epoch, link)).find(|(_, link)| {
            let same_process = link.announced.as_ref().is_none_or(|it| it.incarnation == incarnation);
            link.peer == *peer && link.dialler == Dialler::Us && link.is_hopeful() && same_process
        })
    }

    /// Keeps our own link, once our `connect` has left on it: the peer's is a duplicate.
    pub(super) fn check_crossing(&self, peer: &PeerId, incarnation: u64) -> Result<(), Refused> {
        match self.crossing(peer, incarnation) {
            Some((_, link)) if link.has_introduced_us() => Err(Refused::new(RejectCode::Duplicate)),
            Some(_) | None => Ok(()),
        }
    }

    /// A link of the peer's was admitted: our own dial, which may be unable to reach the peer, yields to it.
    pub(super) fn yield_dial(&mut self, peer: &PeerId, incarnation: u64, out: &mut dyn Sink) {
        if let Some((epoch, _)) = self.crossing(peer, incarnation) {
            self.end(epoch, CloseReason::Duplicate, out);
        }
    }

    /// The peer acknowledged this link, so it has given up every earlier one (DUP-3, DUP-6).
    pub(super) fn end_older_links(&mut self, epoch: Epoch, peer: &PeerId, out: &mut dyn Sink) {
        let older = self.links_to(peer).filter(|(other, link)| *other < epoch && link.is_live());
        let older: Vec<Epoch> = older.map(|(epoch, _)| epoch).collect();
        older.into_iter().for_each(|old| self.end(old, CloseReason::Lost, out));
    }

    /// DUP-6: then this link must not come up.
    pub(super) fn newer_is_up(&self, epoch: Epoch, peer: &PeerId) -> bool {
        self.links_to(peer).any(|(other, link)| other > epoch && link.is_up())
    }
}
