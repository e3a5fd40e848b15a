//! vLLM's own code is the oracle: what one of its sessions did, the dialect and the core do, or a rule says why not.

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod item;
mod msgpack;
mod recorded;
mod replay;
mod rules;
mod sink;
