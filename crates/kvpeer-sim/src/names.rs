//! Names in a world are numbers; the wire and the scripts see them as short text.

use std::fmt;
use std::str::FromStr;

use kvpeer_core::{Epoch, JobId, PeerId, XferId};
use kvpeer_wire::{Key, KeysBuf, PeerName, RequestId, RequestName};

/// A node of the world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Who(pub u8);

/// One life of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Process {
    /// Which node.
    pub who: Who,
    /// Counts its lives from 1; the incarnation that it announces.
    pub life: u8,
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// Who dialled.
    Dialler,
    /// Who was dialled.
    Acceptor,
}

/// A connection: named after the dial that brought it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnKey {
    /// Who dialled.
    pub dialler: Process,
    /// For which link attempt.
    pub epoch: Epoch,
}

/// A right: what lets a peer write into a region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RightKey {
    /// Whose region.
    pub owner: Process,
    /// For which link.
    pub epoch: Epoch,
}

/// A WRITE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteKey {
    /// Who posted it.
    pub writer: Process,
    /// Under which id.
    pub xfer: XferId,
}

/// A round on one connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RoundKey {
    /// Of which request.
    pub request: u8,
    /// Its number on the wire.
    pub round: u64,
}

impl Side {
    pub(crate) const BOTH: [Side; 2] = [Side::Dialler, Side::Acceptor];

    pub(crate) fn other(self) -> Self {
        match self {
            Side::Dialler => Side::Acceptor,
            Side::Acceptor => Side::Dialler,
        }
    }

    pub(crate) fn at(self) -> usize {
        match self {
            Side::Dialler => 0,
            Side::Acceptor => 1,
        }
    }
}

impl ConnKey {
    /// The id under which the core at one end knows the connection.
    pub(crate) fn id(self, side: Side) -> kvpeer_core::ConnId {
        let process = u64::from(self.dialler.who.0) << 8 | u64::from(self.dialler.life);
        kvpeer_core::ConnId(process << 40 | u64::from(self.epoch.0) << 1 | side.at() as u64)
    }

    pub(crate) fn of(id: kvpeer_core::ConnId) -> (Self, Side) {
        let side = if id.0 & 1 == 0 { Side::Dialler } else { Side::Acceptor };
        let process = Process { who: Who((id.0 >> 48) as u8), life: (id.0 >> 40) as u8 };
        (Self { dialler: process, epoch: Epoch((id.0 >> 1) as u32) }, side)
    }
}

impl Who {
    /// The name that the node advertises.
    pub fn peer(self) -> PeerId {
        PeerId::from(PeerName::new(&format!("{self}:1")).expect("a short name"))
    }

    pub(crate) fn of_peer(peer: PeerName<'_>) -> Option<Self> {
        peer.as_str().strip_suffix(":1")?.parse().ok()
    }
}

pub(crate) fn request_id(request: u8) -> RequestId {
    RequestId::from(RequestName::new(&format!("r{request}")).expect("a short name"))
}

pub(crate) fn request_of(name: RequestName<'_>) -> Option<u8> {
    name.as_str().strip_prefix('r')?.parse().ok()
}

/// Block keys have one byte here.
pub(crate) fn keys_buf(keys: &[u8]) -> KeysBuf {
    keys.iter().filter_map(|key| Key::new(std::slice::from_ref(key)).ok()).collect()
}

pub(crate) fn keys_of(keys: kvpeer_wire::Keys<'_>) -> Vec<u8> {
    keys.iter().filter_map(|key| key.as_bytes().first().copied()).collect()
}

/// Not a name of the kind that was expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadName(pub String);

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} cannot be read", self.0)
    }
}

impl std::error::Error for BadName {}

pub(crate) fn number<T: FromStr>(text: &str) -> Result<T, BadName> {
    text.parse().map_err(|_| BadName(text.to_owned()))
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", char::from(b'a' + self.0))
    }
}

impl FromStr for Who {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        match text.as_bytes() {
            [letter @ b'a'..=b'z'] => Ok(Self(letter - b'a')),
            _ => Err(BadName(text.to_owned())),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Dialler => "dialler",
            Side::Acceptor => "acceptor",
        })
    }
}

impl FromStr for Side {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let found = Self::BOTH.into_iter().find(|side| side.to_string() == text);
        found.ok_or_else(|| BadName(text.to_owned()))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.who, self.life)
    }
}

impl FromStr for Process {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let (who, life) = text.split_at_checked(1).ok_or_else(|| BadName(text.to_owned()))?;
        Ok(Self { who: who.parse()?, life: number(life)? })
    }
}

macro_rules! dotted {
    ($name:ident { $process:ident, $($part:ident: $read:expr),+ }) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Self { $process, $($part),+ } = self;
                write!(f, "{}", $process)?;
                $(write!(f, ".{}", Dotted($part))?;)+
                Ok(())
            }
        }

        impl FromStr for $name {
            type Err = BadName;

            fn from_str(text: &str) -> Result<Self, BadName> {
                let mut parts = text.splitn(2, '.');
                let mut next = || parts.next().ok_or_else(|| BadName(text.to_owned()));
                let $process = next()?.parse()?;
                $(let $part = $read(next()?)?;)+
                Ok(Self { $process, $($part),+ })
            }
        }
    };
}

struct Dotted<'a, T>(&'a T);

impl fmt::Display for Dotted<'_, Epoch> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.0)
    }
}

impl fmt::Display for Dotted<'_, XferId> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", xfer_text(*self.0))
    }
}

pub(crate) fn xfer_text(xfer: XferId) -> String {
    format!("{}.{}", xfer.epoch.0, xfer.seq)
}

pub(crate) fn epoch_of(text: &str) -> Result<Epoch, BadName> {
    number(text).map(Epoch)
}

pub(crate) fn pair_of(text: &str) -> Result<(Epoch, u64), BadName> {
    let (epoch, seq) = text.split_once('.').ok_or_else(|| BadName(text.to_owned()))?;
    Ok((epoch_of(epoch)?, number(seq)?))
}

fn xfer_of(text: &str) -> Result<XferId, BadName> {
    pair_of(text).map(|(epoch, seq)| XferId { epoch, seq })
}

pub(crate) fn job_of(text: &str) -> Result<JobId, BadName> {
    number(text).map(JobId)
}

dotted!(ConnKey { dialler, epoch: epoch_of });
dotted!(RightKey { owner, epoch: epoch_of });
dotted!(WriteKey { writer, xfer: xfer_of });
