//! Bit sets, least significant bit first, with an explicit count.

use alloc::vec::Vec;
use core::fmt;

/// A borrowed bit set: `count` bits in `ceil(count / 8)` bytes, unused high bits zero (FR-13).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bits<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> Bits<'a> {
    /// `None` when `bytes` is not exactly as long as `count` needs or has bits set past it.
    pub fn new(count: u32, bytes: &'a [u8]) -> Option<Self> {
        let spare = count % 8;
        let clean = spare == 0 || bytes.last().is_none_or(|last| last >> spare == 0);
        (bytes.len() == Bits::bytes_for(count) && clean).then_some(Self { count, bytes })
    }

    /// The bytes that `count` bits take.
    pub(crate) fn bytes_for(count: u32) -> usize {
        (count as usize).div_ceil(8)
    }

    /// How many bits the set has, set or not.
    #[inline]
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether the set has no bits at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bit `at`; false past the end.
    #[inline]
    pub fn get(&self, at: u32) -> bool {
        self.bytes.get(at as usize / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
    }

    /// How many bits are set.
    pub fn ones(&self) -> u32 {
        self.bytes.iter().map(|byte| byte.count_ones()).sum()
    }

    /// The bits in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = bool> + use<'a> {
        let bits = *self;
        (0..self.count).map(move |at| bits.get(at))
    }

    /// The bytes, least significant bit first.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl fmt::Debug for Bits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|bit| f.write_str(if bit { "1" } else { "0" }))
    }
}

/// An owned bit set of a fixed size.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct BitsBuf {
    count: u32,
    bytes: Vec<u8>,
}

impl BitsBuf {
    /// `count` bits, none set.
    pub fn zeros(count: u32) -> Self {
        Self { count, bytes: alloc::vec![0; Bits::bytes_for(count)] }
    }

    /// Sets bit `at`; past the end nothing happens.
    #[inline]
    pub fn set(&mut self, at: u32) {
        if at < self.count
            && let Some(byte) = self.bytes.get_mut(at as usize / 8)
        {
            *byte |= 1 << (at % 8);
        }
    }

    /// Clears bit `at`; past the end nothing happens.
    #[inline]
    pub fn clear(&mut self, at: u32) {
        if let Some(byte) = self.bytes.get_mut(at as usize / 8) {
            *byte &= !(1 << (at % 8));
        }
    }

    /// The set as a view.
    #[inline]
    pub fn as_bits(&self) -> Bits<'_> {
        Bits { count: self.count, bytes: &self.bytes }
    }
}

impl fmt::Debug for BitsBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bits().fmt(f)
    }
}
