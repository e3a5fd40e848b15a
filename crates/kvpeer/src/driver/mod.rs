//! Ways to drive a node that are not the engine's own loop.

#[cfg(feature = "tokio")]
pub mod aio;
mod events;
mod handle;
mod thread;
mod ticket;

pub use events::Events;
pub use handle::{NodeHandle, Part};
pub use ticket::{CallError, Ticket};
