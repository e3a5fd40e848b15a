//! `cargo xtask seeded-faults`: puts one fault after the other into the core and sees whether the checks notice.
//!
//! A special build of the core has the faults, and `KVPEER_FAULT` chooses one. A layer of checks catches a fault when it
//! fails, or hangs, with it; without a fault every layer must pass. Every fault must be caught, and by at least two
//! layers if it breaks one of the invariants I1 to I5.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

use crate::Failure;
use crate::cargo::{cargo, root};

#[derive(Args)]
pub(crate) struct SeededFaultsArgs {
    /// Only the hand-told scenarios: seconds instead of minutes, every fault must be caught by one of them or be listed
    #[arg(long)]
    scenarios: bool,
    /// Only these faults, by name
    faults: Vec<String>,
}

/// A group of checks that can catch a fault.
struct Layer {
    name: &'static str,
    package: &'static str,
    /// What cargo builds for it, without running it.
    build: &'static [&'static str],
    args: &'static [&'static str],
}

const SCENARIOS: Layer = Layer {
    name: "scenario",
    package: "kvpeer-tests",
    build: &["test", "--no-run", "--test", "scenarios"],
    args: &[],
};
const LAYERS: &[Layer] = &[
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
];

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
    let layers: &[Layer] = if args.scenarios { &[SCENARIOS] } else { LAYERS };
    let faults = chosen(list()?, &args.faults)?;
    let mut programs = Vec::new();
    for layer in layers {
        programs.push(program(layer)?);
    }
    for (layer, program) in layers.iter().zip(&programs) {
        if judge(layer, program, None)? != Verdict::Passed {
            return Err(Failure::Told(format!("the {} layer does not pass without a fault", layer.name)));
        }
    }
    heading(layers);
    let mut missed = Vec::new();
    for fault in &faults {
        let mut caught = 0;
        print!("{:<26} {:<4}", fault.name, fault.breaks);
        for (layer, program) in layers.iter().zip(&programs) {
            let verdict = judge(layer, program, Some(fault))?;
            caught += usize::from(verdict != Verdict::Passed);
            print!(" {:<9}", word(verdict));
        }
        let enough = caught >= fault.demands(layers.len());
        println!(" {}", if enough { "" } else { &fault.text });
        if !enough {
            missed.push(fault.name.as_str());
        }
    }
    if missed.is_empty() {
        println!("seeded faults ok: {} of {} caught by {} layers", faults.len(), faults.len(), layers.len());
        Ok(())
    } else {
        let (caught, all) = (faults.len() - missed.len(), faults.len());
        Err(Failure::Told(format!(
            "{caught} of {all} seeded faults caught; not, or not often enough: {}",
            missed.join(", ")
        )))
    }
}

fn heading(layers: &[Layer]) {
    print!("{:<26} {:<4}", "fault", "");
    layers.iter().for_each(|layer| print!(" {:<9}", layer.name));
    println!();
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "-",
        Verdict::Failed => "caught",
        Verdict::Hung => "hung",
    }
}

/// The faults that the core knows.
fn list() -> Result<Vec<Fault>, Failure> {
    let mut command = cargo(&["run", "--quiet", "--package", "kvpeer-tests", "--features", "seeded-faults"]);
    command.args(["--example", "faults"]).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| Failure::Told(format!("cargo cannot be run: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let faults: Vec<Fault> = text.lines().filter_map(fault).collect();
    if faults.is_empty() {
        Err(Failure::Told("the special build lists no faults".to_owned()))
    } else {
        Ok(faults)
    }
}

fn fault(line: &str) -> Option<Fault> {
    let mut fields = line.split('\t').map(str::to_owned);
    Some(Fault { name: fields.next()?, breaks: fields.next()?, text: fields.next()? })
}

fn chosen(faults: Vec<Fault>, names: &[String]) -> Result<Vec<Fault>, Failure> {
    if let Some(unknown) = names.iter().find(|name| !faults.iter().any(|fault| fault.name == **name)) {
        let known: Vec<&str> = faults.iter().map(|fault| fault.name.as_str()).collect();
        return Err(Failure::Told(format!("no fault is called {unknown}; there are: {}", known.join(", "))));
    }
    Ok(faults.into_iter().filter(|fault| names.is_empty() || names.contains(&fault.name)).collect())
}

/// Builds a layer and says where cargo put its program.
fn program(layer: &Layer) -> Result<PathBuf, Failure> {
    let mut command = cargo(layer.build);
    command.args(["--package", layer.package, "--features", "seeded-faults", "--message-format", "json"]);
    let output = command.output().map_err(|error| Failure::Told(format!("cargo cannot be run: {error}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Told(format!("the {} layer does not build:\n{text}", layer.name)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let path = text.lines().filter_map(|line| line.split_once("\"executable\":\"")?.1.split_once('"'));
    path.map(|(path, _)| root().join(path))
        .next_back()
        .ok_or_else(|| Failure::Told(format!("cargo does not say where it put the {} layer", layer.name)))
}

fn judge(layer: &Layer, program: &PathBuf, fault: Option<&Fault>) -> Result<Verdict, Failure> {
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
    use super::{chosen, fault};

    #[test]
    fn a_line_of_the_list_is_a_fault() {
        let found = fault("free-on-ack-timer\tI1\tA load frees its destination.").unwrap();
        assert_eq!((found.name.as_str(), found.breaks.as_str()), ("free-on-ack-timer", "I1"));
        assert_eq!((found.demands(4), found.demands(1)), (2, 1));
        assert!(fault("no tabs here").is_none());
    }

    #[test]
    fn an_unknown_name_is_refused_and_the_known_ones_are_told() {
        let faults = || vec![fault("one\tI7\t.").unwrap(), fault("two\tI9\t.").unwrap()];
        assert_eq!(chosen(faults(), &["two".to_owned()]).map(|some| some.len()).ok(), Some(1));
        assert_eq!(chosen(faults(), &[]).map(|all| all.len()).ok(), Some(2));
        assert!(chosen(faults(), &["three".to_owned()]).is_err());
    }
}
