//! Every number on the wire that stands for a name. A number is never used again for something else (FR-7, MSG-1).

use core::num::NonZeroU8;

/// Kinds from here on are skipped by those who do not know them; unknown lower ones are an error.
pub const FIRST_SKIPPABLE_KIND: u8 = 0x80;

/// The kinds of messages, with their numbers on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is documented at its message")]
pub enum Kind {
    Connect = 1,
    ConnectAck = 2,
    Reject = 3,
    Disconnect = 4,
    Ping = 5,
    Pong = 6,
    Lookup = 7,
    LookupResp = 8,
    Fetch = 9,
    FetchProgress = 10,
    TransferDone = 11,
    AbortFetch = 12,
    AbortAck = 13,
    Release = 14,
}

impl Kind {
    /// All kinds, by number.
    pub const ALL: [Self; 14] = [
        Self::Connect,
        Self::ConnectAck,
        Self::Reject,
        Self::Disconnect,
        Self::Ping,
        Self::Pong,
        Self::Lookup,
        Self::LookupResp,
        Self::Fetch,
        Self::FetchProgress,
        Self::TransferDone,
        Self::AbortFetch,
        Self::AbortAck,
        Self::Release,
    ];

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The kind of this number; `None` when this version knows none.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// Where a fetch's blocks come from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Supply {
    /// From the pins that this round's lookups won.
    Pinned = 1,
    /// From what the producer stores for the request, now or later.
    Await = 2,
}

impl Supply {
    /// The number on the wire.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The supply of this number; `None` when this version knows none.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Pinned),
            2 => Some(Self::Await),
            _ => None,
        }
    }
}

/// An enum of reasons in which a newer version may have more. 0 is never a reason's number. `Other` cannot hold
/// the number of a reason that has a name, so equal numbers are equal values.
macro_rules! reasons {
    (
        $(#[$doc:meta])* $name:ident, or $unknown:ident:
        $($(#[$reason_doc:meta])* $reason:ident = $number:literal,)+
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $($(#[$reason_doc])* $reason,)+
            /// A reason of a newer version.
            Other($unknown),
        }

        #[doc = concat!("The number of a [`", stringify!($name), "`] that this version has no name for.")]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $unknown(NonZeroU8);

        impl $unknown {
            /// The number on the wire.
            pub const fn get(self) -> NonZeroU8 {
                self.0
            }
        }

        impl $name {
            /// All reasons with a name, by number.
            pub const NAMED: &'static [Self] = &[$(Self::$reason),+];

            /// The number on the wire.
            pub const fn code(self) -> NonZeroU8 {
                match self {
                    $(Self::$reason => const { NonZeroU8::new($number).unwrap() },)+
                    Self::Other(unknown) => unknown.0,
                }
            }

            /// The reason of this number: a named one, or `Other`.
            pub const fn from_code(code: NonZeroU8) -> Self {
                match code.get() {
                    $($number => Self::$reason,)+
                    _ => Self::Other($unknown(code)),
                }
            }
        }
    };
}

reasons! {
    /// Why a connect is refused.
    RejectCode, or UnknownRejectCode:
    /// No protocol version in common.
    Version = 1,
    /// Blocks differ in length.
    BlockLen = 2,
    /// Hash seeds differ: every key would miss.
    HashSeed = 3,
    /// A fingerprint pair differs.
    Fingerprint = 4,
    /// Another peer was expected at this address.
    UnexpectedPeer = 5,
    /// Another connection to this peer is in use.
    Duplicate = 6,
    /// A newer process of this peer is connected.
    StaleIncarnation = 7,
    /// The node has as many peers as it takes.
    TooManyPeers = 8,
    /// Too soon after a fault.
    Backoff = 9,
    /// The node's admission rule says no.
    Unauthorized = 10,
    /// The data plane could not register the region or open a right.
    RegistrationFailed = 11,
}

reasons! {
    /// Why a session says goodbye.
    DisconnectReason, or UnknownDisconnectReason:
    /// The node shuts down.
    Shutdown = 1,
    /// The engine closed the peer.
    Closed = 2,
    /// Nothing happened for long and the slot is needed.
    Idle = 3,
    /// The receiver broke the protocol.
    Protocol = 4,
    /// The data plane to the receiver failed.
    DataPlane = 5,
    /// A WRITE did not end within its timer.
    WriteStalled = 6,
    /// A fetch or abort ended without proof that its WRITEs are settled.
    Unsettled = 7,
    /// An abort was not acknowledged in time.
    AbortUnacked = 8,
}

reasons! {
    /// Why a fetch failed. An unknown reason is a failure, too: success has number 0, which is no reason.
    Failure, or UnknownFailure:
    /// A `pinned` fetch named a block that is not pinned for its round.
    NoSupply = 1,
    /// Supply did not come in time, or is over.
    SupplyTimeout = 2,
    /// The producer finished the request without storing all of it.
    ProducerFinished = 3,
    /// A WRITE failed.
    WriteFailed = 4,
    /// Over a cap of the producer.
    Overloaded = 5,
    /// The producer is ending the session.
    Closing = 6,
    /// The request's supply belongs to another peer.
    NotYours = 7,
    /// Keys or destinations are doubled or out of range.
    Malformed = 8,
}
