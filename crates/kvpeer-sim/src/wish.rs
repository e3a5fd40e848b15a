//! What an engine can wish for, as one line of text.

use std::fmt;
use std::str::{FromStr, SplitWhitespace};

use kvpeer_core::{BlockIdx, JobId, Role};
use kvpeer_wire::Supply;

use crate::names::{BadName, Who, job_of, number};

/// One wish of an engine: a command, or what an engine does around commands.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the commands of kvpeer-core, with numbers for names")]
pub enum Wish {
    Consume {
        request: u8,
        source: Who,
        supply: Supply,
    },
    Produce {
        request: u8,
        consumer: Option<Who>,
    },
    /// Looks keys up and flushes.
    Ask {
        request: u8,
        keys: Vec<u8>,
    },
    Load {
        job: JobId,
        request: u8,
        keys: Vec<u8>,
        blocks: Vec<BlockIdx>,
    },
    /// Loads those of the keys that are hits now, each into the block that stands with it.
    LoadHits {
        job: JobId,
        request: u8,
        keys: Vec<u8>,
        blocks: Vec<BlockIdx>,
    },
    /// Fills the blocks with what the keys name, pins them and offers them.
    Store {
        job: JobId,
        request: u8,
        keys: Vec<u8>,
        blocks: Vec<BlockIdx>,
        consumer: Option<Who>,
    },
    Finish {
        request: u8,
        role: Role,
    },
    Abort {
        job: JobId,
    },
    Withdraw {
        job: JobId,
    },
    Release {
        job: JobId,
    },
    Connect {
        peer: Who,
    },
    Close {
        peer: Who,
    },
    /// Seconds.
    Shutdown {
        within: u64,
    },
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whom = |who: &Option<Who>| who.map_or("anybody".to_owned(), |who| who.to_string());
        match self {
            Wish::Consume { request, source, supply } => {
                write!(f, "consume {request} {source} {}", supply_text(*supply))
            }
            Wish::Produce { request, consumer } => write!(f, "produce {request} {}", whom(consumer)),
            Wish::Ask { request, keys } => write!(f, "ask {request} {}", List(keys)),
            Wish::Load { job, request, keys, blocks } => {
                write!(f, "load {} {request} {} {}", job.0, List(keys), List(blocks))
            }
            Wish::LoadHits { job, request, keys, blocks } => {
                write!(f, "load-hits {} {request} {} {}", job.0, List(keys), List(blocks))
            }
            Wish::Store { job, request, keys, blocks, consumer } => {
                let consumer = whom(consumer);
                write!(f, "store {} {request} {} {} {consumer}", job.0, List(keys), List(blocks))
            }
            Wish::Finish { request, role } => write!(f, "finish {request} {}", role_text(*role)),
            Wish::Abort { job } => write!(f, "abort {}", job.0),
            Wish::Withdraw { job } => write!(f, "withdraw {}", job.0),
            Wish::Release { job } => write!(f, "release {}", job.0),
            Wish::Connect { peer } => write!(f, "connect {peer}"),
            Wish::Close { peer } => write!(f, "close {peer}"),
            Wish::Shutdown { within } => write!(f, "shutdown {within}"),
        }
    }
}

/// Reads the words of a line, one after the other.
pub(crate) struct Words<'a>(pub(crate) SplitWhitespace<'a>);

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        Self(line.split_whitespace())
    }

    pub(crate) fn next(&mut self) -> Result<&'a str, BadName> {
        self.0.next().ok_or_else(|| BadName("(end of line)".to_owned()))
    }

    pub(crate) fn read<T: FromStr>(&mut self) -> Result<T, BadName> {
        number(self.next()?)
    }

    pub(crate) fn list<T: FromStr>(&mut self) -> Result<Vec<T>, BadName> {
        self.next()?.split(',').map(number).collect()
    }

    pub(crate) fn flag(&mut self, yes: &str, no: &str) -> Result<bool, BadName> {
        match self.next()? {
            word if word == yes => Ok(true),
            word if word == no => Ok(false),
            word => Err(BadName(word.to_owned())),
        }
    }

    fn whom(&mut self) -> Result<Option<Who>, BadName> {
        match self.next()? {
            "anybody" => Ok(None),
            who => who.parse().map(Some),
        }
    }
}

impl FromStr for Wish {
    type Err = BadName;

    fn from_str(line: &str) -> Result<Self, BadName> {
        let words = &mut Words::new(line);
        Ok(match words.next()? {
            "consume" => {
                let (request, source) = (words.read()?, words.read()?);
                Wish::Consume { request, source, supply: supply_of(words.next()?)? }
            }
            "produce" => Wish::Produce { request: words.read()?, consumer: words.whom()? },
            "ask" => Wish::Ask { request: words.read()?, keys: words.list()? },
            "load" => {
                let job = job_of(words.next()?)?;
                Wish::Load { job, request: words.read()?, keys: words.list()?, blocks: words.list()? }
            }
            "load-hits" => {
                let job = job_of(words.next()?)?;
                Wish::LoadHits { job, request: words.read()?, keys: words.list()?, blocks: words.list()? }
            }
            "store" => {
                let job = job_of(words.next()?)?;
                let (request, keys, blocks) = (words.read()?, words.list()?, words.list()?);
                Wish::Store { job, request, keys, blocks, consumer: words.whom()? }
            }
            "finish" => Wish::Finish { request: words.read()?, role: role_of(words.next()?)? },
            "abort" => Wish::Abort { job: job_of(words.next()?)? },
            "withdraw" => Wish::Withdraw { job: job_of(words.next()?)? },
            "release" => Wish::Release { job: job_of(words.next()?)? },
            "connect" => Wish::Connect { peer: words.read()? },
            "close" => Wish::Close { peer: words.read()? },
            "shutdown" => Wish::Shutdown { within: words.read()? },
            other => return Err(BadName(other.to_owned())),
        })
    }
}

/// Numbers with commas between them.
pub(crate) struct List<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

pub(crate) fn supply_text(supply: Supply) -> &'static str {
    match supply {
        Supply::Await => "await",
        Supply::Pinned => "pinned",
    }
}

pub(crate) fn supply_of(text: &str) -> Result<Supply, BadName> {
    [Supply::Await, Supply::Pinned]
        .into_iter()
        .find(|supply| supply_text(*supply) == text)
        .ok_or_else(|| BadName(text.to_owned()))
}

fn role_text(role: Role) -> &'static str {
    match role {
        Role::Consumer => "consumer",
        Role::Producer => "producer",
        Role::Both => "both",
    }
}

fn role_of(text: &str) -> Result<Role, BadName> {
    [Role::Consumer, Role::Producer, Role::Both]
        .into_iter()
        .find(|role| role_text(*role) == text)
        .ok_or_else(|| BadName(text.to_owned()))
}
