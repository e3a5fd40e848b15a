//! Everything that can happen in a world, as one line of text each.

use std::fmt;
use std::str::FromStr;

use kvpeer_core::{Epoch, ProbeId, TransferEnd};

use crate::lie::Lie;
use crate::names::{BadName, ConnKey, RightKey, Side, Who, WriteKey, pair_of};
use crate::setup::Ask;
use crate::wish::{Wish, Words};

/// One thing that happens. The world's state after it depends on the state before and on this, nothing else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// An engine wishes for something.
    Wish {
        /// Which engine.
        who: Who,
        /// The script that this is the next wish of.
        script: Option<u8>,
        /// What.
        wish: Wish,
    },
    /// A node's deadline is handled.
    Tick(Who),
    /// Time goes on to the next deadline.
    Time,
    /// Time goes on for some microseconds, at most to the next deadline.
    Wait(u64),
    /// A dial succeeds, or is refused.
    Dial {
        /// The connection that it brings.
        conn: ConnKey,
        /// Whether it does.
        up: bool,
    },
    /// The node that was dialled learns of the connection.
    Accept(ConnKey),
    /// A message arrives.
    Deliver {
        /// On which connection.
        conn: ConnKey,
        /// At which end.
        to: Side,
    },
    /// An end learns that the connection is gone.
    HangUp {
        /// Which connection.
        conn: ConnKey,
        /// Which end.
        at: Side,
    },
    /// A plane, or the embedder, answers.
    Answer {
        /// About which right.
        right: RightKey,
        /// What was asked.
        ask: Ask,
        /// Whether it is granted, has worked, or is proven.
        ok: bool,
    },
    /// The cache answers a lookup.
    Probe {
        /// Whose cache.
        who: Who,
        /// Which lookup.
        probe: ProbeId,
        /// How.
        answer: ProbeAnswer,
    },
    /// A block of a WRITE lands.
    Land {
        /// Of which WRITE.
        write: WriteKey,
        /// Which of its blocks.
        at: u8,
    },
    /// A WRITE ends at its writer: `Done`, `NotPosted` or `Errored`.
    Complete {
        /// Which WRITE.
        write: WriteKey,
        /// How.
        end: TransferEnd,
    },
    /// Fault: a connection breaks.
    Cut(ConnKey),
    /// Fault: a connection breaks in the middle of what is under way to one end, after some whole messages.
    Tear(ConnKey, Side, u8),
    /// Fault: what reaches one end is not what was sent; the control plane finds no message in it.
    Garble(ConnKey, Side),
    /// Fault: the two ends have no version of the protocol in common.
    Versions(ConnKey),
    /// A rogue says something that its endpoint has not said.
    Lie {
        /// On which connection.
        conn: ConnKey,
        /// From which end.
        from: Side,
        /// What.
        lie: Lie,
    },
    /// A rogue opens a connection that its endpoint does not know of.
    Call(Who),
    /// Fault: messages to one end vanish.
    Mute(ConnKey, Side),
    /// Fault: messages to one end take longer than any timer.
    DelayLink(ConnKey, Side),
    /// Fault: an answer takes longer than any timer.
    DelayAnswer(RightKey, Ask),
    /// Fault: a WRITE takes longer than any timer.
    DelayWrite(WriteKey),
    /// Fault: the data plane loses a peer.
    PeerFault(RightKey),
    /// Fault: a process dies.
    Crash(Who),
    /// Another process takes its place.
    Restart(Who),
}

/// What the cache says about the open keys of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProbeAnswer {
    /// All of them: those that it holds are pinned, the others are misses.
    All,
    /// The first of them only.
    First,
    /// None of them yet.
    None,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Wish { who, script: Some(script), wish } => write!(f, "script {script} {who} {wish}"),
            Step::Wish { who, script: None, wish } => write!(f, "wish {who} {wish}"),
            Step::Tick(who) => write!(f, "tick {who}"),
            Step::Time => write!(f, "time"),
            Step::Wait(micros) => write!(f, "wait {micros}"),
            Step::Dial { conn, up } => write!(f, "dial {conn} {}", if *up { "up" } else { "refused" }),
            Step::Accept(conn) => write!(f, "accept {conn}"),
            Step::Deliver { conn, to } => write!(f, "deliver {conn} {to}"),
            Step::HangUp { conn, at } => write!(f, "hang-up {conn} {at}"),
            Step::Answer { right, ask, ok } => {
                write!(f, "answer {right} {} {}", ask_text(*ask), if *ok { "yes" } else { "no" })
            }
            Step::Probe { who, probe, answer } => {
                write!(f, "probe {who} {}.{} {}", probe.epoch.0, probe.seq, probe_text(*answer))
            }
            Step::Land { write, at } => write!(f, "land {write} {at}"),
            Step::Complete { write, end } => write!(f, "complete {write} {}", end_text(*end)),
            Step::Cut(conn) => write!(f, "cut {conn}"),
            Step::Tear(conn, to, whole) => write!(f, "tear {conn} {to} {whole}"),
            Step::Garble(conn, to) => write!(f, "garble {conn} {to}"),
            Step::Versions(conn) => write!(f, "versions {conn}"),
            Step::Lie { conn, from, lie } => write!(f, "lie {conn} {from} {lie}"),
            Step::Call(to) => write!(f, "call {to}"),
            Step::Mute(conn, to) => write!(f, "mute {conn} {to}"),
            Step::DelayLink(conn, to) => write!(f, "delay-link {conn} {to}"),
            Step::DelayAnswer(right, ask) => write!(f, "delay-answer {right} {}", ask_text(*ask)),
            Step::DelayWrite(write) => write!(f, "delay-write {write}"),
            Step::PeerFault(right) => write!(f, "peer-fault {right}"),
            Step::Crash(who) => write!(f, "crash {who}"),
            Step::Restart(who) => write!(f, "restart {who}"),
        }
    }
}

