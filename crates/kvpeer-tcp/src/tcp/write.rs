//! The way out.

use kvpeer_wire::Msg;

use super::Tcp;
use crate::conn::{Outbound, Slot};
use crate::send_queue::Flushed;
use crate::source::SourceId;
use crate::{CloseReason, ConnToken, TcpEvent};

/// With so many bytes gathered, a connection is flushed before the turn ends.
const EAGER_BYTES: usize = 64 << 10;

impl Tcp {
    pub(super) fn enqueue(&mut self, id: SourceId, msg: &Msg<'_>) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if matches!(conn.outbound, Outbound::Broken(_)) {
            return;
        }
        if let Err(error) = msg.encode(conn.queue.tail(&mut self.buffers)) {
            return self.lose(id, CloseReason::Unsendable(error));
        }
        self.counters.frames_out += 1;
        if matches!(msg, Msg::ConnectAck(_)) {
            conn.inbound.trust(&self.config.limits);
            let slot = std::mem::replace(&mut conn.slot, Slot::None);
            self.free_slot(slot);
        }
        self.mark_dirty(id);
        self.bound_queue(id);
        self.weigh(id);
    }

    /// Flushes early what has become much, and ends the connection when it is too much even so (LIM-2).
    fn bound_queue(&mut self, id: SourceId) {
        let limit = self.config.send_queue_bytes;
        let Some(conn) = self.conns.get(&id) else { return };
        let waiting = conn.queue.len();
        if waiting > limit || (waiting > EAGER_BYTES && matches!(conn.outbound, Outbound::Open)) {
            self.flush_one(id);
        }
        if self.conns.get(&id).is_some_and(|conn| conn.queue.len() > limit) {
            self.counters.send_queue_overflows += 1;
            self.lose(id, CloseReason::SendQueueFull { limit });
        }
    }

    pub(super) fn mark_dirty(&mut self, id: SourceId) {
        if let Some(conn) = self.conns.get_mut(&id)
            && !conn.dirty
        {
            conn.dirty = true;
            self.dirty.push(id);
        }
    }

    pub(super) fn flush_dirty(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for id in dirty.drain(..) {
            if let Some(conn) = self.conns.get_mut(&id) {
                conn.dirty = false;
                if matches!(conn.outbound, Outbound::Open) {
                    self.flush_one(id);
                }
            }
        }
        self.dirty = dirty;
    }

    /// The system takes bytes again.
    pub(super) fn unblock(&mut self, id: SourceId) {
        if let Some(conn) = self.conns.get_mut(&id)
            && matches!(conn.outbound, Outbound::Blocked)
        {
            conn.outbound = Outbound::Open;
            self.flush_one(id);
        }
    }

    fn flush_one(&mut self, id: SourceId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let before = conn.queue.len();
        let flushed = conn.queue.write_to(&mut conn.stream, &mut self.buffers);
        self.counters.bytes_out += (before - conn.queue.len()) as u64;
        conn.outbound = match flushed {
            Ok(Flushed::All) => Outbound::Open,
            Ok(Flushed::Blocked) => Outbound::Blocked,
            Err(error) => {
                conn.queue.discard(&mut self.buffers);
                Outbound::Broken(error)
            }
        };
        let broken = matches!(conn.outbound, Outbound::Broken(_));
        self.weigh(id);
        if broken {
            // What the peer sent before it went away is still worth reading.
            self.want_read(id);
        }
    }

    /// Ends a connection that we did not close.
    pub(super) fn lose(&mut self, id: SourceId, reason: CloseReason) {
        if let Some(mut conn) = self.remove(id) {
            conn.queue.discard(&mut self.buffers);
            self.news.push_back(TcpEvent::Disconnected { conn: ConnToken::from(id), reason });
        }
    }
}
