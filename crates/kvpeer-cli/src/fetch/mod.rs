//! `kvpeer fetch`: blocks from a peer into a file.

mod output;
mod plan;
mod report;
mod transfer;

use std::time::{Duration, Instant};

use kvpeer::{NoBlocks, Region};

use self::output::Output;
use self::plan::Plan;
use self::transfer::{Source, Transfer};
use crate::args::FetchArgs;
use crate::stopped::{Exit, Stopped};
use crate::{interrupt, node};

/// How long the goodbye may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &FetchArgs) -> Result<(), Stopped> {
    match fetch(args) {
        Ok(0) => Ok(()),
        Ok(missing) => {
            Err(Stopped::new(Exit::Missing, format!("{}: {missing} blocks are not held there", args.peer)))
        }
        Err(stopped) => {
            if args.json {
                report::print_failure(&stopped);
            }
            Err(stopped)
        }
    }
}

/// Fetches and reports; answers how many blocks the peer does not hold.
fn fetch(args: &FetchArgs) -> Result<usize, Stopped> {
    let plan = Plan::new(args)?;
    let source = Source::new(args)?;
    let region = Region::new(plan.region_blocks(), plan.block_len);
    let region = region.map_err(|error| Stopped::new(Exit::Local, error.to_string()))?;
    // Before anything is asked of the peer: a file that cannot be written is the user's to mend first.
    let output = Output::create(&args.out)?;
    let started = Instant::now();
    let node = node::start(&args.node, plan.node(args, region.clone()), NoBlocks)?;
    let handle = node.handle.clone();
    let interrupted = interrupt::ends(&handle)?;
    let result = Transfer::new(&plan, source, &region, node, &output).run();
    // In order, so that the peer is told goodbye and does not see a broken connection.
    handle.shutdown(CLOSE_WITHIN);
    if interrupted.is_set() {
        return Err(Stopped::new(Exit::Interrupted, "interrupted"));
    }
    let tally = result?;
    output.finish(plan.out_len())?;
    report::print(args, &plan, &tally, started.elapsed());
    Ok(tally.missing.len())
}
