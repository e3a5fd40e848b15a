//! The bodies of the fuzz targets. Each takes any bytes and panics when a promise of this crate is broken.

use alloc::vec::Vec;

use crate::{
    Decoded, Demand, Fetch, Frame, FrameError, FrameReader, Incoming, Limits, Lookup, Msg, PREAMBLE_LEN,
};

/// The first byte is a kind, the others are a body: a message, an unknown kind to be skipped, or a named error.
/// What is read is written so that it is read as the same.
pub fn decode(bytes: &[u8]) {
    let Some((&kind, body)) = bytes.split_first() else { return };
    let limits = Limits::DEFAULT;
    let Ok(Decoded::Msg(msg)) = Msg::decode(kind, body, &limits) else { return };
    assert_eq!(msg.kind().number(), kind);
    if let Msg::Fetch(Fetch { demand, .. }) = msg {
        look_at(demand);
    }
    if let Msg::Lookup(Lookup { keys, .. }) = msg {
        assert!(keys.iter().count() == keys.len() && keys.len() <= limits.keys as usize);
        assert_eq!(keys.to_buf().as_keys(), keys);
    }

    let mut frame = Vec::new();
    msg.encode(&mut frame).expect("what was read can be written");
    let (length, content) = frame.split_first_chunk().expect("a frame has a length");
    assert_eq!(u32::from_le_bytes(*length) as usize, content.len());
    let (&kind, written) = content.split_first().expect("a frame has a kind");
    assert_eq!(Msg::decode(kind, written, &limits), Ok(Decoded::Msg(msg)));
    assert!(written.len() <= body.len(), "the encoding is the shortest");
}

fn look_at(demand: Demand<'_>) {
    assert_eq!(demand.keys().iter().count(), demand.len());
    assert_eq!(demand.blocks().iter().count(), demand.len());
    assert_eq!(demand.keys().to_buf().as_keys(), demand.keys());
}

/// The first byte says in which pieces the others arrive: however that is, the same comes out, and memory grows
/// with what has arrived.
pub fn frame(bytes: &[u8]) {
    let Some((&seed, stream)) = bytes.split_first() else { return };
    let (whole, whole_error) = read(stream, |_| usize::MAX);
    let (pieces, pieces_error) = read(stream, |at| 1 + (usize::from(seed) * (at + 7)) % 61);
    assert_eq!(whole, pieces);
    assert_eq!(whole_error, pieces_error);
    assert!(whole.iter().map(size).sum::<usize>() <= stream.len());
    for incoming in &whole {
        if let Incoming::Frame(frame) = incoming {
            let _ = frame.decode(&Limits::DEFAULT);
        }
    }
}

fn read(mut stream: &[u8], piece: impl Fn(usize) -> usize) -> (Vec<Incoming>, Option<FrameError>) {
    const ROOM: usize = 16;
    let mut reader = FrameReader::new(Limits::DEFAULT.early_frame);
    let mut found = Vec::new();
    while !stream.is_empty() {
        let spare = reader.spare(ROOM);
        assert!(spare.len() >= ROOM);
        let count = piece(stream.len()).min(stream.len()).min(spare.len());
        let (piece, rest) = stream.split_at(count);
        spare[..count].copy_from_slice(piece);
        reader.advance(count);
        stream = rest;
        loop {
            match reader.next(Vec::new) {
                Ok(Some(incoming)) => found.push(incoming),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.next(Vec::new), Err(error), "an error stays");
                    return (found, Some(error));
                }
            }
        }
    }
    (found, None)
}

fn size(incoming: &Incoming) -> usize {
    match incoming {
        Incoming::Preamble(_) => PREAMBLE_LEN,
        Incoming::Frame(frame) => frame_size(frame),
    }
}

fn frame_size(frame: &Frame) -> usize {
    5 + frame.body().len()
}
