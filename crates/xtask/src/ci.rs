//! `cargo xtask ci`: everything that a change must pass, and with `--deep` the long forms of it.

use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;

use crate::Failure;
use crate::cargo::{self, cargo, root};

#[derive(Args)]
pub(crate) struct CiArgs {
    /// Also the long forms: every case of the model, seeded faults by every layer, more seeds, longer fuzzing, coverage.
    /// Takes hours
    #[arg(long)]
    deep: bool,
    /// Minutes of fuzzing for each target of the long form
    #[arg(long, default_value_t = 20, requires = "deep")]
    fuzz_minutes: u32,
    /// Worlds that the simulator runs in the long form
    #[arg(long, default_value_t = 100_000, requires = "deep")]
    seeds: u64,
}

pub(crate) fn run(args: &CiArgs) -> Result<(), Failure> {
    let mut took = vec![("every change", timed(Command::new(root().join(".ci/run")))?)];
    if args.deep {
        let (seeds, seconds) = (args.seeds.to_string(), args.fuzz_minutes.saturating_mul(60).to_string());
        let simulate =
            ["run", "--release", "--package", "kvpeer-sim", "--example", "simulate", "--", "0", &seeds];
        took.push(("seeds", timed(cargo(&simulate))?));
        took.push(("seeded faults", timed(cargo(&["xtask", "seeded-faults"]))?));
        took.push(("coverage", timed(cargo(&["xtask", "coverage"]))?));
        took.push(("fuzzing", timed(cargo(&["xtask", "fuzz", "--smoke", "--seconds", &seconds]))?));
        took.push(("model", timed(cargo(&["xtask", "model", "--deep"]))?));
    }
    for (what, took) in &took {
        println!("xtask: {what}: {} min", took.as_secs().div_ceil(60));
    }
    println!("ci ok: {}", if args.deep { "the long forms, too" } else { "what every change must pass" });
    Ok(())
}

fn timed(command: Command) -> Result<Duration, Failure> {
    let begun = Instant::now();
    cargo::run(command)?;
    Ok(begun.elapsed())
}
