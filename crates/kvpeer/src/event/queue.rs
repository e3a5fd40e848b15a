//! Events between the node and the engine, on whatever threads they are.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::{Event, Weight};

/// A queue that loses no result and cannot be filled by a peer: see [`Event`].
#[derive(Clone, Debug)]
pub(crate) struct EventQueue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
    #[cfg(feature = "tokio")]
    claims: super::Claims,
}

#[derive(Debug)]
struct State {
    events: VecDeque<Event>,
    /// How many of them are notices.
    notices: usize,
    /// How many notices are kept, and how many results may wait before peers are given no more work.
    backlog: usize,
    missed: u64,
    ends: Ends,
    waker: Option<Waker>,
}

/// Which ends of the queue are still there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    Both,
    /// The node is gone: what is queued is all.
    Taker,
    /// The engine does not want events any more.
    Giver,
}

/// How long to wait for an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    Ever,
    Until(Instant),
}

impl EventQueue {
    pub(crate) fn new(backlog: usize) -> Self {
        let events = VecDeque::new();
        let state = State { events, notices: 0, backlog, missed: 0, ends: Ends::Both, waker: None };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            arrived: Condvar::new(),
            #[cfg(feature = "tokio")]
            claims: super::Claims::default(),
        }))
    }

    pub(crate) fn push(&self, event: Event) {
        #[cfg(feature = "tokio")]
        let Some(event) = self.0.claims.offer(event) else { return };
        let mut state = self.lock();
        match (state.ends, event.weight()) {
            (Ends::Giver, _) => return,
            (Ends::Both | Ends::Taker, Weight::Notice) if state.notices >= state.backlog => {
                state.missed = state.missed.saturating_add(1);
                return;
            }
            (Ends::Both | Ends::Taker, Weight::Notice) => state.notices += 1,
            (Ends::Both | Ends::Taker, Weight::Result) => {}
        }
        state.events.push_back(event);
        self.announce(state);
    }

    /// Whether the engine leaves too many results untaken, or takes none any more. Peers should cause no new
    /// ones then.
    pub(crate) fn is_backlogged(&self) -> bool {
        let state = self.lock();
        state.ends == Ends::Giver || state.events.len().saturating_sub(state.notices) >= state.backlog
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().events.len()
    }

    pub(crate) fn try_pop(&self) -> Option<Event> {
        self.lock().pop()
    }

    /// The next event; `None` once the node is gone and all is taken, or the time is up.
    pub(crate) fn pop(&self, wait: Wait) -> Option<Event> {
        let mut state = self.lock();
        loop {
            if let Some(event) = state.pop() {
                return Some(event);
            }
            if state.ends == Ends::Taker {
                return None;
            }
            state = match wait {
                Wait::Ever => self.0.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Wait::Until(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left == Duration::ZERO {
                        return None;
                    }
                    let waited = self.0.arrived.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// As `pop`, for one task at a time.
    pub(crate) fn poll_pop(&self, waker: &Waker) -> Poll<Option<Event>> {
        let mut state = self.lock();
        if let Some(event) = state.pop() {
            return Poll::Ready(Some(event));
        }
        if state.ends == Ends::Taker {
            return Poll::Ready(None);
        }
        match &mut state.waker {
            Some(kept) => kept.clone_from(waker),
            kept @ None => *kept = Some(waker.clone()),
        }
        Poll::Pending
    }

    /// Tasks that wait for certain events.
    #[cfg(feature = "tokio")]
    pub(crate) fn claims(&self) -> &super::Claims {
        &self.0.claims
    }

    /// The node is gone.
    pub(crate) fn end(&self) {
        #[cfg(feature = "tokio")]
        self.0.claims.end();
        let mut state = self.lock();
        if state.ends == Ends::Both {
            state.ends = Ends::Taker;
        }
        self.announce(state);
    }

    /// The engine does not take events any more.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        state.ends = Ends::Giver;
        state.events = VecDeque::new();
        state.notices = 0;
    }

    fn announce(&self, mut state: MutexGuard<'_, State>) {
        let waker = state.waker.take();
        drop(state);
        self.0.arrived.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that could panic runs under the lock.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pop(&mut self) -> Option<Event> {
        let missed = std::mem::take(&mut self.missed);
        if missed > 0 {
            return Some(Event::Lagged { missed });
        }
        let event = self.events.pop_front()?;
        match event.weight() {
            Weight::Notice => self.notices = self.notices.saturating_sub(1),
            Weight::Result => {}
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::thread;

    use kvpeer_core::{JobId, StoreOutcome};
    use kvpeer_wire::PeerName;

    use super::*;

    fn result(job: u64) -> Event {
        Event::StoreFinished { job: JobId(job), outcome: StoreOutcome::Delivered }
    }

    fn notice() -> Event {
        Event::PeerUp { peer: PeerName::new("peer").unwrap().into() }
    }

    #[test]
    fn notices_are_dropped_over_the_backlog_and_results_never() {
        let queue = EventQueue::new(2);
        for event in [notice(), result(1), notice(), result(2), notice(), result(3), notice()] {
            queue.push(event);
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.try_pop()).collect();
        let kept = [notice(), result(1), notice(), result(2), result(3)];
        assert_eq!(taken.first(), Some(&Event::Lagged { missed: 2 }));
        assert_eq!(taken[1..], kept);
        queue.push(notice());
        assert_eq!(queue.try_pop(), Some(notice()));
    }

    #[test]
    fn untaken_results_are_a_reason_to_take_on_no_more_and_notices_are_none() {
        let queue = EventQueue::new(2);
        for event in [notice(), notice(), notice(), result(1)] {
            queue.push(event);
        }
        assert!(!queue.is_backlogged());
        queue.push(result(2));
        assert!(queue.is_backlogged());
        while queue.try_pop() != Some(result(1)) {}
        assert!(!queue.is_backlogged());
    }

    #[test]
    fn what_is_queued_is_delivered_after_the_end() {
        let queue = EventQueue::new(3);
        queue.push(result(1));
        queue.end();
        assert_eq!(queue.pop(Wait::Ever), Some(result(1)));
        assert_eq!(queue.pop(Wait::Ever), None);
    }

    #[test]
    fn an_abandoned_queue_holds_nothing_and_refuses_new_work() {
        let queue = EventQueue::new(3);
        queue.push(result(1));
        queue.abandon();
        queue.push(result(2));
        assert_eq!(queue.len(), 0);
        assert!(queue.is_backlogged());
        queue.end();
        assert!(queue.is_backlogged());
    }

    #[test]
    fn a_sleeping_taker_is_woken() {
        let queue = EventQueue::new(3);
        let taker = {
            let queue = queue.clone();
            thread::spawn(move || queue.pop(Wait::Ever))
        };
        queue.push(result(7));
        assert_eq!(taker.join().unwrap(), Some(result(7)));
        assert_eq!(queue.pop(Wait::Until(Instant::now())), None);
    }

    #[test]
    fn a_waiting_task_is_woken_by_an_event_and_by_the_end() {
        struct Count(AtomicUsize);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let queue = EventQueue::new(3);
        assert_eq!(queue.poll_pop(&waker), Poll::Pending);
        queue.push(result(1));
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(queue.poll_pop(&waker), Poll::Ready(Some(result(1))));
        assert_eq!(queue.poll_pop(&waker), Poll::Pending);
        queue.end();
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        assert_eq!(queue.poll_pop(&waker), Poll::Ready(None));
    }
}
