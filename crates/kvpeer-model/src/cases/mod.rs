//! The worlds that are searched.
//!
//! Each starts from the smallest setup that shows what it is about. `a` and `b` are the two nodes; `a` has the smaller
//! id. Timers have a few seconds, so that their moments coincide; time passes only when nothing prompt is left, and
//! what a fault delays may come at any later moment.

mod handshake;
mod loss;
mod pd;
mod pulse;
mod symmetric;

use std::collections::BTreeSet;

use kvpeer_core::{BlockIdx, JobId};
use kvpeer_sim::setup::{Ask, Script, Setup, When};
use kvpeer_sim::{Who, Wish};
use kvpeer_wire::Supply;

use crate::case::Case;

const A: Who = Who(0);
const B: Who = Who(1);
const C: Who = Who(2);

/// All cases, the quick ones first.
pub fn all() -> Vec<Case> {
    let mut all = pd::cases();
    all.extend(symmetric::cases());
    all.extend(handshake::cases());
    all.extend(loss::cases());
    all.extend(pulse::cases());
    all.sort_by_key(|case| case.size);
    all
}

/// The case of a name.
pub fn named(name: &str) -> Option<Case> {
    all().into_iter().find(|case| case.setup.name == name)
}

/// Two nodes with a session; what the planes are asked for they do at once.
fn session(name: &str) -> Setup {
    let asks = [Ask::Admit, Ask::Open, Ask::Register, Ask::Close, Ask::Probe, Ask::Accept];
    Setup { connected: vec![(A, B)], eager: BTreeSet::from(asks), ..Setup::quiet(name) }
}

fn script(who: Who, wishes: impl IntoIterator<Item = (When, Wish)>) -> Script {
    Script { who, life: 1, wishes: wishes.into_iter().collect() }
}

fn now(wish: Wish) -> (When, Wish) {
    (When::Now, wish)
}

fn any_time(wish: Wish) -> (When, Wish) {
    (When::AnyTime, wish)
}

fn consume(request: u8, source: Who, supply: Supply) -> Wish {
    Wish::Consume { request, source, supply }
}

fn load(job: u64, request: u8, keys: &[u8], blocks: &[BlockIdx]) -> Wish {
    Wish::Load { job: JobId(job), request, keys: keys.to_vec(), blocks: blocks.to_vec() }
}

fn load_hits(job: u64, request: u8, keys: &[u8], blocks: &[BlockIdx]) -> Wish {
    Wish::LoadHits { job: JobId(job), request, keys: keys.to_vec(), blocks: blocks.to_vec() }
}

fn ask(request: u8, keys: &[u8]) -> Wish {
    Wish::Ask { request, keys: keys.to_vec() }
}

fn store(job: u64, request: u8, keys: &[u8], blocks: &[BlockIdx]) -> Wish {
    let (keys, blocks) = (keys.to_vec(), blocks.to_vec());
    Wish::Store { job: JobId(job), request, keys, blocks, consumer: None }
}

fn abort(job: u64) -> Wish {
    Wish::Abort { job: JobId(job) }
}

fn faults(setup: &mut Setup, budget: u8, faults: impl IntoIterator<Item = kvpeer_sim::setup::Fault>) {
    setup.budget = budget;
    setup.faults = faults.into_iter().collect();
}
