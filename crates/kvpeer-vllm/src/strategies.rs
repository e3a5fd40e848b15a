//! Generated values for property tests: every message of vLLM's.

use kvpeer_wire::strategies::{bits, demand, peer_id, request};
use kvpeer_wire::{BitsBuf, Blocks, KeysBuf, MAX_METADATA_LEN, PeerId, RequestId, Text};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::wire::{
    AbortAck, AbortFetch, Connect, ConnectAck, Fetch, HitList, IndexList, KeyList, Lookup, LookupResp,
    Message, RoundSeq, Success, TransferDone,
};

/// How many types of messages there are.
pub const KINDS: usize = 9;

/// All that a message is made of, for each type at once; [`message`](Self::message) makes one of it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names of the messages' fields")]
pub struct Parts {
    /// Below [`KINDS`].
    pub kind: usize,
    pub peer_id: PeerId,
    pub request: RequestId,
    /// Fingerprint and hash seed.
    pub texts: [String; 2],
    pub metadata: Vec<u8>,
    pub keys: KeysBuf,
    /// As many as `keys`.
    pub blocks: Vec<u32>,
    /// As many as `keys`.
    pub hits: BitsBuf,
    pub success: Success,
    pub num_blocks: u32,
    pub long: [u64; 3],
}

/// Any message.
pub fn parts() -> impl Strategy<Value = Parts> {
    (0..KINDS).prop_flat_map(parts_of)
}

/// Any message of one type.
pub fn parts_of(kind: usize) -> impl Strategy<Value = Parts> {
    let names = (peer_id(), request(), [text(), text()]);
    let runs = (vec(any::<u8>(), 0..=MAX_METADATA_LEN), demand(), bits());
    let rest = (any::<bool>(), 1..=u32::MAX, [number(), number(), number()]);
    (names, runs, rest).prop_map(move |(names, runs, rest)| {
        let (peer_id, request, texts) = names;
        let (metadata, (keys, blocks), some_bits) = runs;
        let (success, num_blocks, long) = rest;
        let mut hits = BitsBuf::zeros(blocks.len() as u32);
        (0..).zip(some_bits.as_bits().iter()).filter(|(_, hit)| *hit).for_each(|(at, _)| hits.set(at));
        let success = if success { Success::Yes } else { Success::No };
        Parts { kind, peer_id, request, texts, metadata, keys, blocks, hits, success, num_blocks, long }
    })
}

impl Parts {
    /// The message of this type.
    pub fn message(&self) -> Message<'_> {
        let kv_request_id = self.request.as_name();
        let round_seq = RoundSeq(self.long[0]);
        let keys = KeyList::from(self.keys.as_keys());
        let hits = HitList::from(self.hits.as_bits());
        match self.kind {
            0 => Message::Connect(Connect {
                peer_id: self.peer_id.as_name(),
                agent_metadata: &self.metadata,
                base_addr: self.long[1],
                num_blocks: self.num_blocks,
                block_len: self.long[2].max(1),
                config_fingerprint: Text::truncated(&self.texts[0]),
                hash_seed: Text::truncated(&self.texts[1]),
            }),
            1 => Message::ConnectAck(ConnectAck { peer_id: self.peer_id.as_name() }),
            2 => Message::Fetch(Fetch {
                kv_request_id,
                keys,
                block_indexes: IndexList::from(Blocks::new(&self.blocks)),
                round_seq,
            }),
            3 => Message::Lookup(Lookup { kv_request_id, keys, round_seq }),
            4 => Message::LookupResp(LookupResp { kv_request_id, keys, hits }),
            5 => Message::TransferDone(TransferDone { kv_request_id, success: self.success, round_seq }),
            6 => Message::AbortFetch(AbortFetch { kv_request_id, round_seq }),
            7 => Message::AbortAck(AbortAck { kv_request_id, round_seq }),
            _ => Message::Disconnect,
        }
    }
}

/// Numbers of every length on the wire.
fn number() -> impl Strategy<Value = u64> {
    (0..64u32, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)
}

fn text() -> impl Strategy<Value = String> {
    ".{0,90}".prop_map(|text| Text::truncated(&text).as_str().into())
}
