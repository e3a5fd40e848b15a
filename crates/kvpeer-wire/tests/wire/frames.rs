//! A stream is cut into the same frames however it arrives.

use kvpeer_wire::strategies::parts;
use kvpeer_wire::{Frame, FrameError, FrameReader, Incoming, Limits, Msg, Nonce, Preamble, PreambleError};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::round_trip::encoded;

const EARLY: u32 = Limits::DEFAULT.early_frame;

/// A reader behind the preamble.
fn reader() -> FrameReader {
    let mut reader = FrameReader::new(EARLY);
    reader.feed(&Preamble::OURS.to_bytes());
    assert_eq!(reader.next(Vec::new), Ok(Some(Incoming::Preamble(Preamble::OURS))));
    reader
}

fn next(reader: &mut FrameReader) -> Result<Option<Frame>, FrameError> {
    Ok(match reader.next(Vec::new)? {
        Some(Incoming::Frame(frame)) => Some(frame),
        Some(Incoming::Preamble(preamble)) => panic!("a second preamble: {preamble:?}"),
        None => None,
    })
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() + 1) as u32;
    [&len.to_le_bytes(), [kind].as_slice(), body].concat()
}

proptest! {
    // FR-4
    #[test]
    fn any_splits(
        messages in vec(parts(), 0..8),
        pieces in vec(1..3000usize, 1..50),
        room in 1..5000usize,
    ) {
        let frames: Vec<_> = messages.iter().map(|parts| encoded(&parts.msg())).collect();
        let stream = [Preamble::OURS.to_bytes().to_vec(), frames.concat()].concat();
        let mut reader = FrameReader::new(EARLY);
        let (mut rest, mut pieces, mut found) = (stream.as_slice(), pieces.iter().cycle(), Vec::new());
        let mut storage = Vec::new();
        loop {
            while let Some(incoming) = reader.next(|| core::mem::take(&mut storage)).unwrap() {
                match incoming {
                    Incoming::Preamble(preamble) => {
                        prop_assert!(found.is_empty());
                        prop_assert_eq!(preamble, Preamble::OURS);
                    }
                    Incoming::Frame(frame) => {
                        found.push([&[frame.kind()], frame.body()].concat());
                        storage = frame.into_buffer();
                    }
                }
            }
            if rest.is_empty() {
                break;
            }
            let spare = reader.spare(room);
            let (piece, after) = rest.split_at((*pieces.next().unwrap()).min(spare.len()).min(rest.len()));
            spare[..piece.len()].copy_from_slice(piece);
            reader.advance(piece.len());
            rest = after;
        }
        let expected: Vec<_> = frames.iter().map(|frame| frame[4..].to_vec()).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(reader.unread(), 0);
    }
}

/// However much was read before, there is room, and what was read is still there.
#[test]
fn there_is_room_in_front_too() {
    let mut reader = reader();
    let ping = frame(5, &[1]);
    reader.feed(&ping.repeat(10));
    reader.feed(&ping[..3]);
    for _ in 0..10 {
        assert!(next(&mut reader).unwrap().is_some());
    }
    assert_eq!(reader.spare(1).len(), 10 * ping.len(), "the room of what was taken out is used again");
    reader.feed(&ping[3..]);
    assert_eq!(next(&mut reader).unwrap().unwrap().body(), [1]);
}

#[test]
fn one_byte_at_a_time() {
    let msg = Msg::Ping(Nonce(7));
    let mut reader = reader();
    let bytes = encoded(&msg);
    let (last, first) = bytes.split_last().unwrap();
    for byte in first {
        reader.feed(&[*byte]);
        assert_eq!(next(&mut reader), Ok(None));
    }
    assert_eq!(reader.unread(), first.len());
    reader.feed(&[*last]);
    assert_eq!(
        next(&mut reader).unwrap().unwrap().decode(&Limits::DEFAULT),
        Ok(kvpeer_wire::Decoded::Msg(msg))
    );
    assert_eq!(reader.unread(), 0);
}

// FR-3
#[test]
fn another_protocol_is_told_by_its_first_wrong_byte() {
    let mut reader = FrameReader::new(EARLY);
    reader.feed(b"KV");
    assert_eq!(reader.next(Vec::new), Ok(None));
    reader.feed(b"S");
    assert_eq!(reader.next(Vec::new), Err(FrameError::Preamble(PreambleError::Magic)));
}

