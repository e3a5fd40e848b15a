//! What searches have seen, whichever state they saw it in.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use kvpeer_sim::Seen;

/// A set of what was seen, shared by the threads of a search.
#[derive(Debug, Default)]
pub struct Coverage(RwLock<HashSet<Seen>>);

impl Coverage {
    pub(crate) fn add(&self, seen: &[Seen]) {
        let new = {
            let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
            seen.iter().any(|seen| !known.contains(seen))
        };
        if new {
            self.0.write().unwrap_or_else(PoisonError::into_inner).extend(seen);
        }
    }

    /// Adds what another search has seen.
    pub fn include(&self, other: &Coverage) {
        self.add(&other.all());
    }

    pub(crate) fn any(&self, of: impl Fn(&Seen) -> bool) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).iter().any(of)
    }

    /// All of it, in the order of its text.
    pub fn all(&self) -> Vec<Seen> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Seen> = known.iter().copied().collect();
        all.sort_by_key(|seen| format!("{seen:?}"));
        all
    }
}
