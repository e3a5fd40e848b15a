//! `cargo xtask seeded-faults`: puts one fault after the other into core and planes and sees whether the checks notice.
//!
//! Special builds have the faults, and `KVPEER_FAULT` chooses one. A layer of checks catches a fault when it fails, or
//! hangs, with it; without a fault every layer must pass. Every fault must be caught, and by at least two layers if it
//! breaks one of the invariants I1 to I5.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

use crate::cargo::{cargo, root};
use crate::system::{self, Need};
use crate::{Failure, Setup};

#[derive(Args)]
pub(crate) struct SeededFaultsArgs {
    #[command(flatten)]
    setup: Setup,
    /// Only the faults of the core, and only the hand-told scenarios: each fault must be caught by one of them
    #[arg(long)]
    scenarios: bool,
    /// Only these faults, by name
    faults: Vec<String>,
}

/// A group of checks that can catch a fault.
struct Layer {
    name: &'static str,
    package: &'static str,
    /// What cargo builds for it, without running it: one program or several.
    build: &'static [&'static str],
    args: &'static [&'static str],
}

/// Where faults are seeded, and what looks for them.
struct Place {
    /// The package whose example `faults` lists them.
    lists: &'static str,
    layers: &'static [Layer],
}

const SCENARIOS: Layer = Layer {
    name: "scenario",
    package: "kvpeer-tests",
    build: &["test", "--no-run", "--test", "scenarios"],
    args: &[],
};
const CORE: Place = Place {
    lists: "kvpeer-tests",
    layers: &[
        SCENARIOS,
        Layer {
            name: "random",
            package: "kvpeer-tests",
            build: &["test", "--no-run", "--test", "random"],
            args: &[],
        },
        Layer {
            name: "sim",
            package: "kvpeer-sim",
            build: &["test", "--no-run", "--release", "--test", "seeds"],
            args: &[],
        },
        Layer { name: "model", package: "kvpeer-model", build: &["build", "--release"], args: &["quick"] },
        Layer {
            name: "corpus",
            package: "kvpeer-fuzzing",
            build: &["test", "--no-run", "--release", "--test", "corpus"],
            args: &[],
        },
    ],
};
const FABRIC: Place = Place {
    lists: "kvpeer-fabric",
    layers: &[
        Layer { name: "unit", package: "kvpeer-fabric", build: &["test", "--no-run", "--lib"], args: &[] },
        Layer {
            name: "loopback",
            package: "kvpeer-fabric",
            build: &[
                "test", "--no-run", "--test", "closing", "--test", "loopback", "--test", "refusals",
                "--test", "stalling",
            ],
            args: &[],
        },
        Layer {
            name: "attack",
            package: "kvpeer-fabric",
            build: &["test", "--no-run", "--test", "fence"],
            args: &[],
        },
    ],
};
const CORE_BY_SCENARIOS: Place = Place { layers: &[SCENARIOS], ..CORE };

/// A layer that runs longer than this with a fault in the core hangs because of it.
const HANGS: Duration = Duration::from_secs(300);
/// How often a running layer is looked at.
const GLANCE: Duration = Duration::from_millis(20);

struct Fault {
    name: String,
    breaks: String,
    text: String,
}

impl Fault {
    /// How many layers must catch it.
    fn demands(&self, layers: usize) -> usize {
        let grave = ["I1", "I2", "I3", "I4", "I5"].contains(&self.breaks.as_str());
        if grave { layers.min(2) } else { 1 }
    }
}

/// What a layer did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Hung,
}

pub(crate) fn run(args: &SeededFaultsArgs) -> Result<(), Failure> {
    system::provide(&[Need::Libfabric], args.setup.policy())?;
    let places: &[Place] = if args.scenarios { &[CORE_BY_SCENARIOS] } else { &[CORE, FABRIC] };
    let mut listed = Vec::new();
    for place in places {
        listed.push(list(place)?);
    }
    refuse_unknown(&args.faults, &listed)?;
    let (mut all, mut missed) = (0, Vec::new());
    for (place, faults) in places.iter().zip(listed) {
        let wanted = |fault: &Fault| args.faults.is_empty() || args.faults.contains(&fault.name);
        let faults: Vec<Fault> = faults.into_iter().filter(wanted).collect();
        if !faults.is_empty() {
            all += faults.len();
            missed.extend(try_out(place, &faults)?);
        }
    }
    let (caught, asked) = (all - missed.len(), if args.scenarios { 1 } else { 2 });
    if missed.is_empty() {
        println!(
            "seeded faults ok: {all} of {all} caught, those that break I1 to I5 by at least {asked} layer(s)"
        );
        Ok(())
    } else {
        let missed = missed.join(", ");
        Err(Failure::Told(format!(
            "{caught} of {all} seeded faults caught; not, or by too few layers: {missed}"
        )))
    }
}

