//! kvpeer's RMA data plane over libfabric.

#![allow(unsafe_code, reason = "libfabric and the memory it moves are behind a foreign-function boundary")]

mod config;
mod contexts;
mod domain;
mod endpoint;
mod environment;
mod error;
mod event;
mod fabric;
mod memory;
mod metadata;
mod provider;
mod right;
mod runs;
mod selftest;
mod traffic;
mod wait_set;

pub use config::FabricConfig;
pub use environment::{RECOMMENDED_ENV, missing_env};
pub use error::FabricError;
pub use event::{FabricEvent, Refusal, TransferEnd};
pub use fabric::{Fabric, PeerRegion};
pub use memory::Memory;
pub use metadata::MetadataError;
pub use provider::{Provider, ProviderInfo, providers, version};
pub use right::{RightId, XferId};
