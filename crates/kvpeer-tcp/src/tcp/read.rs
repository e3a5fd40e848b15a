//! The way in: one shared buffer is filled from one connection, and handed out as messages before the next.

use std::io::{self, ErrorKind, Read};

use super::Tcp;
use super::turn::Work;
use crate::conn::{Outbound, Share, Unreported};
use crate::inbound::Step;
use crate::source::SourceId;
use crate::{CloseReason, ConnToken, TcpEvent};

/// How much is read from one connection before the next has its turn.
pub(super) const SCRATCH_BYTES: usize = 64 << 10;

/// What was read from one connection and not handed out yet: `scratch[start..end]`.
pub(super) struct Chunk {
    pub(super) id: SourceId,
    start: usize,
    end: usize,
    then: Then,
}

/// What comes after a chunk.
enum Then {
    /// Nothing; the socket was read dry.
    Dry,
    /// Perhaps more.
    More,
    /// The peer's end of stream.
    EndOfStream,
    Failure(io::Error),
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

    /// Fills the shared buffer from one connection.
    pub(super) fn read(&mut self, id: SourceId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.reading.readable = false;
        if conn.inbound.is_deaf() {
            conn.reading.queued = false;
            return self.check_deaf(id);
        }
        let (end, then) = fill(&mut conn.stream, &mut self.scratch);
        self.counters.bytes_in += end as u64;
        if end > 0 && conn.reading.unreported == Unreported::Nothing {
            conn.reading.unreported = Unreported::Bytes;
        }
        if matches!(then, Then::More) {
            conn.reading.readable = true;
            conn.reading.share = match conn.reading.share {
                Share::Left { turn, bytes } if turn == self.turn => {
                    Share::Left { turn, bytes: bytes.saturating_sub(end as u64) }
                }
                // Asked only of who sends much. The answer covers all that arrived before this turn's moment.
                Share::Left { .. } | Share::Unknown => {
                    let bytes = rustix::io::ioctl_fionread(&conn.stream).unwrap_or(0);
                    Share::Left { turn: self.turn, bytes }
                }
            };
        }
        self.chunk = Some(Chunk { id, start: 0, end, then });
    }

    /// The next report out of the chunk. At its end, what follows from how reading it ended.
    pub(super) fn next_of_chunk(&mut self) -> Option<TcpEvent> {
        loop {
            let chunk = self.chunk.as_mut()?;
            let id = chunk.id;
            let token = ConnToken::from(id);
            let conn = self.conns.get_mut(&id)?;
            let bytes = self.scratch.get(chunk.start..chunk.end).unwrap_or_default();
            let (taken, step) = conn.inbound.step(bytes, &mut self.buffers);
            chunk.start += taken;
            match step {
                Step::Frame(frame) => {
                    conn.reading.unreported = Unreported::Told;
                    return Some(TcpEvent::Frame { conn: token, frame });
                }
                Step::Skipped => {}
                Step::Dry => {
                    self.end_of_chunk();
                    return self.news.pop_front();
                }
                Step::Malformed(error) => {
                    self.counters.malformed += 1;
                    self.deafen(id);
                    return Some(TcpEvent::Malformed { conn: token, error });
                }
                Step::NoCommonVersion { ours, theirs } => {
                    self.deafen(id);
                    return Some(TcpEvent::NoCommonVersion { conn: token, ours, theirs });
                }
            }
        }
    }

    fn end_of_chunk(&mut self) {
        let Some(Chunk { id, then, .. }) = self.chunk.take() else { return };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        match then {
            Then::EndOfStream if conn.inbound.is_between_frames() => self.lose(id, CloseReason::PeerClosed),
            Then::EndOfStream => self.lose(id, CloseReason::PeerClosedInFrame),
            Then::Failure(error) => self.lose(id, CloseReason::Lost(error)),
            Then::Dry => match std::mem::replace(&mut conn.outbound, Outbound::Open) {
                Outbound::Broken(error) => self.lose(id, CloseReason::Lost(error)),
                outbound @ (Outbound::Open | Outbound::Blocked) => {
                    conn.outbound = outbound;
                    self.end_of_share(id);
                }
            },
            Then::More => self.end_of_share(id),
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
        if reading.readable {
            self.later.push(Work::Read(id));
        } else {
            reading.queued = false;
        }
        if std::mem::take(&mut reading.unreported) == Unreported::Bytes {
            self.news.push_back(TcpEvent::Heard { conn: ConnToken::from(id) });
        }
    }

    /// Nothing more is read from this connection.
    fn deafen(&mut self, id: SourceId) {
        let chunk = self.chunk.take();
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.inbound.deafen();
            conn.hung_up |= chunk.is_some_and(|chunk| matches!(chunk.then, Then::EndOfStream | Then::Failure(_)));
            conn.reading.queued = false;
            self.want_read(id);
        }
    }

    /// Without reading, the only thing to notice is that the peer is gone.
    fn check_deaf(&mut self, id: SourceId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        match std::mem::replace(&mut conn.outbound, Outbound::Open) {
            Outbound::Broken(error) => self.lose(id, CloseReason::Lost(error)),
            outbound @ (Outbound::Open | Outbound::Blocked) => {
                conn.outbound = outbound;
                if conn.hung_up {
                    self.lose(id, CloseReason::PeerClosed);
                }
            }
        }
    }
}

/// Reads until the buffer is full, the socket is dry, or the stream has ended.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> (usize, Then) {
    let mut filled = 0;
    loop {
        let Some(free @ [_, ..]) = buffer.get_mut(filled..) else { return (filled, Then::More) };
        match from.read(free) {
            Ok(0) => return (filled, Then::EndOfStream),
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (filled, Then::Dry),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (filled, Then::Failure(error)),
        }
    }
}
