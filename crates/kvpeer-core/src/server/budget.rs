//! What a peer can make us keep: counted as it is kept (LIM-3), and for each peer apart (LIM-4).

use super::{Producer, RoundId, Tables};
use crate::Epoch;
use crate::cx::Cx;

/// What a pool bound to a peer keeps beside its supply, in bytes; rounded up.
const POOL_SIZE: usize = 1024;

impl Tables {
    /// What this session's peer makes us keep, in bytes.
    fn kept_for(&self, epoch: Epoch) -> usize {
        let pools = self.bound.get(&epoch).copied().unwrap_or(0);
        self.kept.get(&epoch).copied().unwrap_or(0) + pools * POOL_SIZE
    }
}

impl Producer<'_> {
    /// Whether the caps on bytes leave room. Half of what all peers may make us keep is split evenly among as many peers
    /// as there may be, so that none can be crowded out; the other half goes to whoever comes first.
    pub(super) fn may_keep(&self, cx: &Cx<'_>, bytes: usize) -> bool {
        let limits = &cx.config.limits;
        let share = (limits.total_bytes / 2 / limits.peers.max(1)).min(limits.peer_bytes);
        let mine = self.tables.kept_for(self.epoch).saturating_add(bytes);
        if mine <= share {
            return true;
        }
        let epochs = self
            .tables
            .kept
            .keys()
            .chain(self.tables.bound.keys().filter(|it| !self.tables.kept.contains_key(it)));
        let others = epochs.filter(|epoch| **epoch != self.epoch);
        let beyond: usize = others.map(|epoch| self.tables.kept_for(*epoch).saturating_sub(share)).sum();
        mine <= limits.peer_bytes && beyond.saturating_add(mine - share) <= limits.total_bytes / 2
    }

    pub(super) fn keep(&mut self, bytes: usize) {
        self.session.kept += bytes;
        *self.tables.kept.entry(self.epoch).or_default() += bytes;
    }

    pub(super) fn unkeep(&mut self, bytes: usize) {
        self.session.kept -= bytes;
        if let Some(kept) = self.tables.kept.get_mut(&self.epoch) {
            *kept -= bytes;
            if *kept == 0 {
                self.tables.kept.remove(&self.epoch);
            }
        }
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
