//! What a peer can make us keep: counted as it is kept (LIM-3), and for each peer apart (LIM-4).

use super::{Producer, RoundId};
use crate::cx::Cx;

/// What a pool bound to a peer keeps beside its supply, in bytes; rounded up.
const POOL_SIZE: usize = 512;

impl Producer<'_> {
    /// Whether the caps on bytes leave room.
    pub(super) fn may_keep(&self, cx: &Cx<'_>, bytes: usize) -> bool {
        let limits = &cx.config.limits;
        let bound = self.tables.bound.get(&self.epoch).copied().unwrap_or(0);
        let all_bound: usize = self.tables.bound.values().sum();
        let mine = self.session.kept + bound * POOL_SIZE;
        let all = self.tables.kept + all_bound * POOL_SIZE;
        mine.saturating_add(bytes) <= limits.peer_bytes && all.saturating_add(bytes) <= limits.total_bytes
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
