//! Deliberate faults of the plane, to show that its checks can fail.
//!
//! As in the core: only a build with the feature `seeded-faults` has them, one at a time, chosen by `KVPEER_FAULT`. In
//! every other build [`seeded`] is a constant `false`.
#![cfg_attr(
    not(feature = "seeded-faults"),
    allow(dead_code, unreachable_pub, reason = "what names and lists faults is for the special build")
)]

/// A fault that can be seeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// See [`ALL`].
    FenceWithoutClosing,
    /// See [`ALL`].
    DoneAtFirstPart,
    /// See [`ALL`].
    FailedWriteIsDone,
    /// See [`ALL`].
    ForeignBlocksPosted,
    /// See [`ALL`].
    CancelUntold,
    /// See [`ALL`].
    FencedUntold,
    /// See [`ALL`].
    StallUntold,
}

/// Each fault with its name, the invariant of `docs/protocol.md` that it breaks, and what goes wrong.
pub const ALL: &[(Fault, &str, &str, &str)] = &[
    (
        Fault::FenceWithoutClosing,
        "fence-without-closing",
        "I1",
        "A right is called fenced while its endpoint stays open and is served.",
    ),
    (
        Fault::DoneAtFirstPart,
        "done-at-first-part",
        "I4",
        "A WRITE is called done when its first part has landed.",
    ),
    (Fault::FailedWriteIsDone, "failed-write-is-done", "I4", "A WRITE that ended in error is called done."),
    (
        Fault::ForeignBlocksPosted,
        "foreign-blocks-posted",
        "I8",
        "A destination outside the peer's region is written to.",
    ),
    (Fault::CancelUntold, "cancel-untold", "I3", "A WRITE that was cancelled before it left never ends."),
    (Fault::FencedUntold, "fenced-untold", "I3", "WRITEs of a right that closes never end."),
    (Fault::StallUntold, "stall-untold", "I7", "A WRITE that is past its deadline is not reported."),
];

#[cfg(not(feature = "seeded-faults"))]
pub(crate) const fn seeded(_: Fault) -> bool {
    false
}

/// Whether this process has the fault.
#[cfg(feature = "seeded-faults")]
pub(crate) fn seeded(fault: Fault) -> bool {
    use std::sync::OnceLock;

    static ACTIVE: OnceLock<Option<Fault>> = OnceLock::new();
    let named = || {
        let wanted = std::env::var("KVPEER_FAULT").ok()?;
        ALL.iter().find(|(_, name, ..)| *name == wanted).map(|(fault, ..)| *fault)
    };
    *ACTIVE.get_or_init(named) == Some(fault)
}
