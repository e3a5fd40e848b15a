//! Host names to addresses, without blocking the driver: the system's resolver offers only calls that block.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::wake::Waker;

/// Names one lookup; never reused, so that the answer of a cancelled one is known as such.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AskId(u64);

/// What came of a lookup.
pub(crate) struct Answer {
    pub(crate) ask: AskId,
    pub(crate) addresses: io::Result<Vec<SocketAddr>>,
}

/// Resolves names on short-lived threads, a bounded number at a time.
pub(crate) struct Resolver {
    limit: usize,
    running: usize,
    next: u64,
    waiting: VecDeque<Question>,
    answers: Receiver<Answer>,
    answer: Sender<Answer>,
    waker: Waker,
}

struct Question {
    ask: AskId,
    host: String,
    port: u16,
}

impl Resolver {
    pub(crate) fn new(limit: usize, waker: Waker) -> Self {
        let (answer, answers) = channel();
        Self { limit: limit.max(1), running: 0, next: 0, waiting: VecDeque::new(), answers, answer, waker }
    }

    /// Asks for the addresses of `host`; answered by [`Resolver::next_answer`] some time.
    pub(crate) fn ask(&mut self, host: &str, port: u16) -> AskId {
        let ask = AskId(self.next);
        self.next += 1;
        self.waiting.push_back(Question { ask, host: host.to_owned(), port });
        self.start_waiting();
        ask
    }

    /// No answer is wanted any more. A lookup that runs cannot be stopped; it keeps its place until it ends.
    pub(crate) fn forget(&mut self, ask: AskId) {
        self.waiting.retain(|question| question.ask != ask);
    }

    pub(crate) fn next_answer(&mut self) -> Option<Answer> {
        let answer = self.answers.try_recv().ok()?;
        self.running = self.running.saturating_sub(1);
        self.start_waiting();
        Some(answer)
    }

    fn start_waiting(&mut self) {
        while self.running < self.limit
            && let Some(question) = self.waiting.pop_front()
        {
            self.running += 1;
            let ask = question.ask;
            let (answer, waker) = (self.answer.clone(), self.waker.clone());
            let thread = thread::Builder::new().name("kvpeer-resolve".into());
            let started = thread.spawn(move || {
                let addresses =
                    (question.host.as_str(), question.port).to_socket_addrs().map(Iterator::collect);
                deliver(&answer, &waker, Answer { ask, addresses });
            });
            if let Err(error) = started {
                deliver(&self.answer, &self.waker, Answer { ask, addresses: Err(error) });
            }
        }
    }
}

fn deliver(to: &Sender<Answer>, waker: &Waker, answer: Answer) {
    // Both fail only when the poller is gone, and with it whoever would want the answer.
    let _ = to.send(answer);
    let _ = waker.wake();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mio::{Events, Poll, Token};

    use super::*;

    fn resolver(limit: usize) -> (Poll, Resolver) {
        let poll = Poll::new().expect("a poller");
        let waker = Waker::new(poll.registry(), Token(0)).expect("a waker");
        (poll, Resolver::new(limit, waker))
    }

    fn answers(poll: &mut Poll, resolver: &mut Resolver, count: usize) -> Vec<Answer> {
        let mut answers = Vec::new();
        while answers.len() < count {
            assert!(resolver.running <= resolver.limit);
            poll.poll(&mut Events::with_capacity(1), Some(Duration::from_secs(30)))
                .expect("the poller works");
            resolver.waker.seen();
            answers.extend(std::iter::from_fn(|| resolver.next_answer()));
        }
        answers
    }

    #[test]
    fn more_questions_than_threads_wait_and_are_answered() {
        let (mut poll, mut resolver) = resolver(2);
        let asked: Vec<AskId> = (1..=9).map(|port| resolver.ask("localhost", port)).collect();
        assert_eq!((resolver.running, resolver.waiting.len()), (2, 7));
        let answers = answers(&mut poll, &mut resolver, 9);
        for (ask, port) in asked.into_iter().zip(1..) {
            let answer = answers.iter().find(|answer| answer.ask == ask).expect("answered");
            let addresses = answer.addresses.as_ref().expect("every machine knows this name");
            assert!(!addresses.is_empty());
            assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == port));
        }
    }

    #[test]
    fn a_question_that_waits_can_be_withdrawn() {
        let (mut poll, mut resolver) = resolver(1);
        let [first, second, third] = [1, 2, 3].map(|port| resolver.ask("localhost", port));
        resolver.forget(second);
        let answered: Vec<AskId> =
            answers(&mut poll, &mut resolver, 2).iter().map(|answer| answer.ask).collect();
        assert_eq!(answered, [first, third]);
        assert_eq!(resolver.running, 0);
    }
}
