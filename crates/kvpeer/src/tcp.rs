//! The control plane on TCP: [`kvpeer_tcp`] as a [`ControlPlane`].

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use kvpeer_core::{ConnId, Epoch, Origin};
use kvpeer_tcp::{ConnToken, DialToken, Tcp, TcpConfig, TcpError, TcpEvent};
use kvpeer_wire::{Decoded, Limits, Msg, PeerName};

use crate::plane::{ConnInfo, ControlFact, ControlPlane, Scratch};

/// Messages over TCP.
#[derive(Debug)]
pub struct TcpControl {
    tcp: Tcp,
    limits: Limits,
    waker: Waker,
    watched: BTreeSet<RawFd>,
}

impl TcpControl {
    /// Listens where `config` says.
    ///
    /// # Errors
    /// When an address is not to be had, or the system gives no poller.
    pub fn bind(config: TcpConfig) -> Result<Self, TcpError> {
        let limits = config.limits;
        let tcp = Tcp::bind(config)?;
        let waker = Waker::from(Arc::new(Bell(tcp.waker())));
        Ok(Self { tcp, limits, waker, watched: BTreeSet::new() })
    }

    /// The address of the first listener, with the port that was chosen for port 0.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.tcp.local_addr()
    }

    /// The plane watches exactly `fds` from here on.
    fn watch(&mut self, fds: &[RawFd]) -> io::Result<()> {
        self.watched.retain(|fd| {
            let wanted = fds.contains(fd);
            if !wanted {
                self.tcp.unwatch(*fd);
            }
            wanted
        });
        for fd in fds {
            // Also those that are watched: a number may stand for another descriptor by now.
            self.tcp.watch(*fd)?;
            self.watched.insert(*fd);
        }
        Ok(())
    }
}

struct Bell(kvpeer_tcp::Waker);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Fails only when the poller is gone, and then nobody sleeps on it.
        let _ = self.0.wake();
    }
}

impl ControlPlane for TcpControl {
    fn dial(&mut self, epoch: Epoch, _: PeerName<'_>, address: &str) {
        self.tcp.dial(DialToken(epoch.0), address);
    }

    fn cancel_dial(&mut self, epoch: Epoch) {
        self.tcp.cancel_dial(DialToken(epoch.0));
    }

    fn send(&mut self, conn: ConnId, msg: &Msg<'_>) {
        self.tcp.send(ConnToken(conn.0), msg);
    }

    fn close(&mut self, conn: ConnId) {
        self.tcp.close(ConnToken(conn.0));
    }

    fn poll(&mut self, wake_on: &[RawFd], timeout: Option<Duration>) -> io::Result<Instant> {
        if timeout != Some(Duration::ZERO) {
            self.watch(wake_on)?;
        }
        self.tcp.poll(timeout)
    }

    fn next_fact<'f>(&mut self, scratch: &'f mut Scratch) -> Option<ControlFact<'f>> {
        loop {
            let event = self.tcp.next_event()?;
            return Some(match event {
                TcpEvent::Connected { conn, origin } => {
                    ControlFact::Connected { conn: ConnId(conn.0), origin: origin_of(origin) }
                }
                TcpEvent::DialFailed { dial, error } => {
                    ControlFact::DialFailed { epoch: Epoch(dial.0), detail: say(scratch, &error) }
                }
                TcpEvent::Frame { conn, frame } => {
                    if let Some(read) = scratch.frame.take() {
                        self.tcp.recycle(read);
                    }
                    decode(ConnId(conn.0), scratch, frame, &self.limits)
                }
                TcpEvent::Heard { conn } => ControlFact::Heard { conn: ConnId(conn.0) },
                TcpEvent::Malformed { conn, error } => {
                    ControlFact::Malformed { conn: ConnId(conn.0), detail: say(scratch, &error) }
                }
                TcpEvent::NoCommonVersion { conn, ours, theirs } => {
                    ControlFact::NoCommonVersion { conn: ConnId(conn.0), ours, theirs }
                }
                TcpEvent::Disconnected { conn, reason } => {
                    ControlFact::Disconnected { conn: ConnId(conn.0), detail: say(scratch, &reason) }
                }
                // It has done its work by ending the sleep.
                TcpEvent::FdReady { .. } => continue,
            });
        }
    }

    fn conn_info(&self, conn: ConnId) -> ConnInfo {
        ConnInfo { remote: self.tcp.peer_addr(ConnToken(conn.0)), proved: None }
    }

    fn address(&self) -> Option<String> {
        self.tcp.local_addr().map(|address| address.to_string())
    }

    fn lingering(&self) -> usize {
        self.tcp.closing()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let stats = self.tcp.stats();
        vec![
            ("accepted", stats.accepted),
            ("refused", stats.refused),
            ("accept errors", stats.accept_errors),
            ("dials", stats.dials),
            ("dial failures", stats.dial_failures),
            ("bytes in", stats.bytes_in),
            ("bytes out", stats.bytes_out),
            ("messages in", stats.frames_in),
            ("messages out", stats.frames_out),
            ("send queue overflows", stats.send_queue_overflows),
            ("crowded out", stats.crowded_out),
            ("malformed", stats.malformed),
            ("cut off", stats.cut_off),
        ]
    }
}

fn origin_of(origin: kvpeer_tcp::Origin) -> Origin {
    match origin {
        kvpeer_tcp::Origin::Dialed(dial) => Origin::Dialed(Epoch(dial.0)),
        kvpeer_tcp::Origin::Accepted => Origin::Accepted,
    }
}

fn say<'f>(scratch: &'f mut Scratch, what: &dyn std::fmt::Display) -> &'f str {
    scratch.detail.clear();
    // Writing to a string does not fail.
    let _ = write!(scratch.detail, "{what}");
    &scratch.detail
}

fn decode<'f>(
    conn: ConnId,
    scratch: &'f mut Scratch,
    frame: kvpeer_wire::Frame,
    limits: &Limits,
) -> ControlFact<'f> {
    let Scratch { frame: kept, body: _, detail } = scratch;
    match kept.insert(frame).decode(limits) {
        Ok(Decoded::Msg(msg)) => ControlFact::Message { conn, msg },
        Ok(Decoded::Skipped { .. }) => ControlFact::Skipped { conn },
        Err(error) => {
            *detail = error.to_string();
            ControlFact::Malformed { conn, detail }
        }
    }
}
