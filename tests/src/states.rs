//! Which state machines an endpoint has, and how one call moves them: for the pictures in `docs/states`.
//!
//! The core names its states itself, so that no table can differ from what it does. Looks only when `KVPEER_STATES`
//! names a file to write to: one line for each transition.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use kvpeer_core::{Command, Endpoint, Input, Machine, Timer};
use kvpeer_wire::{Kind, Msg};

/// The state of each machine of an endpoint.
type States = BTreeMap<Machine, &'static str>;

/// What is not there: a machine before its first state and after its last.
const ABSENT: &str = "-";

/// What an endpoint was before a call, if anybody wants to know.
pub(crate) struct Before(Option<(States, String)>);

/// Before an endpoint is told a fact. Signs of life, of which there are many, move nothing.
pub(crate) fn before_fact(endpoint: &Endpoint, input: &Input<'_>) -> Before {
    let beat = matches!(input, Input::Tick)
        && endpoint.next_deadline().is_some_and(|deadline| deadline.why == Timer::Heartbeat);
    let pulse =
        matches!(input, Input::Heard { .. } | Input::Message { msg: Msg::Ping(_) | Msg::Pong(_), .. });
    if beat || pulse { Before(None) } else { before(endpoint, || fact(endpoint, input)) }
}

/// Before an endpoint is asked for something.
pub(crate) fn before_command(endpoint: &Endpoint, command: &Command<'_>) -> Before {
    before(endpoint, || variant(&format!("{command:?}")))
}

fn before(endpoint: &Endpoint, cause: impl FnOnce() -> String) -> Before {
    Before(file().map(|_| (endpoint.states().collect(), cause())))
}

impl Before {
    /// Puts down what the call has changed.
    pub(crate) fn after(self, endpoint: &Endpoint) {
        let (Some((before, cause)), Some(file)) = (self.0, file()) else { return };
        let after: States = endpoint.states().collect();
        let machines: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let state = |of: &States, machine| of.get(machine).copied().unwrap_or(ABSENT);
        for machine in machines {
            let (from, to) = (state(&before, machine), state(&after, machine));
            if from != to {
                put_down(file, format!("{}\t{from}\t{to}\t{cause}\n", machine.kind()));
            }
        }
    }
}

fn file() -> Option<&'static PathBuf> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    FILE.get_or_init(|| env::var_os("KVPEER_STATES").map(PathBuf::from)).as_ref()
}

fn put_down(file: &PathBuf, line: String) {
    static KNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.contains(&line) {
        return;
    }
    let opened = OpenOptions::new().create(true).append(true).open(file);
    opened.and_then(|mut file| file.write_all(line.as_bytes())).expect("KVPEER_STATES can be written");
    known.insert(line);
}

/// A fact in one word: a message by its kind, a Tick by its timer.
fn fact(endpoint: &Endpoint, input: &Input<'_>) -> String {
    match input {
        Input::Message { msg, .. } => words(&format!("{:?}", Kind::from_number(msg.kind().number()))),
        Input::Tick => match endpoint.next_deadline() {
            Some(deadline) => format!("timer {:?}", deadline.why),
            None => "timer".into(),
        },
        Input::RightClosed { fenced, .. } => format!("RightClosed{{fenced: {fenced}}}"),
        Input::Transfer { end, .. } => format!("Transfer{{{end:?}}}"),
        Input::Connected { .. }
        | Input::DialFailed { .. }
        | Input::Disconnected { .. }
        | Input::Heard { .. }
        | Input::Malformed { .. }
        | Input::NoCommonVersion { .. }
        | Input::Admitted { .. }
        | Input::RightOpened { .. }
        | Input::Registered { .. }
        | Input::PeerFault { .. }
        | Input::Probed { .. } => variant(&format!("{input:?}")),
    }
}

/// `Some(FetchProgress)` as `fetch_progress`.
fn words(kind: &str) -> String {
    let mut words = String::new();
    for c in kind.trim_start_matches("Some(").trim_end_matches(')').chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.extend(c.to_lowercase());
    }
    words
}

fn variant(debug: &str) -> String {
    debug.chars().take_while(|c| c.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::{fact, words};
    use crate::{A, World};

    #[test]
    fn a_session_shows_its_states() {
        let w = World::pair();
        let found: Vec<(&str, &str)> =
            w.endpoint(A).states().map(|(machine, state)| (machine.kind(), state)).collect();
        assert_eq!(found, [("link", "Up"), ("right", "Open")]);
        assert_eq!(fact(w.endpoint(A), &kvpeer_core::Input::Tick), "timer Heartbeat");
        assert_eq!(words("Some(FetchProgress)"), "fetch_progress");
        w.end();
    }
}
