//! How much a peer's bytes may ask for.

/// Bounds that are applied while frames are read and decoded, before anything else is done with them (FR-11).
///
/// The types have bounds of their own ([`MAX_KEY_LEN`](crate::MAX_KEY_LEN),
/// [`MAX_METADATA_LEN`](crate::MAX_METADATA_LEN), [`MAX_NAME_LEN`](crate::MAX_NAME_LEN)): a limit above those
/// has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Bytes of a frame that follow its length field, once our `connect_ack` was sent.
    pub frame: u32,
    /// The same until then.
    pub early_frame: u32,
    /// Keys of one message, answered bits and landed bits too.
    pub keys: u32,
    /// Bytes of a key.
    pub key_len: u32,
    /// Bytes of a `connect`'s data-plane metadata.
    pub metadata: u32,
    /// Bytes of a name or text.
    pub name: u32,
}

impl Limits {
    /// The limits of the protocol page.
    pub const DEFAULT: Self =
        Self { frame: 4 << 20, early_frame: 64 << 10, keys: 16_384, key_len: 64, metadata: 4096, name: 255 };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
