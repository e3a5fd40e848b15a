//! Facts: what the planes and the block cache tell the core.

use kvpeer_wire::Msg;

use crate::{BlockIdx, ConnId, Epoch, JobId, KeyAt, ProbeId, XferId};

/// One fact. Applying one never fails; what comes too late is counted and ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input<'a> {
    /// A connection is there.
    Connected {
        /// The new connection; ids are never reused.
        conn: ConnId,
        /// Who opened it.
        origin: Origin,
    },
    /// A dial came to nothing.
    DialFailed {
        /// As in [`Action::Dial`](crate::Action::Dial).
        epoch: Epoch,
    },
    /// A connection is gone; nothing more will be heard on it.
    Disconnected {
        /// Which.
        conn: ConnId,
    },
    /// Bytes came that do not complete a message, or a message of an unknown kind was skipped.
    Heard {
        /// On which connection.
        conn: ConnId,
    },
    /// A message came.
    Message {
        /// On which connection.
        conn: ConnId,
        /// The message, decoded.
        msg: Msg<'a>,
    },
    /// Bytes came that are no message of the protocol.
    Malformed {
        /// On which connection.
        conn: ConnId,
        /// What is wrong with them, for people.
        detail: &'a str,
    },
    /// The preambles have no version in common.
    NoCommonVersion {
        /// On which connection.
        conn: ConnId,
        /// The lowest and the highest version that we speak.
        ours: (u8, u8),
        /// The lowest and the highest version that the peer speaks.
        theirs: (u8, u8),
    },
    /// Answers [`Action::Admit`](crate::Action::Admit).
    Admitted {
        /// As asked.
        epoch: Epoch,
        /// Whether this peer may have a memory key.
        admit: bool,
    },
    /// Answers [`Action::OpenRight`](crate::Action::OpenRight).
    RightOpened {
        /// As asked.
        epoch: Epoch,
        /// What the peer's data plane needs to write to us (at most
        /// [`MAX_METADATA_LEN`](kvpeer_wire::MAX_METADATA_LEN) bytes); `None` when it could not be opened.
        metadata: Option<&'a [u8]>,
    },
    /// Answers [`Action::CloseRight`](crate::Action::CloseRight), after every outstanding transfer was reported.
    RightClosed {
        /// As asked.
        epoch: Epoch,
        /// Whether it is proven that nothing can land through this right any more.
        fenced: bool,
    },
    /// Answers [`Action::Register`](crate::Action::Register).
    Registered {
        /// As asked.
        epoch: Epoch,
        /// Whether WRITEs can be posted to the peer now.
        ok: bool,
    },
    /// The data plane has lost this peer.
    PeerFault {
        /// Which right it used.
        epoch: Epoch,
    },
    /// A WRITE has ended; exactly one for each [`Action::Write`](crate::Action::Write).
    Transfer {
        /// Which.
        xfer: XferId,
        /// How.
        end: TransferEnd,
    },
    /// The block cache has looked up and pinned, in one step. Keys that are neither hits nor misses are
    /// pending: they are asked for again.
    Probed {
        /// As in [`Action::Probe`](crate::Action::Probe).
        probe: ProbeId,
        /// The job that pins the hits; it gets exactly one result, also when it comes too late.
        pin: Option<JobId>,
        /// Keys that are held, and the blocks that hold them.
        hits: &'a [(KeyAt, BlockIdx)],
        /// Keys that are not held.
        misses: &'a [KeyAt],
    },
    /// Time has passed. Comes after everything that had arrived by then.
    Tick,
}

/// Who opened a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// We did, for [`Action::Dial`](crate::Action::Dial) of this epoch.
    Dialed(Epoch),
    /// The other side did.
    Accepted,
}

/// How a WRITE ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TransferEnd {
    /// All its blocks are written and visible at the peer.
    Done,
    /// It was refused before anything left this node.
    NotPosted,
    /// It failed; its destination is in doubt, its source is not read any more.
    Errored,
    /// Its right was closed under it. It is never settled (END-12).
    Fenced,
}
