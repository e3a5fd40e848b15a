//! kvpeer among the P2P nodes of vLLM.
//!
//! [`wire`] is the format of vLLM 0.33.0's control plane: msgpack maps, byte for byte as vLLM writes them. Bytes of
//! a peer are hostile until they are decoded: each payload is a legal message, one of a type that vLLM would pass
//! over, or an error with a name, within [`Limits`](kvpeer_wire::Limits).
//!
//! [`dialect`] is what one connection needs to speak it: kvpeer's messages in and out, without I/O. With the feature
//! `zmq`, `control` is the control plane on ZeroMQ that speaks it with vLLM's nodes.
#![forbid(unsafe_code)]

#[cfg(feature = "zmq")]
pub mod control;
pub mod dialect;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "proptest")]
pub mod strategies;
pub mod wire;
