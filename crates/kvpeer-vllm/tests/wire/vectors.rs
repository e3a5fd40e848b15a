//! Payloads that vLLM 0.33.0 sent are read as what it meant, and written with the same bytes.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use kvpeer_vllm::wire::{Decoded, Message};
use kvpeer_wire::Limits;
use serde_json::Value;

use crate::common::as_json;

#[test]
fn every_captured_payload_is_read_and_written() {
    let session = fs::read_to_string(folder().join("session.jsonl")).unwrap();
    let mut files = BTreeSet::new();
    let mut kinds = BTreeSet::new();
    for line in session.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let file = line["file"].as_str().unwrap();
        let payload = from_hex(&fs::read_to_string(folder().join(file)).unwrap());
        assert_eq!(line["bytes"].as_u64(), Some(payload.len() as u64), "{file}");

        let Ok(Decoded::Message(message)) = Message::decode(&payload, &Limits::DEFAULT) else {
            panic!("{file}: {:?}", Message::decode(&payload, &Limits::DEFAULT));
        };
        assert_eq!(as_json(&message), line["msg"], "{file}");
        let mut written = Vec::new();
        message.encode(&mut written);
        assert_eq!(written, payload, "{file}");
        files.insert(file.to_owned());
        kinds.insert(message.kind());
    }
    let committed = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let committed = committed.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".hex"));
    assert_eq!(files, committed.collect(), "every file is of this session");
    assert_eq!(kinds.len(), kvpeer_vllm::strategies::KINDS, "every type was captured");
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors/wire")
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.trim().chars().collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}
