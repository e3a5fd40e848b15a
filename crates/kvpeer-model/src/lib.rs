//! Checks every interleaving of small worlds, with the step function and the judge of `kvpeer-sim`.
//!
//! A [`Case`] is a bounded world with a word on what it covers. [`check`] searches all of it, breadth first, and
//! reports states, depth, time and what was seen. Every promise is an `always` property. Progress is one, too: a
//! world in which nothing moves of its own accord and no deadline is left must owe nothing. What a case is expected to
//! show is a `sometimes` property each, so that no promise holds for want of anything that could break it.
#![forbid(unsafe_code)]

mod case;
pub mod cases;
mod coverage;
mod run;

pub use case::{Case, Expect, Size};
pub use coverage::Coverage;
pub use run::{Outcome, check};
