//! What the demo prints.

use std::time::Duration;

use indicatif::HumanBytes;
use serde_json::{Value, json};

use super::Summary;
use super::prompt::Prompt;
use crate::args::DemoArgs;
use crate::say;
use crate::stopped::Stopped;

pub(crate) enum Report {
    Text,
    Json,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }

    pub(crate) fn opening(&self, args: &DemoArgs, prompt: &Prompt) {
        match self {
            Self::Text => say::line(format_args!(
                "{}: {} tokens, {} blocks of {}; and a long prompt made of them: {} blocks, {}",
                args.kv.display(),
                prompt.tokens.len(),
                prompt.real,
                HumanBytes(prompt.block_len()),
                prompt.long,
                HumanBytes(u64::from(prompt.long) * prompt.block_len()),
            )),
            Self::Json => say::line(json!({
                "step": "input", "tokens": prompt.tokens.len(), "blocks": prompt.real,
                "block_len": prompt.block_len(), "long_blocks": prompt.long, "provider": args.provider.name(),
            })),
        }
    }

    /// A step that went as it must: `text` for people, `facts` (an object) for machines.
    pub(crate) fn step(&self, name: &str, text: &str, facts: Value) {
        match self {
            Self::Text => say::line(format_args!("  {name:<26} {text}")),
            Self::Json => {
                let mut line = json!({ "step": name });
                if let (Some(line), Value::Object(facts)) = (line.as_object_mut(), facts) {
                    line.extend(facts);
                }
                say::line(line);
            }
        }
    }

    /// A cut that did not happen in mid-transfer, and so shows nothing.
    pub(crate) fn missed(&self, name: &str, attempt: u32, why: &str) {
        self.step(
            name,
            &format!("not in mid-transfer ({why}), tried again"),
            json!({ "missed": attempt, "why": why }),
        );
    }

    pub(crate) fn ok(&self, summary: &Summary, took: Duration) {
        let Summary { verified, bytes, jobs, abort_writes, kill_writes } = summary;
        let seconds = took.as_secs_f64();
        match self {
            Self::Text => say::line(format_args!(
                "demo ok: {verified} blocks ({}) verified against the file, {jobs} jobs answered once each, cut with \
                 {abort_writes} and {kill_writes} WRITEs in flight, {seconds:.1} s",
                HumanBytes(*bytes)
            )),
            Self::Json => say::line(json!({
                "demo": "ok", "verified_blocks": verified, "verified_bytes": bytes, "jobs": jobs,
                "abort_writes_in_flight": abort_writes, "kill_writes_in_flight": kill_writes, "seconds": seconds,
            })),
        }
    }

    pub(crate) fn failed(&self, stopped: &Stopped) {
        match self {
            // The program says it on standard error.
            Self::Text => {}
            Self::Json => {
                say::line(json!({ "demo": "failed", "error": stopped.line, "exit": stopped.exit.code() }));
            }
        }
    }
}
