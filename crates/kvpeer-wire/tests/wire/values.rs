//! Keys, blocks, bits, names, fingerprints and numbers, at their edges.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU8;

use kvpeer_wire::strategies::key;
use kvpeer_wire::{
    Bits, BitsBuf, Blocks, Decoded, Demand, DemandError, DisconnectReason, Failure, FingerprintBuf, Key,
    KeyBuf, KeyError, Keys, KeysBuf, Kind, Limits, Lookup, MAX_KEY_LEN, MAX_NAME_LEN, Msg, NameError, PeerId,
    PeerName, RejectCode, Supply, Text,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn key_of(bytes: &[u8]) -> Key<'_> {
    Key::new(bytes).unwrap()
}

fn run(keys: &[&[u8]]) -> KeysBuf {
    keys.iter().map(|bytes| key_of(bytes)).collect()
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A lookup's body with an end for every key, though they may have one length.
fn with_ends(keys: &[&[u8]]) -> Vec<u8> {
    let (mut ends, mut end) = (Vec::new(), 0u32);
    for key in keys {
        end += key.len() as u32;
        ends.extend_from_slice(&end.to_le_bytes());
    }
    let run = keys.concat();
    let lens = [ends.len() as u8, run.len() as u8];
    [[1, 1, b'r', 1, 0, lens[0]].as_slice(), &ends, &[lens[1]], &run].concat()
}

fn keys_in(body: &[u8]) -> Keys<'_> {
    match Msg::decode(Kind::Lookup.number(), body, &Limits::DEFAULT) {
        Ok(Decoded::Msg(Msg::Lookup(Lookup { keys, .. }))) => keys,
        other => panic!("no lookup: {other:?}"),
    }
}

// FR-14
#[test]
fn keys_have_1_to_64_bytes() {
    assert_eq!(Key::new(&[]), Err(KeyError { len: 0 }));
    assert!(Key::new(&[7]).is_ok());
    assert!(Key::new(&[7; MAX_KEY_LEN]).is_ok());
    assert_eq!(Key::new(&[7; MAX_KEY_LEN + 1]), Err(KeyError { len: 65 }));
}

#[test]
fn owned_keys_order_and_hash_like_borrowed_ones() {
    let (short, long) = (key_of(&[1]), key_of(&[1, 0]));
    let owned = (KeyBuf::from(short), KeyBuf::from(long));
    assert_ne!(owned.0, owned.1, "the fill is not a part of the key");
    assert_eq!(owned.0.cmp(&owned.1), short.cmp(&long));
    assert_eq!(hash(&owned.1), hash(&long));
    assert_eq!(owned.1.as_key(), long);
    assert_eq!(format!("{:?}", owned.1), "0100");
}

#[test]
fn equal_runs_of_keys_are_equal_however_they_came_about() {
    let pushed = run(&[b"ab", b"cd"]);
    let body = with_ends(&[b"ab", b"cd"]);
    let read = keys_in(&body);
    assert_eq!(read, pushed.as_keys());
    assert_eq!(read.to_buf(), pushed);
    assert_eq!(hash(&read.to_buf()), hash(&pushed));
    assert_eq!(hash(&read), hash(&pushed.as_keys()));
}

#[test]
fn equal_bytes_are_not_equal_keys() {
    assert_ne!(run(&[b"ab", b"cd"]), run(&[b"abcd"]));
    assert_ne!(run(&[b"a", b"bcd"]), run(&[b"abc", b"d"]));
    assert_ne!(run(&[b"ab"]), run(&[b"ab", b"ab"]));
    assert_ne!(run(&[b"ab", b"c"]).as_keys(), run(&[b"ab"]).as_keys());
}

#[test]
fn runs_have_keys_in_common_from_a_place_on() {
    let (even, short) = (run(&[b"ab", b"cd", b"ef", b"gh"]), run(&[b"cd", b"ef", b"xy"]));
    let mixed = run(&[b"a", b"cd", b"ef", b"gh"]);
    for (a, at, b, from, common) in [
        (&even, 0, &even, 0, 4),
        (&even, 1, &short, 0, 2),
        (&short, 0, &even, 1, 2),
        (&even, 0, &short, 0, 0),
        (&even, 1, &mixed, 1, 3),
        (&mixed, 2, &short, 1, 1),
        (&even, 4, &even, 0, 0),
        (&even, 9, &even, 9, 0),
    ] {
        assert_eq!(a.as_keys().common(at, b.as_keys(), from), common, "{a:?} {at} {b:?} {from}");
    }
    assert_eq!(Keys::from(key_of(b"ab")), run(&[b"ab"]).as_keys());
}

