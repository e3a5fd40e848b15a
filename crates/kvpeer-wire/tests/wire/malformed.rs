//! Every way to be malformed has its name.

use std::collections::BTreeSet;

use kvpeer_wire::{DecodeError, Decoded, FIRST_SKIPPABLE_KIND, Field, Kind, Limits, Msg};

const TIGHT: Limits = Limits { frame: 64, early_frame: 64, keys: 3, key_len: 4, metadata: 2, name: 3 };

fn refused(kind: Kind, body: &[u8]) -> DecodeError {
    match Msg::decode(kind.number(), body, &TIGHT) {
        Err(error) => error,
        Ok(read) => panic!("{body:x?} is read as {read:?}"),
    }
}

/// A lookup of round 1 with these keys.
fn lookup(key_len: u8, ends: &[u32], bytes: &[u8]) -> Vec<u8> {
    let ends: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
    lookup_of_runs(key_len, &ends, bytes)
}

fn lookup_of_runs(key_len: u8, ends: &[u8], bytes: &[u8]) -> Vec<u8> {
    let lens = [ends.len() as u8, bytes.len() as u8];
    [[1, 1, b'r', 1, key_len, lens[0]].as_slice(), ends, &[lens[1]], bytes].concat()
}

/// A fetch of round 1 of keys of one byte.
fn fetch(supply: u8, keys: &[u8], blocks: &[u8]) -> Vec<u8> {
    let lens = [keys.len() as u8, blocks.len() as u8];
    [[1, b'r', 1, supply, 1, 0, lens[0]].as_slice(), keys, &[lens[1]], blocks, &[0]].concat()
}

/// A connect of peer `id` with this metadata, hash seed and fingerprint.
fn connect(id: &[u8], metadata: &[u8], seed: &[u8], fingerprint: &[u8]) -> Vec<u8> {
    let run = |bytes: &[u8]| [&[bytes.len() as u8], bytes].concat();
    [run(id), vec![1, 2, 3, 4], run(metadata), run(seed), run(fingerprint), vec![0, 9]].concat()
}

fn transfer_done(outcome: u8, settled: u8, landed: &[u8]) -> Vec<u8> {
    [[1, b'r', 1, outcome, settled].as_slice(), landed].concat()
}

