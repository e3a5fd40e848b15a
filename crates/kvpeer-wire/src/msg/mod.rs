//! Every message of the protocol.

use crate::Kind;

mod connect;
mod ending;
mod fetch;
mod lookup;

pub use connect::{Compat, Connect, ConnectAck, MAX_METADATA_LEN, RegionInfo};
pub use ending::{Disconnect, Reject};
pub use fetch::{
    AbortAck, AbortFetch, Demand, DemandError, Fetch, FetchProgress, Outcome, Release, TransferDone,
};
pub use lookup::{Lookup, LookupResp};

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Msg<'a> {
    /// Announces a node; both send it, once a connection.
    Connect(Connect<'a>),
    /// "I registered your region; you may send work."
    ConnectAck(ConnectAck),
    /// Why a connect is refused; the connection closes after it.
    Reject(Reject<'a>),
    /// Goodbye, the last message of a session.
    Disconnect(Disconnect<'a>),
    /// Liveness probe.
    Ping(Nonce),
    /// Its answer.
    Pong(Nonce),
    /// Which of these blocks do you hold?
    Lookup(Lookup<'a>),
    /// A part of the answer.
    LookupResp(LookupResp<'a>),
    /// Write these blocks there.
    Fetch(Fetch<'a>),
    /// How far a fetch has come.
    FetchProgress(FetchProgress<'a>),
    /// The end of a fetch that was not aborted.
    TransferDone(TransferDone<'a>),
    /// Stop a fetch.
    AbortFetch(AbortFetch<'a>),
    /// It stopped and is quiet.
    AbortAck(AbortAck<'a>),
    /// No more work for this request.
    Release(Release<'a>),
}

impl Msg<'_> {
    /// Which kind of message this is.
    pub fn kind(&self) -> Kind {
        match self {
            Msg::Connect(_) => Kind::Connect,
            Msg::ConnectAck(_) => Kind::ConnectAck,
            Msg::Reject(_) => Kind::Reject,
            Msg::Disconnect(_) => Kind::Disconnect,
            Msg::Ping(_) => Kind::Ping,
            Msg::Pong(_) => Kind::Pong,
            Msg::Lookup(_) => Kind::Lookup,
            Msg::LookupResp(_) => Kind::LookupResp,
            Msg::Fetch(_) => Kind::Fetch,
            Msg::FetchProgress(_) => Kind::FetchProgress,
            Msg::TransferDone(_) => Kind::TransferDone,
            Msg::AbortFetch(_) => Kind::AbortFetch,
            Msg::AbortAck(_) => Kind::AbortAck,
            Msg::Release(_) => Kind::Release,
        }
    }
}

/// The number of a request's round of lookups and fetch; minted by the consumer's session, strictly increasing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Round(pub u64);

/// The number of a lookup; minted by the consumer's session, strictly increasing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LookupId(pub u64);

/// Ties a pong to its ping.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nonce(pub u64);
