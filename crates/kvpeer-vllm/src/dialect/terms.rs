//! What a node makes of vLLM's silence.

/// How a connection to a vLLM node is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// What its word is worth that a fetch has stopped.
    pub stop_word: StopWord,
    /// How long a hit is good for, in milliseconds. vLLM drops a pin 30 s after its lookup and says neither.
    pub pin_ms: u32,
    /// How long the node's heartbeats are apart, in milliseconds: ZeroMQ's, see whoever owns the connection.
    pub heartbeat_ms: u32,
    /// Messages that are held until the peer's `connect_ack`.
    pub early_messages: usize,
    /// Their bytes.
    pub early_bytes: usize,
    /// Rounds of the peer's lookups that are remembered until their fetch.
    pub probed_rounds: usize,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            stop_word: StopWord::Doubted,
            pin_ms: 25_000,
            heartbeat_ms: 2_000,
            early_messages: 1_024,
            early_bytes: 8 << 20,
            probed_rounds: 65_536,
        }
    }
}

/// What vLLM's `abort_ack` and `transfer_done(success = false)` are worth.
///
/// vLLM 0.33.0 sends them when NIXL calls each WRITE of the round terminal. That includes WRITEs that ended in an
/// error, and what those have left on their way may still land.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum StopWord {
    /// They prove nothing: the load's blocks stay quarantined until our own right is closed and fenced, and so the
    /// session ends.
    #[default]
    Doubted,
    /// They are taken for proof, against invariant I1: sessions outlive aborts, and a WRITE that failed at the
    /// writer and lands late may corrupt a block that is used again.
    Taken,
}

impl StopWord {
    pub(super) fn is_settled(self) -> bool {
        self == Self::Taken
    }
}
