//! Asking which blocks a peer holds.

use crate::{Bits, Keys, LookupId, RequestName, Round};

/// `lookup`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lookup<'a> {
    /// Echoed by the answer.
    pub lookup_id: LookupId,
    /// For which request.
    pub request: RequestName<'a>,
    /// In which of its rounds.
    pub round: Round,
    /// Which blocks.
    pub keys: Keys<'a>,
}

/// `lookup_resp`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupResp<'a> {
    /// Of the lookup.
    pub lookup_id: LookupId,
    /// Index of the first key that this part answers.
    pub offset: u32,
    /// One bit for each answered key, in the lookup's order: held and pinned, or not.
    pub hits: Bits<'a>,
    /// How long the hits stay pinned, in milliseconds.
    pub pin_ms: u32,
}
