//! The engine's end of the news.

use std::time::{Duration, Instant};

use crate::event::{Event, EventQueue, Wait};

/// The news of a node on its own thread. Take them regularly: results wait here for as long as it takes, but
/// notices are dropped, and peers get only misses, when too many do (see [`Event`]).
///
/// Dropping it says that no results are wanted any more; the node itself goes on until its last handle is gone.
#[derive(Debug)]
pub struct Events(EventQueue);

impl Events {
    pub(crate) fn new(queue: EventQueue) -> Self {
        Self(queue)
    }

    /// The next one, waited for at most so long; `None` also as in [`next`](Iterator::next).
    pub fn next_within(&mut self, at_most: Duration) -> Option<Event> {
        match Instant::now().checked_add(at_most) {
            Some(end) => self.0.pop(Wait::Until(end)),
            None => self.0.pop(Wait::Ever),
        }
    }

    /// The next one, if it is there.
    pub fn try_next(&mut self) -> Option<Event> {
        self.0.try_pop()
    }

    /// The next one, waited for as a future of any runtime; `None` as in [`next`](Iterator::next). Nothing is lost
    /// when the future is dropped.
    pub fn next_async(&mut self) -> impl Future<Output = Option<Event>> + Send + '_ {
        std::future::poll_fn(|cx| self.0.poll_pop(cx.waker()))
    }
}

impl Iterator for Events {
    type Item = Event;

    /// The next one, waited for; `None` once the node has ended and all is taken.
    fn next(&mut self) -> Option<Event> {
        self.0.pop(Wait::Ever)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
