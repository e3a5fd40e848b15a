//! The plane: its rights, and the calls of its owner.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::FabricConfig;
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::event::{FabricEvent, Refusal, TransferEnd};
use crate::faults::{Fault, seeded};
use crate::memory::Memory;
use crate::metadata::{Expected, Metadata};
use crate::right::{Right, RightId, Rules, Stage, XferId, transfer_event};
use crate::selftest;
use crate::wait_set::WaitSet;

/// A peer's region, as the peer announced it on the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerRegion {
    /// Blocks in it.
    pub num_blocks: u32,
    /// Bytes per block; must be our own.
    pub block_len: u64,
    /// Its first byte's address in the peer's process. Only used with providers that address memory virtually.
    pub base_addr: u64,
}

/// Completions read, and writes posted, for one right before the next right has its turn.
const QUANTUM: usize = 32;

/// Whether the queues must be looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Something was asked for, or done, since they were last found quiet.
    Looking,
    /// All were found quiet and ready to sleep on, then. Until a descriptor is readable there is nothing in them:
    /// looking at each of a hundred idle ones whenever the caller wakes for something else is what an idle node
    /// would cost.
    Resting(Instant),
}

/// A rest ends with the next call after so long, whatever the descriptors say: should a provider ever forget to
/// signal one, a transfer is late by this and not lost.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// How often to look after rights that no descriptor wakes us for.
const TIMER: Duration = Duration::from_millis(5);
/// Longer ones are as good as none, and could not be added to a point in time.
const LONGEST_DEADLINE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// An RMA data plane: one region exposed to many peers, each through a right of its own.
///
/// A right is an endpoint, a completion queue and a random memory key for one peer in one session. Closing it is
/// the only thing that proves that the peer's writes can no longer land.
///
/// Calls come from one thread at a time. None of them blocks on a peer; each says which event answers it.
/// The loop:
///
/// ```no_run
/// # use kvpeer_fabric::{Fabric, FabricEvent};
/// # use std::time::Duration;
/// # fn sleep_on(_: &[i32], _: Option<std::time::Instant>) {}
/// # fn run(mut fabric: Fabric) {
/// let mut events = Vec::new();
/// loop {
///     fabric.progress(256, &mut events);
///     for event in events.drain(..) { /* act on it; this may call `write`, `close_right`, ... */ }
///     if fabric.prepare_wait() {
///         sleep_on(fabric.wait_fds(), fabric.next_deadline());
///     }
/// }
/// # }
/// ```
///
/// The loop must go on even when this side writes nothing: reading the queues is what lands what peers write.
///
/// # Dropping
/// Closes all endpoints, then releases the memory, in any state and with any writes in flight. Should an endpoint
/// not close, or on a provider that cannot fence ([`Provider::Shm`](crate::Provider::Shm)), the `Arc` of the
/// memory is never released instead: memory that a peer may still write to stays mapped.
pub struct Fabric {
    rights: BTreeMap<RightId, Right>,
    /// Rights whose endpoint is to be made or closed, which takes milliseconds each: one per `progress`.
    opening: VecDeque<RightId>,
    closing: VecDeque<RightId>,
    /// Events of calls since the last `progress`.
    pending: Vec<FabricEvent>,
    /// Whose turn it is first.
    turn: RightId,
    rules: Rules,
    /// Bytes of the memory that are exposed.
    exposed: usize,
    window: u32,
    write_deadline: Duration,
    wait_set: WaitSet,
    wait_fds: [RawFd; 1],
    rest: Rest,
    stale_of_closed: u64,
    domain: Arc<Domain>,
    memory: Arc<dyn Memory>,
}

