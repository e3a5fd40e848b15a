//! `kvpeer demo`: the main job on real input, in two processes.
//!
//! This process directs and verifies. It starts a *producer*, which holds the KV cache of a real prompt, and a
//! *consumer*, which is told token ids and a block length and nothing else. They talk to each other over TCP and
//! libfabric; this process gives them orders over pipes (see [`order`]), and compares what the consumer has with the
//! file.

mod actor;
mod cuts;
mod director;
mod order;
mod prefill;
mod process;
mod prompt;
mod report;
mod reuse;
mod sharing;

use std::time::Instant;

use self::director::Director;
use self::prompt::Prompt;
use self::report::Report;
use crate::args::{DemoArgs, DemoNodeArgs};
use crate::stopped::{Exit, Stopped};

pub(crate) fn run(args: &DemoArgs) -> Result<(), Stopped> {
    let report = Report::new(args.json);
    let started = Instant::now();
    match show(args, &report) {
        Ok(summary) => {
            report.ok(&summary, started.elapsed());
            Ok(())
        }
        Err(stopped) => {
            report.failed(&stopped);
            Err(Stopped { line: format!("demo failed: {}", stopped.line), ..stopped })
        }
    }
}

/// One of the two processes.
pub(crate) fn run_node(args: &DemoNodeArgs) -> Result<(), Stopped> {
    actor::run(args)
}

/// What the last line says.
struct Summary {
    /// Blocks that were compared with the file, each time they were.
    verified: u64,
    bytes: u64,
    jobs: usize,
    abort_writes: usize,
    kill_writes: usize,
}

fn show(args: &DemoArgs, report: &Report) -> Result<Summary, Stopped> {
    if !args.provider.fences() {
        return Err(Stopped::usage(format!(
            "provider {} cannot fence a peer, which the demo shows; use tcp",
            args.provider
        )));
    }
    let prompt = Prompt::open(args)?;
    report.opening(args, &prompt);
    let mut director = Director::start(args, &prompt)?;
    sharing::show(&mut director, report)?;
    prefill::show(&mut director, report)?;
    let abort_writes = cuts::show_abort(&mut director, report)?;
    let kill_writes = cuts::show_kill(&mut director, report)?;
    let verified = director.verified;
    let jobs = director.end()?;
    let bytes = verified * prompt.block_len();
    Ok(Summary { verified, bytes, jobs, abort_writes, kill_writes })
}

/// A step that did not go as it must.
fn wrong(line: impl Into<String>) -> Stopped {
    Stopped::new(Exit::Failed, line)
}
