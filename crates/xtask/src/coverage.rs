//! `cargo xtask coverage`: which lines of the codec and of the core the tests and the corpora run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::cargo::{self, cargo, root};
use crate::rules::test_lines;
use crate::system::{self, Install, Need};
use crate::{Failure, Setup};

#[derive(Args)]
pub(crate) struct CoverageArgs {
    #[command(flatten)]
    setup: Setup,
    /// Also name the lines that nothing runs
    #[arg(long)]
    lines: bool,
}

/// The crates whose lines count.
const MEASURED: &[&str] = &["kvpeer-wire", "kvpeer-core"];

/// Files of theirs that only tests use.
const NOT_MEASURED: &[&str] = &["strategies.rs", "fuzzing.rs", "append_tests.rs"];

/// What is run: their own tests, the stories, the random worlds, the corpora.
const RUNS: &[&[&str]] = &[
    &[
        "--package",
        "kvpeer-wire",
        "--package",
        "kvpeer-core",
        "--package",
        "kvpeer-sim",
        "--package",
        "kvpeer-fuzzing",
    ],
    &["--package", "kvpeer-tests", "--lib", "--test", "scenarios", "--test", "rules", "--test", "random"],
];

/// In percent of lines, for each crate.
const LEAST: f64 = 95.0;

/// The release that is tried; its report is read here.
const LLVM_COV: &str = "0.9.1";

pub(crate) fn run(args: &CoverageArgs) -> Result<(), Failure> {
    let policy = args.setup.policy();
    system::provide(&[Need::Libfabric, Need::LlvmTools], policy)?;
    provide_llvm_cov(policy)?;
    // Objects of an earlier build would be reported, too, with lines that have moved since.
    cargo::run(llvm_cov(&["clean", "--workspace"]))?;
    for tests in RUNS {
        cargo::run(llvm_cov(&[&["--no-report", "test"], *tests].concat()))?;
    }
    let report = report()?;
    let mut failed = false;
    for name in MEASURED {
        let folder = root().join("crates").join(name).join("src");
        let files = measured(&report, &folder)?;
        if args.lines {
            files.iter().for_each(|file| file.print_missed(&folder));
        }
        let lines: usize = files.iter().map(|file| file.lines).sum();
        let missed: usize = files.iter().map(|file| file.missed.len()).sum();
        let percent = percent(lines - missed, lines);
        failed |= percent < LEAST;
        println!("coverage: {name}: {percent:.2} % of {lines} lines, {missed} are not run");
    }
    match failed {
        false => Ok(()),
        true => Err(Failure::Told(format!(
            "less than {LEAST} % of the lines of a crate are run; `cargo xtask coverage --lines` names the others"
        ))),
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    // A crate has far fewer lines than a float can count.
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

fn provide_llvm_cov(policy: Install) -> Result<(), Failure> {
    let mut version = Command::new("cargo-llvm-cov");
    version.args(["llvm-cov", "--version"]).stdin(Stdio::null()).stderr(Stdio::null());
    if version.output().is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let install = ["install", "cargo-llvm-cov", "--version", LLVM_COV, "--locked"];
    let command = format!("cargo {}", install.join(" "));
    if policy == Install::Refuse {
        return Err(Failure::Told(format!(
            "missing: cargo-llvm-cov; --no-install was given, so run {command}"
        )));
    }
    eprintln!("xtask: missing: cargo-llvm-cov; to be installed with");
    eprintln!("xtask:   {command}");
    cargo::run(cargo(&install))
}

fn llvm_cov(args: &[&str]) -> Command {
    let tool = |name: &str| Path::new(system::LLVM_TOOLS).join(name);
    let mut command = cargo(&[&["llvm-cov"], args].concat());
    // It would otherwise ask rustup for tools of its own.
    command.env("CARGO_LLVM_COV_SETUP", "no");
    command.env("LLVM_COV", tool("llvm-cov")).env("LLVM_PROFDATA", tool("llvm-profdata"));
    command
}

/// How often each line of each file was run.
type Lines = BTreeMap<PathBuf, BTreeMap<usize, u64>>;

fn report() -> Result<Lines, Failure> {
    let output = llvm_cov(&["report", "--lcov"]).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Failure::Told(format!("cargo llvm-cov cannot be run: {error}")))?;
    if !output.status.success() {
        return Err(Failure::Told(format!("cargo llvm-cov report failed ({})", output.status)));
    }
    Ok(read_lcov(&String::from_utf8_lossy(&output.stdout)))
}

fn read_lcov(text: &str) -> Lines {
    let mut report = Lines::new();
    let mut file = PathBuf::new();
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            file = PathBuf::from(path);
        } else if let Some((number, count)) = line.strip_prefix("DA:").and_then(|line| line.split_once(','))
            && let (Ok(number), Ok(count)) = (number.parse(), count.parse::<u64>())
        {
            *report.entry(file.clone()).or_default().entry(number).or_default() += count;
        }
    }
    report
}

/// One file's figures, without its tests.
struct Measured {
    file: PathBuf,
    lines: usize,
    missed: Vec<usize>,
}

fn measured(report: &Lines, folder: &Path) -> Result<Vec<Measured>, Failure> {
    let mut all = Vec::new();
    for (file, lines) in report.iter().filter(|(file, _)| file.starts_with(folder)) {
        if file.file_name().and_then(|name| name.to_str()).is_some_and(|name| NOT_MEASURED.contains(&name)) {
            continue;
        }
        let text = fs::read_to_string(file)
            .map_err(|error| Failure::Told(format!("{} cannot be read: {error}", file.display())))?;
        let tests = test_lines(&text);
        let code = lines.iter().filter(|(line, _)| !tests.iter().any(|test| test.contains(line)));
        let missed = code.clone().filter(|(_, count)| **count == 0).map(|(line, _)| *line).collect();
        all.push(Measured { file: file.clone(), lines: code.count(), missed });
    }
    Ok(all)
}

impl Measured {
    fn print_missed(&self, folder: &Path) {
        if self.missed.is_empty() {
            return;
        }
        let file = self.file.strip_prefix(folder).unwrap_or(&self.file);
        let lines: Vec<String> = self.missed.iter().map(usize::to_string).collect();
        println!("{}: {}", file.display(), lines.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_line_are_added_up() {
        let report =
            read_lcov("SF:/a.rs\nDA:3,0\nDA:4,2\nend_of_record\nSF:/b.rs\nDA:3,1\nSF:/a.rs\nDA:3,5\nLF:2\n");
        let lines = |file: &str| report.get(Path::new(file)).map(|lines| lines.iter().collect::<Vec<_>>());
        assert_eq!(lines("/a.rs"), Some(vec![(&3, &5), (&4, &2)]));
        assert_eq!(lines("/b.rs"), Some(vec![(&3, &1)]));
    }

    #[test]
    fn nothing_is_not_everything() {
        assert_eq!((percent(0, 0), percent(19, 20)), (0.0, 95.0));
    }
}
