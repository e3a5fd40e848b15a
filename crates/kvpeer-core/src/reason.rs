//! Reasons split by blame: a peer that broke a rule, a peer that does not fit, facts that came too late.

/// A rule that a peer broke. It costs the peer its session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Misbehaved {
    /// Its bytes are no message.
    #[error("malformed bytes")]
    Malformed,
    /// The first message must be `connect`.
    #[error("a message before connect")]
    NotConnected,
    /// One `connect` a connection.
    #[error("a second connect")]
    SecondConnect,
    /// Nothing was there to be acknowledged.
    #[error("connect_ack before our connect")]
    EarlyAck,
    /// One `connect_ack` a connection.
    #[error("a second connect_ack")]
    SecondAck,
    /// It acknowledged another process than this one.
    #[error("connect_ack for another incarnation")]
    ForeignAck,
    /// We had not said yet that work may be sent.
    #[error("work before our connect_ack")]
    EarlyWork,
    /// A reject is the answer to a connect, not to a session.
    #[error("reject of a session that is up")]
    LateReject,
}

/// Why a peer's identity cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Refusal {
    /// It is our own.
    #[error("its id is our own")]
    OwnId,
    /// It names every interface and so no host.
    #[error("its id is an any-address, which no other node can dial")]
    AnyAddress,
    /// It names the local host, but we are reachable from others.
    #[error("its id is a loopback address, but this node is not bound to loopback")]
    Loopback,
}

/// Something that was ignored or refused. Counted by the sink, not in the endpoint's state (CMD-14).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Count {
    /// A fact about a connection that is closed or never was.
    UnknownConn,
    /// A fact about a link, right or dial that is over.
    StaleEpoch,
    /// A transfer that is not outstanding.
    StaleTransfer,
    /// A probe that is over.
    StaleProbe,
    /// A pin that came too late; its job was finished as unclaimed.
    LatePin,
    /// An answer of the block cache that names keys twice, hits without a pin, blocks outside the region, or a
    /// pin job that is in use.
    BadAnswer,
    /// A lookup's answer for a lookup that is closed, or past its keys.
    LateLookupResp,
    /// A message about a round that is not live.
    UnknownRound,
    /// A fetch of a live round.
    DuplicateFetch,
    /// A fetch with doubled keys, doubled or foreign blocks; refused.
    MalformedFetch,
    /// A lookup with doubled keys; answered with misses.
    MalformedLookup,
    /// Work of a peer beyond a cap; refused.
    Overloaded,
    /// Own work beyond the cap on held work; failed.
    HeldOverflow,
    /// A fetch of supply that belongs to another peer.
    NotYours,
    /// An inbound connection beyond the cap on handshakes; closed.
    TooManyHandshakes,
    /// A message after the session's end.
    AfterEnd,
    /// A connect that was refused, by us or by the peer.
    Rejected,
    /// A rule broken by a peer.
    Misbehaved,
    /// A remembered id dropped early, to make room.
    ForgottenEarly,
}
