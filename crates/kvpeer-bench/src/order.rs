//! What the director tells its processes, and what they answer: one line of JSON each.

use serde::{Deserialize, Serialize};

use crate::cut::Cut;
use crate::memory::Content;

/// Each order has one [`Reply`]. `Serve…` orders are answered when the next order has come.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Maps and touches the memory of all measurements; and another one to copy from, if asked for.
    Memory {
        bytes: usize,
        content: Content,
        copy_source: bool,
    },
    Wipe(Cut),
    Verify(Cut),
    /// Ends a `Serve…`.
    Enough,

    /// memcpy from the second memory.
    Copy(Cut),

    TcpListen,
    TcpConnect {
        port: u16,
    },
    TcpAccept,
    TcpSend(Cut),
    TcpReceive(Cut),

    BareOpen,
    BareConnect(Door),
    BareWrite {
        cut: Cut,
        depth: usize,
        wait: Wait,
    },
    ServeBare {
        wait: Wait,
    },

    PlaneOpen {
        block_len: usize,
    },
    PlaneConnect {
        block_len: usize,
        metadata: Vec<u8>,
    },
    PlaneWrite {
        cut: Cut,
        in_flight: u64,
    },
    ServePlane {
        block_len: usize,
    },

    /// A node on the memory, which holds all blocks of it if `holds`.
    NodeOpen {
        block_len: usize,
        holds: bool,
    },
    /// Gets a cut in one fetch. Answered by `Fetched`.
    NodeFetch {
        cut: Cut,
        peer: String,
    },
    /// Gets each block of a cut in a fetch of its own, verified and wiped in between. Answered by `Latencies`.
    NodeFetchEach {
        cut: Cut,
        peer: String,
    },
    /// The same, for as long as one large fetch runs beside it. Answered by `Latencies`.
    NodeFetchBeside {
        large: Cut,
        small: Cut,
        peer: String,
    },

    /// A node that does nothing.
    IdleNode,
    /// So many nodes, each with a session to that peer.
    Crowd {
        count: usize,
        peer: String,
    },
    /// The share of a core that this process uses in so many seconds.
    CpuShare {
        seconds: f64,
    },
}

/// How a process waits for its completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Wait {
    /// Reads it again and again, and lets others run in between.
    Spin,
    /// Sleeps on its descriptor.
    Sleep,
}

/// A bare endpoint, to be written to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Door {
    pub(crate) name: Vec<u8>,
    pub(crate) key: u64,
    pub(crate) base: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    /// Seconds.
    Took(f64),
    Port(u16),
    Door(Door),
    Metadata(Vec<u8>),
    Address(String),
    Fetched(Fetched),
    Latencies(Vec<Fetched>),
    Share(f64),
    /// In words.
    Failed(String),
}

/// How long one fetch took, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Fetched {
    /// From the announcement of the request until all hits are known.
    pub(crate) lookup: f64,
    /// From the load's command until its result.
    pub(crate) load: f64,
}
