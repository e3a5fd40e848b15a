//! Runs cargo in the workspace, and counts what its tests say.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Failure;

/// The workspace's root, where every command runs.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).map_or_else(|| here.clone(), PathBuf::from)
}

/// A cargo command, the same cargo that runs us.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// Says what is run, runs it, and fails with its exit code.
pub(crate) fn run(mut command: Command) -> Result<(), Failure> {
    announce(&command);
    let status = command.status().map_err(|error| cannot_start(&command, &error))?;
    if status.success() { Ok(()) } else { Err(failed(&command, status)) }
}

/// What a number of test binaries said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Tally {
    /// Adds a line of a test binary's output, if it is its result.
    fn add_line(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        for part in result.split([';', '.']) {
            let mut words = part.split_whitespace();
            match (words.next().and_then(|count| count.parse::<u64>().ok()), words.next()) {
                (Some(count), Some("passed")) => self.passed += count,
                (Some(count), Some("failed")) => self.failed += count,
                (Some(count), Some("ignored")) => self.ignored += count,
                (Some(_) | None, _) => {}
            }
        }
    }
}

/// Runs `cargo test …`, shows its output as it comes, and adds its results to `tally`.
pub(crate) fn test(mut command: Command, tally: &mut Tally) -> Result<(), Failure> {
    announce(&command);
    let started = Instant::now();
    command.stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            tally.add_line(&line);
        }
    }
    let status = child.wait().map_err(|error| cannot_start(&command, &error))?;
    println!("xtask: {} s", started.elapsed().as_secs());
    if status.success() { Ok(()) } else { Err(failed(&command, status)) }
}

fn announce(command: &Command) {
    println!("xtask: {}", describe(command));
}

fn describe(command: &Command) -> String {
    let env = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}='{}'", name.to_string_lossy(), value?.to_string_lossy()))
    });
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    env.chain([program.to_string_lossy().into_owned()]).chain(args).collect::<Vec<_>>().join(" ")
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    Failure::Told(format!("`{}` cannot be run: {error}", describe(command)))
}

fn failed(command: &Command, status: std::process::ExitStatus) -> Failure {
    Failure::Told(format!("`{}` failed ({status})", describe(command)))
}

/// The target that the compiler builds for, as in `x86_64-unknown-linux-gnu`.
pub(crate) fn host_target() -> Result<String, Failure> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let output = Command::new(rustc).arg("-vV").output().map(|out| out.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| Failure::Told("`rustc -vV` does not name its host target".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_and_other_lines_are_not() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.50s",
            "test result: FAILED. 40 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.25s",
        ] {
            tally.add_line(line);
        }
        assert_eq!(tally, Tally { passed: 43, failed: 2, ignored: 1 });
    }

    #[test]
    fn the_root_is_the_workspace() {
        assert!(root().join("crates/xtask/src/cargo.rs").is_file());
    }
}
