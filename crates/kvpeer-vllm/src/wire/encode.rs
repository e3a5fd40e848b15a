//! Messages to payloads, byte for byte as msgspec writes vLLM's dicts.

use kvpeer_wire::{PeerName, RequestName};
use rmp::encode::{self, ByteBuf};

use super::{Field, HitList, IndexList, KeyList, Message, RoundSeq, Success};

impl Message<'_> {
    /// Appends the payload of this message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer(ByteBuf::from_vec(std::mem::take(out)));
        writer.message(self);
        *out = writer.0.into_vec();
    }
}

/// Writes the fields in the order of vLLM's code. Writing to memory cannot fail, as the types say.
struct Writer(ByteBuf);

impl Writer {
    fn message(&mut self, message: &Message<'_>) {
        match message {
            Message::Connect(msg) => {
                self.begin(message, 7);
                self.peer_id(msg.peer_id);
                self.name(Field::AgentMetadata);
                self.bin(msg.agent_metadata);
                self.uint(Field::BaseAddr, msg.base_addr);
                self.uint(Field::NumBlocks, u64::from(msg.num_blocks));
                self.uint(Field::BlockLen, msg.block_len);
                self.text(Field::ConfigFingerprint, msg.config_fingerprint.as_str());
                self.text(Field::HashSeed, msg.hash_seed.as_str());
            }
            Message::ConnectAck(msg) => {
                self.begin(message, 1);
                self.peer_id(msg.peer_id);
            }
            Message::Disconnect => self.begin(message, 0),
            Message::Fetch(msg) => {
                self.begin(message, 4);
                self.request(msg.kv_request_id);
                self.keys(msg.keys);
                self.block_indexes(msg.block_indexes);
                self.round(msg.round_seq);
            }
            Message::Lookup(msg) => {
                self.begin(message, 3);
                self.request(msg.kv_request_id);
                self.keys(msg.keys);
                self.round(msg.round_seq);
            }
            Message::LookupResp(msg) => {
                self.begin(message, 3);
                self.request(msg.kv_request_id);
                self.keys(msg.keys);
                self.hits(msg.hits);
            }
            Message::TransferDone(msg) => {
                self.begin(message, 3);
                self.request(msg.kv_request_id);
                self.name(Field::Success);
                self.bool(msg.success == Success::Yes);
                self.round(msg.round_seq);
            }
            Message::AbortFetch(msg) => {
                self.begin(message, 2);
                self.request(msg.kv_request_id);
                self.round(msg.round_seq);
            }
            Message::AbortAck(msg) => {
                self.begin(message, 2);
                self.request(msg.kv_request_id);
                self.round(msg.round_seq);
            }
        }
    }

    /// A map of the type and `others` more fields.
    fn begin(&mut self, message: &Message<'_>, others: u32) {
        let Ok(_) = encode::write_map_len(&mut self.0, others + 1);
        self.text(Field::Type, message.kind());
    }

    fn name(&mut self, field: Field) {
        self.str(field.name());
    }

    fn text(&mut self, field: Field, text: &str) {
        self.name(field);
        self.str(text);
    }

    fn uint(&mut self, field: Field, value: u64) {
        self.name(field);
        let Ok(_) = encode::write_uint(&mut self.0, value);
    }

    fn peer_id(&mut self, peer: PeerName<'_>) {
        self.text(Field::PeerId, peer.as_str());
    }

    fn request(&mut self, request: RequestName<'_>) {
        self.text(Field::KvRequestId, request.as_str());
    }

    fn round(&mut self, round: RoundSeq) {
        self.uint(Field::RoundSeq, round.0);
    }

    fn keys(&mut self, keys: KeyList<'_>) {
        self.list(Field::Keys, keys.len());
        keys.iter().for_each(|key| self.bin(key.as_bytes()));
    }

    fn block_indexes(&mut self, indexes: IndexList<'_>) {
        self.list(Field::BlockIndexes, indexes.len());
        for index in indexes.iter() {
            let Ok(_) = encode::write_uint(&mut self.0, u64::from(index));
        }
    }

    fn hits(&mut self, hits: HitList<'_>) {
        self.list(Field::Hits, hits.len());
        hits.iter().for_each(|hit| self.bool(hit));
    }

    fn list(&mut self, field: Field, len: usize) {
        self.name(field);
        // Lists are counted with 32 bits wherever they come from.
        let Ok(_) = encode::write_array_len(&mut self.0, len as u32);
    }

    fn str(&mut self, text: &str) {
        let Ok(()) = encode::write_str(&mut self.0, text);
    }

    fn bin(&mut self, bytes: &[u8]) {
        let Ok(()) = encode::write_bin(&mut self.0, bytes);
    }

    fn bool(&mut self, value: bool) {
        let Ok(()) = encode::write_bool(&mut self.0, value);
    }
}
