//! What the format promises, seen from outside.

#[path = "../common/mod.rs"]
mod common;
mod corpus;
mod damage;
mod malformed;
mod packer;
mod round_trip;
mod vectors;
