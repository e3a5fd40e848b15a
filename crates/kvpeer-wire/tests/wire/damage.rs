//! Any bytes are a legal message or a named error; nothing panics.

use kvpeer_wire::strategies::{parts, parts_of};
use kvpeer_wire::{DecodeError, Decoded, Kind, Limits, Msg, fuzzing};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::round_trip::encoded;

proptest! {
    // FR-10
    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300)) {
        fuzzing::decode(&bytes);
        fuzzing::frame(&bytes);
    }

    // FR-10
    #[test]
    fn any_body_of_every_kind(kind in 0..20u8, body in vec(any::<u8>(), 0..300)) {
        fuzzing::decode(&[&[kind], body.as_slice()].concat());
    }

    #[test]
    fn flipped_bits(parts in parts(), flips in vec((any::<prop::sample::Index>(), 0..8u8), 1..4)) {
        let mut frame = encoded(&parts.msg());
        for (at, bit) in flips {
            let at = at.index(frame.len());
            frame[at] ^= 1 << bit;
        }
        fuzzing::decode(&frame[4..]);
    }

    #[test]
    fn spliced_messages(one in parts(), other in parts(), cut in any::<prop::sample::Index>()) {
        let (one, other) = (encoded(&one.msg()), encoded(&other.msg()));
        let at = cut.index(one.len().min(other.len()));
        fuzzing::decode(&[&one[4..at.max(5)], &other[at.max(5).min(other.len())..]].concat());
    }

    #[test]
    fn other_limits(parts in parts(), keys in 0..50u32, key_len in 0..70u32, metadata in 0..5000u32, name in 0..300u32) {
        let limits = Limits { keys, key_len, metadata, name, ..Limits::DEFAULT };
        let msg = parts.msg();
        let frame = encoded(&msg);
        if let Ok(read) = Msg::decode(frame[4], &frame[5..], &limits) {
            prop_assert_eq!(read, Decoded::Msg(msg));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Version 1 has no field that may be missing.
    #[test]
    fn every_truncation_is_cut_off(all in Kind::ALL.map(parts_of)) {
        for parts in all {
            let frame = encoded(&parts.msg());
            for end in 5..frame.len() {
                let read = Msg::decode(frame[4], &frame[5..end], &Limits::DEFAULT);
                prop_assert_eq!(read, Err(DecodeError::CutOff { kind: parts.kind }), "{} of {}", end, frame.len());
            }
        }
    }
}
