//! The bytes of one message of every kind, or more, committed under `vectors/`: other implementations read them,
//! and they never change within version 1.

use std::fs;
use std::num::NonZeroU8;
use std::path::PathBuf;

use kvpeer_wire::{
    AbortAck, AbortFetch, BitsBuf, Blocks, Compat, Connect, ConnectAck, Decoded, Demand, Disconnect,
    DisconnectReason, Failure, Fetch, FetchProgress, FingerprintBuf, Key, KeysBuf, Kind, Limits, Lookup,
    LookupId, LookupResp, Msg, Nonce, Outcome, PeerName, RegionInfo, Reject, RejectCode, Release,
    RequestName, Round, Supply, Text, TransferDone,
};

use crate::round_trip::encoded;

const REGENERATE: &str = "KVPEER_WRITE_VECTORS=1 cargo test -p kvpeer-wire --test wire vectors";

// FR-16
#[test]
fn committed_bytes_are_read_and_written() {
    let write = std::env::var_os("KVPEER_WRITE_VECTORS").is_some();
    let mut kinds = Vec::new();
    each(&mut |name, msg| {
        kinds.push(msg.kind());
        let path = folder().join(name).with_extension("hex");
        if write {
            fs::write(&path, to_hex(&encoded(&msg))).unwrap();
        }
        let hex = fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}. If this message is new, run: {REGENERATE}", path.display())
        });
        let bytes = from_hex(&hex);
        let why = format!(
            "{name} is not what is committed. Released bytes never change: append fields instead. \
             If no release has them yet, run: {REGENERATE}"
        );
        assert_eq!(to_hex(&encoded(&msg)), hex, "{why}");
        assert_eq!(Msg::decode(bytes[4], &bytes[5..], &Limits::DEFAULT), Ok(Decoded::Msg(msg)), "{why}");
    });
    kinds.dedup();
    assert_eq!(kinds, Kind::ALL, "every kind has a vector");
}

#[test]
fn every_committed_file_has_a_message() {
    let mut names = Vec::new();
    each(&mut |name, _| names.push(format!("{name}.hex")));
    for entry in fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&file) || file == "README.md", "vectors/{file} is of no message");
    }
}

fn each(check: &mut dyn FnMut(&str, Msg<'_>)) {
    let round = Round(7);
    let request = RequestName::new("req-42").unwrap();
    let alike = keys(&[36; 3]);
    let mixed = keys(&[36, 1, 64]);
    let blocks = Blocks::new(&[0, 258, u32::MAX]);
    let some = bits(3, &[0, 2]);
    let text = |text| Text::new(text).unwrap();
    let fetch = |supply, keys: &KeysBuf, check: &mut dyn FnMut(Msg<'_>)| {
        let demand = Demand::new(keys.as_keys(), blocks).unwrap();
        check(Msg::Fetch(Fetch { request, round, supply, demand, wait_ms: 60_000 }));
    };
    let done = |outcome| Msg::TransferDone(TransferDone { request, round, outcome });

    connects(check);
    check("connect_ack", Msg::ConnectAck(ConnectAck { incarnation: 1_700_000_000_000_000 }));
    let reject = Reject {
        code: RejectCode::Fingerprint,
        field: text("model"),
        ours: text("llama-3.1-8b"),
        theirs: text("größer"),
        retry_after_ms: 1500,
    };
    check("reject", Msg::Reject(reject));
    let unknown = RejectCode::from_code(NonZeroU8::new(200).unwrap());
    check("reject_newer", Msg::Reject(Reject { code: unknown, ..reject }));
    let detail = text("maintenance");
    check("disconnect", Msg::Disconnect(Disconnect { reason: DisconnectReason::Shutdown, detail }));
    check("ping", Msg::Ping(Nonce(0x0123_4567_89ab_cdef)));
    check("pong", Msg::Pong(Nonce(0x0123_4567_89ab_cdef)));
    let lookup_id = LookupId(300);
    let lookup = |keys: &KeysBuf, check: &mut dyn FnMut(Msg<'_>)| {
        check(Msg::Lookup(Lookup { lookup_id, request, round, keys: keys.as_keys() }));
    };
    lookup(&alike, &mut |msg| check("lookup", msg));
    lookup(&mixed, &mut |msg| check("lookup_mixed", msg));
    lookup(&KeysBuf::new(), &mut |msg| check("lookup_empty", msg));
    let hits = bits(10, &[0, 7, 8, 9]);
    check(
        "lookup_resp",
        Msg::LookupResp(LookupResp { lookup_id, offset: 128, hits: hits.as_bits(), pin_ms: 30_000 }),
    );
    fetch(Supply::Pinned, &alike, &mut |msg| check("fetch", msg));
    fetch(Supply::Await, &mixed, &mut |msg| check("fetch_mixed", msg));
    let progress = FetchProgress { request, round, matched: 200, parked: 100, landed: 1 };
    check("fetch_progress", Msg::FetchProgress(progress));
    check("transfer_done", done(Outcome::Ok));
    let failed = Outcome::Failed { why: Failure::WriteFailed, settled: false, landed: some.as_bits() };
    check("transfer_done_failed", done(failed));
    check("abort_fetch", Msg::AbortFetch(AbortFetch { request, round }));
    check("abort_ack", Msg::AbortAck(AbortAck { request, round, settled: true }));
    check("release", Msg::Release(Release { request }));
}

fn connects(check: &mut dyn FnMut(&str, Msg<'_>)) {
    let mut fingerprint = FingerprintBuf::new();
    fingerprint.push("model", "llama-3.1-8b").unwrap();
    fingerprint.push("dtype", "").unwrap();
    let least = Connect {
        peer_id: PeerName::new("10.0.0.7:5710").unwrap(),
        incarnation: 1_700_000_000_000_000,
        region: RegionInfo { base_addr: 0, num_blocks: 0, block_len: 0 },
        metadata: &[],
        compat: Compat { hash_seed: Text::default(), fingerprint: kvpeer_wire::Fingerprint::default() },
        capabilities: 0,
        heartbeat_ms: 2000,
    };
    check("connect_least", Msg::Connect(least));
    let region = RegionInfo { base_addr: 0x7f12_3456_7000, num_blocks: 65_536, block_len: 1 << 21 };
    let compat = Compat { hash_seed: Text::new("0").unwrap(), fingerprint: fingerprint.as_fingerprint() };
    let metadata = [0, 0xff, 0x80, b'm'];
    check(
        "connect",
        Msg::Connect(Connect { region, compat, metadata: &metadata, capabilities: u64::MAX, ..least }),
    );
}

/// Keys of these lengths; the n-th is of bytes n, n + 1, ….
fn keys(lens: &[usize]) -> KeysBuf {
    let keys = (0..).zip(lens).map(|(nth, len)| (nth..).take(*len).collect::<Vec<u8>>());
    let keys: Vec<_> = keys.collect();
    keys.iter().map(|bytes| Key::new(bytes).unwrap()).collect()
}

fn bits(count: u32, set: &[u32]) -> BitsBuf {
    let mut bits = BitsBuf::zeros(count);
    set.iter().for_each(|at| bits.set(*at));
    bits
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

/// Lines of 32 bytes.
fn to_hex(bytes: &[u8]) -> String {
    let line = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    bytes.chunks(32).map(line).collect()
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}
