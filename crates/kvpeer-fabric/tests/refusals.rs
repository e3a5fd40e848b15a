//! What is refused, and that refusing it harms nothing else.

#![allow(unsafe_code, reason = "test memory and poll(2)")]

mod support;

use kvpeer_fabric::{
    Fabric, FabricConfig, FabricError, FabricEvent, MetadataError, PeerRegion, Refusal, RightId, TransferEnd,
};
use support::{LOOPBACK, Node, Region, link, pump, xfer};

const A: RightId = RightId(1);
const B: RightId = RightId(7);
const C: RightId = RightId(8);

// SUP-4
#[test]
fn indexes_outside_either_region_are_not_posted_and_the_session_goes_on() {
    let (mut a, mut b) = (Node::new(1024, 8), Node::new(1024, 4));
    link(&mut a, A, &mut b, B);
    a.fill_block(7, 0x42);
    let cases = [
        (vec![8], vec![0], Refusal::SourceOutOfRange { index: 8 }),
        (vec![0, u32::MAX], vec![0, 1], Refusal::SourceOutOfRange { index: u32::MAX }),
        (vec![0], vec![4], Refusal::DestinationOutOfRange { index: 4 }),
        (vec![0, 1], vec![3, u32::MAX], Refusal::DestinationOutOfRange { index: u32::MAX }),
        (vec![0, 1], vec![3], Refusal::LengthMismatch { src: 2, dst: 1 }),
    ];
    for (seq, (src, dst, _)) in (0..).zip(&cases) {
        a.fabric.write(xfer(A, seq), src, dst);
    }
    a.fabric.write(xfer(A, 100), &[7], &[3]);
    a.fabric.write(xfer(A, 100), &[6], &[2]);
    pump(&mut [&mut a, &mut b], |nodes| {
        nodes[0].events.iter().filter(|event| matches!(event, FabricEvent::Transfer { .. })).count() == 7
    });
    for (seq, (_, _, why)) in (0..).zip(&cases) {
        assert_eq!(a.end_of(xfer(A, seq)), Some(&TransferEnd::NotPosted(*why)));
    }
    let ended = |end| FabricEvent::Transfer { xfer: xfer(A, 100), end };
    assert!(a.events.contains(&ended(TransferEnd::NotPosted(Refusal::DuplicateId))));
    assert!(a.events.contains(&ended(TransferEnd::Done)));
    assert!(b.block_is(3, 0x42) && b.region.count_other(0, 3 * 1024, 0) == 0);
    assert_eq!((a.faults(A), b.faults(B)), (0, 0));
}

#[test]
fn a_queue_that_is_full_refuses_the_newest() {
    let mut a = Node::with(512, 64, |config| config.queue_limit = 4);
    let mut b = Node::new(512, 64);
    link(&mut a, A, &mut b, B);
    a.fabric.write(xfer(A, 1), &[0, 2, 4], &[0, 2, 4]);
    a.fabric.write(xfer(A, 2), &[6, 8], &[6, 8]);
    a.fabric.write(xfer(A, 3), &[6, 7, 8], &[6, 7, 8]);
    pump(&mut [&mut a, &mut b], |nodes| (1..=3).all(|seq| nodes[0].end_of(xfer(A, seq)).is_some()));
    assert_eq!(a.end_of(xfer(A, 1)), Some(&TransferEnd::Done));
    assert_eq!(a.end_of(xfer(A, 2)), Some(&TransferEnd::NotPosted(Refusal::QueueFull)));
    assert_eq!(a.end_of(xfer(A, 3)), Some(&TransferEnd::Done), "merged into one, it fits");
}

#[test]
fn writes_need_an_open_right_and_a_registered_peer() {
    let mut a = Node::new(512, 4);
    a.fabric.write(xfer(A, 1), &[0], &[0]);
    a.fabric.open_right(A);
    a.fabric.write(xfer(A, 2), &[0], &[0]);
    a.fabric.register(A, a.peer_region(), &[]);
    pump(&mut [&mut a], |nodes| nodes[0].events.len() >= 4);
    a.fabric.write(xfer(A, 3), &[0], &[0]);
    pump(&mut [&mut a], |nodes| nodes[0].end_of(xfer(A, 3)).is_some());
    for (seq, why) in [(1, Refusal::NotOpen), (2, Refusal::NotOpen), (3, Refusal::NotRegistered)] {
        assert_eq!(a.end_of(xfer(A, seq)), Some(&TransferEnd::NotPosted(why)));
    }
}

