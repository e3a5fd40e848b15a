//! A deterministic world of kvpeer nodes, in which everything that can fail may fail.
//!
//! A [`World`] is a value: nodes with one clock, connections, rights, WRITEs, caches and engines. [`World::steps`]
//! says what can happen next, [`World::apply`] makes it happen, and a judge that knows the promises of
//! `docs/protocol.md`, but not how the core keeps them, looks on. The same two functions serve the random simulator
//! ([`simulate`]), the exhaustive checker (`kvpeer-model`) and the replay of a [`Tale`].
#![forbid(unsafe_code)]

mod control;
mod effects;
mod judge;
mod lie;
mod names;
mod node;
mod observe;
mod options;
mod planes;
mod random;
mod rma;
mod seen;
pub mod setup;
mod shared;
mod step;
mod tale;
mod wish;
mod world;

pub use judge::{Broken, Promise};
pub use lie::Lie;
pub use names::{BadName, ConnKey, Process, RightKey, RoundKey, Side, Who, WriteKey};
pub use random::{Family, Run, setup_of, simulate};
pub use seen::{Log, Seen};
pub use setup::Setup;
pub use step::{ProbeAnswer, Step};
pub use tale::{Tale, Telling, replay, shrink};
pub use wish::Wish;
pub use world::World;
