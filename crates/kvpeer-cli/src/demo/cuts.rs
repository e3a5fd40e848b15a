//! Transfers that are cut in the middle: no block that is used again is overwritten later.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::director::{Director, LONG, REAL};
use super::order::{LoadResult, LoadedRange, News, Order, Taken};
use super::prefill::{arrived, finish};
use super::report::Report;
use super::wrong;
use crate::stopped::Stopped;

/// A cut that comes too early or too late shows nothing and is repeated, so often.
const TRIES: u32 = 10;

/// How long after their reuse the blocks of a killed producer are looked at again: what a writer had left in the
/// sockets lands within milliseconds, if it lands at all.
const LATER: Duration = Duration::from_secs(2);

/// The consumer aborts a load while WRITEs are posted and not terminal, and uses the blocks again at once.
/// Answers how many WRITEs.
pub(crate) fn show_abort(director: &mut Director<'_>, report: &Report) -> Result<usize, Stopped> {
    for attempt in 1..=TRIES {
        match abort(director, report)? {
            Cut::InMidTransfer { writes } => return Ok(writes),
            Cut::Missed(why) => report.missed("abort", attempt, why),
        }
    }
    Err(wrong(format!("abort: none of {TRIES} aborts came while WRITEs were in flight")))
}

enum Cut {
    InMidTransfer { writes: usize },
    Missed(&'static str),
}

fn abort(director: &mut Director<'_>, report: &Report) -> Result<Cut, Stopped> {
    let long = director.prompt.long;
    let all: Vec<u32> = (0..long).collect();
    let request = director.request("abort");
    let store = director.store(&request, LONG, all.clone())?;
    director.open(&request, Taken::PrefillDecode)?;
    let load = director.load(&request, LONG, all.clone(), 0)?;
    if director.producer_is_writing(&[load])?.is_none() {
        return missed(director, &request, "the transfer was over before the abort");
    }
    director.consumer.order(&Order::Abort { job: load })?;
    // Asked after the abort was given: what is in flight now is in flight under it.
    let under_way = director.producer.stats()?;
    let aborted = director.loaded(load)?;
    if aborted.result == LoadResult::Loaded {
        return missed(director, &request, "the transfer was over before the abort");
    }
    if !aborted.reusable {
        return Err(wrong("abort: the blocks are quarantined although the producer lives"));
    }
    if under_way.writes == 0 {
        return missed(director, &request, "no WRITE was in flight any more when the producer was asked");
    }

    // At once into the same blocks: each gets its neighbour's content, so a late WRITE would show.
    let shifted: Vec<u32> = (1..long).chain([0]).collect();
    director.load_and_verify(&request, LONG, &shifted, 0)?;
    director.stored(store)?;
    finish(director, &request)?;
    // After another transfer on the same connections, they are still what they were.
    small_transfer(director)?;
    director.verify(&shifted, 0)?;

    let (writes, blocks) = (under_way.writes, under_way.blocks_in_flight);
    let text = format!(
        "{writes} WRITEs ({blocks} blocks) in flight at the abort; settled, blocks used again by another load: {long} \
         blocks verified twice"
    );
    let facts = json!({
        "writes_in_flight": writes, "blocks_in_flight": blocks, "verified": 2 * long,
    });
    report.step("abort", &text, facts);
    Ok(Cut::InMidTransfer { writes })
}

fn missed(director: &mut Director<'_>, request: &str, why: &'static str) -> Result<Cut, Stopped> {
    finish(director, request)?;
    Ok(Cut::Missed(why))
}

/// The real prompt once more, beside the long one.
fn small_transfer(director: &mut Director<'_>) -> Result<(), Stopped> {
    let (real, at) = (director.prompt.real, director.prompt.long);
    let request = director.request("small");
    let wanted: Vec<u32> = (0..real).collect();
    let store = director.store(&request, REAL, wanted.clone())?;
    director.open(&request, Taken::PrefillDecode)?;
    director.load_and_verify(&request, REAL, &wanted, at)?;
    director.stored(store)?;
    finish(director, &request)
}

/// The producer is killed while its WRITEs are posted and not terminal. Answers how many.
pub(crate) fn show_kill(director: &mut Director<'_>, report: &Report) -> Result<usize, Stopped> {
    for attempt in 1..=TRIES {
        match kill(director, report)? {
            Cut::InMidTransfer { writes } => return Ok(writes),
            Cut::Missed(why) => {
                report.missed("kill", attempt, why);
                director.replace_producer()?;
            }
        }
    }
    Err(wrong(format!("kill: none of {TRIES} kills came while WRITEs were in flight")))
}

/// What is all over the consumer's blocks before the loads that are cut, and after their reuse.
const OLD: u32 = 0x01d;
const NEW: u32 = 0x2e3;

/// A part of the long prompt, stored and being loaded.
fn half(director: &mut Director<'_>, blocks: Range<u32>) -> Result<LoadedRange, Stopped> {
    let request = director.request("kill");
    director.store(&request, LONG, blocks.clone().collect())?;
    director.open(&request, Taken::PrefillDecode)?;
    let job = director.load(&request, LONG, blocks.clone().collect(), blocks.start)?;
    Ok(LoadedRange { job, first: blocks.start, count: blocks.end - blocks.start })
}

fn kill(director: &mut Director<'_>, report: &Report) -> Result<Cut, Stopped> {
    let (real, long) = (director.prompt.real, director.prompt.long);
    director.consumer.order(&Order::Fill { first: 0, count: long + real, with: OLD })?;
    // Two loads that are being written, and one whose blocks nobody has stored.
    let halves = [half(director, 0..long / 2)?, half(director, long / 2..long)?];
    let request = director.request("kill");
    director.open(&request, Taken::PrefillDecode)?;
    let job = director.load(&request, REAL, (0..real).collect(), long)?;
    let parked = LoadedRange { job, first: long, count: real };
    arrived(director, &request)?;
    let loads = vec![halves[0], halves[1], parked];
    director.consumer.order(&Order::Reuse { loads: loads.clone(), old: OLD, new: NEW })?;

    let _ = director.producer_is_writing(&halves.map(|half| half.job))?;
    // A consumer that stands still takes no WRITE, so none ends: what is in flight now is in flight at the kill, and
    // the sockets are full of it.
    director.consumer.signal(Signal::STOP)?;
    let under_way = director.producer.stats()?;
    let killed = Instant::now();
    director.producer.kill()?;
    director.consumer.signal(Signal::CONT)?;

    let mut quarantined = Vec::new();
    for LoadedRange { job, .. } in &loads {
        let ended = director.loaded(*job)?;
        match (ended.result, ended.reusable) {
            (LoadResult::Failed { .. }, false) => quarantined.push(*job),
            // Was over just before.
            (LoadResult::Loaded, true) => {}
            (result, reusable) => {
                return Err(wrong(format!("kill: load {job} ended with {result:?}, reusable: {reusable}")));
            }
        }
    }
    for job in &quarantined {
        director.consumer.wait_for("the release of quarantined blocks", |news| {
            (*news == News::Released { job: *job }).then_some(())
        })?;
    }
    // The consumer has used them again in the moment of their release.
    let used = director.consumer.wait_for("the reuse of released blocks", |news| {
        let News::Reused { blocks } = news else { return None };
        Some(*blocks)
    })?;
    let (took, reused) = (killed.elapsed(), Instant::now());
    director.verify_marked(0, used, NEW)?;
    if under_way.writes == 0 || !halves.iter().any(|half| quarantined.contains(&half.job)) {
        return Ok(Cut::Missed("the transfers were over before the kill"));
    }

    director.replace_producer()?;
    thread::sleep(LATER.saturating_sub(reused.elapsed()));
    director.verify_marked(0, used, NEW)?;
    let request = director.request("after");
    let store = director.store(&request, LONG, (0..long).collect())?;
    director.open(&request, Taken::PrefillDecode)?;
    let turned: Vec<u32> = (0..long).rev().collect();
    director.load_and_verify(&request, LONG, &turned, 0)?;
    director.stored(store)?;
    finish(director, &request)?;

    let (writes, blocks) = (under_way.writes, under_way.blocks_in_flight);
    let text = format!(
        "{writes} WRITEs ({blocks} blocks) in flight at SIGKILL; 3 loads answered once, {} quarantined, released by \
         the fence and used again within {} ms, intact {} s later; then loaded from a new producer: {long} blocks \
         verified",
        quarantined.len(),
        took.as_millis(),
        LATER.as_secs(),
    );
    let facts = json!({
        "writes_in_flight": writes, "blocks_in_flight": blocks, "jobs": 3, "quarantined": quarantined.len(),
        "reused_within_ms": took.as_secs_f64() * 1e3, "reused": used, "overwritten": 0, "verified": long,
    });
    report.step("kill", &text, facts);
    Ok(Cut::InMidTransfer { writes })
}
