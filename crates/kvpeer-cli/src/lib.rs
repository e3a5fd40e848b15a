//! The `kvpeer` program, and the parts of it that others can use: how blocks are named and cut.

mod args;
mod demo;
mod environment;
mod fetch;
mod info;
mod interrupt;
mod key_list;
pub mod keys;
mod keys_command;
pub mod layout;
mod node;
mod reasons;
mod say;
mod serve;
mod stopped;
mod table;
mod tokens;

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, Command};
use crate::stopped::{Exit, Stopped};

/// Runs the program with its command line.
pub fn main() -> ExitCode {
    environment::complete();
    let cli = match parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    log_to_stderr(cli.verbose);
    let outcome = match &cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Fetch(args) => fetch::run(args),
        Command::Keys(args) => keys_command::run(args),
        Command::Info(args) => info::run(args),
        Command::Demo(args) => demo::run(args),
        Command::DemoNode(args) => demo::run_node(args),
    };
    let code = match outcome {
        Ok(()) => 0,
        Err(stopped) => {
            say::complaint(&stopped);
            stopped.exit.code()
        }
    };
    // With NIXL loaded, an orderly end of the process can crash after all is done.
    #[cfg(feature = "vllm")]
    kvpeer_nixl::leave_if_loaded(code);
    ExitCode::from(code)
}

/// The options, or the exit code after help or one line of explanation.
fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, ExitCode> {
    Cli::try_parse_from(args).map_err(|error| {
        if !error.use_stderr() {
            // Help and version; a closed pipe is no reason to complain.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        let text = error.render().to_string();
        // The first paragraph says what is wrong; clap wraps it over several lines.
        let what = text.split("\n\n").next().unwrap_or(&text);
        let line = what.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = line.strip_prefix("error: ").unwrap_or(&line);
        say::complaint(format_args!("{line} (see --help)"));
        ExitCode::from(Exit::Usage.code())
    })
}

fn log_to_stderr(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2.. => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false).init();
}

/// A text file, whole.
fn read_text(path: &Path) -> Result<String, Stopped> {
    std::fs::read_to_string(path).map_err(|error| Stopped::file(path, format!("cannot be read: {error}")))
}
