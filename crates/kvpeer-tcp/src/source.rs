//! Names of what the poller watches.

/// One socket or descriptor in the poller; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SourceId(pub(crate) usize);

// A narrower counter could wrap around in the life of a process.
const _: () = assert!(usize::BITS == 64, "connection tokens count in 64 bits");

/// Hands out names.
#[derive(Debug)]
pub(crate) struct SourceIds(usize);

impl SourceIds {
    /// The waker's; all others are larger.
    pub(crate) const WAKER: SourceId = SourceId(0);

    pub(crate) fn new() -> Self {
        Self(Self::WAKER.0)
    }

    pub(crate) fn mint(&mut self) -> SourceId {
        self.0 += 1;
        SourceId(self.0)
    }
}
