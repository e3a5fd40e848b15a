//! Messages of every kind with small numbers in them, so that they often name what is there.

use kvpeer_wire::{
    AbortAck, AbortFetch, Bits, BitsBuf, Blocks, Connect, ConnectAck, Demand, Disconnect, DisconnectReason,
    Failure, Fetch, FetchProgress, Key, KeysBuf, Lookup, LookupId, LookupResp, Msg, Nonce, Outcome, Reject,
    RejectCode, Release, RequestName, Round, Supply, Text, TransferDone,
};
use proptest::prelude::*;

/// A message, owned.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    Connect { peer: &'static str, incarnation: u64, block_len: u64, num_blocks: u32 },
    ConnectAck(u64),
    Reject(RejectCode, u32),
    Disconnect(DisconnectReason),
    Ping(u64),
    Pong(u64),
    Lookup { id: u64, request: u8, round: u64, keys: Vec<u8> },
    LookupResp { id: u64, offset: u32, hits: Vec<bool>, pin_ms: u32 },
    Fetch { request: u8, round: u64, supply: Supply, pairs: Vec<(u8, u32)>, wait_ms: u32 },
    Progress { request: u8, round: u64, counts: [u32; 3] },
    Done { request: u8, round: u64, outcome: Option<(Failure, bool, Vec<bool>)> },
    Abort { request: u8, round: u64 },
    Ack { request: u8, round: u64, settled: bool },
    Release(u8),
}

/// Keys of one byte each.
pub(crate) fn keys(bytes: &[u8]) -> KeysBuf {
    bytes.iter().map(|byte| Key::new(std::slice::from_ref(byte)).expect("a short key")).collect()
}

fn bits(bits: &[bool]) -> BitsBuf {
    let mut set = BitsBuf::zeros(bits.len() as u32);
    bits.iter().enumerate().filter(|(_, bit)| **bit).for_each(|(at, _)| set.set(at as u32));
    set
}

/// Lends the message to `say`.
pub(crate) fn with(say: &Say, then: impl FnOnce(Msg<'_>)) {
    let name = |n: &u8| format!("r{n}");
    match say {
        Say::Connect { peer, incarnation, block_len, num_blocks } => {
            let fits = kvpeer_tests::rogue_connect();
            let peer_id = kvpeer_wire::PeerName::new(peer).expect("a legal name");
            let region =
                kvpeer_wire::RegionInfo { block_len: *block_len, num_blocks: *num_blocks, ..fits.region };
            then(Msg::Connect(Connect { peer_id, incarnation: *incarnation, region, ..fits }));
        }
        Say::ConnectAck(incarnation) => then(Msg::ConnectAck(ConnectAck { incarnation: *incarnation })),
        Say::Reject(code, retry_after_ms) => {
            let (field, ours, theirs) = (Text::default(), Text::default(), Text::default());
            then(Msg::Reject(Reject { code: *code, field, ours, theirs, retry_after_ms: *retry_after_ms }));
        }
        Say::Disconnect(reason) => {
            then(Msg::Disconnect(Disconnect { reason: *reason, detail: Text::default() }));
        }
        Say::Ping(nonce) => then(Msg::Ping(Nonce(*nonce))),
        Say::Pong(nonce) => then(Msg::Pong(Nonce(*nonce))),
        Say::Lookup { id, request, round, keys } => {
            let (name, keys) = (name(request), self::keys(keys));
            let (request, keys) = (named(&name), keys.as_keys());
            then(Msg::Lookup(Lookup { lookup_id: LookupId(*id), request, round: Round(*round), keys }));
        }
        Say::LookupResp { id, offset, hits, pin_ms } => {
            let hits = bits(hits);
            let (lookup_id, offset, pin_ms) = (LookupId(*id), *offset, *pin_ms);
            then(Msg::LookupResp(LookupResp { lookup_id, offset, hits: hits.as_bits(), pin_ms }));
        }
        Say::Fetch { request, round, supply, pairs, wait_ms } => {
            let name = name(request);
            let keys = keys(&pairs.iter().map(|(key, _)| *key).collect::<Vec<_>>());
            let blocks: Vec<u32> = pairs.iter().map(|(_, block)| *block).collect();
            let demand = Demand::new(keys.as_keys(), Blocks::new(&blocks)).expect("as many of each");
            let (request, round, supply, wait_ms) = (named(&name), Round(*round), *supply, *wait_ms);
            then(Msg::Fetch(Fetch { request, round, supply, demand, wait_ms }));
        }
        Say::Progress { request, round, counts: [matched, parked, landed] } => {
            let name = name(request);
            let (matched, parked, landed) = (*matched, *parked, *landed);
            let (request, round) = (named(&name), Round(*round));
            then(Msg::FetchProgress(FetchProgress { request, round, matched, parked, landed }));
        }
        Say::Done { request, round, outcome } => {
            let name = name(request);
            let landed = bits(outcome.as_ref().map_or(&[], |(_, _, landed)| landed));
            let landed: Bits<'_> = landed.as_bits();
            let outcome = match outcome {
                None => Outcome::Ok,
                Some((why, settled, _)) => Outcome::Failed { why: *why, settled: *settled, landed },
            };
            then(Msg::TransferDone(TransferDone { request: named(&name), round: Round(*round), outcome }));
        }
        Say::Abort { request, round } => {
            let name = name(request);
            then(Msg::AbortFetch(AbortFetch { request: named(&name), round: Round(*round) }));
        }
        Say::Ack { request, round, settled } => {
            let name = name(request);
            then(Msg::AbortAck(AbortAck { request: named(&name), round: Round(*round), settled: *settled }));
        }
        Say::Release(request) => then(Msg::Release(Release { request: named(&name(request)) })),
    }
}

fn named(name: &str) -> RequestName<'_> {
    RequestName::new(name).expect("a legal name")
}

