//! What all connections together hold, and which of them gives way when that is too much.

use super::Tcp;
use crate::CloseReason;
use crate::conn::Weight;
use crate::source::SourceId;

/// What every connection may hold for as long as it likes: there are few enough of them.
const FREE_BYTES: usize = 64 << 10;

impl Tcp {
    /// Takes down what a connection holds now, and makes room if it is too much for all.
    ///
    /// Whoever has held more than a little for the longest is not getting on: it does not end its message, or
    /// does not read ours.
    pub(super) fn weigh(&mut self, id: SourceId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let bytes = conn.inbound.held() + conn.queue.held();
        let since = (bytes > FREE_BYTES).then(|| conn.weight.since.unwrap_or(self.turn));
        let before = std::mem::replace(&mut conn.weight, Weight { bytes, since });
        self.held = self.held - before.bytes + bytes;

        let limit = self.config.buffered_bytes;
        while self.held > limit {
            let heavy = self.conns.iter().filter_map(|(id, conn)| Some((conn.weight.since?, *id)));
            let Some((_, oldest)) = heavy.min() else { return };
            self.counters.crowded_out += 1;
            self.lose(oldest, CloseReason::Crowded { limit });
        }
    }
}
