//! Rules of the protocol that no story of a situation proves by the way.

mod endings;
mod handshake;