impl Fabric {
    /// Opens the provider and tests it: writes between two endpoints of this process must be visible when they
    /// complete. Takes milliseconds to a few hundred (libfabric 1.17 without
    /// [`RECOMMENDED_ENV`](crate::RECOMMENDED_ENV)), 10 s if the test hangs.
    ///
    /// # Errors
    /// The configuration contradicts itself, libfabric fails (named with the call, and what to do), or the test
    /// does.
    pub fn open(config: &FabricConfig, memory: Arc<dyn Memory>) -> Result<Self, FabricError> {
        let exposed = config.check(memory.as_ref())?;
        let domain = Arc::new(Domain::open(config.provider, config.bind)?);
        selftest::run(&domain)?;
        let wait_set = WaitSet::new(domain.shares_wake_ups()).map_err(|cause| no_descriptor(&cause))?;
        Ok(Self {
            rights: BTreeMap::new(),
            opening: VecDeque::new(),
            closing: VecDeque::new(),
            pending: Vec::new(),
            turn: RightId(0),
            rules: config.rules(&domain),
            exposed,
            window: config.window(&domain),
            write_deadline: config.write_deadline.min(LONGEST_DEADLINE),
            wait_fds: [wait_set.fd()],
            wait_set,
            rest: Rest::Looking,
            stale_of_closed: 0,
            domain,
            memory,
        })
    }

    /// Makes an endpoint, a queue and a memory key for one peer. Answered by `RightOpened`. Only for peers that
    /// passed their checks: whoever learns the metadata can write anywhere in our region.
    pub fn open_right(&mut self, right: RightId) {
        self.rest = Rest::Looking;
        if self.rights.contains_key(&right) {
            let error = FabricError::RightState { right, reason: "is in use" };
            self.pending.push(FabricEvent::RightOpened { right, metadata: Err(error) });
            return;
        }
        self.rights.insert(right, Right::new(right));
        self.opening.push_back(right);
    }

    /// Lets us write to the peer's region. `metadata` is what the peer's own `RightOpened` said, as untrusted
    /// bytes. Answered by `Registered`; no packet is sent yet.
    pub fn register(&mut self, right: RightId, region: PeerRegion, metadata: &[u8]) {
        self.rest = Rest::Looking;
        let result = match self.rights.get_mut(&right) {
            None => Err(FabricError::RightState { right, reason: "does not exist" }),
            Some(state) => decode_peer(&self.domain, region, self.rules.shape.block_len, metadata)
                .and_then(|(metadata, len)| state.register(metadata, region.num_blocks, len)),
        };
        self.pending.push(FabricEvent::Registered { right, result });
    }

    /// Copies our blocks `src` to the peer's blocks `dst`, pairwise; neighbours are merged. Answered by exactly
    /// one `Transfer` per call, before which the source blocks must not change. Indexes outside either region,
    /// a right that cannot write and a full queue are refused before anything is posted.
    pub fn write(&mut self, xfer: XferId, src: &[u32], dst: &[u32]) {
        self.rest = Rest::Looking;
        let deadline = Instant::now() + self.write_deadline;
        let admitted = match self.rights.get_mut(&xfer.right) {
            None => Err(Refusal::NotOpen),
            Some(right) => right.admit(xfer.seq, (src, dst), self.rules, deadline),
        };
        match admitted {
            Ok(None) => {}
            Ok(Some(ended)) => self.pending.push(transfer_event(xfer.right, ended)),
            Err(why) => self.pending.push(FabricEvent::Transfer { xfer, end: TransferEnd::NotPosted(why) }),
        }
    }

    /// Drops what is not posted yet of a transfer, which then ends `NotPosted` (or `Errored`) as soon as none of
    /// it is in flight. libfabric cannot recall posted writes. Without effect if all of it is posted, or over.
    pub fn cancel(&mut self, xfer: XferId) {
        self.rest = Rest::Looking;
        if let Some(right) = self.rights.get_mut(&xfer.right) {
            right.cancel(xfer.seq, &mut self.pending);
        }
    }

