//! Any bytes are a legal message or a named error; nothing panics.

use kvpeer_vllm::fuzzing;
use kvpeer_vllm::strategies::{KINDS, parts, parts_of};
use kvpeer_vllm::wire::{DecodeError, Decoded, Message};
use kvpeer_wire::Limits;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::packer::Packer;
use crate::round_trip::encoded;

proptest! {
    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300)) {
        fuzzing::decode(&bytes);
    }

    /// Behind a map that promises much, a known type.
    #[test]
    fn any_map(kind in 0..KINDS, fields in 0..20u8, bytes in vec(any::<u8>(), 0..200), parts in parts()) {
        let kind = kvpeer_vllm::strategies::Parts { kind, ..parts };
        let named = Packer::str(kind.message().kind());
        fuzzing::decode(&[&[0x80 | (fields & 0x0f)][..], &Packer::str("type"), &named, &bytes].concat());
    }

    #[test]
    fn flipped_bits(parts in parts(), flips in vec((any::<prop::sample::Index>(), 0..8u8), 1..4)) {
        let mut payload = encoded(&parts.message());
        for (at, bit) in flips {
            let at = at.index(payload.len());
            payload[at] ^= 1 << bit;
        }
        fuzzing::decode(&payload);
    }

    #[test]
    fn spliced_messages(one in parts(), other in parts(), cut in any::<prop::sample::Index>()) {
        let (one, other) = (encoded(&one.message()), encoded(&other.message()));
        let at = cut.index(one.len().min(other.len()));
        fuzzing::decode(&[&one[..at], &other[at..]].concat());
    }

    #[test]
    fn other_limits(parts in parts(), keys in 0..50u32, key_len in 0..70u32, metadata in 0..5000u32, name in 0..300u32) {
        let limits = Limits { keys, key_len, metadata, name, ..Limits::DEFAULT };
        let message = parts.message();
        if let Ok(read) = Message::decode(&encoded(&message), &limits) {
            prop_assert_eq!(read, Decoded::Message(message));
        }
    }

    #[test]
    fn trailing_bytes(parts in parts(), more in vec(any::<u8>(), 1..9)) {
        let payload = [encoded(&parts.message()), more.clone()].concat();
        let read = Message::decode(&payload, &Limits::DEFAULT);
        prop_assert_eq!(read, Err(DecodeError::Trailing { bytes: more.len() }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn every_truncation_is_cut_off(kind in 0..KINDS, seed in parts_of(0)) {
        let parts = kvpeer_vllm::strategies::Parts { kind, ..seed };
        let payload = encoded(&parts.message());
        for end in 0..payload.len() {
            let read = Message::decode(&payload[..end], &Limits::DEFAULT);
            prop_assert_eq!(read, Err(DecodeError::CutOff), "{} of {}", end, payload.len());
        }
    }
}

#[test]
fn a_claim_costs_nothing() {
    // Lists, maps and strings of four billion elements, nested as deep as a payload allows.
    for marker in [0xdd, 0xdf, 0xdb, 0xc6, 0xc9] {
        let claim = [marker, 0xff, 0xff, 0xff, 0xff].repeat(10_000);
        let payload = [&[0x81][..], &Packer::str("keys"), &claim].concat();
        let read = Message::decode(&payload, &Limits::DEFAULT);
        assert!(matches!(read, Err(DecodeError::CutOff)), "{marker:x}: {read:?}");
    }
    let deep = [&[0x81][..], &Packer::str("x"), &[0x91].repeat(1 << 20), &[0xc0]].concat();
    let read = Message::decode(&deep, &Limits::DEFAULT);
    assert_eq!(read, Err(DecodeError::Missing { field: kvpeer_vllm::wire::Field::Type }));
}
