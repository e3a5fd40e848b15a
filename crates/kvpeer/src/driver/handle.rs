//! Calls to a node on its own thread.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kvpeer_core::{BlockIdx, Command, JobId, LookupState, Misuse, PeerId, PeerStatus, RequestId, Role};
use kvpeer_wire::{KeysBuf, Supply};

use super::events::Events;
use super::thread::{Context, Job, run};
use super::ticket::{CallError, Ticket, ticket};
use crate::node::{Node, NodeError, Stats};

/// Calls that may wait for the node's thread.
const CALLS: usize = 4096;

/// A node on its own thread. Cheap to clone; to be used from any thread.
///
/// Every call returns at once with a [`Ticket`] and is carried out in order on the node's thread, within
/// microseconds when that is idle. Each of the wishes is the [`Command`] of its name.
///
/// When the last handle is dropped the node ends at once: all its sessions are ended without draining, all jobs get
/// their results (to be taken from [`Events`]), the ways into its region are closed, and only then does the drop
/// return. [`shutdown`](Self::shutdown) is the same with time for posted WRITEs to finish.
///
/// What has no result or release by then belongs to a right that the data plane could not close with proof
/// ([`NotFenced`](crate::TroubleKind::NotFenced)): its blocks must not be used again while the process lives.
///
/// Should the engine's own code panic on the node's thread (a [`BlockCache`](crate::BlockCache), an
/// [`Admission`](crate::Admission), a [`call`](Self::call)), the node ends as if dropped: the ways into its region
/// are closed, tickets say `Gone`, and `Events` has no more.
#[derive(Clone, Debug)]
pub struct NodeHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    jobs: Option<SyncSender<Job>>,
    waker: Waker,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A node's part in a request: [`kvpeer_core::Part`], owned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// It takes blocks.
    Consume {
        /// From this peer.
        source: PeerId,
        /// Which the control plane reaches here.
        address: String,
        /// `Pinned` after lookups (symmetric), `Await` without (prefill/decode).
        supply: Supply,
    },
    /// It gives blocks. Optional, except for using an id again whose supply was over.
    Produce {
        /// The only peer that may have them, if that is known.
        consumer: Option<PeerId>,
    },
}

impl Part {
    /// The same, borrowed.
    pub fn as_part(&self) -> kvpeer_core::Part<'_> {
        match self {
            Part::Consume { source, address, supply } => {
                kvpeer_core::Part::Consume { source: source.as_name(), address, supply: *supply }
            }
            Part::Produce { consumer } => {
                kvpeer_core::Part::Produce { consumer: consumer.as_ref().map(PeerId::as_name) }
            }
        }
    }
}

impl Node {
    /// Gives the node a thread of its own: the recommended way to drive one.
    ///
    /// The thread sleeps on both planes until something arrives or is due, so heartbeats leave and WRITEs of peers
    /// land whatever the engine does. It never waits for the engine.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn(self) -> Result<(NodeHandle, Events), NodeError> {
        let (sender, jobs) = sync_channel(CALLS);
        let events = Events::new(self.events().clone());
        let waker = self.waker();
        let thread = thread::Builder::new().name("kvpeer".into()).spawn(move || run(self, &jobs));
        let thread = thread.map_err(NodeError::Thread)?;
        let shared = Shared { jobs: Some(sender), waker, thread: Mutex::new(Some(thread)) };
        Ok((NodeHandle(Arc::new(shared)), events))
    }
}

impl NodeHandle {
    /// Announces a request.
    pub fn open(&self, request: &RequestId, part: Part) -> Ticket<()> {
        let request = request.clone();
        self.command(move |node| {
            node.command(Command::Open { request: request.as_name(), part: part.as_part() })
        })
    }

    /// Gets blocks: `keys[i]` into block `blocks[i]` of the region. Ends with exactly one
    /// [`LoadFinished`](crate::Event::LoadFinished), unless the ticket says that it was refused.
    pub fn load(&self, job: JobId, request: &RequestId, keys: KeysBuf, blocks: Vec<BlockIdx>) -> Ticket<()> {
        let request = request.clone();
        self.command(move |node| {
            let (request, keys) = (request.as_name(), keys.as_keys());
            node.command(Command::Load { job, request, keys, blocks: &blocks })
        })
    }

    /// Offers blocks: `keys[i]` is in block `blocks[i]`, which must not change until the job's one
    /// [`StoreFinished`](crate::Event::StoreFinished). To `consumer` only, if one is named.
    pub fn store(
        &self,
        job: JobId,
        request: &RequestId,
        keys: KeysBuf,
        blocks: Vec<BlockIdx>,
        consumer: Option<PeerId>,
    ) -> Ticket<()> {
        let request = request.clone();
        self.command(move |node| {
            let (request, keys) = (request.as_name(), keys.as_keys());
            let consumer = consumer.as_ref().map(PeerId::as_name);
            node.command(Command::Store { job, request, keys, blocks: &blocks, consumer })
        })
    }

