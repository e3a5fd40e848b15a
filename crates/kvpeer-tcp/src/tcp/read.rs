//! The way in: one connection at a time is read, and what came handed out before the next.

use kvpeer_wire::Preamble;

use super::Tcp;
use super::turn::Work;
use crate::conn::{Share, Unreported};
use crate::inbound::{Step, Then};
use crate::source::SourceId;
use crate::{CloseReason, ConnToken, TcpEvent};

/// A connection that was read, and whose messages are being handed out.
pub(super) struct Chunk {
    pub(super) id: SourceId,
    then: Then,
}

impl Tcp {
    pub(super) fn want_read(&mut self, id: SourceId) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.reading.readable = true;
            if !conn.reading.queued {
                conn.reading.queued = true;
                self.work.push_back(Work::Read(id));
            }
        }
    }

    /// Reads one share of one connection.
    pub(super) fn read(&mut self, id: SourceId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.reading.readable = false;
        if conn.inbound.is_deaf() {
            conn.reading.queued = false;
            return self.check_deaf(id);
        }
        let (read, then) = conn.inbound.fill(&mut conn.stream, &mut self.shared);
        self.counters.bytes_in += read as u64;
        if read > 0 && conn.reading.unreported == Unreported::Nothing {
            conn.reading.unreported = Unreported::Bytes;
        }
        if matches!(then, Then::More) {
            conn.reading.readable = true;
            conn.reading.share = match conn.reading.share {
                Share::Left { turn, bytes } if turn == self.turn => {
                    Share::Left { turn, bytes: bytes.saturating_sub(read as u64) }
                }
                // Asked only of who sends much. The answer covers all that arrived before this turn's moment.
                Share::Left { .. } | Share::Unknown => {
                    let bytes = rustix::io::ioctl_fionread(&conn.stream).unwrap_or(0);
                    Share::Left { turn: self.turn, bytes }
                }
            };
        }
        self.chunk = Some(Chunk { id, then });
    }

    /// The next report out of the chunk. At its end, what follows from how reading it ended.
    pub(super) fn next_of_chunk(&mut self) -> Option<TcpEvent> {
        let id = self.chunk.as_ref()?.id;
        let token = ConnToken::from(id);
        let conn = self.conns.get_mut(&id)?;
        match conn.inbound.step(&mut self.buffers) {
            Step::Frame(frame) => {
                conn.reading.unreported = Unreported::Told;
                self.counters.frames_in += 1;
                Some(TcpEvent::Frame { conn: token, frame })
            }
            Step::Dry => {
                conn.inbound.rest(&mut self.shared);
                self.end_of_chunk();
                self.news.pop_front()
            }
            Step::Malformed(error) => {
                self.counters.malformed += 1;
                self.deafen(id);
                Some(TcpEvent::Malformed { conn: token, error })
            }
            Step::NoCommonVersion(versions) => {
                self.deafen(id);
                let range = |side: Preamble| (side.min().0, side.max().0);
                let (ours, theirs) = (range(versions.ours), range(versions.theirs));
                Some(TcpEvent::NoCommonVersion { conn: token, ours, theirs })
            }
        }
    }

    fn end_of_chunk(&mut self) {
        let Some(Chunk { id, then }) = self.chunk.take() else { return };
        self.weigh(id);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        match then {
            Then::EndOfStream if conn.inbound.is_between_frames() => self.lose(id, CloseReason::PeerClosed),
            Then::EndOfStream => self.lose(id, CloseReason::PeerClosedInFrame),
            Then::Failure(error) => self.lose(id, CloseReason::Lost(error)),
            Then::Dry | Then::More => self.end_of_share(id),
        }
    }

    /// Puts a connection where it is read again, when there is a reason to, and says that it lives.
    fn end_of_share(&mut self, id: SourceId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let reading = &mut conn.reading;
        let served = reading.share == Share::Left { turn: self.turn, bytes: 0 };
        if reading.readable && !served {
            self.work.push_back(Work::Read(id));
            return;
        }
        if std::mem::take(&mut reading.unreported) == Unreported::Bytes {
            self.news.push_back(TcpEvent::Heard { conn: ConnToken::from(id) });
        }
        if reading.readable {
            self.later.push(Work::Read(id));
            return;
        }
        reading.queued = false;
        if let Some(error) = conn.take_break() {
            self.lose(id, CloseReason::Lost(error));
        }
    }

    /// Nothing more is read from this connection.
    fn deafen(&mut self, id: SourceId) {
        let chunk = self.chunk.take();
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.inbound.deafen();
            conn.hung_up |=
                chunk.is_some_and(|chunk| matches!(chunk.then, Then::EndOfStream | Then::Failure(_)));
            conn.reading.queued = false;
            self.want_read(id);
        }
    }

    /// Without reading, the only thing to notice is that the peer is gone.
    fn check_deaf(&mut self, id: SourceId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if let Some(error) = conn.take_break() {
            self.lose(id, CloseReason::Lost(error));
        } else if conn.hung_up {
            self.lose(id, CloseReason::PeerClosed);
        }
    }
}
