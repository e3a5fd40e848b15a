//! Stories over whole nodes: one file for each part of the protocol, one test for each thing that can go wrong.
//!
//! The names of the tests in the files `a_…` to `h_…` are those of the rows in `tests/README.md`, which also lists
//! the rows that are told elsewhere.

mod a_abort;
mod b_results;
mod c_lookup;
mod crossing;
mod d_handshake;
mod e_death;
mod endings;
mod f_planes;
mod g_limits;
mod h_stores;
mod hostile;
mod liveness;
mod misuse;
mod prelude;
mod supply;
mod timers;
