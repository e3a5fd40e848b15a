//! What both sides do that can be compared.

use serde_json::Value;

use crate::msgpack::unpack_bytes;

/// One thing that a session did. Rounds are not compared: the dialect's are other numbers than vLLM's.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Item {
    /// A message: its type and request, and what else is in it, without the round.
    Sent { kind: String, request: String, detail: String },
    /// One key of a `lookup`.
    Asked { request: String, key: Vec<u8> },
    /// One key of a `lookup_resp`.
    Told { request: String, key: Vec<u8>, hit: bool },
    /// The peer is registered with the data plane.
    Register,
    /// One block of a WRITE.
    Write { src: u32, dst: u32 },
    /// A load's result.
    Load { job: u64, ok: bool },
    /// A store's result.
    Store { job: u64, ok: bool },
    /// What a lookup says to the engine.
    Answer { request: String, key: Vec<u8>, held: Option<bool> },
}

/// What a session did in one step.
#[derive(Clone, Default, Debug)]
pub(crate) struct Items(pub(crate) Vec<Item>);

impl Items {
    pub(crate) fn push(&mut self, item: Item) {
        self.0.push(item);
    }

    pub(crate) fn extend(&mut self, items: Vec<Item>) {
        self.0.extend(items);
    }
}

impl Item {
    /// What a message says, as a recorded dict: how answers are cut into messages is not compared.
    pub(crate) fn sent(msg: &Value) -> Vec<Self> {
        let list = |name: &str| msg[name].as_array().cloned().unwrap_or_default();
        let kind = msg["type"].as_str().unwrap();
        let request = msg["kv_request_id"].as_str().unwrap_or_default().to_owned();
        let keys = list("keys");
        let keys = keys.iter().map(unpack_bytes);
        let detail = match kind {
            "lookup" => return keys.map(|key| Self::Asked { request: request.clone(), key }).collect(),
            "lookup_resp" => {
                let told = keys.zip(list("hits")).map(|(key, hit)| {
                    let hit = hit.as_bool().unwrap();
                    Self::Told { request: request.clone(), key, hit }
                });
                return told.collect();
            }
            "connect" => format!("{} {} {}", msg["peer_id"], msg["base_addr"], msg["hash_seed"]),
            "connect_ack" => msg["peer_id"].to_string(),
            "transfer_done" => msg["success"].to_string(),
            "fetch" => format!("{:?} {}", keys.collect::<Vec<_>>(), msg["block_indexes"]),
            _ => String::new(),
        };
        vec![Self::Sent { kind: kind.to_owned(), request, detail }]
    }

    pub(crate) fn write(src: &[u32], dst: &[u32]) -> Vec<Self> {
        src.iter().zip(dst).map(|(src, dst)| Self::Write { src: *src, dst: *dst }).collect()
    }

    /// The request that it is for, where it says so.
    pub(crate) fn request(&self) -> Option<&str> {
        match self {
            Self::Sent { request, .. }
            | Self::Asked { request, .. }
            | Self::Told { request, .. }
            | Self::Answer { request, .. } => Some(request).filter(|it| !it.is_empty()).map(String::as_str),
            Self::Register | Self::Write { .. } | Self::Load { .. } | Self::Store { .. } => None,
        }
    }
}
