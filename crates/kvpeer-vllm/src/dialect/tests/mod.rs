//! Stories of one connection: `vllm` is what the peer says, `core` what our side does.

mod consuming;
mod greeting;
mod producing;
mod random;

use kvpeer_wire::{
    Bits, BitsBuf, Blocks, Compat, Connect, ConnectAck, Decoded, Demand, Fetch, Key, KeysBuf, Limits, Lookup,
    LookupId, Msg, Outcome, PeerId, PeerName, RegionInfo, RequestName, Round, Supply, Text, TransferDone,
};

use super::{Dialect, Heard, Ignored, Said, StopWord, Terms, Violation};
use crate::wire::{self, HitList, IndexList, KeyList, Message, RoundSeq};

const PEER: &str = "10.0.0.7:5710";
const US: &str = "10.0.0.8:5710";
const OURS: u64 = 77;
const THEIRS: u64 = 5;

/// One connection, its handshake through unless a story is about that.
struct Story(Dialect);

impl Story {
    fn new() -> Self {
        Self::with(Terms::default())
    }

    fn with(terms: Terms) -> Self {
        let peer = PeerId::from(PeerName::new(PEER).unwrap());
        Self(Dialect::new(peer, THEIRS, Limits::DEFAULT, terms))
    }

    fn up() -> Self {
        Self::up_with(Terms::default())
    }

    fn up_with(terms: Terms) -> Self {
        let mut story = Self::with(terms);
        story.core(&connect(b"md"));
        story.vllm(&vllm_connect(PEER, ""));
        story.core(&Msg::ConnectAck(ConnectAck { incarnation: THEIRS }));
        story.vllm(&vllm_ack(PEER));
        story
    }

    /// What the core is told of a message of vLLM's.
    #[track_caller]
    fn vllm(&mut self, message: &Message<'_>) -> Told {
        let (heard, told) = self.hear(&payload(message)).unwrap();
        assert_eq!(heard == Heard::Told, !told.0.is_empty(), "{heard:?} {told:?}");
        told
    }

    #[track_caller]
    fn ignored(&mut self, message: &Message<'_>) -> Ignored {
        match self.hear(&payload(message)).unwrap() {
            (Heard::Ignored(why), _) => why,
            other => panic!("{other:?}"),
        }
    }

    fn hear(&mut self, payload: &[u8]) -> Result<(Heard, Told), Violation> {
        let mut told = Told(Vec::new());
        let heard = self.0.hear(payload, &mut |msg| told.0.push(frame(&msg)))?;
        Ok((heard, told))
    }

    /// What vLLM is told of a message of the core's.
    fn core(&mut self, msg: &Msg<'_>) -> Sent {
        let mut payload = Vec::new();
        let said = self.0.say(msg, &mut payload);
        let has_payload = matches!(said, Said::Payload | Said::PayloadAnd(_));
        assert_eq!(has_payload, !payload.is_empty());
        Sent { said, payload }
    }

    fn kept(&self) -> usize {
        self.0.asked.kept() + self.0.served.kept() + self.0.early.len()
    }
}

/// Messages for the core, as kvpeer's own frames.
#[derive(PartialEq)]
struct Told(Vec<Vec<u8>>);

impl Told {
    #[track_caller]
    fn are(&self, msgs: &[Msg<'_>]) {
        assert_eq!(*self, Told(msgs.iter().map(frame).collect()));
    }
}

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let read = |frame: &Vec<u8>| match Msg::decode(frame[4], &frame[5..], &Limits::DEFAULT) {
            Ok(Decoded::Msg(msg)) => format!("{msg:?}"),
            other => format!("{other:?}"),
        };
        f.debug_list().entries(self.0.iter().map(read)).finish()
    }
}

/// What left for vLLM.
struct Sent {
    said: Said,
    payload: Vec<u8>,
}

impl Sent {
    #[track_caller]
    fn is(&self, message: &Message<'_>) {
        assert!(matches!(self.said, Said::Payload | Said::PayloadAnd(_)), "{:?}", self.said);
        let read = Message::decode(&self.payload, &Limits::DEFAULT);
        assert_eq!(read, Ok(wire::Decoded::Message(*message)));
    }

    #[track_caller]
    fn nothing(&self) {
        assert_eq!(self.said, Said::Nothing);
    }
}

fn frame(msg: &Msg<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    msg.encode(&mut frame).unwrap();
    frame
}

fn payload(message: &Message<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    message.encode(&mut payload);
    payload
}

fn request(name: &str) -> RequestName<'_> {
    RequestName::new(name).unwrap()
}

fn keys(names: &[&str]) -> KeysBuf {
    names.iter().map(|name| Key::new(name.as_bytes()).unwrap()).collect()
}

fn bits(text: &str) -> BitsBuf {
    let mut bits = BitsBuf::zeros(text.len() as u32);
    (0..).zip(text.chars()).filter(|(_, bit)| *bit == '1').for_each(|(at, _)| bits.set(at));
    bits
}

