//! The first eight bytes of each direction, and what they settle (FR-2).

/// The length of a preamble, in bytes.
pub const PREAMBLE_LEN: usize = 8;

/// What every preamble begins with.
pub const MAGIC: [u8; 6] = *b"KVPEER";

/// A version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub u8);

impl Version {
    /// The version that this crate speaks.
    pub const V1: Self = Self(1);
}

/// The versions that one side speaks: all from the lowest to the highest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Preamble {
    min: Version,
    max: Version,
}

/// Why eight bytes are no preamble (FR-3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PreambleError {
    /// The stream does not begin with [`MAGIC`]: something else than kvpeer is at the other end.
    #[error("the stream does not begin with KVPEER: the other end speaks another protocol")]
    Magic,
    /// The lowest version is above the highest.
    #[error("versions {} to {} are no range", .min.0, .max.0)]
    EmptyRange {
        /// The lowest version.
        min: Version,
        /// The highest.
        max: Version,
    },
}

/// Two nodes that speak no version in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "no version in common: we speak {} to {}, the peer {} to {}",
    .ours.min.0, .ours.max.0, .theirs.min.0, .theirs.max.0
)]
pub struct NoCommonVersion {
    /// What we speak.
    pub ours: Preamble,
    /// What the peer speaks.
    pub theirs: Preamble,
}

impl Preamble {
    /// What this crate speaks.
    pub const OURS: Self = Self { min: Version::V1, max: Version::V1 };

    /// All versions from `min` to `max`.
    ///
    /// # Errors
    /// [`PreambleError::EmptyRange`] when `min` is above `max`.
    pub const fn new(min: Version, max: Version) -> Result<Self, PreambleError> {
        if min.0 > max.0 {
            return Err(PreambleError::EmptyRange { min, max });
        }
        Ok(Self { min, max })
    }

    /// The lowest version.
    pub const fn min(self) -> Version {
        self.min
    }

    /// The highest version.
    pub const fn max(self) -> Version {
        self.max
    }

    /// The bytes that open a stream.
    pub const fn to_bytes(self) -> [u8; PREAMBLE_LEN] {
        let [k, v, p, e1, e2, r] = MAGIC;
        [k, v, p, e1, e2, r, self.min.0, self.max.0]
    }

    /// Reads the bytes that open a stream.
    ///
    /// # Errors
    /// [`PreambleError`] when they are none that this protocol has.
    pub fn from_bytes(bytes: [u8; PREAMBLE_LEN]) -> Result<Self, PreambleError> {
        let [magic @ .., min, max] = bytes;
        if magic != MAGIC {
            return Err(PreambleError::Magic);
        }
        Self::new(Version(min), Version(max))
    }

    /// The highest version that both sides speak.
    ///
    /// # Errors
    /// [`NoCommonVersion`] when there is none; `self` is ours.
    pub fn negotiate(self, theirs: Self) -> Result<Version, NoCommonVersion> {
        let (lowest, highest) = (self.min.max(theirs.min), self.max.min(theirs.max));
        if lowest > highest {
            return Err(NoCommonVersion { ours: self, theirs });
        }
        Ok(highest)
    }
}

impl Default for Preamble {
    fn default() -> Self {
        Self::OURS
    }
}