    /// Closes a right in any state: endpoint first, then its queue unread, key and address table. From this call
    /// on nothing of it is posted or read; a later `progress` closes it and reports each of its transfers
    /// `Fenced`, then `RightClosed`. A right that does not exist is answered too: nothing lands through it.
    pub fn close_right(&mut self, right: RightId) {
        self.rest = Rest::Looking;
        if seeded(Fault::FenceWithoutClosing) {
            self.pending.push(FabricEvent::RightClosed { right, fenced: true });
            return;
        }
        match self.rights.get_mut(&right) {
            None => self.pending.push(FabricEvent::RightClosed { right, fenced: true }),
            Some(state) => match state.stage {
                Stage::Closing(_) => {}
                Stage::Opening | Stage::Open(_) => {
                    state.start_closing();
                    self.closing.push_back(right);
                }
            },
        }
    }

    /// Does what there is to do and appends what happened to `out`: opens or closes at most one endpoint (the
    /// only slow step: milliseconds), then serves rights in turn, about `budget` steps in all (a visit, a
    /// completion and a post are one step each). Never waits. Answers how many completions and posts there were.
    pub fn progress(&mut self, budget: usize, out: &mut Vec<FabricEvent>) -> usize {
        out.append(&mut self.pending);
        let now = Instant::now();
        let worked = match self.rest {
            Rest::Resting(since) if now < since + LONGEST_REST && !self.wait_set.is_readable() => 0,
            Rest::Resting(_) | Rest::Looking => {
                self.rest = Rest::Looking;
                self.open_or_close_one(out);
                self.serve(budget.max(1), out)
            }
        };
        for right in self.rights.values_mut() {
            right.report_stalled(now, out);
        }
        worked
    }

    /// The descriptors that become readable when `progress` has something to do: one, the same for the life of
    /// the plane, to be registered once, for reading. See [`prepare_wait`](Self::prepare_wait).
    #[must_use]
    pub fn wait_fds(&self) -> &[RawFd] {
        &self.wait_fds
    }

    /// To be asked right before sleeping on [`wait_fds`](Self::wait_fds), also with an edge-triggered poller:
    /// true if whatever comes next will wake the sleeper, or [`next_deadline`](Self::next_deadline) does; false
    /// if there is work now, so `progress` must be called instead.
    pub fn prepare_wait(&mut self) -> bool {
        if let Rest::Resting(_) = self.rest {
            return self.pending.is_empty() && !self.wait_set.is_readable();
        }
        let mut quiet = self.opening.is_empty() && self.closing.is_empty();
        for right in self.rights.values_mut() {
            quiet &= right.try_wait(&mut self.pending);
            // A queue that failed is not read again, so it must not go on waking us.
            if let Some(fd) = right.dead_fd() {
                self.wait_set.remove(fd);
            }
        }
        self.watch_another();
        let may_sleep = quiet && self.pending.is_empty() && !self.wait_set.is_readable();
        if may_sleep && !self.needs_timer() {
            self.rest = Rest::Resting(Instant::now());
        }
        may_sleep
    }