pub(crate) fn say() -> impl Strategy<Value = Say> {
    let (request, round) = (|| 0u8..3, || 0u64..4);
    let peer = prop_oneof![6 => Just("x"), 3 => Just("b"), 1 => Just("a"), 1 => Just("127.0.0.1:1")];
    let supply = prop_oneof![2 => Just(Supply::Await), 1 => Just(Supply::Pinned)];
    let codes = prop::sample::select(RejectCode::NAMED.to_vec());
    let reasons = prop::sample::select(DisconnectReason::NAMED.to_vec());
    let failures = prop::sample::select(Failure::NAMED.to_vec());
    let bits = || prop::collection::vec(any::<bool>(), 0..4);
    let outcome = prop::option::weighted(0.5, (failures, any::<bool>(), bits()));
    prop_oneof![
        12 => (peer, 0u64..3, prop_oneof![9 => Just(16u64), 1 => any::<u64>()], prop_oneof![Just(4u32), Just(64), any::<u32>()])
            .prop_map(|(peer, incarnation, block_len, num_blocks)| Say::Connect { peer, incarnation, block_len, num_blocks }),
        8 => prop_oneof![9 => Just(1u64), 1 => 0u64..3].prop_map(Say::ConnectAck),
        1 => (codes, 0u32..3_000).prop_map(|(code, wait)| Say::Reject(code, wait)),
        1 => reasons.prop_map(Say::Disconnect),
        2 => any::<u64>().prop_map(Say::Ping),
        1 => any::<u64>().prop_map(Say::Pong),
        8 => (0u64..6, request(), round(), prop::collection::vec(1u8..8, 0..5))
            .prop_map(|(id, request, round, keys)| Say::Lookup { id, request, round, keys }),
        4 => (0u64..4, 0u32..4, bits(), any::<u32>())
            .prop_map(|(id, offset, hits, pin_ms)| Say::LookupResp { id, offset, hits, pin_ms }),
        12 => (request(), round(), supply, prop::collection::vec((1u8..8, 0u32..66), 0..5), any::<u32>())
            .prop_map(|(request, round, supply, pairs, wait_ms)| Say::Fetch { request, round, supply, pairs, wait_ms }),
        3 => (request(), round(), prop::array::uniform3(0u32..5))
            .prop_map(|(request, round, counts)| Say::Progress { request, round, counts }),
        6 => (request(), round(), outcome)
            .prop_map(|(request, round, outcome)| Say::Done { request, round, outcome }),
        4 => (request(), round()).prop_map(|(request, round)| Say::Abort { request, round }),
        4 => (request(), round(), any::<bool>())
            .prop_map(|(request, round, settled)| Say::Ack { request, round, settled }),
        2 => request().prop_map(Say::Release),
    ]
}
