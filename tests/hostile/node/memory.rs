//! What the system says about this process.

use std::fs;

use crate::Fallible;

/// Resident memory now, and at most since the mark, in KiB.
pub(crate) fn now_and_most() -> Fallible<String> {
    Ok(format!("{} {}", status("VmRSS:")?, status("VmHWM:")?))
}

pub(crate) fn mark() -> Fallible<String> {
    fs::write("/proc/self/clear_refs", "5")?;
    Ok("marked".to_owned())
}

fn status(name: &str) -> Fallible<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("the system does not say")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
