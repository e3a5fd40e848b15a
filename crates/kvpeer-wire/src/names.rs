//! Names of peers and requests, and short free text: UTF-8 of a bounded length.

use alloc::sync::Arc;
use core::fmt;

/// The longest name or text, in bytes.
pub const MAX_NAME_LEN: usize = 255;

/// Why a string is not a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    /// Names have at least one byte.
    #[error("a name must not be empty")]
    Empty,
    /// Names have at most [`MAX_NAME_LEN`] bytes.
    #[error("a name of {len} bytes; at most 255 are allowed")]
    TooLong {
        /// The length found, in bytes.
        len: usize,
    },
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $(#[$owned_doc:meta])* $owned:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name<'a>(&'a str);

        impl<'a> $name<'a> {
            /// Checks the length: 1 to [`MAX_NAME_LEN`] bytes (ID-1, ID-8).
            pub fn new(name: &'a str) -> Result<Self, NameError> {
                match name.len() {
                    0 => Err(NameError::Empty),
                    len if len > MAX_NAME_LEN => Err(NameError::TooLong { len }),
                    _ => Ok(Self(name)),
                }
            }

            /// The name itself.
            pub fn as_str(self) -> &'a str {
                self.0
            }
        }

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // Escapes control characters, which a peer might have put there.
                fmt::Debug::fmt(self.0, f)
            }
        }

        impl fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0.escape_debug(), f)
            }
        }

        $(#[$owned_doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $owned(Arc<str>);

        impl $owned {
            /// The name as messages carry it.
            pub fn as_name(&self) -> $name<'_> {
                $name(&self.0)
            }

            /// The name itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<$name<'_>> for $owned {
            fn from(name: $name<'_>) -> Self {
                Self(Arc::from(name.0))
            }
        }

        impl core::borrow::Borrow<str> for $owned {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $owned {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.as_name(), f)
            }
        }

        impl fmt::Display for $owned {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.as_name(), f)
            }
        }
    };
}

name! {
    /// A node's advertised identity, for example `10.0.0.7:5710`.
    PeerName,
    /// An owned [`PeerName`], cheap to clone.
    PeerId
}
name! {
    /// A request's id, minted by the engine or its router.
    RequestName,
    /// An owned [`RequestName`], cheap to clone.
    RequestId
}

/// Short text for people: at most [`MAX_NAME_LEN`] bytes, may be empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// Checks the length.
    pub fn new(text: &'a str) -> Result<Self, NameError> {
        match text.len() {
            len if len > MAX_NAME_LEN => Err(NameError::TooLong { len }),
            _ => Ok(Self(text)),
        }
    }

    /// The longest prefix of `text` that fits, cut at a character.
    pub fn truncated(text: &'a str) -> Self {
        Self(&text[..text.floor_char_boundary(MAX_NAME_LEN)])
    }

    /// The text itself.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.escape_debug(), f)
    }
}
