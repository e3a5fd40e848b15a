//! Moves KV-cache blocks between the nodes of LLM inference engines.
//!
//! A [`Node`] is one engine's place in the network. It has a [`Region`] of equal blocks, and peers. The engine tells
//! it two kinds of *jobs*: **load** these blocks (by key, from that peer, to there), and **store** these blocks (whoever
//! is told to fetch them may have them). The producer of a block writes it straight into the consumer's region by RMA.
//! Each job gets exactly one result, whatever fails; and no block that the engine was told it may use again is
//! ever overwritten by a WRITE that comes late.
//!
//! # Two nodes
//!
//! A decoder gets two blocks from its prefiller. Here both are in one process, on [in-memory planes](mem); with
//! [`TcpFabric`] in place of [`mem::MemNet`] they are anywhere.
//!
//! ```
//! use kvpeer::mem::MemNet;
//! use kvpeer::{Event, JobId, Key, KeysBuf, LoadOutcome, NoBlocks, Node, NodeConfig, Part, Region, RequestName, Supply};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // 16 blocks of 4 KiB on each side.
//! let net = MemNet::new();
//! let prefiller = Region::new(16, 4096)?;
//! let decoder = Region::new(16, 4096)?;
//! let planes = net.join("prefiller", &prefiller)?;
//! let (prefill, mut prefill_events) = Node::new(&NodeConfig::new(prefiller.clone()), planes, NoBlocks)?.spawn()?;
//! let planes = net.join("decoder", &decoder)?;
//! let (decode, mut decode_events) = Node::new(&NodeConfig::new(decoder.clone()), planes, NoBlocks)?.spawn()?;
//!
//! // The decoder wants two blocks of a request that the router gave to the prefiller: to its blocks 7 and 3.
//! let request = RequestName::new("request-1")?.into();
//! let keys: KeysBuf = [Key::new(b"first")?, Key::new(b"second")?].into_iter().collect();
//! let source = kvpeer::PeerName::new("prefiller")?.into();
//! let part = Part::Consume { source, address: "prefiller".into(), supply: Supply::Await };
//! decode.open(&request, part).wait()?;
//! decode.load(JobId(1), &request, keys.clone(), vec![7, 3]).wait()?;
//!
//! // Sooner or later the prefiller has computed them, in its blocks 0 and 1.
//! prefiller.write_block(0, &[1; 4096])?;
//! prefiller.write_block(1, &[2; 4096])?;
//! prefill.store(JobId(1), &request, keys, vec![0, 1], None).wait()?;
//!
//! let loaded = decode_events.find(|event| matches!(event, Event::LoadFinished { .. }));
//! assert!(matches!(loaded, Some(Event::LoadFinished { outcome: LoadOutcome::Loaded, .. })));
//! let mut block = vec![0; 4096];
//! decoder.read_block(3, &mut block)?;
//! assert_eq!(block, [2; 4096]);
//!
//! // The prefiller may use its blocks again once its store is finished, and not before.
//! assert!(prefill_events.any(|event| matches!(event, Event::StoreFinished { job: JobId(1), .. })));
//! # Ok(())
//! # }
//! ```
//!
//! # What an engine has to know
//!
//! **Requests.** A load belongs to a request that was opened with [`Part::Consume`]: from whom, where that peer is
//! reached, and how its blocks come to be there. [`Supply::Await`] (prefill/decode) waits for the producer's stores,
//! which may come before or after. [`Supply::Pinned`] (symmetric) takes what the peer's cache holds: ask with
//! [`NodeHandle::lookup_many`], load the hits. [`Command::Finish`] ends a request.
//!
//! **Blocks.** While one of these holds a block, leave it alone:
//!
//! | block of | until |
//! |---|---|
//! | a load | [`LoadFinished`](Event::LoadFinished) with [`Destination::Reusable`], or else [`DestinationReleased`](Event::DestinationReleased) |
//! | a store | its [`StoreFinished`](Event::StoreFinished); reading it is fine |
//! | a pin, made by [`BlockCache::probe`] for a peer's lookup | the [`StoreFinished`](Event::StoreFinished) of the pin's job; reading it is fine |
//!
//! A load that failed may be computed at once, into *other* blocks: its own may be [`Destination::Quarantined`] for as
//! long as a WRITE could still land there. What [`LoadOutcome::Failed`] lists as landed may be kept, if the destination
//! is reusable. The node refuses a load to blocks that are not free, so an engine's mistake here is found out.
//!
//! **Mistakes** are told at once as a [`Misuse`], and change nothing: a job that is refused has no result.
//!
//! **Results and notices.** [`Event`]s that end something are never dropped. There are as many as the engine has
//! started jobs, so the queue is bounded by the engine itself, not by peers. The others are notices, of which
//! [`NodeConfig::event_backlog`] are kept. An engine that does not take its results finds that peers' lookups are
//! answered with misses (their pins would make more results).
//!
//! # Who drives
//!
//! | driver | for | waits | limit |
//! |---|---|---|---|
//! | [`Node::spawn`] (recommended) | any engine; threads or any async runtime | the node's own thread sleeps; calls return [`Ticket`]s at once | none: heartbeats leave and WRITEs land whatever the engine does |
//! | [`Node::tick`] | a scheduler's own loop | never | a step must not take longer than peers wait for a heartbeat (10 s by default; LIV-4), and nothing moves between ticks |
//! | `aio::Client` (feature `tokio`) | async code that wants jobs as futures | awaits | as `spawn`, on which it stands |
//! | [`Polled`] | own planes and own loop, around the bare [`core::Endpoint`] | never | as the loop's |
//!
//! # Planes
//!
//! A node stands on two [planes](plane), each a trait. [`TcpControl`] carries messages over TCP, [`FabricData`] carries
//! blocks over libfabric, and [`TcpFabric`] is both: the common case, [`Node::tcp_fabric`]. Nothing of it is
//! authenticated or encrypted: decide by [`Node::with_admission`] who may have a key to the region, and use networks
//! in which that decision means something. `docs/threat-model.md` says what a peer can and cannot do.
//!
//! # Features
//!
//! `tcp` and `fabric` (both on by default; `fabric` needs libfabric and its headers), `tokio`. Without any of them
//! there are the in-memory planes and the traits.

/// The protocol as a state machine, without IO.
pub use kvpeer_core as core;
/// The messages that it exchanges.
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
pub use plane::Planes;
pub use polled::{Output, OwnedAction, Polled};
pub use region::{BlockError, Region, RegionError};
#[cfg(feature = "tcp")]
pub use tcp::TcpControl;

/// How the data plane on libfabric is set up.
#[cfg(feature = "fabric")]
pub use kvpeer_fabric::{FabricConfig, Provider};
/// How the control plane on TCP is set up.
#[cfg(feature = "tcp")]
pub use kvpeer_tcp::TcpConfig;