fn connect(metadata: &[u8]) -> Msg<'_> {
    connect_with(metadata, "seed", kvpeer_wire::Fingerprint::default())
}

fn connect_with<'a>(metadata: &'a [u8], seed: &'a str, fingerprint: kvpeer_wire::Fingerprint<'a>) -> Msg<'a> {
    Msg::Connect(Connect {
        peer_id: PeerName::new(US).unwrap(),
        incarnation: OURS,
        region: RegionInfo { base_addr: 0x10_0000, num_blocks: 64, block_len: 4096 },
        metadata,
        compat: Compat { hash_seed: Text::new(seed).unwrap(), fingerprint },
        capabilities: 0,
        heartbeat_ms: 2_000,
    })
}

fn vllm_connect<'a>(peer: &'a str, digest: &'a str) -> Message<'a> {
    Message::Connect(wire::Connect {
        peer_id: PeerName::new(peer).unwrap(),
        agent_metadata: b"nixl",
        base_addr: 0x20_0000,
        num_blocks: 32,
        block_len: 4096,
        config_fingerprint: Text::new(digest).unwrap(),
        hash_seed: Text::new("seed").unwrap(),
    })
}

fn vllm_ack(peer: &str) -> Message<'_> {
    Message::ConnectAck(wire::ConnectAck { peer_id: PeerName::new(peer).unwrap() })
}

fn vllm_lookup<'a>(name: &'a str, seq: u64, keys: &'a KeysBuf) -> Message<'a> {
    let keys = KeyList::from(keys.as_keys());
    Message::Lookup(wire::Lookup { kv_request_id: request(name), keys, round_seq: RoundSeq(seq) })
}

fn vllm_resp<'a>(name: &'a str, keys: &'a KeysBuf, hits: &'a BitsBuf) -> Message<'a> {
    let (keys, hits) = (KeyList::from(keys.as_keys()), HitList::from(hits.as_bits()));
    Message::LookupResp(wire::LookupResp { kv_request_id: request(name), keys, hits })
}

fn vllm_fetch<'a>(name: &'a str, seq: u64, keys: &'a KeysBuf, blocks: &'a [u32]) -> Message<'a> {
    Message::Fetch(wire::Fetch {
        kv_request_id: request(name),
        keys: KeyList::from(keys.as_keys()),
        block_indexes: IndexList::from(Blocks::new(blocks)),
        round_seq: RoundSeq(seq),
    })
}

fn vllm_done(name: &str, seq: u64, success: wire::Success) -> Message<'_> {
    Message::TransferDone(wire::TransferDone {
        kv_request_id: request(name),
        success,
        round_seq: RoundSeq(seq),
    })
}

fn vllm_abort(name: &str, seq: u64) -> Message<'_> {
    Message::AbortFetch(wire::AbortFetch { kv_request_id: request(name), round_seq: RoundSeq(seq) })
}

fn vllm_abort_ack(name: &str, seq: u64) -> Message<'_> {
    Message::AbortAck(wire::AbortAck { kv_request_id: request(name), round_seq: RoundSeq(seq) })
}

fn lookup<'a>(id: u64, name: &'a str, round: u64, keys: &'a KeysBuf) -> Msg<'a> {
    let keys = keys.as_keys();
    Msg::Lookup(Lookup { lookup_id: LookupId(id), request: request(name), round: Round(round), keys })
}

fn resp(id: u64, offset: u32, hits: &BitsBuf, pin_ms: u32) -> Msg<'_> {
    Msg::LookupResp(kvpeer_wire::LookupResp { lookup_id: LookupId(id), offset, hits: hits.as_bits(), pin_ms })
}

fn fetch<'a>(
    name: &'a str,
    round: u64,
    supply: Supply,
    keys: &'a KeysBuf,
    blocks: &'a [u32],
    wait_ms: u32,
) -> Msg<'a> {
    let demand = Demand::new(keys.as_keys(), Blocks::new(blocks)).unwrap();
    Msg::Fetch(Fetch { request: request(name), round: Round(round), supply, demand, wait_ms })
}

fn done<'a>(name: &'a str, round: u64, outcome: Outcome<'a>) -> Msg<'a> {
    Msg::TransferDone(TransferDone { request: request(name), round: Round(round), outcome })
}

fn failed(why: kvpeer_wire::Failure, settled: bool) -> Outcome<'static> {
    Outcome::Failed { why, settled, landed: Bits::default() }
}

fn abort(name: &str, round: u64) -> Msg<'_> {
    Msg::AbortFetch(kvpeer_wire::AbortFetch { request: request(name), round: Round(round) })
}

fn ack(name: &str, round: u64, settled: bool) -> Msg<'_> {
    Msg::AbortAck(kvpeer_wire::AbortAck { request: request(name), round: Round(round), settled })
}

fn release(name: &str) -> Msg<'_> {
    Msg::Release(kvpeer_wire::Release { request: request(name) })
}

fn trusting() -> Terms {
    Terms { stop_word: StopWord::Taken, ..Terms::default() }
}
