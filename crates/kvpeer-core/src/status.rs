//! What the engine can ask and see.

use crate::{CloseReason, PeerId, Time};

/// What is known about a key at a request's source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LookupState {
    /// The source holds the block and keeps it pinned for a while: it can be loaded.
    Hit,
    /// It does not, or could not be asked.
    Miss,
    /// Not known yet; [`Command::FlushLookups`](crate::Command::FlushLookups) sends what is new.
    Pending,
}

/// One peer, as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerStatus {
    /// Who.
    pub peer: PeerId,
    /// How far its link is.
    pub link: LinkStatus,
    /// Why its last link ended, as long as that is remembered.
    pub last_end: Option<CloseReason>,
    /// Its incarnation, once it has announced itself.
    pub incarnation: Option<u64>,
    /// When a message other than ping and pong last came or went.
    pub last_activity: Option<Time>,
    /// What is going on with it.
    pub totals: Totals,
}

/// How far the link to a peer is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkStatus {
    /// None, and none is wanted.
    Absent,
    /// None, and the next dial waits.
    Waiting,
    /// A connection is being opened or the handshake runs.
    Connecting,
    /// Work can be sent.
    Up,
    /// It is ending; posted WRITEs finish.
    Draining,
    /// It has ended; its right is not closed yet, or could not be fenced.
    Down,
}

/// Amounts of work, of one peer or of all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Totals {
    /// Pieces of own work that wait for a link.
    pub held: usize,
    /// Own loads that are sent and have no result.
    pub loads: usize,
    /// Own lookups without a full answer.
    pub lookups: usize,
    /// Own loads whose blocks are quarantined.
    pub quarantined: usize,
    /// Fetches of the peer that are live.
    pub rounds: usize,
    /// WRITEs that are posted and have not ended.
    pub writes: usize,
    /// Blocks in those.
    pub blocks_in_flight: usize,
    /// Blocks that the peer's fetches wait for.
    pub parked: usize,
    /// Blocks pinned by the peer's lookups.
    pub pinned: usize,
    /// Lookups of the peer that the block cache has not fully answered.
    pub probes: usize,
    /// Bytes that the peer makes us keep.
    pub kept_bytes: usize,
}
