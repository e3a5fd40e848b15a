//! WRITEs: from posting to the last moment at which they can land.

use kvpeer_core::{BlockIdx, JobId};

use crate::names::{ConnKey, RightKey, RoundKey, Side};

/// A WRITE that is not over: its writer waits for it, or it may still land.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Write {
    pub(crate) conn: ConnKey,
    /// The writer's end.
    pub(crate) side: Side,
    pub(crate) round: RoundKey,
    pub(crate) src: Vec<BlockIdx>,
    pub(crate) dst: Vec<BlockIdx>,
    /// What is written.
    pub(crate) keys: Vec<u8>,
    /// The load that reserved each destination when the WRITE was posted.
    pub(crate) loads: Vec<Option<JobId>>,
    pub(crate) landed: Vec<bool>,
    /// Sources of which the engine has proof of its own that they are not read any more.
    pub(crate) absolved: Vec<bool>,
    pub(crate) target: RightKey,
    pub(crate) state: WriteState,
    pub(crate) late: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum WriteState {
    /// It reads its source and will end in some way.
    Posted,
    /// As before; the writer would rather drop it.
    Cancelled,
    /// Its right was closed without proof: it may read its source for ever.
    Held,
    /// It has ended at its writer, or with it, but may still land.
    Loose,
}

impl Write {
    /// Whether it reads its source: it is not terminal at the writer.
    pub(crate) fn reads(&self) -> bool {
        match self.state {
            WriteState::Posted | WriteState::Cancelled | WriteState::Held => true,
            WriteState::Loose => false,
        }
    }

    /// The sources that it may read.
    pub(crate) fn sources(&self) -> impl Iterator<Item = BlockIdx> {
        let read = self.src.iter().zip(&self.absolved).filter(|(_, absolved)| !**absolved);
        read.map(|(block, _)| *block).filter(|_| self.reads())
    }

    /// Whether its writer has still to hear of its end.
    pub(crate) fn is_outstanding(&self) -> bool {
        match self.state {
            WriteState::Posted | WriteState::Cancelled => true,
            WriteState::Held | WriteState::Loose => false,
        }
    }
}
