//! The drive: what has arrived, then what is due, in bounded turns.
//!
//! A turn belongs to a *batch*: everything that had arrived by one moment, at which the control plane was polled.
//! It is drained in order (messages and the answers they cause, the data plane's facts, their answers), over
//! several turns when there is much; then comes the batch's one Tick, which carries that moment. So no deadline
//! is ever judged before what arrived in time (TMR-2), and since a batch has an end, no flood keeps it from being
//! judged.

use std::time::{Duration, Instant};

use kvpeer_core::{Command, Endpoint, Input, Time};
use kvpeer_wire::Msg;

use super::io::Io;
use super::{Next, Node};
use crate::event::TroubleKind;
use crate::plane::{DataFact, Progress, Rest, Scratch};

/// What a turn may spend on facts of the control plane and on answers: each costs one, and one more for
/// every `KEYS` that it names.
const BUDGET: usize = 256;
const KEYS: usize = 64;
/// Steps of the data plane at a time.
const DATA_STEPS: usize = 1024;
/// How often the data plane may go on while it has more to report and a deadline is due: after a long pause of the
/// whole process, ends of WRITEs must be read before their timers are judged.
const DATA_ROUNDS: usize = 64;

/// What had arrived by a moment, being drained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    until: Time,
    data: Data,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Data {
    Ahead,
    Drained,
}

/// Whether the control plane still works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Control {
    Works,
    Failed,
}

/// Memory that is used again in every turn.
#[derive(Default)]
pub(super) struct Buffers {
    scratch: Scratch,
    facts: Vec<DataFact>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Drained {
    All,
    OutOfBudget,
}

impl Node {
    /// Takes in what has arrived and does what is due, without waiting for anything. Says when to call again at
    /// the latest; calling more often only costs time.
    ///
    /// Bounded: at most 256 messages (fewer when they name many keys), some thousand completions of WRITEs and one
    /// Tick, whatever peers send.
    /// One call may open or close one endpoint of the data plane, which takes milliseconds with libfabric.
    ///
    /// **Its limit:** heartbeats leave, and WRITEs of peers land, only while it is called. An engine whose steps can
    /// take longer than peers wait (`Timing::dead`, 10 s by default; five of our heartbeats at least) must
    /// [`spawn`](Self::spawn) instead. And what nobody takes in waits, so latency is the time between two calls.
    pub fn tick(&mut self) -> Next {
        self.turn(Some(Duration::ZERO));
        self.next()
    }

    /// As [`tick`](Self::tick), but if there is nothing to do it first sleeps until something arrives, is due, or
    /// wakes it ([`waker`](Self::waker)); at most for `at_most`, `None` without limit.
    pub fn sleep_and_tick(&mut self, at_most: Option<Duration>) {
        let timeout = match self.next() {
            Next::Now => Some(Duration::ZERO),
            Next::Within(pause) => Some(at_most.map_or(pause, |most| most.min(pause))),
            Next::Idle => at_most,
        };
        self.turn(timeout);
    }

    /// What there is to do right now. To be asked right before sleeping.
    fn next(&mut self) -> Next {
        let data = &mut self.io.planes.data;
        if self.batch.is_some() || !self.io.answers.is_empty() || data.prepare_wait() == Rest::Busy {
            return Next::Now;
        }
        let now = Instant::now();
        let data = data.next_deadline().map(|at| at.saturating_duration_since(now));
        let core = self.endpoint.next_deadline().map(|deadline| deadline.at.since(self.clock.at(now)));
        match [data, core].into_iter().flatten().min() {
            Some(Duration::ZERO) => Next::Now,
            Some(pause) => Next::Within(pause),
            None => Next::Idle,
        }
    }

