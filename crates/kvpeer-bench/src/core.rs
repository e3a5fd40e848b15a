//! The core alone: `kvpeer-core`'s example `cycle`, by the clock and by callgrind's count.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::figures::{Core, Measured, median};

/// Keys of the cycles that are timed.
pub(crate) const KEYS: [u32; 3] = [64, 1024, 8192];
/// Those of the one that is counted.
const COUNTED: u32 = 8192;
/// Cycles of the two runs whose difference is taken, so that starting up does not count.
const CYCLES: (u32, u32) = (1, 3);
/// Runs whose median is taken.
const RUNS: usize = 5;

/// `cycle`, which is built beside this program.
pub(crate) fn cycle() -> Measured<PathBuf> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let cycle = program.with_file_name("examples").join("cycle");
    if cycle.is_file() { Ok(cycle) } else { Err("`cycle` is not built: run `cargo xtask bench`".to_owned()) }
}

pub(crate) fn measure(cycle: Measured<PathBuf>, mut step: impl FnMut()) -> Core {
    let cycle = match cycle {
        Ok(cycle) => cycle,
        Err(why) => return Core { instructions: Err(why.clone()), micros: Err(why) },
    };
    step();
    let instructions = instructions(&cycle);
    let micros = KEYS.into_iter().map(|keys| {
        step();
        micros(&cycle, keys).map(|micros| (keys, micros))
    });
    let micros = micros.collect();
    Core { instructions, micros }
}

fn micros(cycle: &Path, keys: u32) -> Measured<f64> {
    // About as much work for each number of keys.
    let cycles = (200_000 / keys).to_string();
    let run = || -> Measured<f64> {
        let output = output(Command::new(cycle).args([&keys.to_string(), &cycles]))?;
        let value: serde_json::Value = serde_json::from_str(&output).map_err(|error| error.to_string())?;
        let micros = value.get("micros_per_cycle").and_then(serde_json::Value::as_f64);
        micros.ok_or_else(|| format!("`cycle` says {output:?}"))
    };
    let runs: Measured<Vec<f64>> = (0..RUNS).map(|_| run()).collect();
    median(&runs?).ok_or_else(|| "nothing was run".to_owned())
}

fn instructions(cycle: &Path) -> Measured<f64> {
    if output(Command::new("valgrind").arg("--version")).is_err() {
        return Err("valgrind is not installed (`apt-get install valgrind`)".to_owned());
    }
    let (few, many) = (count(cycle, CYCLES.0)?, count(cycle, CYCLES.1)?);
    let cycles = f64::from(CYCLES.1 - CYCLES.0);
    Ok((many - few) / cycles / f64::from(COUNTED))
}

fn count(cycle: &Path, cycles: u32) -> Measured<f64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(cycle);
    let run = command.args([COUNTED.to_string(), cycles.to_string()]).stdin(Stdio::null()).output();
    let run = run.map_err(|error| format!("valgrind cannot be started: {error}"))?;
    let told = String::from_utf8_lossy(&run.stderr);
    if !run.status.success() {
        return Err(format!("valgrind failed: {}", told.lines().last().unwrap_or_default()));
    }
    collected(&told).ok_or_else(|| "valgrind does not say what it has collected".to_owned())
}

/// From the line `==123== Collected : 456`.
fn collected(told: &str) -> Option<f64> {
    told.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

fn output(command: &mut Command) -> Measured<String> {
    let run = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if !run.status.success() {
        let told = String::from_utf8_lossy(&run.stderr);
        return Err(format!("it failed ({}): {}", run.status, told.lines().next_back().unwrap_or_default()));
    }
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_what_callgrind_says() {
        let told = "==7== Events    : Ir\n==7== Collected : 123456\n==7== \n";
        assert_eq!(collected(told), Some(123_456.0));
        assert_eq!(collected("==7== nothing"), None);
    }

    #[test]
    fn without_the_example_nothing_is_measured_and_it_is_said_why() {
        let core = measure(Err("not built".to_owned()), || {});
        assert_eq!(core.instructions, Err("not built".to_owned()));
        assert_eq!(core.micros, Err("not built".to_owned()));
    }
}