    /// What is known about each of these keys at the request's source, which is asked for those that it was not
    /// asked for yet. A scheduler that must not wait takes the answer in its next step; the source's own answer to
    /// what is `Pending` is announced by [`LookupAnswered`](crate::Event::LookupAnswered).
    pub fn lookup_many(&self, request: &RequestId, keys: KeysBuf) -> Ticket<Vec<LookupState>> {
        let request = request.clone();
        self.command(move |node| node.lookup_many(request.as_name(), keys.as_keys()))
    }

    /// The request is over on this node.
    pub fn finish(&self, request: &RequestId, role: Role) -> Ticket<()> {
        let request = request.clone();
        self.command(move |node| node.command(Command::Finish { request: request.as_name(), role }))
    }

    /// Stops a load; its result still comes.
    pub fn abort(&self, job: JobId) -> Ticket<()> {
        self.command(move |node| node.command(Command::Abort { job }))
    }

    /// Takes back what of a store nobody has claimed yet; its result still comes.
    pub fn withdraw(&self, job: JobId) -> Ticket<()> {
        self.command(move |node| node.command(Command::Withdraw { job }))
    }

    /// The engine has its own proof that nothing lands in, or reads, the blocks of this job any more.
    pub fn release_quarantine(&self, job: JobId) -> Ticket<()> {
        self.command(move |node| node.command(Command::ReleaseQuarantine { job }))
    }

    /// Brings up the session with a peer before there is work for it.
    pub fn connect(&self, peer: &PeerId, address: &str) -> Ticket<()> {
        let (peer, address) = (peer.clone(), address.to_owned());
        self.command(move |node| node.command(Command::Connect { peer: peer.as_name(), address: &address }))
    }

    /// Ends the session with a peer.
    pub fn close_peer(&self, peer: &PeerId) -> Ticket<()> {
        let peer = peer.clone();
        self.command(move |node| node.command(Command::ClosePeer { peer: peer.as_name() }))
    }

    /// One peer, if it is known.
    pub fn peer(&self, peer: &PeerId) -> Ticket<Option<PeerStatus>> {
        let peer = peer.clone();
        self.call(move |node| node.peer(peer.as_name()))
    }

    /// All known peers, by name.
    pub fn peers(&self) -> Ticket<Vec<PeerStatus>> {
        self.call(|node| node.peers().collect())
    }

    /// Everything that is counted.
    pub fn stats(&self) -> Ticket<Stats> {
        self.call(|node| node.stats())
    }

    /// Anything else, on the node's thread: short, for nothing else happens meanwhile, and without waiting for a
    /// ticket of the same node.
    pub fn call<R: Send + 'static>(&self, f: impl FnOnce(&mut Node) -> R + Send + 'static) -> Ticket<R> {
        self.submit(job(move |context| Ok(f(&mut context.node))))
    }

    /// Ends all sessions in order: posted WRITEs may finish within `within`, goodbyes are said, the ways into the
    /// region are closed. Returns when the node has ended, at the latest some seconds after `within` (rights may
    /// take `Timing::close_right` to close). All results are in [`Events`] then.
    ///
    /// Not to be used on the node's own thread.
    pub fn shutdown(&self, within: Duration) {
        let (job, _) = end_within(within);
        if let Some(jobs) = &self.0.jobs {
            // Waits for its turn if need be; fails when the node has ended already.
            let _ = jobs.send(job);
            self.0.waker.wake_by_ref();
        }
        self.0.join();
    }

    /// As [`shutdown`](Self::shutdown), without waiting for the end: that is when [`Events`] has no more.
    pub fn begin_shutdown(&self, within: Duration) -> Ticket<()> {
        self.submit(end_within(within))
    }

    fn command<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Node) -> Result<T, Misuse> + Send + 'static,
    ) -> Ticket<T> {
        self.submit(job(move |context| f(&mut context.node).map_err(CallError::Misuse)))
    }

    fn submit<T>(&self, (job, ticket): (Job, Ticket<T>)) -> Ticket<T> {
        match self.0.jobs.as_ref().map(|jobs| jobs.try_send(job)) {
            Some(Ok(())) => self.0.waker.wake_by_ref(),
            Some(Err(TrySendError::Full(_))) => return Ticket::answered(Err(CallError::Busy)),
            // The promise went with the job, and its ticket says so.
            Some(Err(TrySendError::Disconnected(_))) | None => {}
        }
        ticket
    }
}

fn job<T: Send + 'static>(
    f: impl FnOnce(&mut Context) -> Result<T, CallError> + Send + 'static,
) -> (Job, Ticket<T>) {
    let (promise, ticket) = ticket();
    (Box::new(move |context| promise.keep(f(context))), ticket)
}

fn end_within(within: Duration) -> (Job, Ticket<()>) {
    job(move |context| {
        context.shut_down_within(within);
        Ok(())
    })
}

impl Shared {
    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The node's own thread (a cache may hold a handle) cannot wait for itself; it ends on its own.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            // Its panic, if any, was reported when it happened; the node is gone either way.
            let _ = thread.join();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Without senders the thread learns that nobody holds the node any more.
        self.jobs = None;
        self.waker.wake_by_ref();
        self.join();
    }
}
