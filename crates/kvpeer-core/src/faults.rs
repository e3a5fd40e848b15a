//! Deliberate faults, to show that the checks can fail.
//!
//! Only a build with the feature `seeded-faults` has them, and there one at a time, chosen at run time. In every other
//! build [`seeded`] is a constant `false`, and what it guards is gone.
#![cfg_attr(
    not(feature = "seeded-faults"),
    allow(dead_code, unreachable_pub, reason = "what names and lists faults is for the special build")
)]

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $fault:ident = $name:literal breaks $breaks:literal,)+) => {
        /// A fault that can be seeded. The text of each says what goes wrong.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Fault {
            $($(#[doc = $doc])+ $fault,)+
        }

        impl Fault {
            /// All of them.
            pub const ALL: &[Fault] = &[$(Fault::$fault,)+];

            /// Its name, for the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Fault::$fault => $name,)+
                }
            }

            /// The fault of this name.
            pub fn from_name(name: &str) -> Option<Fault> {
                Self::ALL.iter().copied().find(|fault| fault.name() == name)
            }

            /// The invariant, or the group of rules in docs/protocol.md, that it breaks.
            pub fn breaks(self) -> &'static str {
                match self {
                    $(Fault::$fault => $breaks,)+
                }
            }

            /// What goes wrong.
            pub fn text(self) -> &'static str {
                match self {
                    $(Fault::$fault => concat!($($doc),+),)+
                }
            }
        }
    };
}

faults! {
    /// An abort is acknowledged while its WRITEs are in flight.
    AckBeforeQuiesce = "ack-before-quiesce" breaks "I5",
    /// A load whose abort is not acknowledged in time frees its destination.
    FreeOnAckTimer = "free-on-ack-timer" breaks "I1",
    /// A fetch that ended unsettled frees its destination.
    TrustUnsettled = "trust-unsettled" breaks "I1",
    /// The end of a session frees the destinations of its loads.
    TrustPeerDeath = "trust-peer-death" breaks "I1",
    /// A quarantined destination may be used by the next load.
    ReuseQuarantined = "reuse-quarantined" breaks "I1",
    /// A right that closed without a fence counts as fenced.
    TrustUnfenced = "trust-unfenced" breaks "I1",
    /// A right that does not close in time counts as fenced.
    FreeOnCloseTimer = "free-on-close-timer" breaks "I1",
    /// After an errored WRITE aborts are still acknowledged as settled.
    SettledAfterError = "settled-after-error" breaks "I5",
    /// A fetch with an errored WRITE is reported as settled.
    DoneSettledAfterError = "done-settled-after-error" breaks "I1",
    /// A WRITE that ended in error counts as landed.
    ErrorIsDone = "error-is-done" breaks "I4",
    /// A fetch is reported done when its WRITEs are posted, not when they have landed.
    DoneWhenPosted = "done-when-posted" breaks "I4",
    /// Rounds are numbered anew for every fetch.
    RoundsRestart = "rounds-restart" breaks "I6",
    /// The answers of a closed round's lookups are taken for the next round's.
    LateAnswers = "late-answers" breaks "I6",
    /// Hits are good for the round after their own.
    HitsSurviveFetch = "hits-survive-fetch" breaks "I6",
    /// A lookup that timed out is remembered as a miss.
    UnknownIsAbsent = "unknown-is-absent" breaks "LKP",
    /// A pin that comes too late gets no result.
    LatePinLost = "late-pin-lost" breaks "I3",
    /// Pins that nobody fetches are kept for ever.
    PinsForEver = "pins-for-ever" breaks "I7",
    /// A session that ends in order says goodbye over live WRITEs.
    DisconnectOverWrites = "disconnect-over-writes" breaks "I8",
    /// A session that is ending goes on posting WRITEs.
    WriteWhileClosing = "write-while-closing" breaks "I8",
    /// A WRITE is posted to a peer that is not registered yet.
    WriteBeforeRegistered = "write-before-registered" breaks "I8",
    /// Destinations outside the peer's region reach the data plane.
    ForeignBlocks = "foreign-blocks" breaks "I8",
    /// A store that times out gives its result while a WRITE reads it.
    UnpinOnStoreTimer = "unpin-on-store-timer" breaks "I2",
    /// The end of a session gives up sources that WRITEs still read.
    UnpinOnSessionEnd = "unpin-on-session-end" breaks "I2",
    /// The result of a load whose abort is out is dropped when its session ends.
    ResultDropped = "result-dropped" breaks "I3",
    /// A load that ended can end again.
    ResultTwice = "result-twice" breaks "I3",
    /// Blocks that an aborted fetch gives back are lost, and their store never ends.
    GivenBackLost = "given-back-lost" breaks "I3",
    /// Held work has no cap.
    UnboundedHeld = "unbounded-held" breaks "I7",
    /// Parked demand has no deadline.
    ParkedForEver = "parked-for-ever" breaks "I7",
    /// An unclaimed pool is never reaped.
    PoolsForEver = "pools-for-ever" breaks "I7",
    /// Supply goes to whoever fetches it.
    AnyPeerFetches = "any-peer-fetches" breaks "PD",
    /// An abort of a round that is not live is not answered.
    UnknownAbortUnanswered = "unknown-abort-unanswered" breaks "I7",
    /// A repeated abort is acknowledged twice.
    SecondAck = "second-ack" breaks "I5",
    /// A second fetch of a live round ends the session.
    DuplicateEndsSession = "duplicate-ends-session" breaks "I9",
    /// A WRITE that was refused before it left ends the session.
    RefusalEndsSession = "refusal-ends-session" breaks "I9",
    /// A connect ends the link that is there, before it has proved itself.
    ConnectEndsLink = "connect-ends-link" breaks "I9",
    /// A connect of an older process is taken.
    StaleTaken = "stale-taken" breaks "DUP",
    /// Nobody is told to be dead.
    DeadNeverNoticed = "dead-never-noticed" breaks "I7",
    /// Nothing is said to a peer when nothing else is to be said.
    NoHeartbeat = "no-heartbeat" breaks "LIV",
    /// An incompatible peer is dropped without a word.
    SilentReject = "silent-reject" breaks "HS",
    /// Finishing a request as its producer leaves its parked demand waiting.
    FinishUntold = "finish-untold" breaks "I7",
}

#[cfg(not(feature = "seeded-faults"))]
pub(crate) const fn seeded(_: Fault) -> bool {
    false
}

#[cfg(feature = "seeded-faults")]
pub(crate) use active::seeded;

/// The one fault of this process. The special build is for hosts that have an environment.
#[cfg(feature = "seeded-faults")]
mod active {
    extern crate std;

    use std::sync::OnceLock;

    use super::Fault;

    /// Names the fault.
    const VARIABLE: &str = "KVPEER_FAULT";

    static ACTIVE: OnceLock<Option<Fault>> = OnceLock::new();

    pub(crate) fn seeded(fault: Fault) -> bool {
        *ACTIVE.get_or_init(named) == Some(fault)
    }

    /// A name of something else is no fault of this crate: a plane may know it.
    fn named() -> Option<Fault> {
        std::env::var(VARIABLE).ok().and_then(|name| Fault::from_name(&name))
    }
}
