//! Lines on standard output and standard error. A reader that has gone is no reason to fail, let alone to panic.

use std::fmt::Display;
use std::io::{self, Write};

/// Results.
pub(crate) fn line(text: impl Display) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// What is wrong.
pub(crate) fn complaint(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "kvpeer: {text}");
}

/// What the user should know.
pub(crate) fn warning(text: impl Display) {
    complaint(format_args!("warning: {text}"));
}
