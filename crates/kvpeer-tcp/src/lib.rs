//! The control plane of kvpeer on TCP: frames between nodes over sockets, driven by polling.
//!
//! One [`Tcp`] is one poller with everything of a node on it: listeners, dials, connections, a [`Waker`] for
//! other threads, and descriptors of others (a data plane's completion queues, say), so that one thread can sleep
//! on all of it. Nothing in it blocks but [`Tcp::poll`], and it has no runtime; the only threads are short-lived
//! ones that resolve host names, which the system offers no other way to do ([`Tcp::dial`]).
//!
//! # The loop
//!
//! ```
//! use std::time::Duration;
//! use kvpeer_tcp::{Tcp, TcpConfig, TcpEvent};
//! use kvpeer_wire::{Decoded, Limits, Msg};
//!
//! /// One turn of a node that answers each ping. Its core would say how long `patience` is.
//! fn turn(tcp: &mut Tcp, patience: Duration) -> std::io::Result<()> {
//!     let now = tcp.poll(Some(patience))?; // flushes what the last turn sent, then sleeps
//!     while let Some(event) = tcp.next_event() {
//!         match event {
//!             TcpEvent::Frame { conn, frame } => {
//!                 match frame.decode(&Limits::DEFAULT) {
//!                     // The message borrows from the frame, not from `tcp`.
//!                     Ok(Decoded::Msg(Msg::Ping(nonce))) => tcp.send(conn, &Msg::Pong(nonce)),
//!                     Ok(Decoded::Msg(_) | Decoded::Skipped { .. }) => {}
//!                     Err(_) => tcp.close(conn),
//!                 }
//!                 tcp.recycle(frame);
//!             }
//!             TcpEvent::Malformed { conn, .. } | TcpEvent::NoCommonVersion { conn, .. } => tcp.close(conn),
//!             TcpEvent::Connected { .. }
//!             | TcpEvent::DialFailed { .. }
//!             | TcpEvent::Heard { .. }
//!             | TcpEvent::Disconnected { .. }
//!             | TcpEvent::FdReady { .. } => {}
//!         }
//!     }
//!     let _ = now; // everything that had arrived by `now` was handled: `core.handle(now, Input::Tick, ..)`
//!     Ok(())
//! }
//!
//! let mut tcp = Tcp::bind(TcpConfig::listening(([127, 0, 0, 1], 0).into()))?;
//! turn(&mut tcp, Duration::ZERO)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What holds
//!
//! - **Drained before judged.** After `next_event` returned `None`, everything that had arrived by the moment
//!   that `poll` returned was reported, however much it is and however long the process was stopped. What arrives
//!   later does not extend the turn, so a peer that sends without end cannot keep the clock from being looked at.
//! - **Fair.** One connection is read 64 KiB at a time (4 KiB until it is acked), then the others have their turn.
//! - **Bounded.** Frames are limited while they are read: to [`Limits::early_frame`] until our `connect_ack` was
//!   sent, to [`Limits::frame`] after it. Memory grows with bytes that came, never with lengths that are claimed;
//!   idle connections hold no buffers. What waits to be sent to one peer is limited, and so are the connections
//!   that are handshaking or closing ([`TcpConfig`]). Who does not call `next_event` reads nothing, and so slows
//!   the peers down.
//! - **One fault, one connection.** Garbage, a peer that does not read, a reset: each ends its own connection
//!   with a reason. Running out of descriptors makes accepting pause; nothing ends because of it.
//! - **Last words arrive.** What was sent before [`Tcp::close`] leaves although the peer's input is not read any
//!   more, as long as the driver polls: see [`Tcp::closing`].
//!
//! # What it does not do
//!
//! It does not authenticate: whoever can reach the listener can connect and say any name. The core's admission
//! hook decides who gets a memory key, and [`Tcp::peer_addr`] is all that this plane can tell it. It does not
//! encrypt either. TLS would sit between a connection's socket and its frames, where bytes are read into the
//! frame reader and written from the send queue; until then use it on networks where every host is trusted, or
//! through a tunnel.
#![cfg(unix)]
#![forbid(unsafe_code)]

mod accept;
mod buffers;
mod config;
mod conn;
mod deadline;
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
