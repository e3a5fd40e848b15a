//! Floods against a node in a process of its own: its memory stays within its budget, and honest work goes on.

use std::net::SocketAddr;

use kvpeer::wire::{
    AbortFetch, Blocks, Demand, Fetch, Key, KeysBuf, Lookup, LookupId, Msg, Nonce, Release, RequestName,
    Round, Supply,
};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::attacker::{Attacker, frame};
use crate::process::Pair;

/// An attack on a node that has an honest peer, whose work must go on during and after it.
fn under_attack(attack: impl FnOnce(SocketAddr, &mut Vec<Attacker>, &mut dyn FnMut())) {
    let mut pair = Pair::start();
    let mut attackers = Vec::new();
    attack(pair.victim.address, &mut attackers, &mut || pair.works());
    pair.works();
    pair.has_kept_its_budget();
    // They hang up, all at once.
    drop(attackers);
    pair.works();
    pair.has_kept_its_budget();
}

/// How many connections of strangers a node has at a time.
const STRANGERS: usize = 32;
/// How many hostile peers are admitted. Each costs a right of the data plane, about 1 MiB with libfabric 1.17.
const PEERS: usize = 12;
/// More than it takes to use the budget up: each may use half of it. LIM-4: others have their share all the same.
const HOGS: usize = 3;

fn pings(count: u64) -> Vec<u8> {
    (0..count).flat_map(|nonce| frame(&Msg::Ping(Nonce(nonce)))).collect()
}

/// LIM-1, LIM-2: the answers to their pings are never read.
#[test]
fn strangers_that_ping_and_never_read() {
    under_attack(|address, attackers, honest| {
        let pings = pings(20_000);
        for _ in 0..STRANGERS {
            let mut stranger = Attacker::polite(address);
            stranger.try_write(&pings);
            attackers.push(stranger);
        }
        honest();
        let last = attackers.last_mut().expect("there are some");
        let hung_up = (0..200).any(|_| !last.try_write(&pings));
        assert!(hung_up, "a stranger that reads nothing is served for ever");
    });
}

/// FR-5, FR-6, FR-11: what a stranger claims costs nothing, what it sends is bounded.
#[test]
fn strangers_that_claim_huge_lengths() {
    under_attack(|address, attackers, honest| {
        for length in [0, (64 << 10) + 1, 4 << 20, u32::MAX] {
            let mut stranger = Attacker::polite(address);
            stranger.try_write(&length.to_le_bytes());
            stranger.wait_closed();
        }
        for _ in 0..STRANGERS - 1 {
            let mut stranger = Attacker::polite(address);
            stranger.try_write(&(64u32 << 10).to_le_bytes());
            stranger.try_write(&[1; (64 << 10) - 1]);
            attackers.push(stranger);
        }
        honest();
    });
}

/// FR-3, FR-10: bytes that are no protocol, as fast as they can be written.
#[test]
fn strangers_that_send_garbage() {
    under_attack(|address, _, honest| {
        let mut garbage = vec![0u8; 1 << 20];
        let mut seed = 0x9e37_79b9u32;
        garbage.iter_mut().for_each(|byte| {
            seed ^= seed << 13;
            seed ^= seed >> 17;
            seed ^= seed << 5;
            *byte = seed as u8;
        });
        for at in 0..100 {
            let mut stranger =
                if at % 2 == 0 { Attacker::silent(address) } else { Attacker::polite(address) };
            let hung_up = (0..128).any(|_| !stranger.try_write(&garbage));
            assert!(hung_up, "garbage is read for ever");
            if at % 25 == 0 {
                honest();
            }
        }
    });
}

/// LIM-1: thousands of connections, which say nothing.
#[test]
fn thousands_of_silent_connections() {
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    setrlimit(Resource::Nofile, raised).expect("up to the maximum is allowed");
    under_attack(|address, attackers, honest| {
        for at in 0..3_000 {
            attackers.push(Attacker::silent(address));
            if at % 1_000 == 0 {
                honest();
            }
        }
    });
}

/// FR-11, LIM-3: a large message that never ends, from each of many peers.
#[test]
fn peers_that_never_end_a_large_message() {
    under_attack(|address, attackers, honest| {
        for at in 0..PEERS {
            let mut peer = Attacker::admitted(&format!("peer-{at}"), address);
            peer.try_write(&(4u32 << 20).to_le_bytes());
            peer.try_write(&vec![9; (4 << 20) - 1]);
            attackers.push(peer);
        }
        honest();
    });
}

/// LIM-2: long answers are never read.
#[test]
fn peers_that_never_read() {
    under_attack(|address, attackers, honest| {
        let name = long("nothing", 0);
        let aborts: Vec<u8> = (0..10_000).flat_map(|round| abort(&name, round)).collect();
        for at in 0..PEERS {
            let mut peer = Attacker::admitted(&format!("peer-{at}"), address);
            peer.try_write(&aborts);
            attackers.push(peer);
        }
        honest();
        let last = attackers.last_mut().expect("there are some");
        let hung_up = (0..200).any(|_| !last.try_write(&aborts));
        assert!(hung_up, "a peer that reads nothing is served for ever");
    });
}

/// A name of the longest length.
fn long(prefix: &str, number: usize) -> String {
    format!("{prefix}-{number:0>width$}", width = 255 - prefix.len() - 1)
}

