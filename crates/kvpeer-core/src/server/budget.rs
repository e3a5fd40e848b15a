//! What a peer can make us keep.

use super::{Producer, RoundId};
use crate::cx::Cx;

impl Producer<'_> {
    /// Whether the caps on bytes leave room.
    pub(super) fn may_keep(&self, cx: &Cx<'_>, bytes: usize) -> bool {
        let limits = &cx.config.limits;
        self.session.kept.saturating_add(bytes) <= limits.peer_bytes
            && self.tables.kept.saturating_add(bytes) <= limits.total_bytes
    }

    pub(super) fn keep(&mut self, bytes: usize) {
        self.session.kept += bytes;
        self.tables.kept += bytes;
    }

    pub(super) fn unkeep(&mut self, bytes: usize) {
        self.session.kept -= bytes;
        self.tables.kept -= bytes;
    }

    /// Whether the caps on live requests, and on rounds of one, leave room for this round.
    pub(super) fn admits_round(&self, cx: &Cx<'_>, id: &RoundId) -> bool {
        let limits = &cx.config.limits;
        let rounds = self.session.rounds_of(&id.request).take(limits.rounds).count();
        self.session.rounds.contains_key(id)
            || (rounds > 0 && rounds < limits.rounds)
            || (rounds == 0 && self.session.requests < limits.requests)
    }
}
