//! One payload for every way to be malformed. Those that vLLM 0.33.0 would take are marked.

use kvpeer_vllm::wire::{DecodeError, Field, Message, Shape};
use kvpeer_wire::Limits;

use crate::packer::Packer;

type Fields = Vec<(&'static str, Vec<u8>)>;

fn connect() -> Fields {
    vec![
        ("type", Packer::str("connect")),
        ("peer_id", Packer::str("10.0.0.7:5710")),
        ("agent_metadata", Packer::bin(b"md")),
        ("base_addr", Packer::uint(1 << 40)),
        ("num_blocks", Packer::uint(4)),
        ("block_len", Packer::uint(4096)),
        ("config_fingerprint", Packer::str("f")),
        ("hash_seed", Packer::str("0")),
    ]
}

fn fetch() -> Fields {
    vec![
        ("type", Packer::str("fetch")),
        ("kv_request_id", Packer::str("q")),
        ("keys", Packer::array(&[Packer::bin(b"k")])),
        ("block_indexes", Packer::array(&[Packer::uint(3)])),
        ("round_seq", Packer::uint(0)),
    ]
}

fn lookup_resp() -> Fields {
    vec![
        ("type", Packer::str("lookup_resp")),
        ("kv_request_id", Packer::str("q")),
        ("keys", Packer::array(&[Packer::bin(b"k")])),
        ("hits", Packer::array(&[Packer::bool(true)])),
    ]
}

fn done() -> Fields {
    vec![
        ("type", Packer::str("transfer_done")),
        ("kv_request_id", Packer::str("q")),
        ("success", Packer::bool(true)),
        ("round_seq", Packer::uint(0)),
    ]
}

#[track_caller]
fn refused(fields: &Fields, error: DecodeError) {
    assert_eq!(Message::decode(&Packer::map(fields), &Limits::DEFAULT), Err(error));
}

#[track_caller]
fn with(mut fields: Fields, name: &'static str, value: Vec<u8>, error: DecodeError) {
    fields.iter_mut().filter(|(field, _)| *field == name).for_each(|field| field.1 = value.clone());
    refused(&fields, error);
}

fn mistyped(field: Field, expected: Shape, found: Shape) -> DecodeError {
    DecodeError::Type { field, expected, found }
}

#[test]
fn the_unharmed_ones_are_read() {
    for fields in [connect(), fetch(), lookup_resp(), done()] {
        assert!(Message::decode(&Packer::map(&fields), &Limits::DEFAULT).is_ok(), "{fields:?}");
    }
}

#[test]
fn every_missing_field_is_named() {
    for fields in [connect(), fetch(), lookup_resp(), done()] {
        for (at, (name, _)) in fields.iter().enumerate() {
            let mut fewer = fields.clone();
            fewer.remove(at);
            let field = Field::ALL.into_iter().find(|field| field.name() == *name).unwrap();
            if field != Field::ConfigFingerprint {
                refused(&fewer, DecodeError::Missing { field });
            }
        }
    }
}

#[test]
fn every_field_has_one_type() {
    let (int, str, bin, array) = (Shape::Integer, Shape::Str, Shape::Bin, Shape::Array);
    let nil = Packer::nil;
    for (field, shape) in [
        (Field::Type, str),
        (Field::PeerId, str),
        (Field::AgentMetadata, bin),
        (Field::BaseAddr, int),
        (Field::NumBlocks, int),
        (Field::BlockLen, int),
        // vLLM: any type is taken, and compared.
        (Field::ConfigFingerprint, str),
        (Field::HashSeed, str),
    ] {
        with(connect(), field.name(), nil(), mistyped(field, shape, Shape::Nil));
    }
    for (field, shape) in [
        (Field::KvRequestId, str),
        (Field::Keys, array),
        (Field::BlockIndexes, array),
        (Field::RoundSeq, int),
    ] {
        with(fetch(), field.name(), Packer::float(1.0), mistyped(field, shape, Shape::Float));
    }
    with(lookup_resp(), "hits", Packer::bin(b"\x01"), mistyped(Field::Hits, array, bin));
    with(done(), "success", Packer::uint(1), mistyped(Field::Success, Shape::Bool, int));
}

#[test]
fn elements_have_a_type_too() {
    let one = |value| Packer::array(&[value]);
    // vLLM: `bytes(value)`, so an integer becomes that many zero bytes and a list becomes its bytes.
    with(fetch(), "keys", one(Packer::uint(1 << 40)), mistyped(Field::Keys, Shape::Bin, Shape::Integer));
    with(fetch(), "keys", one(one(Packer::uint(1))), mistyped(Field::Keys, Shape::Bin, Shape::Array));
    with(fetch(), "keys", one(Packer::str("k")), mistyped(Field::Keys, Shape::Bin, Shape::Str));
    with(
        fetch(),
        "block_indexes",
        one(Packer::int(-1)),
        mistyped(Field::BlockIndexes, Shape::Integer, Shape::NegativeInteger),
    );
    with(lookup_resp(), "hits", one(Packer::uint(1)), mistyped(Field::Hits, Shape::Bool, Shape::Integer));
}

#[test]
fn a_boolean_is_no_integer() {
    // vLLM: to Python, True is 1.
    with(fetch(), "round_seq", Packer::bool(true), mistyped(Field::RoundSeq, Shape::Integer, Shape::Bool));
    with(
        fetch(),
        "block_indexes",
        Packer::array(&[Packer::bool(true)]),
        mistyped(Field::BlockIndexes, Shape::Integer, Shape::Bool),
    );
}

#[test]
fn numbers_have_a_range() {
    let range = |field, value| DecodeError::Range { field, value };
    with(connect(), "num_blocks", Packer::uint(0), range(Field::NumBlocks, 0));
    with(connect(), "block_len", Packer::uint(0), range(Field::BlockLen, 0));
    // vLLM: any.
    with(connect(), "num_blocks", Packer::uint(1 << 32), range(Field::NumBlocks, 1 << 32));
    with(
        fetch(),
        "block_indexes",
        Packer::array(&[Packer::uint(1 << 32)]),
        range(Field::BlockIndexes, 1 << 32),
    );
}

#[test]
fn names_and_keys_have_a_length() {
    // vLLM: any length, for all of them.
    let long = Packer::str(&"x".repeat(256));
    let too_long = |field| DecodeError::FieldTooLong { field, len: 256, limit: 255 };
    with(connect(), "peer_id", long.clone(), too_long(Field::PeerId));
    with(connect(), "hash_seed", long.clone(), too_long(Field::HashSeed));
    with(connect(), "config_fingerprint", long.clone(), too_long(Field::ConfigFingerprint));
    with(fetch(), "kv_request_id", long, too_long(Field::KvRequestId));
    with(fetch(), "kv_request_id", Packer::str(""), DecodeError::Empty { field: Field::KvRequestId });
    with(connect(), "peer_id", Packer::str(""), DecodeError::Empty { field: Field::PeerId });
    let metadata = DecodeError::FieldTooLong { field: Field::AgentMetadata, len: 4097, limit: 4096 };
    with(connect(), "agent_metadata", Packer::bin(&[0; 4097]), metadata);
    for len in [0, 65] {
        let key = Packer::array(&[Packer::bin(&vec![7; len])]);
        with(fetch(), "keys", key, DecodeError::KeyLength { len, limit: 64 });
    }
}

#[test]
fn strings_are_utf8() {
    let mut bytes = Packer::str("q");
    *bytes.last_mut().unwrap() = 0xff;
    with(fetch(), "kv_request_id", bytes, DecodeError::NotUtf8 { field: Field::KvRequestId });
}

#[test]
fn lists_have_a_length() {
    let many = vec![Packer::bin(b"k"); 16_385];
    let error = DecodeError::TooMany { field: Field::Keys, count: 16_385, limit: 16_384 };
    with(fetch(), "keys", Packer::array(&many), error);
    let uneven = DecodeError::Uneven { keys: 1, field: Field::BlockIndexes, others: 0 };
    with(fetch(), "block_indexes", Packer::array(&[]), uneven);
    let uneven = DecodeError::Uneven { keys: 1, field: Field::Hits, others: 2 };
    with(lookup_resp(), "hits", Packer::array(&vec![Packer::bool(true); 2]), uneven);
}

#[test]
fn a_payload_is_one_map() {
    let read = |payload: &[u8]| Message::decode(payload, &Limits::DEFAULT).unwrap_err();
    assert_eq!(read(&Packer::nil()), DecodeError::NotAMap { found: Shape::Nil });
    assert_eq!(read(&Packer::str("connect")), DecodeError::NotAMap { found: Shape::Str });
    assert_eq!(read(&[]), DecodeError::CutOff);
    assert_eq!(read(&[0xc1]), DecodeError::ReservedMarker);
    assert_eq!(read(&[0x81, 0x01, 0x02]), DecodeError::FieldName { found: Shape::Integer });
    // vLLM: the last one counts.
    let mut twice = fetch();
    twice.push(("round_seq", Packer::uint(9)));
    refused(&twice, DecodeError::Doubled { field: Field::RoundSeq });
    let long = vec![0; (4 << 20) + 1];
    assert_eq!(read(&long), DecodeError::TooLong { len: long.len(), limit: 4 << 20 });
}

#[test]
fn errors_say_what_is_wrong() {
    let error = mistyped(Field::KvRequestId, Shape::Str, Shape::Float);
    assert_eq!(error.to_string(), "kv_request_id is a float, not a string");
}