fn cases() -> Vec<(DecodeError, Kind, Vec<u8>)> {
    use DecodeError as E;
    use Kind as K;
    let too_long = |field, len, limit| E::TooLong { field, len, limit };
    let many = |count| E::TooManyKeys { count, limit: 3 };
    vec![
        (E::FrameTooLong { len: 65, limit: 64 }, K::Ping, vec![0; 64]),
        (E::CutOff { kind: K::Ping }, K::Ping, vec![]),
        (E::CutOff { kind: K::Ping }, K::Ping, vec![0x80]),
        (E::CutOff { kind: K::Release }, K::Release, vec![0xff, 0xff, 0xff, 0xff, 0x0f, b'r']),
        (E::Integer { kind: K::Ping }, K::Ping, vec![0xff; 10]),
        (E::Integer { kind: K::Release }, K::Release, vec![0xff; 11]),
        (E::Boolean { kind: K::AbortAck }, K::AbortAck, vec![1, b'r', 1, 2]),
        (E::NotUtf8 { field: Field::Request }, K::Release, vec![1, 0xff]),
        (E::NotUtf8 { field: Field::PeerId }, K::Connect, connect(b"\xff", b"", b"", b"")),
        (E::NotUtf8 { field: Field::HashSeed }, K::Connect, connect(b"a", b"", b"\xff", b"")),
        (E::NotUtf8 { field: Field::Fingerprint }, K::Connect, connect(b"a", b"", b"", b"\x01\xff\x00")),
        (E::Empty { field: Field::Request }, K::Release, vec![0]),
        (E::Empty { field: Field::PeerId }, K::Connect, connect(b"", b"", b"", b"")),
        (too_long(Field::Request, 4, 3), K::Release, b"\x04\xff\xff\xff\xff".to_vec()),
        (too_long(Field::PeerId, 4, 3), K::Connect, connect(b"abcd", b"", b"", b"")),
        (too_long(Field::Metadata, 3, 2), K::Connect, connect(b"a", b"abc", b"", b"")),
        (too_long(Field::HashSeed, 4, 3), K::Connect, connect(b"a", b"", b"abcd", b"")),
        (too_long(Field::RejectField, 4, 3), K::Reject, b"\x01\x04abcd\0\0\0".to_vec()),
        (too_long(Field::RejectOurs, 4, 3), K::Reject, b"\x01\0\x04abcd\0\0".to_vec()),
        (too_long(Field::RejectTheirs, 4, 3), K::Reject, b"\x01\0\0\x04abcd\0".to_vec()),
        (too_long(Field::DisconnectDetail, 4, 3), K::Disconnect, b"\x01\x04abcd".to_vec()),
        (E::FingerprintCutOff, K::Connect, connect(b"a", b"", b"", b"\x01a\x02b")),
        (E::FingerprintUnpaired, K::Connect, connect(b"a", b"", b"", b"\x01a\x01b\x00")),
        (many(4), K::Lookup, lookup(1, &[], b"abcd")),
        // Counted before a single end is looked at.
        (many(4), K::Lookup, lookup(0, &[9, 9, 9, 9], b"")),
        (many(4), K::Fetch, fetch(1, b"abcd", b"")),
        (many(4), K::LookupResp, vec![1, 0, 4, 1, 0, 0]),
        (many(4), K::LookupResp, vec![1, 2, 2, 1, 0, 0]),
        (
            many(2 * u64::from(u32::MAX)),
            K::LookupResp,
            b"\x01\xff\xff\xff\xff\x0f\xff\xff\xff\xff\x0f\0\0".to_vec(),
        ),
        (many(4), K::TransferDone, transfer_done(1, 0, &[4, 1, 0])),
        (E::KeyLength { len: 5, limit: 4 }, K::Lookup, lookup(5, &[], b"abcde")),
        (E::KeyLength { len: 5, limit: 4 }, K::Lookup, lookup(0, &[1, 6], b"abcdef")),
        (E::KeyLength { len: 0, limit: 4 }, K::Lookup, lookup(0, &[1, 1], b"a")),
        (E::KeyLength { len: 0, limit: 4 }, K::Lookup, lookup(0, &[0], b"")),
        (E::KeysRagged { key_len: 2, bytes: 3 }, K::Lookup, lookup(2, &[], b"abc")),
        (E::KeyEndsUnneeded { bytes: 4 }, K::Lookup, lookup(1, &[1], b"a")),
        (E::KeyEndsRagged { bytes: 3 }, K::Lookup, lookup_of_runs(0, &[1, 0, 0], b"a")),
        (E::KeyEndsFall { at: 1, end: 2 }, K::Lookup, lookup(0, &[3, 2], b"abc")),
        (E::KeysEnd { end: 2, bytes: 3 }, K::Lookup, lookup(0, &[2], b"abc")),
        (E::KeysEnd { end: 4, bytes: 3 }, K::Lookup, lookup(0, &[4], b"abc")),
        (E::KeysEnd { end: 0, bytes: 1 }, K::Lookup, lookup(0, &[], b"a")),
        (E::BlocksRagged { bytes: 5 }, K::Fetch, fetch(1, b"a", &[0; 5])),
        (E::DemandUneven { keys: 1, blocks: 2 }, K::Fetch, fetch(1, b"a", &[0; 8])),
        (E::DemandUneven { keys: 1, blocks: 0 }, K::Fetch, fetch(1, b"a", &[])),
        (E::UnknownSupply { code: 0 }, K::Fetch, fetch(0, b"a", &[0; 4])),
        (E::UnknownSupply { code: 3 }, K::Fetch, fetch(3, b"a", &[0; 4])),
        (E::BitsLength { count: 3, bytes: 0 }, K::TransferDone, transfer_done(1, 0, &[3, 0])),
        (E::BitsLength { count: 3, bytes: 2 }, K::LookupResp, vec![1, 0, 3, 2, 0, 0, 0]),
        (E::BitsPastEnd { count: 3 }, K::LookupResp, vec![1, 0, 3, 1, 8, 0]),
        (E::NoReason { field: Field::RejectCode }, K::Reject, vec![0; 5]),
        (E::NoReason { field: Field::DisconnectReason }, K::Disconnect, vec![0, 0]),
        (E::OkUnsettled, K::TransferDone, transfer_done(0, 0, &[0, 0])),
        (E::OkWithBits, K::TransferDone, transfer_done(0, 1, &[1, 1, 1])),
    ]
}

// FR-10
#[test]
fn every_case_has_its_name() {
    for (expected, kind, body) in cases() {
        assert_eq!(refused(kind, &body), expected, "{body:x?}");
    }
}

