//! A node on a thread of its own.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use kvpeer_core::Command;

use crate::node::Node;

/// Something to do on the node's thread.
pub(super) type Job = Box<dyn FnOnce(&mut Context) + Send>;

/// Jobs between two turns.
const JOBS: usize = 64;

/// After the deadline of a shutdown: how long rights may still take to close, beyond the endpoint's own timer.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// How long a node may take that nobody holds any more: enough for its goodbyes to leave.
const DROPPED: Duration = Duration::from_secs(1);

/// How long after that the data plane may still be closing rights, one after the other: their endings are results
/// that the engine is owed.
const CLOSING: Duration = Duration::from_secs(30);

/// As good as no limit, and no overflow.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What jobs can reach.
pub(super) struct Context {
    pub(super) node: Node,
    held: Held,
    end: Option<End>,
}

/// The node is shutting down.
#[derive(Clone, Copy)]
struct End {
    /// When the thread ends, unless rights are being closed.
    by: Instant,
}

/// The thread: calls, what has arrived, what is due; asleep in between. Ends with the node.
pub(super) fn run(node: Node, jobs: &Receiver<Job>) {
    let mut context = Context { node, held: Held::BySomebody, end: None };
    loop {
        if context.held == Held::BySomebody {
            context.take_jobs(jobs);
        }
        if context.node.has_failed() && context.end.is_none() {
            context.shut_down_within(Duration::ZERO);
        }
        if context.is_over() {
            return;
        }
        let at_most = context.end.map(|end| end.by.saturating_duration_since(Instant::now()));
        context.node.sleep_and_tick(at_most);
    }
}

/// Whether anybody still has a handle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    BySomebody,
    ByNobody,
}

impl Context {
    fn take_jobs(&mut self, jobs: &Receiver<Job>) {
        for _ in 0..JOBS {
            match jobs.try_recv() {
                Ok(job) => job(self),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.held = Held::ByNobody;
                    return self.shut_down(Duration::ZERO, DROPPED);
                }
            }
        }
        // There may be more: a turn first, but no sleep before it.
        self.node.waker().wake();
    }

    /// Ends all sessions within `within`; the thread ends with the last of them.
    pub(super) fn shut_down_within(&mut self, within: Duration) {
        let closing = self.node.endpoint().config().timing.close_right;
        self.shut_down(within, within.saturating_add(closing).saturating_add(CLOSE_GRACE));
    }

    fn shut_down(&mut self, drain: Duration, end: Duration) {
        // A refusal would mean that it is shutting down already.
        let _ = self.node.command(Command::Shutdown { within: drain });
        let by = Instant::now() + end.min(FOREVER);
        self.end = Some(End { by: self.end.map_or(by, |end| end.by.min(by)) });
    }

    fn is_over(&mut self) -> bool {
        let Some(End { by }) = self.end else { return false };
        let late = Instant::now().saturating_duration_since(by);
        self.node.is_over() || late > CLOSING || (late > Duration::ZERO && self.node.data_rests())
    }
}