    /// When `progress` must be called at the latest, if nothing wakes us before: the next write deadline, or
    /// soon if a right waits for something that no descriptor signals. To be asked right before sleeping.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        // Whoever rests has found that none is needed.
        let timer = self.rest == Rest::Looking && self.needs_timer();
        let timer = timer.then(|| Instant::now() + TIMER);
        self.rights.values().filter_map(Right::next_deadline).chain(timer).min()
    }

    /// Completions that were ignored because their write had completed before; 0 with a sane provider.
    #[must_use]
    pub fn stale_completions(&self) -> u64 {
        self.stale_of_closed + self.rights.values().map(Right::stale_completions).sum::<u64>()
    }

    /// Whether a right waits for something that no descriptor signals.
    fn needs_timer(&self) -> bool {
        let blind = self.wait_set.is_blind() && !self.rights.is_empty();
        blind || self.rights.values().any(Right::needs_timer)
    }

    fn open_or_close_one(&mut self, out: &mut Vec<FabricEvent>) {
        // Closing first: it is what others wait for before they reuse memory.
        if let Some(id) = self.closing.pop_front() {
            if let Some(right) = self.rights.remove(&id) {
                self.unwatch(&right);
                self.stale_of_closed += right.stale_completions();
                right.close(out);
            }
            return;
        }
        while let Some(id) = self.opening.pop_front() {
            // A right that was closed while it waited here is gone, or a new one of the same id stands behind.
            if self.rights.get(&id).is_some_and(|right| matches!(right.stage, Stage::Opening)) {
                let metadata = self.make_endpoint(id);
                if metadata.is_err() {
                    self.rights.remove(&id);
                }
                out.push(FabricEvent::RightOpened { right: id, metadata });
                return;
            }
        }
    }

    fn make_endpoint(&mut self, id: RightId) -> Result<Vec<u8>, FabricError> {
        let (domain, memory) = (Arc::clone(&self.domain), Arc::clone(&self.memory));
        let endpoint = Endpoint::open(domain, memory, self.exposed, self.window)?;
        let metadata = endpoint.metadata()?;
        if let Some(fd) = endpoint.fd() {
            self.wait_set.add(fd).map_err(|cause| no_descriptor(&cause))?;
        }
        if let Some(right) = self.rights.get_mut(&id) {
            right.opened(endpoint);
        }
        Ok(metadata)
    }

    /// Takes the right's descriptor out of the wait set, before it is closed.
    fn unwatch(&mut self, right: &Right) {
        let Some(fd) = right.fd() else { return };
        self.wait_set.remove(fd);
        self.watch_another();
    }

    /// Where one descriptor is watched for all: sees to it that one is.
    fn watch_another(&mut self) {
        let usable = |right: &Right| right.fd().filter(|_| right.dead_fd().is_none());
        if self.wait_set.is_blind()
            && let Some(other) = self.rights.values().find_map(usable)
        {
            // Should it fail, `next_deadline` knows that nothing wakes the caller.
            let _ = self.wait_set.add(other);
        }
    }

    /// Serves rights from `turn` on, round after round, until a round finds nothing to do or the budget is used
    /// up; then the next call starts where this one stopped.
    fn serve(&mut self, budget: usize, out: &mut Vec<FabricEvent>) -> usize {
        let (mut left, mut worked) = (budget, 0);
        loop {
            let mut round = 0;
            let from_turn_on = (Bound::Included(self.turn), Bound::Unbounded);
            let the_others = (Bound::Unbounded, Bound::Excluded(self.turn));
            for range in [from_turn_on, the_others] {
                for (id, right) in self.rights.range_mut(range) {
                    if left == 0 {
                        self.turn = *id;
                        return worked + round;
                    }
                    let steps = right.progress(left.min(QUANTUM), out);
                    round += steps;
                    left = left.saturating_sub(1 + steps);
                }
            }
            worked += round;
            if round == 0 || left == 0 {
                return worked;
            }
        }
    }
}

fn decode_peer<'a>(
    domain: &Domain,
    region: PeerRegion,
    own_block_len: u64,
    metadata: &'a [u8],
) -> Result<(Metadata<'a>, u64), FabricError> {
    let refuse = |reason: String| Err(FabricError::PeerRegion { reason });
    if region.block_len != own_block_len {
        return refuse(format!("its blocks have {} bytes, ours {own_block_len}", region.block_len));
    }
    let expected = Expected {
        provider: domain.provider(),
        addressing: domain.addressing(),
        format: domain.address_format(),
        region_base: region.base_addr,
    };
    let metadata = Metadata::decode(metadata, expected)?;
    match region.block_len.checked_mul(region.num_blocks.into()) {
        Some(len) if len > 0 && metadata.base.checked_add(len).is_some() => Ok((metadata, len)),
        Some(_) | None => {
            refuse(format!("{} blocks at {:#x} cannot be addressed", region.num_blocks, metadata.base))
        }
    }
}

fn no_descriptor(cause: &std::io::Error) -> FabricError {
    FabricError::Config { reason: format!("no epoll descriptor for waiting: {cause}") }
}

impl std::fmt::Debug for Fabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fabric")
            .field("provider", &self.domain.provider())
            .field("rights", &self.rights.keys())
            .finish_non_exhaustive()
    }
}
