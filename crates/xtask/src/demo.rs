//! `cargo xtask demo`: builds `kvpeer`, then runs its demo on the committed KV cache.

use std::process::Stdio;

use clap::Args;

use crate::cargo::cargo;
use crate::system::{self, Need};
use crate::{Failure, Setup};

#[derive(Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    setup: Setup,
    /// One JSON object per line instead of text
    #[arg(long)]
    json: bool,
    /// The profile to build with; the demo moves half a gigabyte, so not `dev`
    #[arg(long, default_value = "release", value_name = "PROFILE")]
    profile: String,
    /// Passed to `kvpeer demo` (after `--`)
    #[arg(last = true)]
    more: Vec<String>,
}

/// A real prompt's KV cache; its provenance is beside it.
const KV: &str = "tests/data/smollm2-135m-prompt.kv.safetensors";
const TOKENS: &str = "tests/data/smollm2-135m-prompt.tokens.json";

pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    system::provide(&[Need::Libfabric], args.setup.policy())?;
    let package = ["--package", "kvpeer-cli", "--bin", "kvpeer", "--profile", &args.profile];
    // Built first and apart, so that a failing build is not taken for a failing demo. Cargo reports on stderr.
    let mut build = cargo(&[&["build"], &package[..]].concat());
    let built = build.status().is_ok_and(|status| status.success());
    if !built {
        return Err(Failure::Told("kvpeer does not build; the compiler's messages are above".to_owned()));
    }
    let mut demo =
        cargo(&[&["run", "--quiet"], &package[..], &["--", "demo", "--kv", KV, "--tokens", TOKENS]].concat());
    if args.json {
        demo.arg("--json");
    }
    let status = demo.args(&args.more).stdin(Stdio::null()).status();
    let status = status.map_err(|error| Failure::Told(format!("the demo cannot be started: {error}")))?;
    if status.success() {
        return Ok(());
    }
    // The demo has said what failed.
    Err(Failure::Exit(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
