//! A node: the endpoint with everything around it.

mod config;
mod io;
mod stats;
mod turn;

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use kvpeer_core::{Command, Endpoint, LookupState, Misuse, PeerId, PeerStatus, Totals};
use kvpeer_wire::{Key, Keys, PeerName, RequestName};

use self::io::Io;
use self::turn::Batch;
use crate::admission::{Admission, AdmitAll};
use crate::cache::BlockCache;
use crate::clock::Clock;
use crate::event::{Event, EventQueue};
use crate::plane::{Planes, Rest};
use crate::region::Region;

pub use config::{NodeConfig, NodeError, Reach};
pub use stats::Stats;

/// One node: the protocol's endpoint, its planes, the engine's block cache, and a clock.
///
/// Three kinds of calls, all from one thread at a time:
/// - wishes: [`command`](Self::command), [`lookup_many`](Self::lookup_many);
/// - the drive: [`tick`](Self::tick), or [`sleep_and_tick`](Self::sleep_and_tick) on a thread of one's own. Nothing
///   happens between its calls;
/// - news: [`poll_event`](Self::poll_event) until it has none.
///
/// Most engines do not drive a node themselves: [`spawn`](Self::spawn) gives it a thread and returns a handle.
///
/// Dropping a node closes every way into its region, then lets go of the region. Jobs get no results by that: end a
/// node with [`Command::Shutdown`], or drop its last [`NodeHandle`](crate::NodeHandle), to have them all.
pub struct Node {
    endpoint: Endpoint,
    io: Io,
    clock: Clock,
    batch: Option<Batch>,
    buffers: turn::Buffers,
    control: turn::Control,
    /// Last, so that the planes in `io` are gone before the memory that they expose.
    region: Arc<Region>,
}

/// When a node wants to be ticked again, at the latest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// At once: there is more to do.
    Now,
    /// After this time.
    Within(Duration),
    /// When something arrives, or after the next command.
    Idle,
}

impl Node {
    /// A node on these planes. `cache` answers lookups of peers; [`NoBlocks`](crate::NoBlocks) for none.
    ///
    /// # Errors
    /// When it has no usable identity or an impossible configuration.
    pub fn new(
        config: &NodeConfig,
        planes: Planes,
        cache: impl BlockCache + 'static,
    ) -> Result<Self, NodeError> {
        let endpoint = Endpoint::new(config.for_planes(&planes)?)?;
        let events = EventQueue::new(config.event_backlog);
        Ok(Self {
            endpoint,
            io: Io::new(planes, Box::new(cache), Box::new(AdmitAll), events),
            clock: Clock::monotonic(),
            batch: None,
            buffers: turn::Buffers::default(),
            control: turn::Control::Works,
            region: Arc::clone(&config.region),
        })
    }

    /// The same node, which asks `admission` about each peer before that gets a memory key. Default: takes all.
    #[must_use]
    pub fn with_admission(mut self, admission: impl Admission + 'static) -> Self {
        self.io.admission = Box::new(admission);
        self
    }

    /// The same node on another clock, for tests. To be called before anything else.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Applies a wish of the engine, or refuses it and changes nothing. Its effects leave with the next tick.
    pub fn command(&mut self, command: Command<'_>) -> Result<(), Misuse> {
        self.endpoint.command(self.clock.now(), command, &mut self.io)
    }

    /// What is known about a key. Its first sight puts it down for the next [`Command::FlushLookups`].
    pub fn lookup(&mut self, request: RequestName<'_>, key: Key<'_>) -> LookupState {
        self.endpoint.lookup(self.clock.now(), request, key)
    }

    /// What is known about each of these keys; asks the source for those that it has not been asked for yet.
    ///
    /// # Errors
    /// As [`Command::FlushLookups`].
    pub fn lookup_many(
        &mut self,
        request: RequestName<'_>,
        keys: Keys<'_>,
    ) -> Result<Vec<LookupState>, Misuse> {
        let now = self.clock.now();
        let mut states = Vec::new();
        self.endpoint.lookup_many(now, request, keys, &mut states);
        self.endpoint.command(now, Command::FlushLookups, &mut self.io)?;
        Ok(states)
    }

    /// The next news; `None` when there is none now.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.io.events.try_pop()
    }

    /// By which identity peers know this node.
    pub fn peer_id(&self) -> &PeerId {
        &self.endpoint.config().identity.peer_id
    }

    /// How peers reach this node's control plane; `None` when it only dials.
    pub fn address(&self) -> Option<String> {
        self.io.planes.control.address()
    }

    /// This node's blocks.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Ends a [`sleep_and_tick`](Self::sleep_and_tick), from any thread.
    pub fn waker(&self) -> Waker {
        self.io.planes.control.waker()
    }

    /// One peer, if it is known.
    pub fn peer(&self, peer: PeerName<'_>) -> Option<PeerStatus> {
        self.endpoint.peer(peer)
    }

    /// All known peers, by name.
    pub fn peers(&self) -> impl Iterator<Item = PeerStatus> {
        self.endpoint.peers()
    }

    /// The work of all peers together.
    pub fn totals(&self) -> Totals {
        self.endpoint.totals()
    }

    /// Everything that is counted.
    pub fn stats(&self) -> Stats {
        Stats {
            totals: self.endpoint.totals(),
            counts: self.io.counts.clone(),
            events_waiting: self.io.events.len(),
            probes_shed: self.io.probes_shed,
            skipped_messages: self.io.skipped_messages,
            control: self.io.planes.control.counters(),
            data: self.io.planes.data.counters(),
        }
    }

    /// The protocol's own state, for inspection.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether nothing is going on: no link, no work, no quarantine, and every goodbye has left. A node that was
    /// shut down gets here, unless the data plane cannot prove that a right is closed.
    pub fn is_over(&self) -> bool {
        self.endpoint.is_idle() && self.io.answers.is_empty() && self.io.planes.control.lingering() == 0
    }

    /// Whether the data plane has said all that it will say of itself: nothing is under way in it.
    pub(crate) fn data_rests(&mut self) -> bool {
        self.batch.is_none()
            && self.io.answers.is_empty()
            && self.io.planes.data.prepare_wait() == Rest::MaySleep
    }

    /// Whether the control plane has failed as a whole. All sessions were ended then, and nothing new begins.
    pub fn has_failed(&self) -> bool {
        self.control == turn::Control::Failed
    }

    pub(crate) fn events(&self) -> &EventQueue {
        &self.io.events
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.io.events.end();
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("peer_id", self.peer_id())
            .field("address", &self.address())
            .field("totals", &self.totals())
            .finish_non_exhaustive()
    }
}
