//! The kvpeer protocol as a sans-IO state machine: facts in, effects out.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod action;
mod block_set;
mod client;
mod command;
mod config;
mod cx;
mod deadlines;
mod endpoint;
mod event;
#[cfg(feature = "seeded-faults")]
pub mod faults;
#[cfg(not(feature = "seeded-faults"))]
mod faults;
mod ids;
mod input;
mod key_map;
mod reason;
mod server;
mod status;
mod time;

pub use action::{Action, Sink};
pub use command::{Command, Misuse, Part, Role};
pub use config::{Compatibility, Config, ConfigError, FingerprintCheck, Identity, Limits, Timing};
pub use deadlines::{Deadline, Timer};
pub use endpoint::{Endpoint, Machine, Violation};
pub use event::{CloseReason, Destination, Event, LoadFailure, LoadOutcome, StoreFailure, StoreOutcome};
pub use ids::{BlockIdx, ConnId, Epoch, JobId, KeyAt, KeyBuf, PeerId, ProbeId, RequestId, XferId};
pub use input::{Input, Origin, TransferEnd};
/// The messages that travel in [`Input::Message`] and [`Action::Send`].
pub use kvpeer_wire as wire;
pub use reason::{Count, Misbehaved, Refusal};
pub use status::{LinkStatus, LookupState, PeerStatus, Totals};
pub use time::Time;
