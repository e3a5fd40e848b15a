//! Stories over whole nodes: one file for each part of the protocol, one test for each thing that can go wrong.
//!
//! The names of the tests in the files `a_…` to `h_…` are those of the rows in `tests/README.md`, which also lists
//! the rows that are told elsewhere.

mod a_abort;
mod b_results;
mod d_handshake;
mod endings;
mod h_stores;
mod prelude;
