//! What is counted.

use std::collections::BTreeMap;

use kvpeer_core::{Count, Totals};

/// Amounts of work now, and counters since the node was made.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// The work of all peers together, now.
    pub totals: Totals,
    /// What was ignored or refused, and how often; without an entry: never.
    pub counts: BTreeMap<Count, u64>,
    /// Events that the engine has not taken.
    pub events_waiting: usize,
    /// Lookups of peers that were answered with misses, because the engine left too many results untaken.
    pub probes_shed: u64,
    /// Messages of kinds that this version does not know, and that may be skipped.
    pub skipped_messages: u64,
    /// The control plane's own counters, by name.
    pub control: Vec<(&'static str, u64)>,
    /// The data plane's own counters, by name.
    pub data: Vec<(&'static str, u64)>,
}