/// Each case says in one line what is wrong, and no two say the same.
#[test]
fn every_case_says_something_else() {
    let mut said = BTreeSet::new();
    for (error, _, _) in cases() {
        let text = error.to_string();
        assert!(text.len() > 8 && !text.contains('\n'), "{error:?}: {text}");
        said.insert((text, format!("{error:?}")));
    }
    let texts: BTreeSet<&String> = said.iter().map(|(text, _)| text).collect();
    assert_eq!(texts.len(), said.len(), "{said:?}");
    let cut_off = refused(Kind::Connect, &[3, b'a']);
    assert_eq!(cut_off.to_string(), "a Connect is cut off");
}

/// Fails to compile when a variant is added without a number here, and fails when it has a number and no case.
#[test]
fn every_name_has_a_case() {
    let number = |error: &DecodeError| match error {
        DecodeError::UnknownKind { .. } => 0,
        DecodeError::FrameTooLong { .. } => 1,
        DecodeError::CutOff { .. } => 2,
        DecodeError::Integer { .. } => 3,
        DecodeError::Boolean { .. } => 4,
        DecodeError::NotUtf8 { .. } => 5,
        DecodeError::Empty { .. } => 6,
        DecodeError::TooLong { .. } => 7,
        DecodeError::FingerprintCutOff => 8,
        DecodeError::FingerprintUnpaired => 9,
        DecodeError::TooManyKeys { .. } => 10,
        DecodeError::KeyLength { .. } => 11,
        DecodeError::KeysRagged { .. } => 12,
        DecodeError::KeyEndsUnneeded { .. } => 13,
        DecodeError::KeyEndsRagged { .. } => 14,
        DecodeError::KeyEndsFall { .. } => 15,
        DecodeError::KeysEnd { .. } => 16,
        DecodeError::BlocksRagged { .. } => 17,
        DecodeError::DemandUneven { .. } => 18,
        DecodeError::UnknownSupply { .. } => 19,
        DecodeError::BitsLength { .. } => 20,
        DecodeError::BitsPastEnd { .. } => 21,
        DecodeError::NoReason { .. } => 22,
        DecodeError::OkUnsettled => 23,
        DecodeError::OkWithBits => 24,
    };
    let seen: BTreeSet<i32> = cases().iter().map(|(error, ..)| number(error)).collect();
    assert_eq!(seen, BTreeSet::from_iter(1..=24));
}

// FR-8
#[test]
fn unknown_kinds_are_skipped_from_128_on() {
    assert_eq!(FIRST_SKIPPABLE_KIND, 0x80);
    for kind in (0..=u8::MAX).filter(|kind| Kind::from_number(*kind).is_none()) {
        let expected = match kind {
            0x80.. => Ok(Decoded::Skipped { kind }),
            _ => Err(DecodeError::UnknownKind { kind }),
        };
        assert_eq!(Msg::decode(kind, b"whatever", &Limits::DEFAULT), expected);
    }
}

#[test]
fn what_is_just_allowed() {
    for (kind, body) in [
        (Kind::Ping, vec![0; 63]),
        (Kind::Release, b"\x03abc".to_vec()),
        (Kind::Connect, connect(b"abc", b"ab", b"abc", b"\x01a\x00")),
        (Kind::Lookup, lookup(4, &[], b"abcdabcdabcd")),
        (Kind::Lookup, lookup(0, &[4, 5, 8], b"abcdefgh")),
        (Kind::Lookup, lookup(0, &[], b"")),
        (Kind::LookupResp, vec![1, 0, 3, 1, 7, 0]),
        (Kind::LookupResp, vec![1, 3, 0, 0, 0]),
        (Kind::Fetch, fetch(2, b"abc", &[0xff; 12])),
        (Kind::TransferDone, transfer_done(0, 1, &[0, 0])),
        (Kind::TransferDone, transfer_done(255, 0, &[3, 1, 7])),
        (Kind::Disconnect, vec![255, 0]),
    ] {
        assert!(Msg::decode(kind.number(), &body, &TIGHT).is_ok(), "{kind:?} {body:x?}");
    }
}

/// Limits above what the types can hold have no effect.
#[test]
fn the_types_have_the_last_word() {
    let limits = Limits { key_len: u32::MAX, metadata: u32::MAX, name: u32::MAX, ..Limits::DEFAULT };
    let long = [&[0x80, 2], [b'x'; 256].as_slice()].concat();
    let error = DecodeError::TooLong { field: Field::Request, len: 256, limit: 255 };
    assert_eq!(Msg::decode(Kind::Release.number(), &long, &limits), Err(error));
    let body = lookup(65, &[], &[0; 65]);
    assert_eq!(
        Msg::decode(Kind::Lookup.number(), &body, &limits),
        Err(DecodeError::KeyLength { len: 65, limit: 64 })
    );
}
