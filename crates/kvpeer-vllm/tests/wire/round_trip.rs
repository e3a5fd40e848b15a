//! What is written is read as the same.

use kvpeer_vllm::strategies::parts;
use kvpeer_vllm::wire::{Decoded, Message};
use kvpeer_wire::Limits;
use proptest::prelude::*;

use crate::packer::Packer;

pub(crate) fn encoded(message: &Message<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    message.encode(&mut payload);
    payload
}

proptest! {
    #[test]
    fn every_message(parts in parts()) {
        let message = parts.message();
        let payload = encoded(&message);
        prop_assert_eq!(Message::decode(&payload, &Limits::DEFAULT), Ok(Decoded::Message(message)));
    }

    #[test]
    fn what_was_read_is_written_as_it_came(parts in parts()) {
        let payload = encoded(&parts.message());
        let Ok(Decoded::Message(read)) = Message::decode(&payload, &Limits::DEFAULT) else { panic!("read") };
        prop_assert_eq!(encoded(&read), payload);
    }

    #[test]
    fn appends(parts in parts(), before in prop::collection::vec(any::<u8>(), 0..9)) {
        let mut out = before.clone();
        parts.message().encode(&mut out);
        prop_assert_eq!(&out[..before.len()], &before);
        prop_assert_eq!(&out[before.len()..], encoded(&parts.message()));
    }

    /// Another order of the fields, longer forms of numbers and lengths, fields of a later vLLM.
    #[test]
    fn other_writers(parts in parts(), turn in any::<usize>(), extra in any::<bool>()) {
        let payload = Packer::generous(&parts, turn, extra);
        let message = parts.message();
        prop_assert_eq!(Message::decode(&payload, &Limits::DEFAULT), Ok(Decoded::Message(message)));
    }
}

#[test]
fn a_type_of_a_later_vllm_is_told() {
    let payload = Packer::map(&[("type", Packer::str("gossip")), ("more", Packer::array(&[Packer::nil()]))]);
    let read = Message::decode(&payload, &Limits::DEFAULT);
    assert_eq!(read, Ok(Decoded::Unknown { kind: "gossip" }));
}

#[test]
fn a_missing_fingerprint_is_an_empty_one() {
    let with = |fingerprint: &[(&str, Vec<u8>)]| {
        let mut fields = vec![
            ("type", Packer::str("connect")),
            ("peer_id", Packer::str("10.0.0.7:5710")),
            ("agent_metadata", Packer::bin(b"md")),
            ("base_addr", Packer::uint(0)),
            ("num_blocks", Packer::uint(4)),
            ("block_len", Packer::uint(4096)),
            ("hash_seed", Packer::str("0")),
        ];
        fields.extend(fingerprint.iter().cloned());
        Packer::map(&fields)
    };
    let (missing, empty) = (with(&[]), with(&[("config_fingerprint", Packer::str(""))]));
    let read = Message::decode(&missing, &Limits::DEFAULT);
    assert!(matches!(read, Ok(Decoded::Message(Message::Connect(_)))), "{read:?}");
    assert_eq!(read, Message::decode(&empty, &Limits::DEFAULT));
}