#[test]
fn a_wrong_key_fails_the_write_and_nothing_but_its_right() {
    let (mut a, mut b, mut c) = (Node::new(1024, 4), Node::new(1024, 4), Node::new(1024, 4));
    link(&mut c, C, &mut b, C);
    let mut of_b = b.open_right(B);
    of_b[4] ^= 0xff;
    let region = b.peer_region();
    a.open_right(A);
    a.register(A, region, &of_b);
    a.fill_block(0, 0x66);
    c.fill_block(0, 0x33);
    a.fabric.write(xfer(A, 1), &[0], &[0]);
    a.fabric.write(xfer(A, 2), &[0], &[1]);
    pump(&mut [&mut a, &mut b], |nodes| {
        nodes[0].end_of(xfer(A, 1)).is_some() && nodes[0].end_of(xfer(A, 2)).is_some()
    });
    let end = a.end_of(xfer(A, 1));
    assert!(matches!(end, Some(TransferEnd::Errored(FabricError::Call { .. }))), "{end:?}");
    assert_ne!(a.end_of(xfer(A, 2)), Some(&TransferEnd::Done));
    assert_eq!(a.faults(A), 1);
    // The right is done for, its plane and the target are not.
    a.fabric.write(xfer(A, 3), &[0], &[1]);
    c.fabric.write(xfer(C, 1), &[0], &[2]);
    pump(&mut [&mut a, &mut b, &mut c], |nodes| nodes[2].end_of(xfer(C, 1)).is_some());
    assert_eq!(a.end_of(xfer(A, 3)), Some(&TransferEnd::NotPosted(Refusal::RightFailed)));
    assert_eq!(c.end_of(xfer(C, 1)), Some(&TransferEnd::Done));
    assert!(b.block_is(0, 0) && b.block_is(1, 0) && b.block_is(2, 0x33));
    // And a new right to the same peer works.
    a.fabric.close_right(A);
    b.fabric.close_right(B);
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].closed(A).is_some() && nodes[1].closed(B).is_some());
    a.events.clear();
    b.events.clear();
    link(&mut a, A, &mut b, B);
    a.fabric.write(xfer(A, 1), &[0], &[1]);
    pump(&mut [&mut a, &mut b], |nodes| nodes[0].end_of(xfer(A, 1)).is_some());
    assert!(b.block_is(1, 0x66));
}

#[test]
fn a_peer_that_does_not_fit_is_refused_and_can_be_registered_anew() {
    let (mut a, mut b) = (Node::new(1024, 4), Node::new(1024, 4));
    let of_b = b.open_right(B);
    a.open_right(A);
    let good = b.peer_region();
    let with = |change: fn(&mut PeerRegion)| {
        let mut region = good;
        change(&mut region);
        region
    };
    let mut result = |region, metadata: &[u8]| {
        a.events.clear();
        a.fabric.register(A, region, metadata);
        pump(&mut [&mut a], |nodes| !nodes[0].events.is_empty());
        match a.events.pop() {
            Some(FabricEvent::Registered { right: A, result }) => result,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(result(with(|r| r.block_len = 512), &of_b), Err(FabricError::PeerRegion { .. })));
    assert!(matches!(result(with(|r| r.num_blocks = 0), &of_b), Err(FabricError::PeerRegion { .. })));
    let cut = result(good, &of_b[..of_b.len() - 1]);
    assert!(matches!(cut, Err(FabricError::Metadata(MetadataError::Short { .. }))), "{cut:?}");
    let long = result(good, &[&of_b[..], &[0]].concat());
    assert_eq!(long, Err(FabricError::Metadata(MetadataError::TrailingBytes { extra: 1 })));
    assert_eq!(result(good, &of_b), Ok(()));
    assert!(matches!(result(good, &of_b), Err(FabricError::RightState { .. })));
}

#[test]
fn rights_are_named_once() {
    let mut a = Node::new(512, 1);
    a.open_right(A);
    a.events.clear();
    a.fabric.open_right(A);
    a.fabric.register(B, a.peer_region(), &[]);
    a.fabric.close_right(B);
    pump(&mut [&mut a], |nodes| nodes[0].events.len() == 3);
    let in_use = |event: &FabricEvent| {
        matches!(event, FabricEvent::RightOpened { right: A, metadata: Err(FabricError::RightState { .. }) })
    };
    assert!(a.events.iter().any(in_use), "{:?}", a.events);
    assert_eq!(a.closed(B), Some(true), "nothing lands through a right that does not exist");
}

#[test]
fn a_configuration_that_cannot_work_is_refused_with_its_reason() {
    let good = FabricConfig::new(LOOPBACK, 512, 8);
    let refused = |change: fn(&mut FabricConfig)| {
        let mut config = good.clone();
        change(&mut config);
        Fabric::open(&config, Region::new(512 * 8)).expect_err("refused").to_string()
    };
    assert!(refused(|c| c.num_blocks = 9).contains("need 4608 bytes, the memory has 4096"));
    assert!(refused(|c| c.block_len = 0).contains("no region"));
    assert!(refused(|c| c.block_len = u64::MAX).contains("no region"));
    assert!(refused(|c| c.bind = "0.0.0.0".parse().expect("address")).contains("cannot connect to"));
    assert!(refused(|c| c.window = 0).contains("at least 1"));
    // An address of documentation networks, which no host has.
    let unknown = refused(|c| c.bind = "203.0.113.1".parse().expect("address"));
    assert!(unknown.contains("fi_") && unknown.contains("tcp"), "{unknown}");
}
