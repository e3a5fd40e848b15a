//! The plane that carries blocks.

use std::os::fd::RawFd;
use std::time::Instant;

use kvpeer_core::{BlockIdx, Epoch, Input, TransferEnd, XferId};
use kvpeer_wire::RegionInfo;

/// One-sided WRITEs between the regions of nodes, through one *right* for each link.
///
/// The wishes (`open_right` to `close_right`) come while the node takes in a fact. They do not block; what they
/// bring about is reported by a later [`progress`](Self::progress).
///
/// Two promises carry the whole protocol:
/// - `Transfer{Done}` means that all blocks are written **and visible** at the peer (SUP-5);
/// - `RightClosed{fenced: true}` means that no WRITE of the peer can land through this right any more, and that
///   none of ours reads its source (END-11).
///
/// On drop everything is closed as if by `close_right`, before the region is let go.
pub trait DataPlane: Send {
    /// Opens an endpoint, queue and memory key for one link. Answered by `RightOpened`.
    fn open_right(&mut self, epoch: Epoch);

    /// Gets ready to write to the peer. `metadata` is untrusted. Answered by `Registered`.
    fn register(&mut self, epoch: Epoch, region: RegionInfo, metadata: &[u8]);

    /// Copies our blocks `src` to the peer's blocks `dst`, pairwise. Answered by exactly one `Transfer`.
    fn write(&mut self, xfer: XferId, src: &[BlockIdx], dst: &[BlockIdx]);

    /// A wish only: what of the WRITE has not left yet need not leave.
    fn cancel(&mut self, xfer: XferId);

    /// Closes a right in any state. All its WRITEs that have not ended are reported as `Fenced`, none of them
    /// earlier than it is true, and then `RightClosed` (END-10).
    fn close_right(&mut self, epoch: Epoch);

    /// Does about `budget` steps of what there is to do, without waiting, and appends what happened.
    fn progress(&mut self, budget: usize, facts: &mut Vec<DataFact>) -> Progress;

    /// Descriptors that become readable when there is something to do.
    fn wait_fds(&self) -> &[RawFd] {
        &[]
    }

    /// Asked right before sleeping on [`wait_fds`](Self::wait_fds).
    fn prepare_wait(&mut self) -> Rest;

    /// When `progress` must be called at the latest, if no descriptor wakes the node before.
    fn next_deadline(&self) -> Option<Instant>;

    /// What peers need as the address of block 0; 0 where they count from the region's start.
    fn base_addr(&self) -> u64 {
        0
    }

    /// What the plane counts, by name, for statistics.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// What a `progress` has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There may be more to do at once.
    More,
    /// It did all that could be done.
    Quiet,
}

/// Whether the node may sleep, as far as its data plane is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// A descriptor or `next_deadline` will wake it.
    MaySleep,
    /// There is something to do now.
    Busy,
}

/// What a data plane reports. See [`Input`] for what each means to the node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataFact {
    /// Answers `open_right`.
    RightOpened {
        /// As asked.
        epoch: Epoch,
        /// What the peer needs to write to us, at most
        /// [`MAX_METADATA_LEN`](kvpeer_wire::MAX_METADATA_LEN) bytes; or why there is no right, for people.
        metadata: Result<Vec<u8>, String>,
    },
    /// Answers `register`.
    Registered {
        /// As asked.
        epoch: Epoch,
        /// Why WRITEs to the peer are not possible, for people.
        result: Result<(), String>,
    },
    /// Answers `write`.
    Transfer {
        /// Which.
        xfer: XferId,
        /// How it ended.
        end: TransferEnd,
        /// Why it did not succeed, for people; empty when it did, or when that is told already.
        detail: String,
    },
    /// The peer cannot be written to any more. Posted WRITEs still report their own end.
    PeerFault {
        /// Whose right.
        epoch: Epoch,
        /// Why, for people.
        detail: String,
    },
    /// Answers `close_right`.
    RightClosed {
        /// As asked.
        epoch: Epoch,
        /// Whether it is proved that nothing lands any more.
        fenced: bool,
    },
}

impl DataFact {
    pub(crate) fn as_input(&self) -> Input<'_> {
        match self {
            Self::RightOpened { epoch, metadata } => {
                Input::RightOpened { epoch: *epoch, metadata: metadata.as_deref().ok() }
            }
            Self::Registered { epoch, result } => Input::Registered { epoch: *epoch, ok: result.is_ok() },
            Self::Transfer { xfer, end, detail: _ } => Input::Transfer { xfer: *xfer, end: *end },
            Self::PeerFault { epoch, detail: _ } => Input::PeerFault { epoch: *epoch },
            Self::RightClosed { epoch, fenced } => Input::RightClosed { epoch: *epoch, fenced: *fenced },
        }
    }
}
