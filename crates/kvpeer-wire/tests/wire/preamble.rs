//! The first eight bytes.

use kvpeer_wire::{NoCommonVersion, Preamble, PreambleError, Version};

fn speaks(min: u8, max: u8) -> Preamble {
    Preamble::new(Version(min), Version(max)).unwrap()
}

#[test]
fn ours() {
    assert_eq!(Preamble::OURS.to_bytes(), *b"KVPEER\x01\x01");
    assert_eq!(Preamble::default(), speaks(1, 1));
}

#[test]
fn every_range_is_read_as_it_was_written() {
    for min in 0..=u8::MAX {
        for max in min..=u8::MAX {
            let preamble = speaks(min, max);
            assert_eq!(Preamble::from_bytes(preamble.to_bytes()), Ok(preamble));
        }
    }
}

// FR-3
#[test]
fn what_is_no_preamble() {
    assert_eq!(Preamble::from_bytes(*b"GET / HT"), Err(PreambleError::Magic));
    assert_eq!(Preamble::from_bytes(*b"KVPEEr\x01\x01"), Err(PreambleError::Magic));
    let empty = PreambleError::EmptyRange { min: Version(3), max: Version(2) };
    assert_eq!(Preamble::from_bytes(*b"KVPEER\x03\x02"), Err(empty));
}

// FR-2
#[test]
fn the_highest_common_version_rules() {
    for (ours, theirs, version) in [
        (speaks(1, 1), speaks(1, 1), 1),
        (speaks(1, 3), speaks(2, 5), 3),
        (speaks(2, 5), speaks(1, 3), 3),
        (speaks(1, 9), speaks(4, 6), 6),
        (speaks(3, 3), speaks(1, 3), 3),
    ] {
        assert_eq!(ours.negotiate(theirs), Ok(Version(version)));
        assert_eq!(theirs.negotiate(ours), Ok(Version(version)));
    }
}

#[test]
fn none_in_common() {
    let (ours, theirs) = (speaks(1, 2), speaks(3, 4));
    let error = ours.negotiate(theirs).unwrap_err();
    assert_eq!(error, NoCommonVersion { ours, theirs });
    assert_eq!(error.to_string(), "no version in common: we speak 1 to 2, the peer 3 to 4");
    assert!(theirs.negotiate(ours).is_err());
}
