//! The bodies of the fuzz targets. Each takes any bytes and panics when a promise of this crate is broken.

use kvpeer_wire::Limits;

use crate::wire::{Decoded, Message};

/// A payload: a message, one of an unknown type, or a named error. What is read is written so that it is read as
/// the same, and never longer than it came.
pub fn decode(payload: &[u8]) {
    let limits = Limits::DEFAULT;
    let Ok(Decoded::Message(message)) = Message::decode(payload, &limits) else { return };
    look_at(&message, &limits);

    let mut written = Vec::new();
    message.encode(&mut written);
    assert_eq!(Message::decode(&written, &limits), Ok(Decoded::Message(message)));
    if !is_connect_without_fingerprint(&message, payload) {
        assert!(written.len() <= payload.len(), "the encoding is the shortest");
    }
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(written, again);
}

/// Lists have as many elements as they say.
fn look_at(message: &Message<'_>, limits: &Limits) {
    match message {
        Message::Fetch(fetch) => {
            assert_eq!(fetch.keys.iter().count(), fetch.keys.len());
            assert_eq!(fetch.block_indexes.iter().count(), fetch.keys.len());
            assert!(fetch.keys.len() <= limits.keys as usize);
            assert!(fetch.keys.to_buf().as_keys().iter().eq(fetch.keys.iter()));
        }
        Message::Lookup(lookup) => assert_eq!(lookup.keys.iter().count(), lookup.keys.len()),
        Message::LookupResp(resp) => {
            assert_eq!(resp.keys.iter().count(), resp.keys.len());
            assert_eq!(resp.hits.iter().count(), resp.keys.len());
        }
        Message::Connect(_)
        | Message::ConnectAck(_)
        | Message::Disconnect
        | Message::TransferDone(_)
        | Message::AbortFetch(_)
        | Message::AbortAck(_) => {}
    }
}

/// The one field that may be missing is always written.
fn is_connect_without_fingerprint(message: &Message<'_>, payload: &[u8]) -> bool {
    let name = b"config_fingerprint";
    matches!(message, Message::Connect(_)) && !payload.windows(name.len()).any(|window| window == name)
}
