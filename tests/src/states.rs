//! Which state machines an endpoint has, and how one call moves them: for the pictures in `docs/states`.
//!
//! The states are the core's own, read from its `Debug` text, so that the core needs no hook and no table that could
//! differ from what it does. Looks only when `KVPEER_STATES` names a file to write to: one line for each transition.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use kvpeer_core::{Command, Endpoint, Input, Timer};
use kvpeer_wire::{Kind, Msg};

/// The state of each machine of an endpoint, by the machine's kind and name.
type States = BTreeMap<(&'static str, String), String>;

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
    Before(file().map(|_| (states(endpoint), cause())))
}

impl Before {
    /// Puts down what the call has changed.
    pub(crate) fn after(self, endpoint: &Endpoint) {
        let (Some((before, cause)), Some(file)) = (self.0, file()) else { return };
        let after = states(endpoint);
        let machines: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let state = |of: &States, machine| of.get(machine).map_or(ABSENT, String::as_str).to_owned();
        for machine in machines {
            let (from, to) = (state(&before, machine), state(&after, machine));
            if from != to {
                put_down(file, format!("{}\t{from}\t{to}\t{cause}\n", machine.0));
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

fn states(endpoint: &Endpoint) -> States {
    let text = format!("{endpoint:?}");
    // The configuration, the deadlines and the peers in front of the links are long and have no states.
    let start = text.find("links: {").unwrap_or_default();
    let root = Debugged::read(&format!("Endpoint {{ {}", &text[start..]));
    let mut states = States::new();
    for (epoch, link) in root.at("links").entries() {
        states.insert(("link", epoch.show()), phase(link.at("phase")));
        states.insert(("right", epoch.show()), link.at("right").name.clone());
        for (id, serving) in link.at("server").at("rounds").entries() {
            states.insert(("round", format!("{} {}", epoch.show(), id.show())), round(serving));
        }
    }
    for (job, load) in root.at("client").at("loads").entries() {
        states.insert(("load", job.show()), load.at("state").name.clone());
    }
    let server = root.at("server");
    for (id, pool) in server.at("pools").entries() {
        states.insert(("pool", id.show()), format!("{}, {}", pool.at("holder").name, pool.at("intake").name));
    }
    for (id, job) in server.at("jobs").entries() {
        states.insert(("store", id.show()), store(job));
    }
    states
}

fn phase(phase: &Debugged) -> String {
    match phase.name.as_str() {
        "Handshaking" => format!("Handshaking: {} / {}", phase.at("ours").name, phase.at("theirs").name),
        name => name.to_owned(),
    }
}

fn round(serving: &Debugged) -> String {
    let Some(fetching) = serving.items.first().filter(|_| serving.name == "Fetching") else {
        return serving.name.clone();
    };
    match (fetching.at("ending").name.as_str(), fetching.at("waiting").name.as_str()) {
        ("Going", "0") => "Fetching: serving".into(),
        ("Going", _) => "Fetching: parked".into(),
        (ending, _) => format!("Fetching: {ending}"),
    }
}

fn store(job: &Debugged) -> String {
    let what = match (job.at("offered").name.as_str(), job.at("claimed").name.as_str()) {
        (_, "0") => "offered",
        ("0", _) => "claimed",
        (_, _) => "offered and claimed",
    };
    format!("{}: {what}, {}", job.at("origin").name, job.at("offer").name.to_lowercase())
}

/// A value as its derived `Debug` shows it.
#[derive(Default)]
struct Debugged {
    /// Of a struct, variant, number or string.
    name: String,
    fields: Vec<(Debugged, Debugged)>,
    items: Vec<Debugged>,
}

impl Debugged {
    fn read(text: &str) -> Self {
        let mut rest = text;
        Self::value(&mut rest)
    }

    /// A field; of a value that has none of this name, nothing.
    fn at(&self, name: &str) -> &Self {
        static NOTHING: Debugged = Debugged { name: String::new(), fields: Vec::new(), items: Vec::new() };
        self.fields.iter().find(|(field, _)| field.name == name).map_or(&NOTHING, |(_, value)| value)
    }

    /// Of a map.
    fn entries(&self) -> impl Iterator<Item = (&Self, &Self)> {
        self.fields.iter().map(|(key, value)| (key, value))
    }

    fn show(&self) -> String {
        let parts = self.items.iter().chain(self.fields.iter().map(|(_, value)| value)).map(Self::show);
        [self.name.clone()].into_iter().chain(parts).collect::<Vec<_>>().join(" ")
    }

    fn value(rest: &mut &str) -> Self {
        *rest = rest.trim_start();
        let name = if rest.starts_with('"') { quoted(rest) } else { word(rest) };
        let mut value = Self { name, ..Self::default() };
        *rest = rest.trim_start();
        let close = match rest.chars().next() {
            Some('{') => '}',
            Some('(') => ')',
            Some('[') => ']',
            Some(_) | None => return value,
        };
        *rest = &rest[1..];
        loop {
            *rest = rest.trim_start_matches([',', ' ']);
            if rest.is_empty() || rest.starts_with(close) {
                *rest = rest.get(1..).unwrap_or_default();
                return value;
            }
            let before = rest.len();
            let item = Self::value(rest);
            match rest.strip_prefix(':') {
                Some(after) => {
                    *rest = after;
                    value.fields.push((item, Self::value(rest)));
                }
                None => value.items.push(item),
            }
            assert!(rest.len() < before, "no Debug text: {rest}");
        }
    }
}

fn word(rest: &mut &str) -> String {
    let len = rest.find(|c| ",:{}()[] \"".contains(c)).unwrap_or(rest.len());
    let (word, after) = rest.split_at(len);
    *rest = after;
    word.to_owned()
}

fn quoted(rest: &mut &str) -> String {
    let mut escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let closes = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        closes
    });
    let (text, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at + 1));
    *rest = after;
    text.trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Debugged, fact, states, words};
    use crate::{A, World};

    #[derive(Debug)]
    #[allow(dead_code, reason = "seen by its Debug text only")]
    enum Sample {
        Plain,
        Tuple(u32, &'static str),
        Fields { map: BTreeMap<(u8, u8), Sample>, list: Vec<Option<u8>> },
    }

    #[test]
    fn debug_text_is_read_back() {
        let map = [((1, 2), Sample::Plain), ((3, 4), Sample::Tuple(7, "a \"{,\\"))].into();
        let text = format!("{:?}", Sample::Fields { map, list: vec![None, Some(5)] });
        let read = Debugged::read(&text);
        assert_eq!(read.name, "Fields");
        let entries: Vec<(String, String)> =
            read.at("map").entries().map(|(key, value)| (key.show(), value.name.clone())).collect();
        assert_eq!(entries, [(" 1 2".into(), "Plain".into()), (" 3 4".into(), "Tuple".into())]);
        let list: Vec<String> = read.at("list").items.iter().map(Debugged::show).collect();
        assert_eq!(list, ["None", "Some 5"]);
        assert_eq!(read.at("nothing").name, "");
    }

    #[test]
    fn a_session_shows_its_states() {
        let w = World::pair();
        let found = states(w.endpoint(A));
        let found: Vec<(&str, &str)> =
            found.iter().map(|((kind, _), state)| (*kind, state.as_str())).collect();
        assert_eq!(found, [("link", "Up"), ("right", "Open")]);
        assert_eq!(fact(w.endpoint(A), &kvpeer_core::Input::Tick), "timer Heartbeat");
        assert_eq!(words("Some(FetchProgress)"), "fetch_progress");
        w.end();
    }
}
