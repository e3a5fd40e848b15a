//! The bodies of the fuzz targets over the core. Each takes any bytes, and panics when a promise of
//! `docs/protocol.md` is broken.
//!
//! The bytes are choices: which of the things that can happen does happen next. Numbers are small and names few, so
//! that what happens is often about something that is there. The targets themselves are in `fuzz/`; ordinary tests
//! replay what they have found.
#![forbid(unsafe_code)]
#![allow(clippy::expect_used, reason = "a fuzz target reports by panicking")]

mod dice;
mod endpoint;
mod ledger;
mod messages;
mod session;
mod world;

pub use endpoint::endpoint;
pub use session::session;
pub use world::world;
