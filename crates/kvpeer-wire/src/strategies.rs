//! Generated values for property tests: every message, and what messages are made of.

use alloc::string::String;
use alloc::vec::Vec;
use core::num::NonZeroU8;
use core::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{
    AbortAck, AbortFetch, BitsBuf, Blocks, Compat, Connect, ConnectAck, Demand, Disconnect, DisconnectReason,
    Failure, Fetch, FetchProgress, FingerprintBuf, Key, KeysBuf, Kind, Lookup, LookupId, LookupResp,
    MAX_KEY_LEN, MAX_METADATA_LEN, Msg, Nonce, Outcome, PeerId, PeerName, RegionInfo, Reject, RejectCode,
    Release, RequestId, RequestName, Round, Supply, Text, TransferDone,
};

/// Keys, bits and blocks in a generated message at most.
const MOST_KEYS: usize = 40;

/// All that a message is made of, for each kind at once; [`msg`](Self::msg) makes one of it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names of the messages' fields")]
pub struct Parts {
    pub kind: Kind,
    pub peer_id: PeerId,
    pub request: RequestId,
    /// Hash seed, or the texts of a reject or a disconnect.
    pub texts: [String; 3],
    pub fingerprint: FingerprintBuf,
    pub metadata: Vec<u8>,
    pub keys: KeysBuf,
    /// As many as `keys`.
    pub blocks: Vec<u32>,
    /// Hits, or landed blocks.
    pub bits: BitsBuf,
    /// Offset of an answer.
    pub offset: u32,
    pub supply: Supply,
    pub ok: bool,
    pub settled: bool,
    /// Of a reject, a disconnect or a failure.
    pub code: NonZeroU8,
    /// Everything else that is a number.
    pub long: [u64; 3],
    pub short: [u32; 3],
}

/// Any message.
pub fn parts() -> impl Strategy<Value = Parts> {
    any::<proptest::sample::Index>().prop_flat_map(|kind| parts_of(*kind.get(&Kind::ALL)))
}

/// Any message of one kind.
pub fn parts_of(kind: Kind) -> impl Strategy<Value = Parts> {
    let names = (peer_id(), request(), [text(), text(), text()], fingerprint());
    let runs = (vec(any::<u8>(), 0..=MAX_METADATA_LEN), demand(), bits(), 0..16_384 - MOST_KEYS as u32);
    let rest = (supply(), any::<(bool, bool)>(), any::<NonZeroU8>(), any::<[u64; 3]>(), any::<[u32; 3]>());
    (names, runs, rest).prop_map(move |(names, runs, rest)| {
        let (peer_id, request, texts, fingerprint) = names;
        let (metadata, (keys, blocks), bits, offset) = runs;
        let (supply, (ok, settled), code, long, short) = rest;
        Parts {
            kind,
            peer_id,
            request,
            texts,
            fingerprint,
            metadata,
            keys,
            blocks,
            bits,
            offset,
            supply,
            ok,
            settled,
            code,
            long,
            short,
        }
    })
}

