//! `cargo xtask model` and `cargo xtask replay`: the model checker, and the runs that it and the simulator write down.

use std::path::PathBuf;

use clap::Args;

use crate::Failure;
use crate::cargo::{self, cargo};

#[derive(Args)]
pub(crate) struct ModelArgs {
    /// The large cases, too: hours, and gigabytes of memory
    #[arg(long, conflicts_with = "cases")]
    deep: bool,
    /// One JSON object per case instead of the table
    #[arg(long)]
    json: bool,
    /// Only these cases, by name
    cases: Vec<String>,
}

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// A script, as a failing case prints or writes it
    file: PathBuf,
}

/// Optimized: a search is all computing.
const CHECKER: &[&str] = &["run", "--quiet", "--release", "--package", "kvpeer-model", "--"];

pub(crate) fn run(args: &ModelArgs) -> Result<(), Failure> {
    let mut command = cargo(CHECKER);
    if args.json {
        command.arg("--json");
    }
    match args.cases.as_slice() {
        [] => command.arg(if args.deep { "deep" } else { "quick" }),
        cases => command.args(cases),
    };
    cargo::run(command)
}

/// The cases that are part of the suite.
pub(crate) fn quick() -> Result<(), Failure> {
    run(&ModelArgs { deep: false, json: false, cases: Vec::new() })
}

pub(crate) fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    // Cargo runs in the workspace's root, the caller need not.
    let file = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone());
    let mut command = cargo(CHECKER);
    command.arg("replay").arg(file);
    cargo::run(command)
}
