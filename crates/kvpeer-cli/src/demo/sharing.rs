//! Symmetric sharing: the consumer asks what the producer holds, and takes what is there.

use serde_json::json;

use super::director::{Director, REAL};
use super::order::{Order, Taken};
use super::report::Report;
use super::wrong;
use crate::stopped::Stopped;

/// Blocks of the real prompt that the producer holds at first.
const AT_FIRST: u32 = 2;

pub(crate) fn show(director: &mut Director<'_>, report: &Report) -> Result<(), Stopped> {
    let (real, at) = (director.prompt.real, director.prompt.long);
    publish(director, (0..AT_FIRST).collect())?;

    // One request in two rounds: the producer computes the rest of the prompt between them.
    let request = director.request("symmetric");
    director.open(&request, Taken::Symmetric)?;
    round(director, report, "symmetric, round 1", &request, REAL, 0..real, AT_FIRST, at)?;
    publish(director, (AT_FIRST..real).collect())?;
    round(
        director,
        report,
        "symmetric, round 2",
        &request,
        REAL,
        AT_FIRST..real,
        real - AT_FIRST,
        at + AT_FIRST,
    )?;
    director.verify(&(0..real).collect::<Vec<_>>(), at)?;
    finish(director, &request)?;

    // Another prompt, the same up to a point.
    let fork = real - 1;
    director
        .consumer
        .order(&Order::Learn { prompt: "forked".to_owned(), tokens: director.prompt.forked_at(fork) })?;
    let request = director.request("symmetric");
    director.open(&request, Taken::Symmetric)?;
    round(director, report, "symmetric, common prefix", &request, "forked", 0..real, fork, at)?;
    finish(director, &request)?;

    // And one that has nothing in common with it.
    director
        .consumer
        .order(&Order::Learn { prompt: "foreign".to_owned(), tokens: director.prompt.forked_at(0) })?;
    let request = director.request("symmetric");
    director.open(&request, Taken::Symmetric)?;
    round(director, report, "symmetric, foreign prompt", &request, "foreign", 0..real, 0, at)?;
    finish(director, &request)
}

/// Looks up `blocks`, of which the first `held` must be hits and no other; fetches and verifies those.
#[expect(clippy::too_many_arguments, reason = "each call reads like a line of a table")]
fn round(
    director: &mut Director<'_>,
    report: &Report,
    name: &str,
    request: &str,
    prompt: &str,
    blocks: std::ops::Range<u32>,
    held: u32,
    at: u32,
) -> Result<(), Stopped> {
    let hits = director.hits(request, prompt, blocks.clone().collect())?;
    let expected: Vec<bool> = blocks.clone().map(|block| block < blocks.start + held).collect();
    if hits != expected {
        return Err(wrong(format!("{name}: hits {hits:?} instead of {expected:?}")));
    }
    let fetched: Vec<u32> = blocks.clone().take(held as usize).collect();
    if !fetched.is_empty() {
        director.load_and_verify(request, prompt, &fetched, at)?;
    }
    let misses = hits.len() - fetched.len();
    let text = format!("{held} hits, {misses} misses; {held} blocks fetched and verified");
    report.step(name, &text, json!({ "hits": held, "misses": misses, "verified": held }));
    Ok(())
}

fn publish(director: &mut Director<'_>, blocks: Vec<u32>) -> Result<(), Stopped> {
    director.producer.order(&Order::Publish { prompt: REAL.to_owned(), blocks })
}

fn finish(director: &mut Director<'_>, request: &str) -> Result<(), Stopped> {
    director.consumer.order(&Order::Finish { request: request.to_owned() })
}
