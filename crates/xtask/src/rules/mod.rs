//! `cargo xtask rules`: every rule of the protocol is obeyed by code that cites it and proved by a test that does.

mod page;
mod report;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::Failure;
use crate::cargo::root;
use report::Report;
use source::{Citation, Side};

#[derive(Args)]
pub(crate) struct RulesArgs {
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Where the rules are.
const PAGE: &str = "docs/protocol.md";

/// Crates that check others: what they cite, they prove.
const CHECKERS: &[&str] = &["kvpeer-sim", "kvpeer-model", "kvpeer-fuzzing"];

/// Its citations are examples.
const NOT_READ: &[&str] = &["xtask"];

/// A rule that one side cannot cite.
struct Exempt {
    id: &'static str,
    side: Side,
    /// Told to whoever asks.
    why: &'static str,
}

const EXEMPT: &[Exempt] = &[
    Exempt {
        id: "FR-16",
        side: Side::Code,
        why: "about what is committed: the vectors, and the test that reads them",
    },
    Exempt {
        id: "LIV-4",
        side: Side::Test,
        why: "about what is recommended, in words: the drivers' documentation",
    },
];

pub(crate) fn run(args: &RulesArgs) -> Result<(), Failure> {
    let page = read(&root().join(PAGE))?;
    let report = Report::new(page::rules(&page), cited()?, EXEMPT);
    println!("{}", if args.json { report.json() } else { report.text() });
    match report.is_ok() {
        true => Ok(()),
        // The report has said what is missing.
        false => Err(Failure::Exit(1)),
    }
}

/// The lines of a Rust file that stand in its test modules, counted from 1.
pub(crate) fn test_lines(text: &str) -> Vec<RangeInclusive<usize>> {
    source::read(text, Side::Code).test_lines
}

/// A citation, and the file that it stands in.
type Cited = (PathBuf, Citation);

/// Every citation of the project.
fn cited() -> Result<Vec<Cited>, Failure> {
    let crates = root().join("crates");
    let mut cited = Vec::new();
    for entry in entries(&crates)? {
        let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if NOT_READ.contains(&name) || !entry.is_dir() {
            continue;
        }
        let side = if CHECKERS.contains(&name) { Side::Test } else { Side::Code };
        for code in ["src", "shim"] {
            collect(&entry.join(code), side, &mut cited)?;
        }
        collect(&entry.join("tests"), Side::Test, &mut cited)?;
    }
    collect(&root().join("tests"), Side::Test, &mut cited)?;
    collect(&root().join("fuzz").join("fuzz_targets"), Side::Test, &mut cited)?;
    Ok(cited)
}

/// Reads all sources below a folder, if there is one.
fn collect(folder: &Path, side: Side, cited: &mut Vec<Cited>) -> Result<(), Failure> {
    let files = sources(folder)?;
    let mut tests: BTreeSet<PathBuf> = BTreeSet::new();
    let mut found = Vec::new();
    for file in files {
        let read = source::read(&read(&file)?, side);
        for module in &read.test_files {
            tests.extend(module_files(&file, module));
        }
        found.push((file, read.citations));
    }
    for (file, citations) in found {
        let is_test = tests.iter().any(|test| file == *test || file.starts_with(test.with_extension("")));
        let shown = file.strip_prefix(root()).unwrap_or(&file).to_path_buf();
        cited.extend(citations.into_iter().map(|mut citation| {
            if is_test {
                citation.side = Side::Test;
            }
            (shown.clone(), citation)
        }));
    }
    Ok(())
}

/// The files that a module, declared in `parent` by name or path, may be in.
fn module_files(parent: &Path, module: &str) -> Vec<PathBuf> {
    let folder = parent.parent().unwrap_or(parent);
    if module.ends_with(".rs") {
        return vec![folder.join(module)];
    }
    let stem = parent.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let inside =
        if matches!(stem, "mod" | "lib" | "main") { folder.to_path_buf() } else { folder.join(stem) };
    vec![inside.join(format!("{module}.rs")), inside.join(module).join("mod.rs")]
}

/// Files of Rust and C below a folder, in order.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    if !folder.is_dir() {
        return Ok(files);
    }
    for entry in entries(folder)? {
        let extension = entry.extension().and_then(|extension| extension.to_str());
        if entry.is_dir() && entry.file_name().is_some_and(|name| name != "target") {
            files.extend(sources(&entry)?);
        } else if matches!(extension, Some("rs" | "c" | "h")) {
            files.push(entry);
        }
    }
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let listed = fs::read_dir(folder).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()
    });
    let mut entries = listed.map_err(|error| cannot_read(folder, &error))?;
    entries.sort();
    Ok(entries)
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| cannot_read(file, &error))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Told(format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_looked_for_where_rust_does() {
        let files = |parent: &str, module: &str| {
            let files = module_files(Path::new(parent), module);
            files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(files("src/tcp/mod.rs", "tests"), ["src/tcp/tests.rs", "src/tcp/tests/mod.rs"]);
        assert_eq!(files("src/polled.rs", "tests"), ["src/polled/tests.rs", "src/polled/tests/mod.rs"]);
        assert_eq!(files("src/traffic.rs", "traffic_tests.rs"), ["src/traffic_tests.rs"]);
    }
}
