//! The memory that a plane exposes to its peers.

use std::ptr::NonNull;

/// Memory that a plane may expose to remote writes and read for its own.
///
/// # Safety
/// The implementor promises, for as long as any `Arc` to the value lives:
/// - [`base`](Self::base) and [`len`](Self::len) always answer the same, and `base..base + len` is one mapped,
///   readable and writable range that is neither unmapped, moved nor remapped;
/// - peers may write any byte of it at any time. So nobody holds a Rust reference into it; all access goes
///   through raw pointers (`ptr::copy`, volatile or atomic accesses), and which bytes are stable at a time is
///   the protocol's business.
pub unsafe trait Memory: Send + Sync {
    /// The first byte.
    fn base(&self) -> NonNull<u8>;

    /// The number of bytes.
    fn len(&self) -> usize;

    /// Whether there is nothing to expose.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