impl Parts {
    /// The message of this kind.
    pub fn msg(&self) -> Msg<'_> {
        let request = self.request.as_name();
        let round = Round(self.long[0]);
        let [first, second, third] = self.texts.each_ref().map(|text| Text::truncated(text));
        match self.kind {
            Kind::Connect => Msg::Connect(self.connect()),
            Kind::ConnectAck => Msg::ConnectAck(ConnectAck { incarnation: self.long[0] }),
            Kind::Reject => Msg::Reject(Reject {
                code: RejectCode::from_code(self.code),
                field: first,
                ours: second,
                theirs: third,
                retry_after_ms: self.short[0],
            }),
            Kind::Disconnect => {
                Msg::Disconnect(Disconnect { reason: DisconnectReason::from_code(self.code), detail: first })
            }
            Kind::Ping => Msg::Ping(Nonce(self.long[0])),
            Kind::Pong => Msg::Pong(Nonce(self.long[0])),
            Kind::Lookup => Msg::Lookup(Lookup {
                lookup_id: LookupId(self.long[1]),
                request,
                round,
                keys: self.keys.as_keys(),
            }),
            Kind::LookupResp => Msg::LookupResp(LookupResp {
                lookup_id: LookupId(self.long[1]),
                offset: self.offset,
                hits: self.bits.as_bits(),
                pin_ms: self.short[0],
            }),
            Kind::Fetch => Msg::Fetch(Fetch {
                request,
                round,
                supply: self.supply,
                demand: Demand::new(self.keys.as_keys(), Blocks::new(&self.blocks))
                    .expect("as many blocks as keys"),
                wait_ms: self.short[0],
            }),
            Kind::FetchProgress => {
                let [matched, parked, landed] = self.short;
                Msg::FetchProgress(FetchProgress { request, round, matched, parked, landed })
            }
            Kind::TransferDone => Msg::TransferDone(TransferDone { request, round, outcome: self.outcome() }),
            Kind::AbortFetch => Msg::AbortFetch(AbortFetch { request, round }),
            Kind::AbortAck => Msg::AbortAck(AbortAck { request, round, settled: self.settled }),
            Kind::Release => Msg::Release(Release { request }),
        }
    }

    fn connect(&self) -> Connect<'_> {
        Connect {
            peer_id: self.peer_id.as_name(),
            incarnation: self.long[0],
            region: RegionInfo {
                base_addr: self.long[1],
                num_blocks: self.short[0],
                block_len: self.long[2],
            },
            metadata: &self.metadata,
            compat: Compat {
                hash_seed: Text::truncated(&self.texts[0]),
                fingerprint: self.fingerprint.as_fingerprint(),
            },
            capabilities: self.long[2],
            heartbeat_ms: self.short[1],
        }
    }

    fn outcome(&self) -> Outcome<'_> {
        if self.ok {
            return Outcome::Ok;
        }
        Outcome::Failed {
            why: Failure::from_code(self.code),
            settled: self.settled,
            landed: self.bits.as_bits(),
        }
    }
}

/// A peer's name.
pub fn peer_id() -> impl Strategy<Value = PeerId> {
    name().prop_map(|name| PeerId::from(PeerName::new(&name).expect("of a legal length")))
}

/// A request's name.
pub fn request() -> impl Strategy<Value = RequestId> {
    name().prop_map(|name| RequestId::from(RequestName::new(&name).expect("of a legal length")))
}

/// The bytes of a key: mostly a hash and a group index.
pub fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![3 => key_of(36..=36), 1 => key_of(1..=MAX_KEY_LEN)]
}

/// Keys: of one length, or of several.
pub fn keys() -> impl Strategy<Value = KeysBuf> {
    let of_one_length = (1..=MAX_KEY_LEN).prop_flat_map(|len| vec(key_of(len..=len), 0..=MOST_KEYS));
    prop_oneof![of_one_length, vec(key(), 0..=MOST_KEYS)].prop_map(|keys| {
        keys.iter().map(|bytes| Key::new(bytes).expect("of a legal length")).collect::<KeysBuf>()
    })
}

/// Keys, and as many blocks.
pub fn demand() -> impl Strategy<Value = (KeysBuf, Vec<u32>)> {
    keys().prop_flat_map(|keys| {
        let count = keys.as_keys().len();
        (Just(keys), vec(any::<u32>(), count..=count))
    })
}

/// A bit set.
pub fn bits() -> impl Strategy<Value = BitsBuf> {
    vec(any::<bool>(), 0..=MOST_KEYS).prop_map(|bits| {
        let mut set = BitsBuf::zeros(bits.len() as u32);
        (0..).zip(bits).filter(|(_, bit)| *bit).for_each(|(at, _)| set.set(at));
        set
    })
}

/// A fingerprint.
pub fn fingerprint() -> impl Strategy<Value = FingerprintBuf> {
    vec((text(), text()), 0..6).prop_map(|pairs| {
        let mut fingerprint = FingerprintBuf::new();
        for (name, value) in &pairs {
            fingerprint.push(name, value).expect("of a legal length");
        }
        fingerprint
    })
}

fn key_of(len: RangeInclusive<usize>) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), len)
}

fn supply() -> impl Strategy<Value = Supply> {
    prop_oneof![Just(Supply::Pinned), Just(Supply::Await)]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![text(), "[a-z0-9.:-]{1,40}"].prop_map(|name| if name.is_empty() { "x".into() } else { name })
}

fn text() -> impl Strategy<Value = String> {
    ".{0,90}".prop_map(|text| Text::truncated(&text).as_str().into())
}
