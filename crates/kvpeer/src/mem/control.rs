//! One node's control plane on the switchboard.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use kvpeer_core::{ConnId, Epoch, Origin};
use kvpeer_wire::{Decoded, Limits, Msg, PeerName};

use super::JoinError;
use super::hub::{Hub, Item};
use crate::plane::{ConnInfo, ControlFact, ControlPlane, Scratch};

/// Foreign descriptors cannot end a wait for a condition variable; with some it waits in steps of this.
const STEP: Duration = Duration::from_millis(1);

/// A station.
pub(super) struct MemControl {
    hub: Arc<Hub>,
    address: Arc<str>,
    /// Received by the last poll and not reported yet.
    batch: VecDeque<Item>,
    /// Reported and neither closed nor reported as gone.
    open: BTreeSet<ConnId>,
    waker: Waker,
}

struct Bell {
    hub: Arc<Hub>,
    address: Arc<str>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.hub.wake(&self.address);
    }
}

impl MemControl {
    pub(super) fn join(hub: &Arc<Hub>, address: &str) -> Result<Self, JoinError> {
        let address = hub.join(address)?;
        let waker = Waker::from(Arc::new(Bell { hub: Arc::clone(hub), address: Arc::clone(&address) }));
        let hub = Arc::clone(hub);
        Ok(Self { hub, address, batch: VecDeque::new(), open: BTreeSet::new(), waker })
    }
}

impl ControlPlane for MemControl {
    fn dial(&mut self, epoch: Epoch, _: PeerName<'_>, address: &str) {
        self.hub.dial(&self.address, epoch, address);
    }

    fn cancel_dial(&mut self, epoch: Epoch) {
        self.hub.cancel_dial(&self.address, epoch);
        let hub = &self.hub;
        self.batch.retain(|item| match item {
            Item::Connected { conn, origin: Origin::Dialed(of) } if *of == epoch => {
                hub.close(*conn);
                false
            }
            Item::DialFailed { epoch: of, .. } => *of != epoch,
            Item::Connected { .. } | Item::Disconnected { .. } | Item::Frame { .. } => true,
        });
    }

    fn send(&mut self, conn: ConnId, msg: &Msg<'_>) {
        let mut bytes = Vec::new();
        match msg.encode(&mut bytes) {
            Ok(()) => self.hub.send(conn, bytes),
            // The stream would miss it, so it ends here; the other end is told, and so are we.
            Err(_) if self.open.contains(&conn) => {
                self.hub.close(conn);
                self.batch.push_back(Item::Disconnected { conn, detail: "a message cannot be encoded" });
            }
            Err(_) => {}
        }
    }

    fn close(&mut self, conn: ConnId) {
        self.open.remove(&conn);
        self.hub.close(conn);
    }

    fn poll(&mut self, wake_on: &[RawFd], timeout: Option<Duration>) -> io::Result<Instant> {
        let timeout = match (self.batch.is_empty(), wake_on) {
            (false, _) => Some(Duration::ZERO),
            (true, []) => timeout,
            (true, [..]) => Some(timeout.map_or(STEP, |timeout| timeout.min(STEP))),
        };
        Ok(self.hub.receive(&self.address, timeout, &mut self.batch))
    }

    fn next_fact<'f>(&mut self, scratch: &'f mut Scratch) -> Option<ControlFact<'f>> {
        loop {
            let item = self.batch.pop_front()?;
            match item {
                Item::Connected { conn, origin } => {
                    self.open.insert(conn);
                    return Some(ControlFact::Connected { conn, origin });
                }
                Item::DialFailed { epoch, detail } => {
                    scratch.detail = detail;
                    return Some(ControlFact::DialFailed { epoch, detail: &scratch.detail });
                }
                Item::Disconnected { conn, detail } => {
                    if self.open.remove(&conn) {
                        return Some(ControlFact::Disconnected { conn, detail });
                    }
                }
                Item::Frame { conn, bytes } => {
                    if self.open.contains(&conn) {
                        scratch.body = bytes;
                        return Some(decode(conn, scratch));
                    }
                }
            }
        }
    }

    fn conn_info(&self, conn: ConnId) -> ConnInfo {
        // In one process an address is as good as a proof.
        ConnInfo { remote: None, proved: self.hub.other_end(conn).map(|address| address.to_string()) }
    }

    fn address(&self) -> Option<String> {
        Some(self.address.to_string())
    }

    fn lingering(&self) -> usize {
        // What was sent is at the receiver already.
        0
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

/// Reads the whole frame in `scratch.body`: length, kind, body.
fn decode(conn: ConnId, scratch: &mut Scratch) -> ControlFact<'_> {
    let malformed = |detail| ControlFact::Malformed { conn, detail };
    let [_, _, _, _, kind, body @ ..] = scratch.body.as_slice() else {
        return malformed("a frame cut short");
    };
    match Msg::decode(*kind, body, &Limits::DEFAULT) {
        Ok(Decoded::Msg(msg)) => ControlFact::Message { conn, msg },
        Ok(Decoded::Skipped { .. }) => ControlFact::Skipped { conn },
        Err(error) => {
            scratch.detail = error.to_string();
            malformed(&scratch.detail)
        }
    }
}

impl Drop for MemControl {
    fn drop(&mut self) {
        self.hub.leave(&self.address);
    }
}
