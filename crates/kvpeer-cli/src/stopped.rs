//! Why the program stops before it is done: one line for people, one number for scripts.

use std::fmt::Display;
use std::path::Path;

/// The program's exit codes, as `--help` lists them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    Failed,
    Usage,
    Missing,
    Peer,
    Transfer,
    Local,
    Interrupted,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Missing => 3,
            Self::Peer => 4,
            Self::Transfer => 5,
            Self::Local => 6,
            Self::Interrupted => 130,
        }
    }
}

/// A reason to stop.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}")]
pub(crate) struct Stopped {
    pub(crate) exit: Exit,
    /// What is wrong and what to do, in one line.
    pub(crate) line: String,
}

impl Stopped {
    pub(crate) fn new(exit: Exit, line: impl Into<String>) -> Self {
        Self { exit, line: line.into() }
    }

    pub(crate) fn usage(line: impl Into<String>) -> Self {
        Self::new(Exit::Usage, line)
    }

    /// A file that cannot be used, or written.
    pub(crate) fn file(path: &Path, why: impl Display) -> Self {
        Self::usage(format!("{}: {why}", path.display()))
    }
}
