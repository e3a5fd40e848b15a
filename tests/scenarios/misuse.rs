//! The embedder's mistakes: each is a typed `Misuse`. That a refused command changes nothing, and has no effect, the
//! world checks for every one of them (CMD-1).

use kvpeer_core::{Part, Refusal};
use kvpeer_wire::Supply;

use crate::prelude::*;

/// CMD-5 · guards I3: a job id is in use until its job is over; that of a quarantined load is, too.
#[test]
fn job_ids_are_not_shared() {
    let (mut w, load, store, _) = in_flight();
    let one = keys(&[2]);
    let (request, keys) = (name("r"), one.as_keys());
    let taken = |job: Job| Command::Load { job: job.id, request, keys, blocks: &[20] };
    w.refuses(A, taken(load), Misuse::JobInUse);
    let again = Command::Store { job: store.id, request, keys, blocks: &[20], consumer: None };
    w.refuses(B, again, Misuse::JobInUse);
    w.hold(Fences(A));
    w.cut(A, B);
    w.run();
    w.expect_quarantined(load);
    w.open_pd(A, "q", B);
    let again = Command::Load { job: load.id, request: name("q"), keys, blocks: &[20] };
    w.refuses(A, again, Misuse::JobInUse);
    w.end();
}

/// CMD-2 · guards I9: a request keeps its source and its mode; opening it alike again only renews the address.
#[test]
fn open_twice() {
    let mut w = pd();
    w.open_pd(A, "r", B);
    let part =
        |source: kvpeer_tests::Who, supply| Part::Consume { source: source.peer(), address: "b", supply };
    let request = name("r");
    w.refuses(A, Command::Open { request, part: part(C, Supply::Await) }, Misuse::AlreadyOpen);
    w.refuses(A, Command::Open { request, part: part(B, Supply::Pinned) }, Misuse::AlreadyOpen);
    w.end();
}

/// CMD-3 · guards I3: loads need an open request and as many distinct keys as blocks.
#[test]
fn loads_that_are_none() {
    let mut w = World::pair_with(|_, config| config.limits.keys = 3);
    w.open_pd(A, "r", B);
    let job = JobId(50);
    let load = |request, numbers: &[u32], blocks: &[u32], w: &mut World, misuse| {
        let keys = keys(numbers);
        w.refuses(A, Command::Load { job, request: name(request), keys: keys.as_keys(), blocks }, misuse);
    };
    load("q", &[1], &[1], &mut w, Misuse::UnknownRequest);
    load("r", &[1, 2], &[1], &mut w, Misuse::Unequal { keys: 2, blocks: 1 });
    load("r", &[1, 2, 3, 4], &[1, 2, 3, 4], &mut w, Misuse::TooManyKeys { keys: 4, limit: 3 });
    load("r", &[1, 1], &[1, 2], &mut w, Misuse::DoubledKey);
    load("r", &[1, 2], &[5, 5], &mut w, Misuse::DoubledBlock(5));
    load("r", &[1], &[64], &mut w, Misuse::OutOfRange(64));
    w.load(A, "r", &[1], &[7]);
    load("r", &[2, 3], &[6, 7], &mut w, Misuse::Reserved(7));
    w.end();
}

/// CMD-4 · guards I3: the same of stores; a request's consumer is named once.
#[test]
fn stores_that_are_none() {
    let mut w = World::pair_with(|_, config| config.limits.keys = 3);
    let (job, request) = (JobId(50), name("r"));
    let store = |numbers: &[u32], blocks: &[u32], consumer, w: &mut World, misuse| {
        let keys = keys(numbers);
        w.refuses(B, Command::Store { job, request, keys: keys.as_keys(), blocks, consumer }, misuse);
    };
    store(&[1, 2], &[1], None, &mut w, Misuse::Unequal { keys: 2, blocks: 1 });
    store(&[1, 2, 3, 4], &[1, 2, 3, 4], None, &mut w, Misuse::TooManyKeys { keys: 4, limit: 3 });
    store(&[1, 1], &[1, 2], None, &mut w, Misuse::DoubledKey);
    store(&[1], &[64], None, &mut w, Misuse::OutOfRange(64));
    w.store_for(B, "r", &[1], &[1], A);
    store(&[2], &[2], Some(C.peer()), &mut w, Misuse::OtherConsumer);
    w.end();
}