#[test]
fn no_keys_at_all() {
    let body = with_ends(&[]);
    for none in [Keys::EMPTY, KeysBuf::new().as_keys(), keys_in(&body), keys_in(&[1, 1, b'r', 1, 9, 0, 0])] {
        assert!(none.is_empty() && none.get(0).is_none() && none.iter().next().is_none());
        assert_eq!((none, none.to_buf()), (Keys::EMPTY, KeysBuf::default()));
        assert_eq!(none.size(), 0);
    }
}

#[test]
fn a_buffer_of_no_keys_takes_keys_of_any_length() {
    let mut keys = keys_in(&[1, 1, b'r', 1, 9, 0, 0]).to_buf();
    keys.push(key_of(b"abc"));
    assert_eq!(keys, run(&[b"abc"]));
}

proptest! {
    #[test]
    fn runs_hold_what_was_pushed(keys in vec(key(), 0..30)) {
        let pushed: KeysBuf = keys.iter().map(|bytes| key_of(bytes)).collect();
        let view = pushed.as_keys();
        prop_assert_eq!(view.len(), keys.len());
        prop_assert!(view.iter().map(Key::as_bytes).eq(keys.iter().map(Vec::as_slice)));
        for (at, key) in keys.iter().enumerate() {
            prop_assert_eq!(view.get(at), Some(key_of(key)));
        }
        prop_assert_eq!(view.get(keys.len()), None);
        prop_assert_eq!(view.get(usize::MAX), None);
        prop_assert_eq!(view.to_buf(), pushed.clone());
    }

    #[test]
    fn runs_are_equal_exactly_when_their_keys_are(
        one in vec(vec(0..2u8, 1..3), 0..5),
        other in vec(vec(0..2u8, 1..3), 0..5),
    ) {
        let runs = [&one, &other].map(|keys| keys.iter().map(|bytes| key_of(bytes)).collect::<KeysBuf>());
        prop_assert_eq!(runs[0] == runs[1], one == other);
        prop_assert_eq!(runs[0].as_keys() == runs[1].as_keys(), one == other);
        let slices: Vec<&[u8]> = one.iter().map(Vec::as_slice).collect();
        let body = with_ends(&slices);
        let read = keys_in(&body).to_buf();
        prop_assert_eq!(hash(&read), hash(&runs[0]));
        prop_assert_eq!(&read, &runs[0]);
    }
}

#[test]
fn blocks_in_memory_and_in_a_frame_are_the_same() {
    let blocks = Blocks::new(&[0, 1, u32::MAX]);
    assert_eq!((blocks.len(), blocks.get(2), blocks.get(3)), (3, Some(u32::MAX), None));
    assert!(blocks.iter().eq([0, 1, u32::MAX]));
    assert_ne!(blocks, Blocks::new(&[0, 1]));
    assert!(Blocks::new(&[]).is_empty());
}

// FR-14
#[test]
fn a_demand_is_even() {
    let keys = run(&[b"ab", b"cd"]);
    assert_eq!(Demand::new(keys.as_keys(), Blocks::new(&[1])), Err(DemandError { keys: 2, blocks: 1 }));
    let demand = Demand::new(keys.as_keys(), Blocks::new(&[1, 2])).unwrap();
    assert_eq!((demand.len(), demand.is_empty()), (2, false));
}

// FR-13
#[test]
fn bits_have_the_bytes_that_they_need_and_no_more() {
    assert_eq!(Bits::new(0, &[]), Some(Bits::default()));
    assert_eq!(Bits::new(0, &[0]), None);
    assert_eq!(Bits::new(8, &[]), None);
    assert!(Bits::new(8, &[0xff]).is_some());
    assert_eq!(Bits::new(9, &[0xff]), None);
    assert!(Bits::new(9, &[0xff, 1]).is_some());
    assert_eq!(Bits::new(9, &[0xff, 2]), None, "bit 9 is past the end");
    assert_eq!(Bits::new(u32::MAX, &[]), None);
}

#[test]
fn bits_are_set_and_cleared_inside_only() {
    let mut set = BitsBuf::zeros(10);
    for at in [0, 7, 8, 9, 10, 15, 16, u32::MAX] {
        set.set(at);
    }
    let bits = set.as_bits();
    assert_eq!(format!("{bits:?}"), "1000000111");
    assert_eq!((bits.len(), bits.ones(), bits.as_bytes()), (10, 4, [0x81, 3].as_slice()));
    assert!(bits.get(9) && !bits.get(10) && !bits.get(u32::MAX));
    assert_eq!(Bits::new(10, bits.as_bytes()), Some(bits));
    for at in [8, 10, u32::MAX] {
        set.clear(at);
    }
    assert_eq!(format!("{set:?}"), "1000000101");
    assert_eq!(set.as_bits().iter().filter(|bit| *bit).count(), 3);
}