impl FromStr for Step {
    type Err = BadName;

    fn from_str(line: &str) -> Result<Self, BadName> {
        let words = &mut Words::new(line);
        Ok(match words.next()? {
            "script" => {
                let (script, who) = (words.read()?, words.read()?);
                Step::Wish { who, script: Some(script), wish: rest(words).parse()? }
            }
            "wish" => Step::Wish { who: words.read()?, script: None, wish: rest(words).parse()? },
            "tick" => Step::Tick(words.read()?),
            "time" => Step::Time,
            "wait" => Step::Wait(words.read()?),
            "dial" => Step::Dial { conn: words.read()?, up: words.flag("up", "refused")? },
            "accept" => Step::Accept(words.read()?),
            "deliver" => Step::Deliver { conn: words.read()?, to: words.read()? },
            "hang-up" => Step::HangUp { conn: words.read()?, at: words.read()? },
            "answer" => {
                let (right, ask) = (words.read()?, ask_of(words.next()?)?);
                Step::Answer { right, ask, ok: words.flag("yes", "no")? }
            }
            "probe" => {
                let who = words.read()?;
                let (epoch, seq) = pair_of(words.next()?)?;
                let answer = probe_of(words.next()?)?;
                Step::Probe { who, probe: ProbeId { epoch: Epoch(epoch.0), seq }, answer }
            }
            "land" => Step::Land { write: words.read()?, at: words.read()? },
            "complete" => Step::Complete { write: words.read()?, end: end_of(words.next()?)? },
            "cut" => Step::Cut(words.read()?),
            "tear" => Step::Tear(words.read()?, words.read()?, words.read()?),
            "garble" => Step::Garble(words.read()?, words.read()?),
            "versions" => Step::Versions(words.read()?),
            "lie" => {
                let (conn, from) = (words.read()?, words.read()?);
                Step::Lie { conn, from, lie: rest(words).parse()? }
            }
            "call" => Step::Call(words.read()?),
            "mute" => Step::Mute(words.read()?, words.read()?),
            "delay-link" => Step::DelayLink(words.read()?, words.read()?),
            "delay-answer" => Step::DelayAnswer(words.read()?, ask_of(words.next()?)?),
            "delay-write" => Step::DelayWrite(words.read()?),
            "peer-fault" => Step::PeerFault(words.read()?),
            "crash" => Step::Crash(words.read()?),
            "restart" => Step::Restart(words.read()?),
            other => return Err(BadName(other.to_owned())),
        })
    }
}

fn rest(words: &mut Words<'_>) -> String {
    words.0.by_ref().collect::<Vec<_>>().join(" ")
}

fn named<T: Copy>(all: &[T], text: impl Fn(T) -> &'static str, name: &str) -> Result<T, BadName> {
    all.iter().copied().find(|item| text(*item) == name).ok_or_else(|| BadName(name.to_owned()))
}

fn ask_text(ask: Ask) -> &'static str {
    match ask {
        Ask::Admit => "admit",
        Ask::Open => "open",
        Ask::Register => "register",
        Ask::Close => "close",
        Ask::Probe => "probe",
        Ask::Accept => "accept",
    }
}

fn ask_of(name: &str) -> Result<Ask, BadName> {
    named(&[Ask::Admit, Ask::Open, Ask::Register, Ask::Close], ask_text, name)
}

fn probe_text(answer: ProbeAnswer) -> &'static str {
    match answer {
        ProbeAnswer::All => "all",
        ProbeAnswer::First => "first",
        ProbeAnswer::None => "none",
    }
}

fn probe_of(name: &str) -> Result<ProbeAnswer, BadName> {
    named(&[ProbeAnswer::All, ProbeAnswer::First, ProbeAnswer::None], probe_text, name)
}

fn end_text(end: TransferEnd) -> &'static str {
    match end {
        TransferEnd::Done => "done",
        TransferEnd::NotPosted => "not-posted",
        TransferEnd::Errored => "errored",
        TransferEnd::Fenced => "fenced",
    }
}

fn end_of(name: &str) -> Result<TransferEnd, BadName> {
    named(&[TransferEnd::Done, TransferEnd::NotPosted, TransferEnd::Errored], end_text, name)
}