// FR-5
#[test]
fn a_claim_over_the_limit_is_refused_before_its_body_comes() {
    let mut reader = reader();
    reader.feed(&(EARLY + 1).to_le_bytes());
    let error = FrameError::TooLong { len: EARLY + 1, limit: EARLY };
    assert_eq!(next(&mut reader), Err(error));
    reader.set_limit(u32::MAX);
    reader.feed(&frame(5, &[0]));
    assert_eq!(next(&mut reader), Err(error), "nothing can be read any more");
}

#[test]
fn a_frame_at_the_limit_is_taken() {
    let mut reader = reader();
    let body = vec![1; EARLY as usize - 1];
    reader.feed(&frame(0x80, &body));
    assert_eq!(next(&mut reader).unwrap().unwrap().body(), body);
}

#[test]
fn the_limit_may_change_at_any_time() {
    let mut reader = reader();
    reader.feed(&frame(0x80, &vec![1; EARLY as usize]));
    reader.set_limit(EARLY + 1);
    assert_eq!(next(&mut reader).unwrap().unwrap().body().len(), EARLY as usize);
    reader.feed(&frame(0x80, &[0; 9])[..8]);
    assert_eq!(next(&mut reader), Ok(None));
    reader.set_limit(9);
    assert_eq!(next(&mut reader), Err(FrameError::TooLong { len: 10, limit: 9 }));
}

// FR-5
#[test]
fn a_frame_has_a_kind() {
    let mut reader = reader();
    reader.feed(&[0; 4]);
    assert_eq!(next(&mut reader), Err(FrameError::Empty));
}

#[test]
fn large_frames_take_the_memory_and_small_ones_are_copied() {
    let mut reader = reader();
    let (large, small) = (frame(0x80, &[1; 50_000]), frame(0x81, &[2; 30]));
    reader.feed(&[small.as_slice(), &large, &small].concat());
    let given: Vec<u8> = Vec::with_capacity(64);
    let address = given.as_ptr();
    let Ok(Some(Incoming::Frame(first))) = reader.next(|| given) else { panic!("no frame") };
    assert_eq!((first.kind(), first.body()), (0x81, [2; 30].as_slice()));
    assert_eq!(first.body().as_ptr(), address, "copied into what was given");
    let second = next(&mut reader).unwrap().unwrap();
    assert_eq!((second.kind(), second.body()), (0x80, [1; 50_000].as_slice()));
    let third = next(&mut reader).unwrap().unwrap();
    assert_eq!(third.body(), [2; 30]);
    assert!(second.into_buffer().capacity() >= large.len());
    assert!(reader.take_buffer().is_some_and(|buffer| buffer.capacity() < 1000), "the large memory has gone");
}

/// A burst of small frames that nobody took out in between.
#[test]
fn a_reader_does_not_keep_much_memory() {
    let mut reader = reader();
    let small = frame(0x81, &[2; 95]);
    reader.feed(&small.repeat(3000));
    for _ in 0..2999 {
        assert_eq!(next(&mut reader).unwrap().unwrap().body(), [2; 95]);
    }
    assert!(reader.has_buffer());
    assert!(next(&mut reader).unwrap().is_some());
    assert!(!reader.has_buffer(), "300 kB that are not in use");
}

#[test]
fn memory_can_be_shared_between_readers() {
    let mut reader = reader();
    let mut buffer = reader.take_buffer().unwrap();
    assert!(!reader.has_buffer() && reader.take_buffer().is_none());
    buffer.clear();
    buffer.reserve(1000);
    let address = buffer.as_ptr();
    reader.give_buffer(buffer);
    assert_eq!(reader.spare(1000).as_ptr(), address);
    reader.feed(&[1]);
    assert!(reader.take_buffer().is_none(), "there is an unread byte in it");
}

#[test]
#[should_panic(expected = "advanced past the spare bytes")]
fn what_was_not_there_cannot_have_come() {
    let mut reader = reader();
    let room = reader.spare(10).len();
    reader.advance(room + 1);
}
