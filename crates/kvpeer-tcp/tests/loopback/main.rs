//! The control plane over real sockets on loopback, everything pumped in one thread.

mod closing;
mod connecting;
mod crowds;
mod framing;
mod messages;
mod sending;
mod waking;
mod world;