fn fetch(name: &str, round: u64, keys: &KeysBuf) -> Vec<u8> {
    let blocks: Vec<u32> = (0..).take(keys.as_keys().len()).collect();
    let demand = Demand::new(keys.as_keys(), Blocks::new(&blocks)).expect("as many of each");
    let request = RequestName::new(name).expect("a name");
    let fetch = Fetch { request, round: Round(round), supply: Supply::Await, demand, wait_ms: u32::MAX };
    frame(&Msg::Fetch(fetch))
}

fn abort(name: &str, round: u64) -> Vec<u8> {
    frame(&Msg::AbortFetch(AbortFetch {
        request: RequestName::new(name).expect("a name"),
        round: Round(round),
    }))
}

fn absent(count: u32) -> KeysBuf {
    let keys: Vec<[u8; 64]> =
        (0..count).map(|at| std::array::from_fn(|byte| (at >> (byte % 4 * 8)) as u8)).collect();
    keys.iter().map(|key| Key::new(key).expect("a key")).collect()
}

/// As many as a peer may have, and some more.
const FRESH: usize = 66_000;

/// LIM-1, LIM-3, LIM-4, I7: demand under ever new ids, which nobody will ever meet.
#[test]
fn peers_that_fetch_under_fresh_ids() {
    under_attack(|address, attackers, honest| {
        let keys = absent(1);
        for at in 0..HOGS {
            let mut peer = Attacker::admitted(&long("peer", at), address);
            for number in 0..FRESH {
                peer.try_write(&fetch(&long("fresh", at * 1_000_000 + number), 0, &keys));
                drain(&mut peer, number);
            }
            peer.wait_heard();
            attackers.push(peer);
            honest();
        }
    });
}

/// The same, each released and aborted at once: what is left of it is the memory of ids.
#[test]
fn peers_that_fetch_and_release_fresh_ids() {
    under_attack(|address, attackers, honest| {
        let keys = absent(1);
        let mut peer = Attacker::admitted(&long("peer", 0), address);
        for number in 0..FRESH {
            let name = long("fresh", number);
            let release = frame(&Msg::Release(Release { request: RequestName::new(&name).expect("a name") }));
            peer.try_write(&[fetch(&name, 0, &keys), release, abort(&name, 0)].concat());
            drain(&mut peer, number);
        }
        peer.wait_heard();
        attackers.push(peer);
        honest();
    });
}

/// LIM-1: few fetches of very many blocks.
#[test]
fn peers_that_fetch_very_much() {
    under_attack(|address, attackers, honest| {
        let keys = absent(16_384);
        for at in 0..HOGS {
            let mut peer = Attacker::admitted(&format!("peer-{at}"), address);
            for number in 0..40 {
                peer.try_write(&fetch(&format!("much-{at}-{number}"), 0, &keys));
            }
            peer.wait_heard();
            attackers.push(peer);
            honest();
        }
    });
}

/// LIM-3: keys that are alike wherever a hash might look.
#[test]
fn peers_that_fetch_keys_made_to_collide() {
    under_attack(|address, attackers, honest| {
        let keys: Vec<[u8; 18]> = (0..16_384u16)
            .map(|at| {
                let mut key = [7; 18];
                key[8..10].copy_from_slice(&at.to_le_bytes());
                key
            })
            .collect();
        let keys: KeysBuf = keys.iter().map(|key| Key::new(key).expect("a key")).collect();
        for at in 0..HOGS {
            let mut peer = Attacker::admitted(&format!("peer-{at}"), address);
            for number in 0..40 {
                peer.try_write(&fetch(&format!("alike-{at}-{number}"), 0, &keys));
            }
            peer.wait_heard();
            attackers.push(peer);
            honest();
        }
    });
}

/// LKP-10: lookups of everything, of nothing, and for ever new rounds.
#[test]
fn peers_that_look_up_without_end() {
    under_attack(|address, attackers, honest| {
        let served: Vec<[u8; 4]> = (0..32u32).map(u32::to_le_bytes).collect();
        let served: KeysBuf = served.iter().map(|key| Key::new(key).expect("a key")).collect();
        let absent = absent(16_384);
        for at in 0..HOGS {
            let mut peer = Attacker::admitted(&format!("peer-{at}"), address);
            for number in 0..2_000u64 {
                let keys = if number % 100 == 99 { &absent } else { &served };
                let request = long("look", number as usize);
                let request = RequestName::new(&request).expect("a name");
                let (lookup_id, round) = (LookupId(number), Round(number));
                peer.say(&Msg::Lookup(Lookup { lookup_id, request, round, keys: keys.as_keys() }));
                drain(&mut peer, number as usize);
            }
            peer.wait_heard();
            attackers.push(peer);
            honest();
        }
    });
}

/// MSG-11: aborts of rounds that never were are acknowledged, and leave nothing.
#[test]
fn peers_that_abort_what_never_was() {
    under_attack(|address, attackers, honest| {
        for at in 0..HOGS {
            let mut peer = Attacker::admitted(&format!("peer-{at}"), address);
            for number in 0..30_000 {
                peer.try_write(&abort("nothing", number));
                drain(&mut peer, number as usize);
            }
            peer.wait_heard();
            attackers.push(peer);
            honest();
        }
    });
}

/// Reads the answers now and then, so that the connection lives.
fn drain(peer: &mut Attacker, number: usize) {
    if number % 1_000 == 999 {
        peer.wait_heard();
    }
}