/// CMD-7, CMD-8, CMD-11 · guards I1, I3: jobs that are not there, are over, or are not quarantined.
#[test]
fn commands_for_other_jobs() {
    let mut w = pd();
    let load = w.load(A, "r", &[1], &[9]);
    let store = w.store(B, "r", &[1], &[3]);
    w.refuses(A, Command::ReleaseQuarantine { job: load.id }, Misuse::NotQuarantined);
    w.refuses(B, Command::ReleaseQuarantine { job: store.id }, Misuse::NotQuarantined);
    w.run();
    w.expect_loaded(load);
    w.expect_store(store, Delivered);
    for (who, job) in [(A, load.id), (B, store.id), (A, JobId(99))] {
        w.refuses(who, Command::Abort { job }, Misuse::UnknownJob);
        w.refuses(who, Command::Withdraw { job }, Misuse::UnknownJob);
        let release = w.try_command(who, Command::ReleaseQuarantine { job });
        assert!(matches!(release, Err(Misuse::NotQuarantined | Misuse::UnknownJob)), "{release:?}");
    }
    w.end();
}

/// CMD-10 · guards I3: peers that cannot be, are not known, or are too many.
#[test]
fn other_peers() {
    let mut w = World::pair();
    w.refuses(A, Command::ClosePeer { peer: C.peer() }, Misuse::UnknownPeer);
    w.refuses(A, Command::Connect { peer: A.peer(), address: "a" }, Misuse::Peer(Refusal::OwnId));
    let part = Part::Consume { source: A.peer(), address: "a", supply: Supply::Await };
    w.refuses(A, Command::Open { request: name("r"), part }, Misuse::Peer(Refusal::OwnId));
    w.end();
}

/// CMD-6 · guards I3: finishing what is not there is no mistake.
#[test]
fn finish_is_forgiving() {
    let mut w = World::pair();
    for role in [Role::Consumer, Role::Producer, Role::Both] {
        w.finish_as(A, "never", role);
    }
    w.run();
    w.expect_silence(A, B);
    w.end();
}

/// LIM-1 · guards I7: requests open here are bounded.
#[test]
fn open_requests_are_bounded() {
    let mut w = World::pair_with(|_, config| config.limits.requests = 2);
    w.open_pd(A, "r", B);
    w.open_symmetric(A, "s", B);
    let part = Part::Consume { source: B.peer(), address: "b", supply: Supply::Await };
    let refused = w.try_command(A, Command::Open { request: name("t"), part });
    assert!(matches!(refused, Err(Misuse::TooMany(_))), "{refused:?}");
    w.finish(A, "s");
    w.open_pd(A, "t", B);
    w.end();
}

/// END-8 · guards I3: after `Shutdown` nothing new begins.
#[test]
fn nothing_begins_after_shutdown() {
    let mut w = pd();
    w.shutdown(A, 1.s());
    let (one, job) = (keys(&[1]), JobId(50));
    let (request, keys) = (name("r"), one.as_keys());
    let part = Part::Consume { source: B.peer(), address: "b", supply: Supply::Await };
    for command in [
        Command::Open { request: name("q"), part },
        Command::Load { job, request, keys, blocks: &[1] },
        Command::Store { job, request, keys, blocks: &[1], consumer: None },
        Command::Connect { peer: B.peer(), address: "b" },
    ] {
        w.refuses(A, command, Misuse::ShuttingDown);
    }
    w.end();
}
