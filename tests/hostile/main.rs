//! Hostile bytes on real sockets: honest jobs stay correct, and memory stays bounded.

mod attacker;
mod floods;
mod identity;
mod process;
mod trickle;

use std::time::Duration;

/// Only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(120);
