//! What the format promises, seen from outside.

mod corpus;
mod damage;
mod malformed;
mod packer;
mod round_trip;
mod vectors;
