//! Messages of every kind, with few names and small numbers in them.

use std::num::NonZeroU8;

use kvpeer_wire::{
    AbortAck, AbortFetch, BitsBuf, Blocks, Compat, Connect, ConnectAck, Demand, Disconnect, DisconnectReason,
    Failure, Fetch, FetchProgress, Fingerprint, Key, KeysBuf, Lookup, LookupId, LookupResp, Msg, Nonce,
    Outcome, PeerName, RegionInfo, Reject, RejectCode, Release, RequestName, Round, Supply, Text,
    TransferDone,
};

use crate::dice::Dice;

pub(crate) const BLOCK_LEN: u64 = 16;
/// Peers of the endpoint, which is `a`; one name is less than its, the others are greater.
pub(crate) const PEERS: [&str; 3] = ["A", "b", "c"];
const REQUESTS: [&str; 4] = ["q0", "q1", "q2", "q3"];
/// Keys are one byte, from 1 on.
pub(crate) const KEYS: u8 = 8;

pub(crate) fn peer(name: &str) -> PeerName<'_> {
    PeerName::new(name).expect("a short name")
}

pub(crate) fn request(n: u8) -> RequestName<'static> {
    RequestName::new(REQUESTS[usize::from(n) % REQUESTS.len()]).expect("a short name")
}

pub(crate) fn keys(numbers: &[u8]) -> KeysBuf {
    numbers.iter().map(|number| Key::new(std::slice::from_ref(number)).expect("a short key")).collect()
}

pub(crate) fn key(dice: &mut Dice<'_>) -> u8 {
    1 + dice.number(KEYS)
}

/// A `connect` that fits.
pub(crate) fn fitting(name: &str, incarnation: u64, num_blocks: u32) -> Connect<'_> {
    Connect {
        peer_id: peer(name),
        incarnation,
        region: RegionInfo { base_addr: 0x1000, num_blocks, block_len: BLOCK_LEN },
        metadata: b"a key",
        compat: Compat { hash_seed: Text::default(), fingerprint: Fingerprint::default() },
        capabilities: 0,
        heartbeat_ms: 2_000,
    }
}

fn code(dice: &mut Dice<'_>) -> NonZeroU8 {
    NonZeroU8::MIN.saturating_add(dice.number(13))
}

fn bits(dice: &mut Dice<'_>) -> BitsBuf {
    let count = u32::from(dice.number(6));
    let mut bits = BitsBuf::zeros(count);
    (0..count).filter(|_| dice.one_in(2)).for_each(|at| bits.set(at));
    bits
}

/// Makes up a message that claims to be from `name`, and lends it to `say`.
pub(crate) fn any(dice: &mut Dice<'_>, name: &str, say: impl FnOnce(Msg<'_>)) {
    let empty = Text::default();
    match dice.below(20) {
        0 => {
            let name = if dice.one_in(8) { "a" } else { name };
            let mut connect = fitting(name, 1 + u64::from(dice.number(2)), 8 * u32::from(dice.number(8)));
            if dice.one_in(8) {
                connect.region.base_addr = u64::MAX;
            }
            connect.heartbeat_ms = dice.wild(4) as u32;
            say(Msg::Connect(connect));
        }
        1 => say(Msg::ConnectAck(ConnectAck { incarnation: dice.wild(2).wrapping_add(1) })),
        2 => {
            let code = RejectCode::from_code(code(dice));
            let retry_after_ms = dice.wild(4) as u32;
            say(Msg::Reject(Reject { code, field: empty, ours: empty, theirs: empty, retry_after_ms }));
        }
        3 => {
            let reason = DisconnectReason::from_code(code(dice));
            say(Msg::Disconnect(Disconnect { reason, detail: empty }));
        }
        4 => say(Msg::Ping(Nonce(dice.wild(4)))),
        5 => say(Msg::Pong(Nonce(dice.wild(4)))),
        6..9 => {
            let (lookup_id, request, round) = (LookupId(dice.wild(6)), request(dice.number(4)), round(dice));
            let keys = keys(&dice.some(4, key));
            say(Msg::Lookup(Lookup { lookup_id, request, round, keys: keys.as_keys() }));
        }
        9 => {
            let (lookup_id, offset) = (LookupId(dice.wild(6)), dice.wild(4) as u32);
            let (hits, pin_ms) = (bits(dice), (dice.wild(4) as u32).saturating_mul(1_000));
            say(Msg::LookupResp(LookupResp { lookup_id, offset, hits: hits.as_bits(), pin_ms }));
        }
        10..14 => {
            let (request, round) = (request(dice.number(4)), round(dice));
            let supply = if dice.one_in(2) { Supply::Pinned } else { Supply::Await };
            let pairs = dice.some(5, |dice| (key(dice), dice.wild(50) as u32));
            let keys = keys(&pairs.iter().map(|(key, _)| *key).collect::<Vec<_>>());
            let blocks: Vec<u32> = pairs.iter().map(|(_, block)| *block).collect();
            let demand = Demand::new(keys.as_keys(), Blocks::new(&blocks)).expect("as many of each");
            let wait_ms = (dice.wild(8) as u32).saturating_mul(1_000);
            say(Msg::Fetch(Fetch { request, round, supply, demand, wait_ms }));
        }
        14 => {
            let (request, round) = (request(dice.number(4)), round(dice));
            let [matched, parked, landed] = [(); 3].map(|()| dice.wild(5) as u32);
            say(Msg::FetchProgress(FetchProgress { request, round, matched, parked, landed }));
        }
        15..17 => {
            let (request, round) = (request(dice.number(4)), round(dice));
            let why = Failure::from_code(code(dice));
            let (settled, landed) = (dice.one_in(2), bits(dice));
            let failed = Outcome::Failed { why, settled, landed: landed.as_bits() };
            let outcome = if dice.one_in(2) { failed } else { Outcome::Ok };
            say(Msg::TransferDone(TransferDone { request, round, outcome }));
        }
        17 => {
            let (request, round) = (request(dice.number(4)), round(dice));
            say(Msg::AbortFetch(AbortFetch { request, round }));
        }
        18 => {
            let (request, round) = (request(dice.number(4)), round(dice));
            say(Msg::AbortAck(AbortAck { request, round, settled: dice.one_in(2) }));
        }
        _ => say(Msg::Release(Release { request: request(dice.number(4)) })),
    }
}

fn round(dice: &mut Dice<'_>) -> Round {
    Round(dice.wild(5))
}
