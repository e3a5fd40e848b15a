//! Placeholder docs.

pub use kvpeer_core as core;
pub use kvpeer_core::wire;

mod admission;
mod cache;
mod clock;
mod driver;
mod event;
#[cfg(feature = "fabric")]
mod fabric;
pub mod mem;
#[cfg(all(feature = "tcp", feature = "fabric"))]
mod network;
mod node;
pub mod plane;
mod polled;
mod region;
#[cfg(feature = "tcp")]
mod tcp;

pub use kvpeer_core::wire::{Key, KeyBuf, Keys, KeysBuf, PeerId, PeerName, RequestId, RequestName, Supply};
pub use kvpeer_core::{
    BlockIdx, CloseReason, Command, Compatibility, Count, Destination, JobId, Limits, LoadFailure,
    LookupState, Misuse, PeerStatus, Role, StoreFailure, StoreOutcome, Time, Timing, Totals,
};

pub use admission::{Admission, AdmitAll, Candidate, Verdict};
pub use cache::{Answer, BlockCache, BlockTable, NoBlocks, Pinned, Probe};
pub use clock::Clock;
#[cfg(feature = "tokio")]
pub use driver::aio;
pub use driver::{CallError, Events, NodeHandle, Part, Ticket};
pub use event::{Event, LoadOutcome, Trouble, TroubleKind};
#[cfg(feature = "fabric")]
pub use fabric::FabricData;
#[cfg(all(feature = "tcp", feature = "fabric"))]
pub use network::TcpFabric;
pub use node::{Next, Node, NodeConfig, NodeError, Reach, Stats};
pub use polled::{Output, OwnedAction, Polled};
pub use region::{BlockError, Region, RegionError};
#[cfg(feature = "tcp")]
pub use tcp::TcpControl;
