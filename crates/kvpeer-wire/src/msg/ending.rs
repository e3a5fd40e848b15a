//! How a connection is refused, and how a session says goodbye.

use crate::{DisconnectReason, RejectCode, Text};

/// `reject`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reject<'a> {
    /// Why.
    pub code: RejectCode,
    /// Which field differs, where one does.
    pub field: Text<'a>,
    /// The sender's value.
    pub ours: Text<'a>,
    /// The receiver's value, as the sender saw it.
    pub theirs: Text<'a>,
    /// When to try again, in milliseconds; 0 where trying again is pointless or free.
    pub retry_after_ms: u32,
}

/// `disconnect`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disconnect<'a> {
    /// Why.
    pub reason: DisconnectReason,
    /// For people.
    pub detail: Text<'a>,
}
