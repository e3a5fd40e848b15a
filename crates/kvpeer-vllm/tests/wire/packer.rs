//! An independent, deliberately wasteful msgpack writer.

use kvpeer_vllm::strategies::Parts;
use kvpeer_vllm::wire::{Message, Success};

/// Writes every value in its longest form.
pub(crate) struct Packer;

impl Packer {
    pub(crate) fn nil() -> Vec<u8> {
        vec![0xc0]
    }

    pub(crate) fn bool(value: bool) -> Vec<u8> {
        vec![if value { 0xc3 } else { 0xc2 }]
    }

    pub(crate) fn uint(value: u64) -> Vec<u8> {
        [&[0xcf], value.to_be_bytes().as_slice()].concat()
    }

    pub(crate) fn int(value: i64) -> Vec<u8> {
        [&[0xd3], value.to_be_bytes().as_slice()].concat()
    }

    pub(crate) fn float(value: f64) -> Vec<u8> {
        [&[0xcb], value.to_be_bytes().as_slice()].concat()
    }

    pub(crate) fn str(text: &str) -> Vec<u8> {
        Self::run(0xdb, text.as_bytes())
    }

    pub(crate) fn bin(bytes: &[u8]) -> Vec<u8> {
        Self::run(0xc6, bytes)
    }

    pub(crate) fn ext(kind: u8, bytes: &[u8]) -> Vec<u8> {
        let len = (bytes.len() as u32).to_be_bytes();
        [&[0xc9], len.as_slice(), &[kind], bytes].concat()
    }

    pub(crate) fn array(values: &[Vec<u8>]) -> Vec<u8> {
        [&[0xdd], (values.len() as u32).to_be_bytes().as_slice(), &values.concat()].concat()
    }

    pub(crate) fn map(fields: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let fields: Vec<Vec<u8>> =
            fields.iter().map(|(name, value)| [Self::str(name), value.clone()].concat()).collect();
        [&[0xdf], (fields.len() as u32).to_be_bytes().as_slice(), &fields.concat()].concat()
    }

    fn run(marker: u8, bytes: &[u8]) -> Vec<u8> {
        [&[marker], (bytes.len() as u32).to_be_bytes().as_slice(), bytes].concat()
    }

    /// The message of `parts`, its fields turned round by `turn`, with fields that nobody knows if `extra`.
    pub(crate) fn generous(parts: &Parts, turn: usize, extra: bool) -> Vec<u8> {
        let message = parts.message();
        let mut fields = Self::fields(&message);
        fields.insert(0, ("type", Self::str(message.kind())));
        if extra {
            fields.push(("later", Self::array(&[Self::ext(1, b"x"), Self::float(1.5), Self::int(-7)])));
            fields.push(("deep", Self::map(&[("a", Self::array(&[Self::map(&[("b", Self::nil())])]))])));
        }
        let turn = turn % fields.len();
        fields.rotate_left(turn);
        Self::map(&fields)
    }

    fn fields(message: &Message<'_>) -> Vec<(&'static str, Vec<u8>)> {
        let request = |id: kvpeer_wire::RequestName<'_>| ("kv_request_id", Self::str(id.as_str()));
        let keys = |keys: &mut dyn Iterator<Item = kvpeer_wire::Key<'_>>| {
            ("keys", Self::array(&keys.map(|key| Self::bin(key.as_bytes())).collect::<Vec<_>>()))
        };
        let round = |round: kvpeer_vllm::wire::RoundSeq| ("round_seq", Self::uint(round.0));
        match message {
            Message::Connect(msg) => vec![
                ("peer_id", Self::str(msg.peer_id.as_str())),
                ("agent_metadata", Self::bin(msg.agent_metadata)),
                ("base_addr", Self::uint(msg.base_addr)),
                ("num_blocks", Self::int(i64::from(msg.num_blocks))),
                ("block_len", Self::uint(msg.block_len)),
                ("config_fingerprint", Self::str(msg.config_fingerprint.as_str())),
                ("hash_seed", Self::str(msg.hash_seed.as_str())),
            ],
            Message::ConnectAck(msg) => vec![("peer_id", Self::str(msg.peer_id.as_str()))],
            Message::Disconnect => vec![],
            Message::Fetch(msg) => vec![
                request(msg.kv_request_id),
                keys(&mut msg.keys.iter()),
                (
                    "block_indexes",
                    Self::array(
                        &msg.block_indexes.iter().map(|at| Self::uint(u64::from(at))).collect::<Vec<_>>(),
                    ),
                ),
                round(msg.round_seq),
            ],
            Message::Lookup(msg) => {
                vec![request(msg.kv_request_id), keys(&mut msg.keys.iter()), round(msg.round_seq)]
            }
            Message::LookupResp(msg) => vec![
                request(msg.kv_request_id),
                keys(&mut msg.keys.iter()),
                ("hits", Self::array(&msg.hits.iter().map(Self::bool).collect::<Vec<_>>())),
            ],
            Message::TransferDone(msg) => vec![
                request(msg.kv_request_id),
                ("success", Self::bool(msg.success == Success::Yes)),
                round(msg.round_seq),
            ],
            Message::AbortFetch(msg) => vec![request(msg.kv_request_id), round(msg.round_seq)],
            Message::AbortAck(msg) => vec![request(msg.kv_request_id), round(msg.round_seq)],
        }
    }
}
