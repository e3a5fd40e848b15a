//! Which transitions of the core's state machines a call takes.

use std::cmp::Ordering;

use kvpeer_core::{Endpoint, Machine};

use crate::seen::{Log, Seen};

/// What is not there: a machine before its first state and after its last.
const ABSENT: &str = "-";

/// The state machines of an endpoint before a call, if somebody wants to know.
pub(crate) struct Before(Option<Vec<(Machine, &'static str)>>);

impl Before {
    pub(crate) fn of(endpoint: &Endpoint, log: &Log) -> Self {
        Self(log.transitions.then(|| endpoint.states().collect()))
    }

    /// Puts down what the call has changed.
    pub(crate) fn after(self, endpoint: &Endpoint, log: &mut Log) {
        let Some(before) = self.0 else { return };
        let mut before = before.into_iter().peekable();
        let mut after = endpoint.states().peekable();
        // Both are in order.
        loop {
            let order = match (before.peek(), after.peek()) {
                (Some((was, _)), Some((is, _))) => was.cmp(is),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return,
            };
            let was = if order.is_le() { before.next() } else { None };
            let is = if order.is_ge() { after.next() } else { None };
            let (from, to) = (was.as_ref().map_or(ABSENT, |it| it.1), is.as_ref().map_or(ABSENT, |it| it.1));
            if let Some((machine, _)) = was.or(is)
                && from != to
            {
                log.see(Seen::Transition { machine: machine.kind(), from, to });
            }
        }
    }
}
