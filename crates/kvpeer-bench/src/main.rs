//! `kvpeer-bench`: measures kvpeer and its yardsticks side by side. Run as `cargo xtask bench`; what each bar means is
//! written in `docs/performance.md`.

mod bars;
mod child;
mod core;
mod cut;
mod figures;
mod machine;
mod memory;
mod order;
mod page;
mod pair;
mod plan;
mod process;
mod report;
mod run;
mod stop;
mod vllm;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::machine::Machine;
use crate::plan::Plan;
use crate::report::Report;
use crate::stop::Outcome;

#[derive(Parser)]
#[command(about = "Measures kvpeer and its yardsticks side by side")]
struct Cli {
    /// Fewer rounds, the same bars; under four minutes
    #[arg(long)]
    quick: bool,
    /// Print the report as JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Where report.json and report.html are written
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
    /// One process of the benchmark; told so by the process of this number
    #[arg(long, hide = true, value_name = "PID")]
    child_of: Option<i32>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let ended = match cli.child_of {
        Some(parent) => child::run(parent).map(|()| ExitCode::SUCCESS),
        None => bench(&cli),
    };
    ended.unwrap_or_else(|why| {
        eprintln!("kvpeer-bench: {why}");
        ExitCode::FAILURE
    })
}

/// Missed bars are no failure; a run that does not count is.
fn bench(cli: &Cli) -> Outcome<ExitCode> {
    let machine = Machine::look()?;
    let plan = Plan::new(cli.quick, machine.cache);
    plan.check(machine.available)?;
    eprintln!("{}", machine.describe());
    let figures = run::run(&plan)?;
    let report = Report::new(&figures, &machine);
    report.write(&figures, &cli.out)?;
    eprintln!("written: {0}/report.json, {0}/report.html", cli.out.display());
    for why in &report.suspicions {
        eprintln!("suspect: {why}; the run does not count: end other programs and try again");
    }
    if cli.json {
        print!("{}", report.json()?);
        eprintln!("{}", report.summary());
    } else {
        println!("{}\n{}", report.table(), report.summary());
    }
    Ok(if report.suspicions.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
