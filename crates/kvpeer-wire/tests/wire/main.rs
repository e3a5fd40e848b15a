//! What the crate promises, seen from outside.

mod corpus;
mod damage;
mod frames;
mod malformed;
mod preamble;
mod round_trip;
mod values;
mod vectors;