/// Tries the faults of a place, one line each. Answers those that too few layers caught.
fn try_out(place: &Place, faults: &[Fault]) -> Result<Vec<String>, Failure> {
    let mut layers = Vec::new();
    for layer in place.layers {
        println!("xtask: building the {} layer of {}", layer.name, layer.package);
        let programs = programs(layer)?;
        if judge(layer, &programs, None)? != Verdict::Passed {
            return Err(Failure::Told(format!("the {} layer does not pass without a fault", layer.name)));
        }
        layers.push((layer, programs));
    }
    print!("{:<26} {:<4}", "fault", "");
    place.layers.iter().for_each(|layer| print!(" {:<9}", layer.name));
    println!();
    let mut missed = Vec::new();
    for fault in faults {
        let mut caught = 0;
        tell(&format!("{:<26} {:<4}", fault.name, fault.breaks));
        for (layer, programs) in &layers {
            let verdict = judge(layer, programs, Some(fault))?;
            caught += usize::from(verdict != Verdict::Passed);
            tell(&format!(" {:<9}", word(verdict)));
        }
        let enough = caught >= fault.demands(layers.len());
        println!(" {}", if enough { "" } else { &fault.text });
        if !enough {
            missed.push(fault.name.clone());
        }
    }
    Ok(missed)
}

/// A part of a line, seen at once: the next part can take minutes.
fn tell(part: &str) {
    print!("{part}");
    // Nobody may be looking.
    let _ = std::io::stdout().flush();
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "-",
        Verdict::Failed => "caught",
        Verdict::Hung => "hung",
    }
}

/// The faults of a place.
fn list(place: &Place) -> Result<Vec<Fault>, Failure> {
    let mut command = cargo(&["run", "--quiet", "--package", place.lists, "--features", "seeded-faults"]);
    command.args(["--example", "faults"]).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| Failure::Told(format!("cargo cannot be run: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let faults: Vec<Fault> = text.lines().filter_map(fault).collect();
    if faults.is_empty() {
        Err(Failure::Told(format!("the special build of {} lists no faults", place.lists)))
    } else {
        Ok(faults)
    }
}

fn fault(line: &str) -> Option<Fault> {
    let mut fields = line.split('\t').map(str::to_owned);
    Some(Fault { name: fields.next()?, breaks: fields.next()?, text: fields.next()? })
}

fn refuse_unknown(names: &[String], listed: &[Vec<Fault>]) -> Result<(), Failure> {
    let known: Vec<&str> = listed.iter().flatten().map(|fault| fault.name.as_str()).collect();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            Err(Failure::Told(format!("no fault is called {unknown}; there are: {}", known.join(", "))))
        }
    }
}

/// Builds a layer and says where cargo put its programs.
fn programs(layer: &Layer) -> Result<Vec<PathBuf>, Failure> {
    let mut command = cargo(layer.build);
    command.args(["--package", layer.package, "--features", "seeded-faults", "--message-format", "json"]);
    let output = command.output().map_err(|error| Failure::Told(format!("cargo cannot be run: {error}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Told(format!("the {} layer does not build:\n{text}", layer.name)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let paths = text.lines().filter_map(|line| line.split_once("\"executable\":\"")?.1.split_once('"'));
    let programs: Vec<PathBuf> = paths.map(|(path, _)| root().join(path)).collect();
    if programs.is_empty() {
        return Err(Failure::Told(format!("cargo does not say where it put the {} layer", layer.name)));
    }
    Ok(programs)
}

fn judge(layer: &Layer, programs: &[PathBuf], fault: Option<&Fault>) -> Result<Verdict, Failure> {
    for program in programs {
        let verdict = run_one(layer, program, fault)?;
        if verdict != Verdict::Passed {
            return Ok(verdict);
        }
    }
    Ok(Verdict::Passed)
}

fn run_one(layer: &Layer, program: &Path, fault: Option<&Fault>) -> Result<Verdict, Failure> {
    let mut command = Command::new(program);
    command.args(layer.args).current_dir(root().join("tests")).env_remove("KVPEER_FAULT");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(fault) = fault {
        command.env("KVPEER_FAULT", &fault.name);
    }
    let child = command.spawn();
    let mut child =
        child.map_err(|error| Failure::Told(format!("{} cannot be run: {error}", program.display())))?;
    Ok(wait(&mut child))
}

fn wait(child: &mut Child) -> Verdict {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Verdict::Passed,
            Ok(Some(_)) | Err(_) => return Verdict::Failed,
            Ok(None) if begun.elapsed() > HANGS => {
                // It is gone already if it cannot be killed.
                let _ = child.kill();
                let _ = child.wait();
                return Verdict::Hung;
            }
            Ok(None) => std::thread::sleep(GLANCE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{fault, refuse_unknown};

    #[test]
    fn a_line_of_the_list_is_a_fault() {
        let found = fault("free-on-ack-timer\tI1\tA load frees its destination.").unwrap();
        assert_eq!((found.name.as_str(), found.breaks.as_str()), ("free-on-ack-timer", "I1"));
        assert_eq!((found.demands(4), found.demands(1)), (2, 1));
        assert!(fault("no tabs here").is_none());
    }

    #[test]
    fn an_unknown_name_is_refused_and_a_known_one_may_be_of_any_place() {
        let listed = [vec![fault("one\tI7\t.").unwrap()], vec![fault("two\tI9\t.").unwrap()]];
        assert!(refuse_unknown(&["two".to_owned(), "one".to_owned()], &listed).is_ok());
        assert!(refuse_unknown(&[], &listed).is_ok());
        assert!(refuse_unknown(&["three".to_owned()], &listed).is_err());
    }
}
