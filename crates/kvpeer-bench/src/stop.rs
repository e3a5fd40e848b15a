//! Why a measurement stopped, in one line for people.

use std::fmt;

pub(crate) type Outcome<T> = Result<T, Stop>;

/// A reason to stop. Every error turns into one.
#[derive(Debug)]
pub(crate) struct Stop(String);

pub(crate) fn stop(why: impl Into<String>) -> Stop {
    Stop(why.into())
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: std::error::Error> From<E> for Stop {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
