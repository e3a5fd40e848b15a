//! Counters.

/// What a [`Tcp`](crate::Tcp) has done so far, and holds now.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TcpStats {
    /// Connections accepted and reported.
    pub accepted: u64,
    /// Connections accepted and closed at once: too many were handshaking.
    pub refused: u64,
    /// Times that accepting failed for want of descriptors or memory, or for an unknown reason; it is tried
    /// again after a pause.
    pub accept_errors: u64,
    /// Dials begun.
    pub dials: u64,
    /// Dials that came to nothing; cancelled ones do not count.
    pub dial_failures: u64,
    /// Bytes read, preambles included.
    pub bytes_in: u64,
    /// Bytes handed to the system for sending, preambles included.
    pub bytes_out: u64,
    /// Messages read and reported.
    pub frames_in: u64,
    /// Messages queued for sending.
    pub frames_out: u64,
    /// Connections that ended because the peer did not read and the send queue was full.
    pub send_queue_overflows: u64,
    /// Connections that ended because all together held too much.
    pub crowded_out: u64,
    /// Connections that brought bytes which are no message.
    pub malformed: u64,
    /// Closed connections that were cut off before the peer had closed too: time, bytes or slots ran out.
    pub cut_off: u64,
    /// Connections that are open now.
    pub open: usize,
    /// Of these, accepted ones that wait for our `connect_ack`.
    pub handshaking: usize,
    /// Closed connections that are still sending their last bytes.
    pub closing: usize,
}
