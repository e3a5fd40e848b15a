//! `cargo xtask`: sets a machine up, then tests, checks or shows kvpeer.
//!
//! Needs Rust and a C compiler. What else the work needs is looked for and, where the machine has apt,
//! installed; it is said before anything is changed.

mod bench;
mod cargo;
mod check;
mod ci;
mod coverage;
mod demo;
mod fuzz;
mod interop;
mod model;
mod rules;
mod seeded_faults;
mod states;
mod system;
mod test;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::system::Install;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Sets up, tests, checks and shows kvpeer")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Builds `kvpeer` and shows the main job: a real prompt's KV cache moving between two processes
    Demo(demo::DemoArgs),
    /// Runs the whole test suite, or the foreign-function tests under a memory checker
    Test(test::TestArgs),
    /// Checks that code and tests cite every rule of the protocol page
    Rules(rules::RulesArgs),
    /// Measures which lines of codec and core are run by tests and corpora
    Coverage(coverage::CoverageArgs),
    /// Draws the core's state machines, as the stories take them
    States(states::StatesArgs),
    /// Measures kvpeer beside its yardsticks, and writes target/bench/report.json and report.html
    Bench(bench::BenchArgs),
    /// Puts faults into the core, one at a time, and sees whether the checks notice
    SeededFaults(seeded_faults::SeededFaultsArgs),
    /// Checks every interleaving of small worlds
    Model(model::ModelArgs),
    /// Tells a run of the model or of the simulator again, from its script
    Replay(model::ReplayArgs),
    /// Fuzzes one target, or each for a moment, with AddressSanitizer
    Fuzz(fuzz::FuzzArgs),
    /// Runs kvpeer against vLLM's own nodes, both ways, and compares every byte
    Interop(interop::InteropArgs),
    /// Format, lints and documentation, with every feature set that is shipped
    Check(check::CheckArgs),
    /// All that a change must pass, or the long forms, too
    Ci(ci::CiArgs),
}

/// What may be changed on this machine.
#[derive(Args, Clone, Copy)]
struct Setup {
    /// Install nothing: say what is missing and stop
    #[arg(long)]
    no_install: bool,
}

impl Setup {
    fn policy(self) -> Install {
        if self.no_install { Install::Refuse } else { Install::WithApt }
    }
}

/// Why a task did not succeed, in one line for people.
enum Failure {
    /// Ours to explain.
    Told(String),
    /// A command has explained itself already; its exit code is passed on.
    Exit(u8),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Demo(args) => demo::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Rules(args) => rules::run(&args),
        Task::Coverage(args) => coverage::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::States(args) => states::run(&args),
        Task::SeededFaults(args) => seeded_faults::run(&args),
        Task::Model(args) => model::run(&args),
        Task::Replay(args) => model::replay(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Interop(args) => interop::run(&args),
        Task::Check(args) => check::run(&args),
        Task::Ci(args) => ci::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Told(why)) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
        Err(Failure::Exit(code)) => ExitCode::from(code),
    }
}
