//! One message of every kind.

use kvpeer_wire::{
    AbortAck, AbortFetch, BitsBuf, Blocks, Compat, Connect, ConnectAck, Demand, Disconnect, DisconnectReason,
    Failure, Fetch, FetchProgress, FingerprintBuf, Key, KeysBuf, Lookup, LookupId, LookupResp, Msg, Nonce,
    Outcome, PeerName, RegionInfo, Reject, RejectCode, Release, RequestName, Round, Supply, Text,
    TransferDone,
};

pub(crate) fn ping(nonce: u64) -> Msg<'static> {
    Msg::Ping(Nonce(nonce))
}

pub(crate) fn ack() -> Msg<'static> {
    Msg::ConnectAck(ConnectAck { incarnation: 7 })
}

pub(crate) fn goodbye(detail: &str) -> Msg<'_> {
    let detail = Text::new(detail).expect("short");
    Msg::Disconnect(Disconnect { reason: DisconnectReason::Shutdown, detail })
}

pub(crate) fn with_fetch<R>(keys: u32, then: impl FnOnce(Msg<'_>) -> R) -> R {
    let names: Vec<[u8; 36]> =
        (0..keys).map(|at| std::array::from_fn(|byte| (at as usize + byte) as u8)).collect();
    let keys: KeysBuf = names.iter().map(|name| Key::new(name).expect("36 bytes")).collect();
    let blocks: Vec<u32> = (0..names.len() as u32).rev().collect();
    let demand = Demand::new(keys.as_keys(), Blocks::new(&blocks)).expect("as many");
    let request = RequestName::new("req-1").expect("a name");
    then(Msg::Fetch(Fetch { request, round: Round(3), supply: Supply::Await, demand, wait_ms: 60_000 }))
}

pub(crate) fn with_every_kind<R>(then: impl FnOnce(&[Msg<'_>]) -> R) -> R {
    let mut fingerprint = FingerprintBuf::new();
    fingerprint.push("model", "toy").expect("short");
    let keys: KeysBuf =
        [&b"one"[..], b"three"].map(|key| Key::new(key).expect("a key")).into_iter().collect();
    let mut bits = BitsBuf::zeros(11);
    bits.set(3);
    bits.set(10);
    let request = RequestName::new("req-1").expect("a name");
    let (round, lookup_id) = (Round(9), LookupId(4));
    let text = |text| Text::new(text).expect("short");
    let connect = Msg::Connect(Connect {
        peer_id: PeerName::new("10.0.0.7:5710").expect("a name"),
        incarnation: 7,
        region: RegionInfo { base_addr: 1 << 40, num_blocks: 64, block_len: 4096 },
        metadata: &[1, 2, 3],
        compat: Compat { hash_seed: text("0"), fingerprint: fingerprint.as_fingerprint() },
        capabilities: 0,
        heartbeat_ms: 2000,
    });
    let reject = Msg::Reject(Reject {
        code: RejectCode::BlockLen,
        field: text("block_len"),
        ours: text("4096"),
        theirs: text("8192"),
        retry_after_ms: 0,
    });
    let failed = Outcome::Failed { why: Failure::WriteFailed, settled: false, landed: bits.as_bits() };
    with_fetch(5, |fetch| {
        then(&[
            connect,
            ack(),
            Msg::Ping(Nonce(1)),
            Msg::Pong(Nonce(1)),
            Msg::Lookup(Lookup { lookup_id, request, round, keys: keys.as_keys() }),
            Msg::LookupResp(LookupResp { lookup_id, offset: 0, hits: bits.as_bits(), pin_ms: 30_000 }),
            fetch,
            Msg::FetchProgress(FetchProgress { request, round, matched: 3, parked: 2, landed: 1 }),
            Msg::TransferDone(TransferDone { request, round, outcome: Outcome::Ok }),
            Msg::TransferDone(TransferDone { request, round, outcome: failed }),
            Msg::AbortFetch(AbortFetch { request, round }),
            Msg::AbortAck(AbortAck { request, round, settled: true }),
            Msg::Release(Release { request }),
            reject,
            goodbye("bye"),
        ])
    })
}
