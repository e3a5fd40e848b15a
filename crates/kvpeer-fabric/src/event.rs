//! What a plane reports, through [`Fabric::progress`](crate::Fabric::progress).

use crate::error::FabricError;
use crate::right::{RightId, XferId};

/// One thing that happened. Each call names which event answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricEvent {
    /// Answers `open_right`: the endpoint exists and listens, or could not be made (then the right is gone).
    RightOpened {
        /// The right.
        right: RightId,
        /// What the peer needs in order to write to us, opaque, at most 275 bytes.
        metadata: Result<Vec<u8>, FabricError>,
    },
    /// Answers `register`: writes may be asked for from now on, or why not (the right stays open).
    Registered {
        /// The right.
        right: RightId,
        /// Why the peer's region or metadata was refused.
        result: Result<(), FabricError>,
    },
    /// Answers `write`, exactly once for each call.
    Transfer {
        /// As given to `write`.
        xfer: XferId,
        /// How it ended.
        end: TransferEnd,
    },
    /// The transfer is past the write deadline. Reported once, and not its end: its source must stay pinned until
    /// the `Transfer` event, which closing the right brings about.
    Stalled {
        /// The transfer's right.
        right: RightId,
        /// The transfer.
        xfer: XferId,
    },
    /// The right cannot write any more. Reported once per right; posted writes still report their own end, and
    /// what the peer wrote before may go on landing until the right is closed.
    Fault {
        /// The right.
        right: RightId,
        /// The first error.
        error: FabricError,
    },
    /// Answers `close_right`. Every transfer of the right was reported before.
    RightClosed {
        /// The right.
        right: RightId,
        /// Whether it is proved that nothing can land through this right, nor be read for it, any more.
        fenced: bool,
    },
}

/// How a transfer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferEnd {
    /// All of it is written **and visible** in the peer's memory (delivery-complete).
    Done,
    /// Not all of it was posted, and each part that was has completed with success. So no part is in flight,
    /// the source is free, and at the destination nothing can land any more.
    NotPosted(Refusal),
    /// A part failed; no part is in flight and the source is free. At the destination bytes may go on landing
    /// until the *peer* has closed its endpoint.
    Errored(FabricError),
    /// The right was closed first. With `RightClosed { fenced: true }` the source is free. What the peer received
    /// is unknown.
    Fenced,
}

/// Why a transfer was not posted, or not wholly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such right, or it is still opening, or closing.
    #[error("the right is not open")]
    NotOpen,
    /// The right has no registered peer yet.
    #[error("no peer is registered on the right")]
    NotRegistered,
    /// The right failed before, or while this transfer waited.
    #[error("the right failed")]
    RightFailed,
    /// A transfer of the same id has not ended yet.
    #[error("a transfer of this id is under way")]
    DuplicateId,
    /// `src` and `dst` differ in length.
    #[error("{src} source blocks, {dst} destination blocks")]
    LengthMismatch {
        /// Length of `src`.
        src: usize,
        /// Length of `dst`.
        dst: usize,
    },
    /// A source index is outside our own region.
    #[error("source block {index} is outside our region")]
    SourceOutOfRange {
        /// The index.
        index: u32,
    },
    /// A destination index is outside the peer's region.
    #[error("destination block {index} is outside the peer's region")]
    DestinationOutOfRange {
        /// The index.
        index: u32,
    },
    /// The right's queue of unposted parts is full.
    #[error("too many writes are waiting on this right")]
    QueueFull,
    /// `cancel` dropped what was not posted yet.
    #[error("cancelled")]
    Cancelled,
}
