//! Messages as the dicts that vLLM's code handles, in JSON; byte strings are `{"$b": hex}`.

use kvpeer_vllm::wire::{Message, Success};
use kvpeer_wire::Key;
use serde_json::{Value, json};

/// A message as vLLM's dict.
pub(crate) fn as_json(message: &Message<'_>) -> Value {
    let kind = message.kind();
    let key = |key: Key<'_>| bytes(key.as_bytes());
    match message {
        Message::Connect(msg) => json!({
            "type": kind,
            "peer_id": msg.peer_id.as_str(),
            "agent_metadata": bytes(msg.agent_metadata),
            "base_addr": msg.base_addr,
            "num_blocks": msg.num_blocks,
            "block_len": msg.block_len,
            "config_fingerprint": msg.config_fingerprint.as_str(),
            "hash_seed": msg.hash_seed.as_str(),
        }),
        Message::ConnectAck(msg) => json!({ "type": kind, "peer_id": msg.peer_id.as_str() }),
        Message::Disconnect => json!({ "type": kind }),
        Message::Fetch(msg) => json!({
            "type": kind,
            "kv_request_id": msg.kv_request_id.as_str(),
            "keys": msg.keys.iter().map(key).collect::<Vec<_>>(),
            "block_indexes": msg.block_indexes.iter().collect::<Vec<_>>(),
            "round_seq": msg.round_seq.0,
        }),
        Message::Lookup(msg) => json!({
            "type": kind,
            "kv_request_id": msg.kv_request_id.as_str(),
            "keys": msg.keys.iter().map(key).collect::<Vec<_>>(),
            "round_seq": msg.round_seq.0,
        }),
        Message::LookupResp(msg) => json!({
            "type": kind,
            "kv_request_id": msg.kv_request_id.as_str(),
            "keys": msg.keys.iter().map(key).collect::<Vec<_>>(),
            "hits": msg.hits.iter().collect::<Vec<_>>(),
        }),
        Message::TransferDone(msg) => json!({
            "type": kind,
            "kv_request_id": msg.kv_request_id.as_str(),
            "success": msg.success == Success::Yes,
            "round_seq": msg.round_seq.0,
        }),
        Message::AbortFetch(msg) => json!({
            "type": kind,
            "kv_request_id": msg.kv_request_id.as_str(),
            "round_seq": msg.round_seq.0,
        }),
        Message::AbortAck(msg) => json!({
            "type": kind,
            "kv_request_id": msg.kv_request_id.as_str(),
            "round_seq": msg.round_seq.0,
        }),
    }
}

fn bytes(bytes: &[u8]) -> Value {
    json!({ "$b": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() })
}
