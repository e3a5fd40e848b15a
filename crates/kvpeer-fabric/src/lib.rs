//! kvpeer's RMA data plane over libfabric: one region of memory, exposed to many peers, each through a **right**
//! of its own that can be closed so that nothing lands any more.
//!
//! [`Fabric`] is the plane; its documentation shows the loop that drives it. It knows blocks and peers, but
//! neither the protocol nor the engine.
//!
//! # What proves what
//!
//! Measured with libfabric 1.17 and 2.5 on `tcp`, and tested here (`tests/fence.rs`):
//!
//! - A write's success completion proves that its data is visible at the target, because writes ask for
//!   `FI_DELIVERY_COMPLETE`. [`Fabric::open`] tests that before it lets a provider carry data.
//! - An error completion, the peer's death and a closed memory key prove nothing about the destination: megabytes
//!   of a killed writer landed afterwards. **Our endpoint that they land through, closed, does** (0 bytes). So
//!   each right has its own endpoint, completion queue and random memory key, and
//!   [`FabricEvent::RightClosed`]`{ fenced: true }` is said only after the endpoint was closed.
//! - The source of a write may be reused after its `Transfer` event, whatever it says; libfabric's `fi_cancel`
//!   recalls nothing.
//! - A peer that stops answering gives no error at all, so transfers have a deadline of ours
//!   ([`FabricEvent::Stalled`]). Closing the right ends them.
//!
//! # Choices
//!
//! - Endpoints are reliable datagram ones (`FI_EP_RDM`). Connected ones (`FI_EP_MSG`) would spare libfabric 1.x a
//!   layer, but not all providers for network cards have them.
//! - A right is made and closed by [`Fabric::progress`], one per call, because libfabric takes milliseconds for
//!   either (1.17 without [`RECOMMENDED_ENV`]: about 150 ms for opening).
//! - After the first error on a right nothing new is posted on it: on `tcp` an error takes the connection down,
//!   so the other writes in flight fail with it. The caller closes the right and opens a new one.
//! - Closing order: endpoint, queue *unread*, registration, address table. Reading a queue after its endpoint was
//!   closed crashes 1.17, as does writing to an address that was removed; neither can be expressed here.
//! - All that a caller sleeps on is one epoll descriptor ([`Fabric::wait_fds`]). It may be put into another
//!   epoll instance, edge-triggered or not.
//!
//! # Versions
//!
//! Built against the system's libfabric 1.17 or newer. A binary built against 1.17 runs on 2.x too, not the other
//! way round. Tested on 1.17.0 and 2.5.1. 1.17 takes up to 10 ms to notice a connection request, during which
//! [`Fabric::prepare_wait`] keeps saying "not now"; see [`RECOMMENDED_ENV`], which this crate never sets itself.
//!
//! # Checking the memory discipline
//!
//! Besides `cargo test -p kvpeer-fabric`:
//!
//! ```text
//! # AddressSanitizer and LeakSanitizer
//! RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address \
//!   cargo test --target x86_64-unknown-linux-gnu -p kvpeer-fabric --tests
//! # valgrind, on each test binary
//! CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --leak-check=full --errors-for-leak-kinds=definite \
//!   --error-exitcode=9" cargo test -p kvpeer-fabric --tests
//! # the same tests on another libfabric
//! LD_LIBRARY_PATH=/path/to/libfabric-2.x/lib cargo test -p kvpeer-fabric
//! ```
//!
//! All of them are clean without suppressions on 1.17. (On 2.x valgrind 3.19 complains about the C library's own
//! loader, in `strncmp` under `dl_open`, when libfabric opens further libraries.)

#![allow(unsafe_code, reason = "libfabric and the memory it moves are behind a foreign-function boundary")]

mod config;
mod contexts;
mod domain;
mod endpoint;
mod environment;
mod error;
mod event;
mod fabric;
#[cfg(feature = "seeded-faults")]
pub mod faults;
#[cfg(not(feature = "seeded-faults"))]
mod faults;
mod kept;
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
