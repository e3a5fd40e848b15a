//! A run of block indexes, as it stands in a frame or in memory.

use core::fmt;

/// Block indexes of one message: a contiguous run of `u32` (FR-12).
#[derive(Clone, Copy)]
pub struct Blocks<'a>(Run<'a>);

#[derive(Clone, Copy)]
enum Run<'a> {
    /// Little-endian, four bytes an index: a frame's own bytes.
    Wire(&'a [[u8; 4]]),
    Native(&'a [u32]),
}

impl<'a> Blocks<'a> {
    /// A run of indexes in memory.
    pub fn new(blocks: &'a [u32]) -> Self {
        Self(Run::Native(blocks))
    }

    /// A run as it stands in a frame; `None` when the length is no multiple of four.
    pub(crate) fn from_le_bytes(bytes: &'a [u8]) -> Option<Self> {
        match bytes.as_chunks() {
            (chunks, []) => Some(Self(Run::Wire(chunks))),
            _ => None,
        }
    }

    /// The run as it stands in a frame, when it came from one.
    pub(crate) fn as_le_bytes(&self) -> Option<&'a [u8]> {
        match self.0 {
            Run::Wire(chunks) => Some(chunks.as_flattened()),
            Run::Native(_) => None,
        }
    }

    /// How many indexes there are.
    #[inline]
    pub fn len(&self) -> usize {
        match self.0 {
            Run::Wire(chunks) => chunks.len(),
            Run::Native(blocks) => blocks.len(),
        }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index at `at`, counted from 0.
    #[inline]
    pub fn get(&self, at: usize) -> Option<u32> {
        match self.0 {
            Run::Wire(chunks) => chunks.get(at).map(|le| u32::from_le_bytes(*le)),
            Run::Native(blocks) => blocks.get(at).copied(),
        }
    }

    /// The indexes in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        let run = *self;
        (0..self.len()).map(move |at| run.get(at).unwrap_or(u32::MAX))
    }
}

impl PartialEq for Blocks<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Blocks<'_> {}

impl fmt::Debug for Blocks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
