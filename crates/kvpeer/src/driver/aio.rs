//! Jobs as futures, on tokio.

use std::sync::Arc;
use std::time::Duration;

use kvpeer_core::{BlockIdx, Destination, JobId, LookupState, PeerId, RequestId, Role, StoreOutcome};
use kvpeer_wire::KeysBuf;
use tokio::sync::oneshot;

use super::events::Events;
use super::handle::{NodeHandle, Part};
use super::ticket::CallError;
use crate::event::{Event, EventQueue, LoadOutcome, Wanted};
use crate::node::{Node, NodeError};

/// A node for async code: each job is a future that ends with its result. Cheap to clone.
///
/// The node itself still runs on a thread of its own ([`Node::spawn`]), not on the runtime: heartbeats must leave, and
/// peers' WRITEs must land, however busy the runtime's workers are, and libfabric's calls take milliseconds now and
/// then. The bridge costs a wake-up each way. Nothing here blocks a worker, except the drop of the last clone.
///
/// News that no future waits for come from the [`Events`] that [`spawn`](Self::spawn) returns; take them with
/// [`Events::next_async`]. Among them are the results of lookups' pins, and those of jobs whose future was dropped.
///
/// [`NodeHandle`]'s own tickets are futures too, of any runtime; this is the layer above them.
#[derive(Clone, Debug)]
pub struct Client {
    handle: NodeHandle,
    events: EventQueue,
    mint: Mint,
}

/// Where job ids come from.
#[derive(Clone)]
struct Mint(Arc<dyn Fn() -> JobId + Send + Sync>);

impl std::fmt::Debug for Mint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mint")
    }
}

/// How a load ended.
#[derive(Debug)]
pub struct LoadEnd {
    /// Whether the blocks came.
    pub outcome: LoadOutcome,
    /// When they may be used again.
    pub destination: Freed,
}

/// When a load's blocks may be used again.
#[derive(Debug)]
pub enum Freed {
    /// Now.
    Now,
    /// Once this says so.
    Later(Release),
}

/// The release of a quarantined load's blocks. When it is dropped, the release comes from [`Events`].
#[derive(Debug)]
pub struct Release(Claim);

impl Release {
    /// Waits until nothing can land in the blocks any more.
    ///
    /// # Errors
    /// `Gone` when the node ended before it could tell: the blocks must not be used again while the process lives.
    pub async fn released(mut self) -> Result<(), CallError> {
        self.0.event().await.map(drop)
    }
}

impl Client {
    /// Spawns the node. `mint` makes the ids of jobs, unequal to those of the cache's pins:
    /// [`BlockTable::mint`](crate::BlockTable::mint), for example.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn(
        node: Node,
        mint: impl Fn() -> JobId + Send + Sync + 'static,
    ) -> Result<(Self, Events), NodeError> {
        let queue = node.events().clone();
        let (handle, events) = node.spawn()?;
        Ok((Self { handle, events: queue, mint: Mint(Arc::new(mint)) }, events))
    }

    /// All other calls, whose tickets are futures.
    pub fn handle(&self) -> &NodeHandle {
        &self.handle
    }

    /// Announces a request.
    ///
    /// # Errors
    /// When it is refused or the node is gone.
    pub async fn open(&self, request: &RequestId, part: Part) -> Result<(), CallError> {
        self.handle.open(request, part).await
    }

    /// The request is over on this node.
    ///
    /// # Errors
    /// When the node is gone.
    pub async fn finish(&self, request: &RequestId, role: Role) -> Result<(), CallError> {
        self.handle.finish(request, role).await
    }

    /// Which of these blocks the request's source holds; waits for its answer, so no state is `Pending`.
    ///
    /// # Errors
    /// When it is refused or the node is gone.
    pub async fn lookup(&self, request: &RequestId, keys: &KeysBuf) -> Result<Vec<LookupState>, CallError> {
        let answered = self.events.claims().lookups(request);
        loop {
            // Before the question, so that no answer is missed.
            let news = answered.notified();
            let states = self.handle.lookup_many(request, keys.clone()).await?;
            if !states.contains(&LookupState::Pending) {
                return Ok(states);
            }
            news.await;
        }
    }

    /// Gets blocks: `keys[i]` into block `blocks[i]`. A load whose future is dropped is aborted; its result then comes
    /// from [`Events`], before which its blocks are not free.
    ///
    /// # Errors
    /// When it is refused or the node is gone.
    pub async fn load(
        &self,
        request: &RequestId,
        keys: KeysBuf,
        blocks: Vec<BlockIdx>,
    ) -> Result<LoadEnd, CallError> {
        let job = (self.mint.0)();
        let mut result = Claim::new(&self.events, job, Wanted::Result);
        let release = Claim::new(&self.events, job, Wanted::Release);
        let unless_ended = AbortOnDrop { handle: &self.handle, job };
        let event = match self.handle.load(job, request, keys, blocks).await {
            Ok(()) => result.event().await,
            Err(refused) => Err(refused),
        };
        unless_ended.disarm();
        let Event::LoadFinished { outcome, destination, .. } = event? else { return Err(CallError::Gone) };
        let destination = match destination {
            Destination::Reusable => Freed::Now,
            Destination::Quarantined => Freed::Later(Release(release)),
        };
        Ok(LoadEnd { outcome, destination })
    }

    /// Offers blocks: `keys[i]` is in block `blocks[i]`, which must not change until the future's end. A store whose
    /// future is dropped goes on; its result then comes from [`Events`].
    ///
    /// # Errors
    /// When it is refused or the node is gone.
    pub async fn store(
        &self,
        request: &RequestId,
        keys: KeysBuf,
        blocks: Vec<BlockIdx>,
        consumer: Option<PeerId>,
    ) -> Result<StoreOutcome, CallError> {
        let job = (self.mint.0)();
        let mut result = Claim::new(&self.events, job, Wanted::Result);
        self.handle.store(job, request, keys, blocks, consumer).await?;
        let Event::StoreFinished { outcome, .. } = result.event().await? else { return Err(CallError::Gone) };
        Ok(outcome)
    }

    /// Ends all sessions in order, within `within`. [`Events`] ends with the node, some moments later.
    ///
    /// # Errors
    /// When the node is gone already.
    pub async fn shutdown(&self, within: Duration) -> Result<(), CallError> {
        self.handle.begin_shutdown(within).await
    }
}

/// The right to one event of a job. Dropped before it was read, the event goes its ordinary way.
#[derive(Debug)]
struct Claim {
    events: EventQueue,
    job: JobId,
    wanted: Wanted,
    receiver: oneshot::Receiver<Event>,
}

impl Claim {
    fn new(events: &EventQueue, job: JobId, wanted: Wanted) -> Self {
        Self { receiver: events.claims().claim(job, wanted), events: events.clone(), job, wanted }
    }

    async fn event(&mut self) -> Result<Event, CallError> {
        (&mut self.receiver).await.map_err(|_| CallError::Gone)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.events.claims().disclaim(self.job, self.wanted);
        self.receiver.close();
        if let Ok(event) = self.receiver.try_recv() {
            self.events.push(event);
        }
    }
}

/// Aborts a load whose future is dropped.
struct AbortOnDrop<'a> {
    handle: &'a NodeHandle,
    job: JobId,
}

impl AbortOnDrop<'_> {
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for AbortOnDrop<'_> {
    fn drop(&mut self) {
        // Should the node be too busy to be asked, the load runs on; its result comes all the same.
        drop(self.handle.abort(self.job));
    }
}
