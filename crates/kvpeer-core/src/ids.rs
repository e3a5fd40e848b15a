//! Identities: names that travel, and numbers that stay on this node.

use alloc::sync::Arc;
use core::fmt;

use kvpeer_wire::{Key, MAX_KEY_LEN, PeerName, RequestName};

/// An index of a block in a region, counted from 0.
pub type BlockIdx = u32;

macro_rules! owned_name {
    ($(#[$doc:meta])* $owned:ident, $view:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $owned(Arc<str>);

        impl $owned {
            /// The name as messages and commands carry it.
            pub fn as_name(&self) -> $view<'_> {
                // The text was a name when it came in; the fallback keeps this function total.
                $view::new(&self.0).unwrap_or_else(|_| unnamed())
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<$view<'_>> for $owned {
            fn from(name: $view<'_>) -> Self {
                Self(Arc::from(name.as_str()))
            }
        }

        impl core::borrow::Borrow<str> for $owned {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $owned {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $owned {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.as_name(), f)
            }
        }
    };
}

owned_name! {
    /// A node's advertised identity.
    PeerId, PeerName
}
owned_name! {
    /// A request's id.
    RequestId, RequestName
}

trait Unnamed {
    const NAME: Self;
}
