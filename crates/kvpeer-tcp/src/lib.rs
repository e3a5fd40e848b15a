//! The control plane of kvpeer on TCP: messages between nodes over sockets, driven by polling.
#![cfg(unix)]
#![forbid(unsafe_code)]

mod accept;
mod buffers;
mod config;
mod conn;
mod dial;
mod error;
mod event;
mod inbound;
mod resolve;
mod send_queue;
mod source;
mod stats;
mod tcp;
mod wake;
mod watch;

pub use config::TcpConfig;
pub use error::{CloseReason, DialError, TcpError};
pub use event::{ConnToken, DialToken, Origin, TcpEvent};
pub use kvpeer_wire::{Frame, FrameError, Limits};
pub use stats::TcpStats;
pub use tcp::Tcp;
pub use wake::Waker;
