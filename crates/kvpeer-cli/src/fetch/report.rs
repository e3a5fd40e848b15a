//! What `fetch` says at its end.

use std::time::Duration;

use indicatif::HumanBytes;
use serde_json::json;

use super::plan::Plan;
use super::transfer::Tally;
use crate::args::FetchArgs;
use crate::key_list::Names;
use crate::say;
use crate::stopped::Stopped;
use crate::table::Facts;

/// Positions that are listed one by one.
const LISTED: usize = 20;

pub(crate) fn print(args: &FetchArgs, plan: &Plan, tally: &Tally, took: Duration) {
    let bytes = u64::from(tally.fetched) * plan.block_len;
    let seconds = took.as_secs_f64();
    if args.json {
        let result = if tally.missing.is_empty() { "ok" } else { "missing" };
        say::line(json!({
            "fetch": result, "peer": args.peer, "blocks": plan.keys.len(), "fetched": tally.fetched,
            "missing": tally.missing, "block_len": plan.block_len, "bytes": bytes,
            "checked": plan.names == Names::Content, "seconds": seconds, "out": args.out,
        }));
        return;
    }
    let listed = tally.missing.iter().take(LISTED).map(u32::to_string).collect::<Vec<_>>().join(", ");
    let missing = match tally.missing.len() {
        0 => "none".to_owned(),
        count if count > LISTED => format!("{count}: {listed}, …"),
        count => format!("{count}: {listed}"),
    };
    Facts::default()
        .add("blocks wanted", plan.keys.len())
        .add("fetched", format!("{} ({})", tally.fetched, HumanBytes(bytes)))
        .add("missing", missing)
        .add(
            "checked",
            match plan.names {
                Names::Content => "every block against its key",
                Names::Tokens => "no: keys of tokens do not say what a block holds",
            },
        )
        .add("time", format!("{seconds:.2} s"))
        .add("written to", args.out.display())
        .print();
}

/// Scripts that read JSON get the reason there, too.
pub(crate) fn print_failure(stopped: &Stopped) {
    say::line(json!({ "fetch": "failed", "exit": stopped.exit.code(), "error": stopped.line }));
}