    fn turn(&mut self, timeout: Option<Duration>) {
        let mut batch = match self.batch.take() {
            Some(batch) => batch,
            None => Batch { until: self.poll(timeout), data: Data::Ahead },
        };
        let mut budget = BUDGET;
        if self.drain_control(batch.until, &mut budget) == Drained::OutOfBudget {
            self.batch = Some(batch);
            return;
        }
        if batch.data == Data::Ahead {
            self.drain_data(batch.until);
            batch.data = Data::Drained;
        }
        if drain_answers(&mut self.endpoint, &mut self.io, batch.until, &mut budget) == Drained::OutOfBudget {
            self.batch = Some(batch);
            return;
        }
        if is_due(&self.endpoint, batch.until) {
            self.endpoint.handle(batch.until, Input::Tick, &mut self.io);
        }
    }

    /// The moment up to which everything that arrived will be reported.
    fn poll(&mut self, timeout: Option<Duration>) -> Time {
        let planes = &mut self.io.planes;
        match self.control {
            Control::Works => match planes.control.poll(planes.data.wait_fds(), timeout) {
                Ok(moment) => return self.clock.at(moment),
                Err(error) => self.control_failed(&error),
            },
            // Only the data plane is left to look after, for as long as rights are being closed.
            Control::Failed => std::thread::sleep(timeout.unwrap_or(WITHOUT_CONTROL).min(WITHOUT_CONTROL)),
        }
        self.clock.now()
    }

    /// Without its control plane a node can only give every job its result and close its rights.
    fn control_failed(&mut self, error: &std::io::Error) {
        self.control = Control::Failed;
        self.io.trouble(None, TroubleKind::ControlPlane, &error.to_string());
        let end = Command::Shutdown { within: Duration::ZERO };
        // A refusal would mean that it is ending already.
        let _ = self.endpoint.command(self.clock.now(), end, &mut self.io);
    }

    fn drain_control(&mut self, now: Time, budget: &mut usize) -> Drained {
        loop {
            if drain_answers(&mut self.endpoint, &mut self.io, now, budget) == Drained::OutOfBudget {
                return Drained::OutOfBudget;
            }
            let Some(fact) = self.io.planes.control.next_fact(&mut self.buffers.scratch) else {
                return Drained::All;
            };
            self.io.note_control(&fact);
            let input = fact.as_input();
            *budget = budget.saturating_sub(cost(&input));
            self.endpoint.handle(now, input, &mut self.io);
        }
    }

    fn drain_data(&mut self, now: Time) {
        for _ in 0..DATA_ROUNDS {
            let facts = &mut self.buffers.facts;
            let progress = self.io.planes.data.progress(DATA_STEPS, facts);
            for fact in facts.drain(..) {
                self.io.note_data(&fact);
                self.endpoint.handle(now, fact.as_input(), &mut self.io);
            }
            if progress == Progress::Quiet || !is_due(&self.endpoint, now) {
                return;
            }
        }
    }
}

/// How long to sleep when only the data plane is left.
const WITHOUT_CONTROL: Duration = Duration::from_millis(5);

fn drain_answers(endpoint: &mut Endpoint, io: &mut Io, now: Time, budget: &mut usize) -> Drained {
    while *budget > 0 {
        let Some(answer) = io.answers.pop_front() else { return Drained::All };
        let input = answer.as_input();
        *budget = budget.saturating_sub(cost(&input));
        endpoint.handle(now, input, io);
    }
    Drained::OutOfBudget
}

fn cost(input: &Input<'_>) -> usize {
    let keys = if let Input::Message { msg: Msg::Lookup(lookup), .. } = input {
        lookup.keys.len()
    } else if let Input::Message { msg: Msg::Fetch(fetch), .. } = input {
        fetch.demand.len()
    } else if let Input::Probed { hits, misses, .. } = input {
        hits.len() + misses.len()
    } else {
        0
    };
    1 + keys / KEYS
}

fn is_due(endpoint: &Endpoint, now: Time) -> bool {
    endpoint.next_deadline().is_some_and(|deadline| deadline.at <= now)
}

#[cfg(test)]
mod tests;
