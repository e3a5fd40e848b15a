//! A deterministic world of whole nodes, for stories told as traces.
//!
//! A [`World`] holds some [`Endpoint`](kvpeer_core::Endpoint)s, one clock and everything around the endpoints that
//! can fail: control connections, dials, rights, registrations, WRITEs that land block by block, block caches.
//! What an endpoint asks for waits in the world as a [`Step`]; a story lets all of it happen ([`World::run`]),
//! lets time pass ([`World::advance`]), or holds a kind back ([`Hold`]) to bring it about when it hurts most.
//!
//! After every step a judge, which knows the protocol's invariants but not the endpoints' insides, looks at what
//! was said, written and told. A broken promise fails the story with the whole trace of the world.
//!
//! A story ends with [`World::end`], which stops all faults, lets every deadline pass and demands that nothing is
//! left: every job answered, no pin, no parked demand, no quarantine that a fence could have lifted.

mod cache;
mod control;
mod effects;
mod end;
mod engine;
mod expect;
mod faults;
mod judge;
mod names;
mod node;
mod rma;
mod rogue;
mod states;
mod steps;
mod text;
mod trace;
mod world;

pub use cache::Pin;
pub use effects::{LoadEnd, News};
pub use names::{A, B, BLOCK_LEN, Block, C, D, Job, NUM_BLOCKS, Span, Who, X, content, key, keys};
pub use rma::{Landing, WriteId};
pub use rogue::{Line, rogue_connect};
pub use steps::{Hold, Step};
pub use text::say;
pub use world::World;
