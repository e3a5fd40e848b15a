//! kvpeer among the P2P nodes of vLLM.
//!
//! [`wire`] is the format of vLLM 0.33.0's control plane: msgpack maps, byte for byte as vLLM writes them. Bytes of
//! a peer are hostile until they are decoded: each payload is a legal message, one of a type that vLLM would pass
//! over, or an error with a name, within [`Limits`](kvpeer_wire::Limits).
#![forbid(unsafe_code)]

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "proptest")]
pub mod strategies;
pub mod wire;
