//! The rights of one node, each on a thread of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

use kvpeer::Region;
use kvpeer::plane::{DataFact, DataPlane, Progress, Rest};
use kvpeer_core::{BlockIdx, Epoch, TransferEnd, XferId};
use kvpeer_wire::RegionInfo;

use crate::agent::Agent;
use crate::capi::Api;
use crate::right::{self, Order, Setup};
use crate::{NixlConfig, NixlError};

/// WRITEs over NIXL.
pub struct NixlData {
    api: Arc<Api>,
    region: Arc<Region>,
    transports: String,
    fenced: bool,
    /// Unlike any other node's: agents know each other by name.
    name: String,
    rights: BTreeMap<Epoch, Right>,
    /// Rights that are being closed.
    closing: BTreeMap<Epoch, JoinHandle<()>>,
    /// Reports about rights that have no thread.
    early: Vec<DataFact>,
    inbox: Receiver<DataFact>,
    reports: Reports,
    rung: UnixStream,
    fds: [RawFd; 1],
    /// A report that `prepare_wait` has found.
    found: Option<DataFact>,
}

/// An open right. Without its orders its thread ends.
struct Right {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

/// Where threads report, and how they wake the node.
#[derive(Clone)]
pub(crate) struct Reports {
    facts: Sender<DataFact>,
    bell: Arc<UnixStream>,
}

impl Reports {
    pub(crate) fn tell(&self, fact: DataFact) {
        // Nobody listens when the node is gone; full means that it has been rung.
        let _ = self.facts.send(fact);
        let _ = (&*self.bell).write(&[1]);
    }
}

impl NixlData {
    /// Loads NIXL, and tries it with an agent that is closed at once.
    ///
    /// # Errors
    /// When NIXL is not there, or cannot do this.
    pub fn open(config: &NixlConfig, region: &Arc<Region>) -> Result<Self, NixlError> {
        let api = Arc::new(Api::load(&config.library)?);
        let transports = config.transports.as_str().to_owned();
        let name = format!("kvpeer-{}-{:016x}", std::process::id(), random()?);
        Agent::new(&api, &format!("{name}-trial"), &transports, region)?.metadata()?;
        let environment = std::env::var("UCX_TLS").ok();
        let (rung, bell) = pair()?;
        let (facts, inbox) = mpsc::channel();
        Ok(Self {
            api,
            region: Arc::clone(region),
            transports,
            fenced: config.transports.is_fenced(environment.as_deref()),
            name,
            rights: BTreeMap::new(),
            closing: BTreeMap::new(),
            early: Vec::new(),
            inbox,
            reports: Reports { facts, bell: Arc::new(bell) },
            fds: [rung.as_raw_fd()],
            rung,
            found: None,
        })
    }

    /// Whether the end of a right is a proof that nothing lands any more.
    pub fn fences(&self) -> bool {
        self.fenced
    }

    fn order(&self, epoch: Epoch, order: Order) {
        // A right that is closed, or never was, reports nothing more.
        if let Some(right) = self.rights.get(&epoch) {
            let _ = right.orders.send(order);
        }
    }
}

impl DataPlane for NixlData {
    fn open_right(&mut self, epoch: Epoch) {
        let (orders, inbox) = mpsc::channel();
        let setup = Setup {
            api: Arc::clone(&self.api),
            epoch,
            name: format!("{}-{}", self.name, epoch.0),
            transports: self.transports.clone(),
            region: Arc::clone(&self.region),
            reports: self.reports.clone(),
            fenced: self.fenced,
        };
        let thread = std::thread::Builder::new().name(format!("nixl-{}", epoch.0));
        match thread.spawn(move || right::run(setup, &inbox)) {
            Ok(thread) => drop(self.rights.insert(epoch, Right { orders, thread })),
            Err(error) => {
                self.early.push(DataFact::RightOpened { epoch, metadata: Err(error.to_string()) });
            }
        }
    }

    fn register(&mut self, epoch: Epoch, region: RegionInfo, metadata: &[u8]) {
        self.order(epoch, Order::Register(region, metadata.to_vec()));
    }

    fn write(&mut self, xfer: XferId, src: &[BlockIdx], dst: &[BlockIdx]) {
        if self.rights.contains_key(&xfer.epoch) {
            self.order(xfer.epoch, Order::Write(xfer, src.to_vec(), dst.to_vec()));
        } else {
            let (end, detail) = (TransferEnd::NotPosted, String::new());
            self.early.push(DataFact::Transfer { xfer, end, detail });
        }
    }

    /// NIXL cannot take back what it was given; every WRITE is given to it at once.
    fn cancel(&mut self, _: XferId) {}

    fn close_right(&mut self, epoch: Epoch) {
        match self.rights.remove(&epoch) {
            // The channel ends, and with it the right.
            Some(Right { orders: _, thread }) => drop(self.closing.insert(epoch, thread)),
            // It never had an agent.
            None => self.early.push(DataFact::RightClosed { epoch, fenced: true }),
        }
    }

    fn progress(&mut self, budget: usize, facts: &mut Vec<DataFact>) -> Progress {
        let mut rung = [0; 64];
        while (&self.rung).read(&mut rung).is_ok_and(|read| read == rung.len()) {}
        facts.append(&mut self.early);
        facts.extend(self.found.take());
        let before = facts.len();
        facts.extend(self.inbox.try_iter().take(budget.max(1)));
        for fact in &facts[before.min(facts.len())..] {
            if let DataFact::RightClosed { epoch, .. } = fact
                && let Some(thread) = self.closing.remove(epoch)
            {
                // It has nothing left to do.
                let _ = thread.join();
            }
        }
        if facts.len() - before >= budget.max(1) { Progress::More } else { Progress::Quiet }
    }

    fn wait_fds(&self) -> &[RawFd] {
        &self.fds
    }

    fn prepare_wait(&mut self) -> Rest {
        if self.found.is_none() {
            self.found = self.inbox.try_recv().ok();
        }
        match (&self.found, self.early.is_empty()) {
            (None, true) => Rest::MaySleep,
            (Some(_), _) | (None, false) => Rest::Busy,
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn base_addr(&self) -> u64 {
        self.region.base().addr().get() as u64
    }
}

impl Drop for NixlData {
    fn drop(&mut self) {
        let open = std::mem::take(&mut self.rights).into_values().map(|right| right.thread);
        let threads: Vec<_> = open.chain(std::mem::take(&mut self.closing).into_values()).collect();
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl fmt::Debug for NixlData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NixlData")
            .field("name", &self.name)
            .field("transports", &self.transports)
            .field("rights", &self.rights.len())
            .finish_non_exhaustive()
    }
}

fn pair() -> Result<(UnixStream, UnixStream), NixlError> {
    let made = UnixStream::pair().and_then(|(rung, bell)| {
        rung.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        Ok((rung, bell))
    });
    made.map_err(|error| NixlError::Library { why: format!("no pair of sockets: {error}") })
}

fn random() -> Result<u64, NixlError> {
    getrandom::u64().map_err(|error| NixlError::Library { why: format!("no random number: {error}") })
}
