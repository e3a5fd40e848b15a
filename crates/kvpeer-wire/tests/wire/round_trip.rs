//! What is written is read as the same.

use kvpeer_wire::strategies::{Parts, parts, parts_of};
use kvpeer_wire::{Decoded, EncodeError, Kind, Limits, MAX_METADATA_LEN, Msg};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

pub(crate) fn encoded(msg: &Msg<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    msg.encode(&mut frame).unwrap();
    frame
}

proptest! {
    #[test]
    fn every_message_is_read_as_it_was_written(parts in parts()) {
        let msg = parts.msg();
        let frame = encoded(&msg);
        let (length, content) = frame.split_first_chunk().unwrap();
        prop_assert_eq!(u32::from_le_bytes(*length) as usize, content.len());
        prop_assert_eq!(content[0], msg.kind().number());
        let read = Msg::decode(content[0], &content[1..], &Limits::DEFAULT);
        prop_assert_eq!(read, Ok(Decoded::Msg(msg)));
        // Read from a frame, it is written as that frame.
        if let Ok(Decoded::Msg(read)) = read {
            prop_assert_eq!(encoded(&read), frame);
        }
    }

    #[test]
    fn trailing_bytes_are_ignored(parts in parts(), tail in prop::collection::vec(any::<u8>(), 0..20)) {
        let msg = parts.msg();
        let mut frame = encoded(&msg);
        frame.extend_from_slice(&tail);
        prop_assert_eq!(Msg::decode(frame[4], &frame[5..], &Limits::DEFAULT), Ok(Decoded::Msg(msg)));
    }
}

/// One message of `kind`.
pub(crate) fn any_of(kind: Kind) -> Parts {
    parts_of(kind).new_tree(&mut TestRunner::deterministic()).unwrap().current()
}

#[test]
fn every_kind_is_generated() {
    for kind in Kind::ALL {
        assert_eq!(any_of(kind).msg().kind(), kind);
    }
}

#[test]
fn frames_are_appended_to_what_is_there() {
    let parts = any_of(Kind::Fetch);
    let mut out = b"before".to_vec();
    parts.msg().encode(&mut out).unwrap();
    assert_eq!(out, [b"before".as_slice(), &encoded(&parts.msg())].concat());
}

#[test]
fn a_message_without_encoding_leaves_nothing_behind() {
    let mut parts = any_of(Kind::Connect);
    parts.metadata = vec![0; MAX_METADATA_LEN + 1];
    let mut out = b"before".to_vec();
    assert_eq!(parts.msg().encode(&mut out), Err(EncodeError::MetadataTooLong { len: MAX_METADATA_LEN + 1 }));
    assert_eq!(out, b"before");
}
