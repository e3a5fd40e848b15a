//! `cargo xtask bench`: builds the benchmark and what it measures, then runs it.

use std::process::Stdio;

use clap::Args;

use crate::cargo::cargo;
use crate::system::{self, Need};
use crate::{Failure, Setup};

#[derive(Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    setup: Setup,
    /// Fewer rounds, the same bars; under four minutes
    #[arg(long)]
    quick: bool,
    /// Print the report as JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Passed to the benchmark (after `--`)
    #[arg(last = true)]
    more: Vec<String>,
}

pub(crate) fn run(args: &BenchArgs) -> Result<(), Failure> {
    // valgrind counts the core's instructions.
    system::provide(&[Need::Libfabric, Need::Valgrind], args.setup.policy())?;
    build(&["--package", "kvpeer-core", "--example", "cycle"])?;
    build(&["--package", "kvpeer-bench"])?;
    let mut bench = cargo(&["run", "--quiet", "--release", "--package", "kvpeer-bench", "--"]);
    for (option, is_given) in [("--quick", args.quick), ("--json", args.json)] {
        if is_given {
            bench.arg(option);
        }
    }
    let status = bench.args(&args.more).stdin(Stdio::null()).status();
    let status =
        status.map_err(|error| Failure::Told(format!("the benchmark cannot be started: {error}")))?;
    if status.success() {
        return Ok(());
    }
    // The benchmark has said what failed.
    Err(Failure::Exit(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Cargo reports on standard error; standard output is the benchmark's.
fn build(what: &[&str]) -> Result<(), Failure> {
    let built = cargo(&[&["build", "--release"], what].concat()).status();
    if built.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(Failure::Told("the benchmark does not build; the compiler's messages are above".to_owned()))
}
