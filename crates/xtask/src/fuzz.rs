//! `cargo xtask fuzz`: runs a fuzz target for long, or each for a moment.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;

use crate::cargo::{self, cargo, root};
use crate::system::Install;
use crate::{Failure, Setup};

#[derive(Args)]
pub(crate) struct FuzzArgs {
    #[command(flatten)]
    setup: Setup,
    /// Runs every target for a while, after its committed corpus
    #[arg(long, conflicts_with = "target", required_unless_present = "target")]
    smoke: bool,
    /// Seconds for each target of a smoke
    #[arg(long, default_value_t = 20, requires = "smoke")]
    seconds: u32,
    /// A file of fuzz/fuzz_targets, without its ending; runs until it finds something, or for
    /// `-- -max_total_time=SECONDS`
    target: Option<String>,
    /// For libFuzzer
    #[arg(last = true)]
    libfuzzer: Vec<String>,
}

/// The release that is tried.
const CARGO_FUZZ: &str = "0.13.2";

pub(crate) fn run(args: &FuzzArgs) -> Result<(), Failure> {
    let targets = targets()?;
    let chosen = match &args.target {
        None => targets,
        Some(target) if targets.contains(target) => vec![target.clone()],
        Some(target) => {
            let all = targets.join(", ");
            return Err(Failure::Told(format!("there is no fuzz target {target:?}; there are: {all}")));
        }
    };
    provide_cargo_fuzz(args.setup.policy())?;
    if args.smoke {
        for target in &chosen {
            smoke(target, args.seconds)?;
        }
        println!("fuzz: {} targets, {} s each, nothing found", chosen.len(), args.seconds);
        return Ok(());
    }
    for target in &chosen {
        let mut command = fuzz("run");
        command.arg(target).arg("--").args(&args.libfuzzer);
        cargo::run(command)?;
    }
    println!("fuzz: nothing found");
    Ok(())
}

/// New inputs are kept apart, so that a smoke leaves the committed corpus as it is.
fn smoke(target: &str, seconds: u32) -> Result<(), Failure> {
    let found = root().join("target/fuzz-smoke").join(target);
    let failed = |error| Failure::Told(format!("{}: {error}", found.display()));
    fs::create_dir_all(&found).map_err(failed)?;
    let corpus = root().join("fuzz/corpus").join(target);
    let mut command = fuzz("run");
    command.arg(target).args([found, corpus]).arg("--").arg(format!("-max_total_time={seconds}"));
    cargo::run(command)
}

/// With AddressSanitizer. It is in every stable toolchain; only the switch is called unstable.
fn fuzz(task: &str) -> Command {
    let mut command = cargo(&["fuzz", task, "--sanitizer", "address"]);
    command.env("RUSTC_BOOTSTRAP", "1");
    command
}

fn targets() -> Result<Vec<String>, Failure> {
    let folder: PathBuf = root().join("fuzz/fuzz_targets");
    let failed = |error| Failure::Told(format!("{}: {error}", folder.display()));
    let mut targets = Vec::new();
    for file in fs::read_dir(&folder).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        targets.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
    }
    targets.sort();
    Ok(targets)
}

fn provide_cargo_fuzz(policy: Install) -> Result<(), Failure> {
    let mut version = Command::new("cargo-fuzz");
    version.args(["fuzz", "--version"]).stdin(Stdio::null()).stderr(Stdio::null());
    if version.output().is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let install = ["install", "cargo-fuzz", "--version", CARGO_FUZZ, "--locked"];
    let command = format!("cargo {}", install.join(" "));
    if policy == Install::Refuse {
        return Err(Failure::Told(format!("missing: cargo-fuzz; --no-install was given, so run {command}")));
    }
    eprintln!("xtask: missing: cargo-fuzz; to be installed with");
    eprintln!("xtask:   {command}");
    cargo::run(cargo(&install))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_corpus() {
        let targets = targets().unwrap_or_default();
        assert!(targets.iter().any(|target| target == "session"), "{targets:?}");
        for target in targets {
            let corpus = root().join("fuzz/corpus").join(&target);
            assert!(fs::read_dir(corpus).is_ok_and(|mut files| files.next().is_some()), "{target}");
        }
    }
}