// ID-1, ID-8
#[test]
fn names_have_1_to_255_bytes_and_texts_up_to_255() {
    let (longest, longer) = ("é".repeat(127) + "x", "é".repeat(128));
    assert_eq!(PeerName::new(""), Err(NameError::Empty));
    assert!(PeerName::new(&longest).is_ok() && Text::new(&longest).is_ok() && Text::new("").is_ok());
    assert_eq!(PeerName::new(&longer), Err(NameError::TooLong { len: MAX_NAME_LEN + 1 }));
    assert_eq!(Text::new(&longer), Err(NameError::TooLong { len: 256 }));
    assert_eq!(Text::truncated(&longer).as_str(), "é".repeat(127), "cut in front of a character");
    let owned = PeerId::from(PeerName::new("a\n").unwrap());
    assert_eq!(owned.to_string(), "a\\n", "what a peer sends cannot forge lines of a log");
}

#[test]
fn fingerprints_keep_pairs_in_order() {
    let mut fingerprint = FingerprintBuf::new();
    assert_eq!(fingerprint.as_fingerprint().iter().next(), None);
    let longest = "x".repeat(MAX_NAME_LEN);
    let pairs = [("model", "m"), ("", ""), ("model", "other"), (&longest, &longest)];
    for (name, value) in pairs {
        fingerprint.push(name, value).unwrap();
    }
    let before = fingerprint.clone();
    let longer = "x".repeat(MAX_NAME_LEN + 1);
    assert_eq!(fingerprint.push("name", &longer), Err(NameError::TooLong { len: 256 }));
    assert_eq!(fingerprint, before, "a refused pair leaves nothing behind");
    assert!(fingerprint.as_fingerprint().iter().eq(pairs));
}

// FR-7
#[test]
fn kinds_have_the_numbers_of_the_protocol_page() {
    let numbers = Kind::ALL.map(|kind| (format!("{kind:?}"), kind.number()));
    let expected = [
        ("Connect", 1),
        ("ConnectAck", 2),
        ("Reject", 3),
        ("Disconnect", 4),
        ("Ping", 5),
        ("Pong", 6),
        ("Lookup", 7),
        ("LookupResp", 8),
        ("Fetch", 9),
        ("FetchProgress", 10),
        ("TransferDone", 11),
        ("AbortFetch", 12),
        ("AbortAck", 13),
        ("Release", 14),
    ];
    assert_eq!(numbers, expected.map(|(name, number)| (name.to_owned(), number)));
    let known: Vec<u8> = (0..=u8::MAX).filter(|number| Kind::from_number(*number).is_some()).collect();
    assert_eq!(known, Vec::from_iter(1..=14));
    assert!(Kind::ALL.into_iter().all(|kind| Kind::from_number(kind.number()) == Some(kind)));
}

// MSG-1
#[test]
fn reasons_have_the_numbers_of_the_protocol_page() {
    macro_rules! named {
        ($reason:ident) => {
            $reason::NAMED.iter().map(|reason| format!("{reason:?}")).collect::<Vec<_>>().join(" ")
        };
    }
    assert_eq!(
        named!(RejectCode),
        "Version BlockLen HashSeed Fingerprint UnexpectedPeer Duplicate StaleIncarnation TooManyPeers Backoff \
         Unauthorized RegistrationFailed"
    );
    assert_eq!(
        named!(DisconnectReason),
        "Shutdown Closed Idle Protocol DataPlane WriteStalled Unsettled AbortUnacked"
    );
    assert_eq!(
        named!(Failure),
        "NoSupply SupplyTimeout ProducerFinished WriteFailed Overloaded Closing NotYours Malformed"
    );
    assert_eq!([Supply::Pinned, Supply::Await].map(Supply::code), [1, 2]);
    for number in 0..=u8::MAX {
        assert_eq!(Supply::from_code(number).is_some(), (1..=2).contains(&number));
    }
}

/// The named ones are numbered from 1; every other number is `Other` and keeps its number.
#[test]
fn a_number_has_one_reason() {
    for code in 1..=u8::MAX {
        let code = NonZeroU8::new(code).unwrap();
        let nth = usize::from(code.get()) - 1;
        macro_rules! check {
            ($reason:ident) => {{
                let reason = $reason::from_code(code);
                assert_eq!(reason.code(), code);
                match $reason::NAMED.get(nth) {
                    Some(named) => assert_eq!(reason, *named),
                    None => assert!(matches!(reason, $reason::Other(number) if number.get() == code)),
                }
            }};
        }
        check!(RejectCode);
        check!(DisconnectReason);
        check!(Failure);
    }
}
