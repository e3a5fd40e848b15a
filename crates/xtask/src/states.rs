//! `cargo xtask states`: draws the core's state machines, as the stories take them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::cargo::{self, cargo, root};
use crate::system::{self, Need};
use crate::{Failure, Setup};

#[derive(Args)]
pub(crate) struct StatesArgs {
    #[command(flatten)]
    setup: Setup,
    /// Change nothing: say what of the pictures is not up to date
    #[arg(long)]
    check: bool,
}

/// Where the pictures are.
const FOLDER: &str = "docs/states";

/// Runs that are the same each time. Their worlds put every transition down in the file of this variable. Left out are
/// stories that try out hundreds of orders: they take long, and what they take is in the others.
const STORIES: &[&str] = &[
    "test",
    "--quiet",
    "--package",
    "kvpeer-tests",
    "--test",
    "scenarios",
    "--test",
    "rules",
    "--",
    "--skip",
    "every_order",
    "--skip",
    "every_moment",
];
const VARIABLE: &str = "KVPEER_STATES";

/// More causes than these are not written at an arrow; all are in the table beside the picture.
const CAUSES_SHOWN: usize = 4;

/// A state that is no state: before the first and after the last.
const ABSENT: &str = "-";

/// What leads from one state to another.
type Transitions = BTreeMap<(String, String), BTreeSet<String>>;

pub(crate) fn run(args: &StatesArgs) -> Result<(), Failure> {
    let needs: &[Need] = if args.check { &[Need::Libfabric] } else { &[Need::Libfabric, Need::Graphviz] };
    system::provide(needs, args.setup.policy())?;
    let machines = observe()?;
    let folder = root().join(FOLDER);
    let mut outdated = Vec::new();
    for (name, transitions) in &machines {
        let (dot, svg) = (folder.join(format!("{name}.dot")), folder.join(format!("{name}.svg")));
        let text = draw(name, transitions);
        if args.check {
            // The picture itself depends on Graphviz's version; its mark does not.
            let fresh = fs::read_to_string(&dot).is_ok_and(|old| old == text)
                && fs::read_to_string(&svg).is_ok_and(|old| old.ends_with(&mark(&text)));
            outdated.extend((!fresh).then(|| name.clone()));
        } else {
            write(&dot, &text)?;
            render(&dot, &svg, &text)?;
        }
    }
    let count: usize = machines.values().map(BTreeMap::len).sum();
    if outdated.is_empty() {
        println!("states ok: {} machines, {count} transitions", machines.len());
        return Ok(());
    }
    Err(Failure::Told(format!(
        "{FOLDER} does not show what the core does ({}): run `cargo xtask states` and look at the difference",
        outdated.join(", ")
    )))
}

/// Runs the stories and reads what their endpoints did.
fn observe() -> Result<BTreeMap<String, Transitions>, Failure> {
    let file = std::env::temp_dir().join(format!("kvpeer-states-{}", std::process::id()));
    // It may be left over from a process that had our number.
    fs::remove_file(&file).ok();
    let mut stories = cargo(STORIES);
    stories.env(VARIABLE, &file);
    let ran = cargo::run(stories);
    let text = fs::read_to_string(&file);
    fs::remove_file(&file).ok();
    ran?;
    let text = text.map_err(|error| Failure::Told(format!("the stories put nothing down: {error}")))?;
    Ok(read(&text))
}

/// Machine, state before, state after, cause: one line for each.
fn read(text: &str) -> BTreeMap<String, Transitions> {
    let mut machines: BTreeMap<String, Transitions> = BTreeMap::new();
    for line in text.lines() {
        if let [machine, from, to, cause] = line.split('\t').collect::<Vec<_>>()[..] {
            let transitions = machines.entry(machine.to_owned()).or_default();
            transitions.entry((from.to_owned(), to.to_owned())).or_default().insert(cause.to_owned());
        }
    }
    machines
}

/// A graph in the dot language, the same for the same transitions.
fn draw(name: &str, transitions: &Transitions) -> String {
    let mut dot = String::new();
    let _ = writeln!(
        dot,
        "// Written by `cargo xtask states`: what one call of the core did in the stories of tests/."
    );
    let _ = writeln!(dot, "digraph \"{name}\" {{");
    let _ =
        writeln!(dot, "    rankdir=LR; node [shape=box style=rounded fontname=\"sans-serif\" fontsize=11];");
    let _ = writeln!(dot, "    edge [fontname=\"sans-serif\" fontsize=9];");
    let _ = writeln!(dot, "    \"begin\" [shape=circle label=\"\" width=0.15 style=filled fillcolor=black];");
    let _ =
        writeln!(dot, "    \"end\" [shape=doublecircle label=\"\" width=0.1 style=filled fillcolor=black];");
    for ((from, to), causes) in transitions {
        let from = if from == ABSENT { "begin" } else { from };
        let to = if to == ABSENT { "end" } else { to };
        let all: Vec<&str> = causes.iter().map(String::as_str).collect();
        let mut shown = all.iter().take(CAUSES_SHOWN).copied().collect::<Vec<_>>().join("\\n");
        if let Some(more) = all.len().checked_sub(CAUSES_SHOWN).filter(|more| *more > 0) {
            let _ = write!(shown, "\\n+ {more}");
        }
        let _ =
            writeln!(dot, "    \"{from}\" -> \"{to}\" [label=\"{shown}\" tooltip=\"{}\"];", all.join(", "));
    }
    dot.push_str("}\n");
    dot
}

fn render(dot: &Path, svg: &Path, text: &str) -> Result<(), Failure> {
    let output = Command::new("dot").arg("-Tsvg").arg(dot).output();
    let output = output.map_err(|error| Failure::Told(format!("dot cannot be run: {error}")))?;
    if !output.status.success() {
        return Err(Failure::Told(format!("dot does not like {}", dot.display())));
    }
    let picture = String::from_utf8_lossy(&output.stdout);
    write(svg, &format!("{}\n{}", picture.trim_end(), mark(text)))
}

/// Ties a picture to the graph that it shows.
fn mark(dot: &str) -> String {
    let hash = dot
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("<!-- of the graph {hash:016x} -->\n")
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let folder = file.parent().unwrap_or(file);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(file, text));
    written.map_err(|error| Failure::Told(format!("{} cannot be written: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_does_not_depend_on_the_order_of_what_was_seen() {
        let lines =
            ["link\t-\tUp\tconnect\n", "link\tUp\t-\tping\n", "link\t-\tUp\tabort\n", "load\tA\tB\tx\n"];
        let forwards = read(&lines.concat());
        let mut backwards = lines;
        backwards.reverse();
        assert_eq!(forwards, read(&backwards.concat()));
        assert_eq!(forwards.keys().collect::<Vec<_>>(), ["link", "load"]);
        let dot = draw("link", &forwards["link"]);
        assert!(
            dot.contains(r#""begin" -> "Up" [label="abort\nconnect" tooltip="abort, connect"];"#),
            "{dot}"
        );
        assert!(dot.contains(r#""Up" -> "end" [label="ping" tooltip="ping"];"#), "{dot}");
    }

    #[test]
    fn many_causes_are_counted() {
        let text: String = (0..6).map(|n| format!("m\ta\tb\tcause {n}\n")).collect();
        let dot = draw("m", &read(&text)["m"]);
        assert!(dot.contains(r#"cause 3\n+ 2""#), "{dot}");
    }

    #[test]
    fn a_mark_is_of_one_graph() {
        assert_ne!(mark("a"), mark("b"));
        assert_eq!(mark("a"), mark("a"));
    }
}
