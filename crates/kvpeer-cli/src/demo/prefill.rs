//! Prefill and decode: the consumer fetches without asking, before or after the producer stores.

use serde_json::json;

use super::director::{Director, REAL, check_loaded};
use super::order::{News, Order, Taken};
use super::report::Report;
use super::wrong;
use crate::stopped::Stopped;

pub(crate) fn show(director: &mut Director<'_>, report: &Report) -> Result<(), Stopped> {
    fetch_before_store(director, report)?;
    store_before_fetch(director, report)
}

/// The demand waits at the producer, which stores block by block as a prefill would.
fn fetch_before_store(director: &mut Director<'_>, report: &Report) -> Result<(), Stopped> {
    let (real, at) = (director.prompt.real, director.prompt.long);
    let request = director.request("prefill");
    director.open(&request, Taken::PrefillDecode)?;
    let load = director.load(&request, REAL, (0..real).collect(), at)?;
    arrived(director, &request)?;
    let parked = director.producer.stats()?.parked;
    if parked != real as usize {
        return Err(wrong(format!(
            "fetch before store: {parked} blocks wait at the producer instead of {real}"
        )));
    }
    let stores: Vec<u64> =
        (0..real).map(|block| director.store(&request, REAL, vec![block])).collect::<Result<_, _>>()?;
    let loaded = director.loaded(load)?;
    check_loaded(load, &loaded)?;
    stores.into_iter().try_for_each(|store| director.stored(store))?;
    director.verify(&(0..real).collect::<Vec<_>>(), at)?;
    finish(director, &request)?;
    let text = format!("{parked} blocks waited for at the producer, stored in {real} jobs; verified");
    report.step("fetch before store", &text, json!({ "parked": parked, "verified": real }));
    Ok(())
}

/// The supply waits at the producer, which has even finished the request.
fn store_before_fetch(director: &mut Director<'_>, report: &Report) -> Result<(), Stopped> {
    let (real, at) = (director.prompt.real, director.prompt.long);
    let request = director.request("prefill");
    // In another order than they will be asked for.
    let store = director.store(&request, REAL, (0..real).rev().collect())?;
    director.producer.order(&Order::Finish { request: request.clone() })?;
    director.open(&request, Taken::PrefillDecode)?;
    let wanted: Vec<u32> = (0..real).collect();
    director.load_and_verify(&request, REAL, &wanted, at)?;
    director.stored(store)?;
    director.consumer.order(&Order::Finish { request })?;
    let text = format!("{real} blocks stored and the request finished before the fetch; verified");
    report.step("store before fetch", &text, json!({ "verified": real }));
    Ok(())
}

/// Waits until the producer knows of the request's fetch.
pub(crate) fn arrived(director: &mut Director<'_>, request: &str) -> Result<(), Stopped> {
    director.producer.wait_for("a fetch", |news| {
        let News::FetchArrived { request: arrived } = news else { return None };
        (arrived == request).then_some(())
    })
}

pub(crate) fn finish(director: &mut Director<'_>, request: &str) -> Result<(), Stopped> {
    director.consumer.order(&Order::Finish { request: request.to_owned() })?;
    director.producer.order(&Order::Finish { request: request.to_owned() })
}
