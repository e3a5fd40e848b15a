//! Wishes of the engine. A refused one changes nothing.

use core::time::Duration;

use kvpeer_wire::{Keys, PeerName, RequestName, Supply};

use crate::{BlockIdx, JobId, Refusal};

/// One wish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command<'a> {
    /// Announces a request.
    Open {
        /// Its id.
        request: RequestName<'a>,
        /// This node's part in it.
        part: Part<'a>,
    },
    /// Get blocks. Ends with exactly one [`LoadFinished`](crate::Event::LoadFinished).
    Load {
        /// The engine's id for it, not in use by another job.
        job: JobId,
        /// An open request of which this node is the consumer.
        request: RequestName<'a>,
        /// The blocks' keys, all different.
        keys: Keys<'a>,
        /// Where each goes in our region: different, in range, neither reserved nor quarantined.
        blocks: &'a [BlockIdx],
    },
    /// Offer blocks, pinned until this job's one [`StoreFinished`](crate::Event::StoreFinished).
    Store {
        /// The engine's id for it, not in use by another job.
        job: JobId,
        /// For which request.
        request: RequestName<'a>,
        /// The blocks' keys, all different.
        keys: Keys<'a>,
        /// Where each lies in our region.
        blocks: &'a [BlockIdx],
        /// The only peer that may have them, if that is known.
        consumer: Option<PeerName<'a>>,
    },
    /// The request is over on this node, for one part of it or for both.
    Finish {
        /// Which; an unknown id is no mistake.
        request: RequestName<'a>,
        /// Which part ends.
        role: Role,
    },
    /// Stop a load. Its result still comes, once.
    Abort {
        /// A load job.
        job: JobId,
    },
    /// Take back what of a store nobody has claimed yet.
    Withdraw {
        /// A store job.
        job: JobId,
    },
    /// Ask the peers for every key that [`Endpoint::lookup`](crate::Endpoint::lookup) has seen for the first time.
    FlushLookups,
    /// The engine has its own proof that nothing lands any more in the blocks of this quarantined load, or that
    /// nobody reads those of this held store.
    ReleaseQuarantine {
        /// A quarantined load or a held store.
        job: JobId,
    },
    /// Bring up the session with a peer before there is work for it.
    Connect {
        /// Whom.
        peer: PeerName<'a>,
        /// Where, in the control plane's terms.
        address: &'a str,
    },
    /// End the session with a peer.
    ClosePeer {
        /// With whom.
        peer: PeerName<'a>,
    },
    /// End all sessions, in order and within a time.
    Shutdown {
        /// How long posted WRITEs may take to finish.
        within: Duration,
    },
}

/// A node's part in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part<'a> {
    /// It takes blocks.
    Consume {
        /// From this peer.
        source: PeerName<'a>,
        /// Which the control plane reaches here.
        address: &'a str,
        /// `Pinned` after lookups (symmetric), `Await` without (prefill/decode).
        supply: Supply,
    },
    /// It gives blocks. Optional, except for using an id again whose supply was over.
    Produce {
        /// The only peer that may have them, if that is known.
        consumer: Option<PeerName<'a>>,
    },
}

/// Which part of a request ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// Loads are aborted, lookups released.
    Consumer,
    /// No more stores come; what is stored stays until it is claimed, released or reaped.
    Producer,
    /// Both.
    #[default]
    Both,
}

/// A mistake of the embedder. The endpoint is as it was before the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Misuse {
    /// The job id belongs to a job that is not finished (a quarantined load is not).
    #[error("this job id is in use")]
    JobInUse,
    /// No such job, or it is finished.
    #[error("no such job")]
    UnknownJob,
    /// `Load` needs an open request that this node consumes.
    #[error("the request is not open here as a consumer")]
    UnknownRequest,
    /// The request is open already, with another source or mode.
    #[error("the request is open with another source or mode")]
    AlreadyOpen,
    /// A store names another consumer than the request has.
    #[error("the request has another consumer")]
    OtherConsumer,
    /// As many keys as blocks are needed.
    #[error("{keys} keys but {blocks} blocks")]
    Unequal {
        /// How many keys.
        keys: usize,
        /// How many blocks.
        blocks: usize,
    },
    /// More keys than one message may carry.
    #[error("{keys} keys in one job, at most {limit} are allowed")]
    TooManyKeys {
        /// How many.
        keys: usize,
        /// The limit.
        limit: usize,
    },
    /// A key stands twice in the job.
    #[error("two keys of the job are equal")]
    DoubledKey,
    /// A block stands twice in the job.
    #[error("block {0} stands twice in the job")]
    DoubledBlock(BlockIdx),
    /// A block is outside our region.
    #[error("block {0} is outside the region")]
    OutOfRange(BlockIdx),
    /// A block is reserved by, or quarantined for, another load.
    #[error("block {0} is the destination of another load that is not over")]
    Reserved(BlockIdx),
    /// The peer's name is our own, or names no host that another node could dial.
    #[error("the peer cannot be used: {0}")]
    Peer(Refusal),
    /// Over the cap on requests, peers or jobs.
    #[error("too many {0}")]
    TooMany(&'static str),
    /// No session with this peer.
    #[error("no such peer")]
    UnknownPeer,
    /// The job is neither a quarantined load nor a held store.
    #[error("the job is not quarantined")]
    NotQuarantined,
    /// After `Shutdown` nothing new begins.
    #[error("the endpoint is shutting down")]
    ShuttingDown,
}
