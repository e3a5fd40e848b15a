//! The answer to a call on another thread, to be had later.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use kvpeer_core::Misuse;

/// Why a call has no answer, or was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// The call is a mistake. Nothing has changed.
    #[error("{0}")]
    Misuse(#[from] Misuse),
    /// Too many calls wait for the node's thread. Nothing has changed; try again later.
    #[error("too many calls wait for the node; try again later")]
    Busy,
    /// The node has ended.
    #[error("the node has ended")]
    Gone,
}

/// Stands for the answer to a call.
///
/// Take it whichever way suits: [`wait`](Self::wait) blocks, [`try_take`](Self::try_take) never does, and it is a
/// future for any runtime. A ticket that is dropped takes nothing back: the call is carried out all the same.
#[derive(Debug)]
#[must_use = "it may say that the call was refused"]
pub struct Ticket<T>(Arc<Cell<T>>);

/// The side that answers. Dropped without an answer it says that the node is gone.
#[derive(Debug)]
pub(crate) struct Promise<T>(Arc<Cell<T>>);

#[derive(Debug)]
struct Cell<T> {
    state: Mutex<State<T>>,
    answered: Condvar,
}

#[derive(Debug)]
struct State<T> {
    answer: Answer<T>,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Answer<T> {
    Awaited,
    Given(Result<T, CallError>),
    Taken,
}

pub(crate) fn ticket<T>() -> (Promise<T>, Ticket<T>) {
    let state = State { answer: Answer::Awaited, waker: None };
    let cell = Arc::new(Cell { state: Mutex::new(state), answered: Condvar::new() });
    (Promise(Arc::clone(&cell)), Ticket(cell))
}

impl<T> Promise<T> {
    pub(crate) fn keep(self, answer: Result<T, CallError>) {
        self.0.give(answer);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.0.give(Err(CallError::Gone));
    }
}

impl<T> Ticket<T> {
    /// Of a call that was answered on the spot.
    pub(crate) fn answered(answer: Result<T, CallError>) -> Self {
        let (promise, ticket) = ticket();
        promise.keep(answer);
        ticket
    }

    /// The answer, waited for. Never to be used on the node's own thread (in a cache, say), which it would stop.
    pub fn wait(self) -> Result<T, CallError> {
        let mut state = self.0.lock();
        loop {
            match state.answer.take() {
                Some(answer) => return answer,
                None => state = self.0.answered.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// The answer, if it is there; once.
    pub fn try_take(&mut self) -> Option<Result<T, CallError>> {
        self.0.lock().answer.take()
    }
}

impl<T> Future for Ticket<T> {
    type Output = Result<T, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        match state.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Cell<T> {
    /// Gives the answer, unless one was given before.
    fn give(&self, answer: Result<T, CallError>) {
        let mut state = self.lock();
        match state.answer {
            Answer::Awaited => state.answer = Answer::Given(answer),
            Answer::Given(_) | Answer::Taken => return,
        }
        let waker = state.waker.take();
        drop(state);
        self.answered.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Answer<T> {
    /// The answer if it is given, `Gone` when it was taken before.
    fn take(&mut self) -> Option<Result<T, CallError>> {
        match std::mem::replace(self, Answer::Taken) {
            Answer::Given(answer) => Some(answer),
            Answer::Taken => Some(Err(CallError::Gone)),
            Answer::Awaited => {
                *self = Answer::Awaited;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::thread;

    use super::*;

    #[test]
    fn an_answer_is_waited_for() {
        let (promise, ticket) = ticket();
        let waiter = thread::spawn(move || ticket.wait());
        promise.keep(Ok(5));
        assert_eq!(waiter.join().unwrap(), Ok(5));
    }

    #[test]
    fn a_dropped_promise_says_that_the_node_is_gone() {
        let (promise, ticket) = ticket::<()>();
        drop(promise);
        assert_eq!(ticket.wait(), Err(CallError::Gone));
    }

    #[test]
    fn try_take_answers_once() {
        let (promise, mut ticket) = ticket();
        assert_eq!(ticket.try_take(), None);
        promise.keep(Err::<(), _>(CallError::Busy));
        assert_eq!(ticket.try_take(), Some(Err(CallError::Busy)));
        assert_eq!(ticket.try_take(), Some(Err(CallError::Gone)));
    }

    #[test]
    fn a_task_is_woken_by_its_answer() {
        struct Count(AtomicUsize);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let cx = &mut Context::from_waker(&waker);
        let (promise, mut ticket) = ticket();
        assert_eq!(Pin::new(&mut ticket).poll(cx), Poll::Pending);
        promise.keep(Ok(1));
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(Pin::new(&mut ticket).poll(cx), Poll::Ready(Ok(1)));
    }
}
