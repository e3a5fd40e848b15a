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

    /// A set of one bit.
    pub fn one(set: bool) -> Bits<'static> {
        Bits { count: 1, bytes: if set { &[1] } else { &[0] } }
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

    /// The bits as runs of equal ones, in order: whether they are set, and how many they are.
    pub fn runs(&self) -> impl Iterator<Item = (bool, u32)> + use<'a> {
        let bits = *self;
        let mut at = 0;
        core::iter::from_fn(move || {
            let len = bits.run_from(at);
            let set = bits.get(at);
            at += len;
            (len > 0).then_some((set, len))
        })
    }

    /// How many bits from `at` on are the same.
    fn run_from(&self, at: u32) -> u32 {
        let same = if self.get(at) { u8::MAX } else { 0 };
        let mut end = at;
        while end < self.count
            && let Some(byte) = self.bytes.get(end as usize / 8)
        {
            let other = (byte ^ same) >> (end % 8);
            if other != 0 {
                end += other.trailing_zeros();
                break;
            }
            end += 8 - end % 8;
        }
        end.min(self.count).saturating_sub(at)
    }

    /// Whether any of `count` bits from `from` on is set.
    pub fn any(&self, from: u32, count: u32) -> bool {
        masks(from, count).any(|(at, mask)| self.bytes.get(at).is_some_and(|byte| byte & mask != 0))
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

/// The bytes that hold `count` bits from `from` on, each with a mask of these bits.
fn masks(from: u32, count: u32) -> impl Iterator<Item = (usize, u8)> {
    let to = from.saturating_add(count);
    let first = from / 8;
    let bytes = if count == 0 { 0 } else { (to - 1) / 8 - first + 1 };
    (first..first + bytes).map(move |byte| {
        let low = from.saturating_sub(byte * 8);
        let high = (byte * 8 + 8).saturating_sub(to).min(8);
        (byte as usize, (u8::MAX << low) & (u8::MAX >> high))
    })
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

    /// Sets `count` bits from `from` on; past the end nothing happens.
    pub fn set_run(&mut self, from: u32, count: u32) {
        let to = from.saturating_add(count).min(self.count);
        for (at, mask) in masks(from, to.saturating_sub(from)) {
            if let Some(byte) = self.bytes.get_mut(at) {
                *byte |= mask;
            }
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

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::BitsBuf;

    fn bits(text: &str) -> BitsBuf {
        let mut bits = BitsBuf::zeros(text.len() as u32);
        (0u32..).zip(text.bytes()).filter(|(_, bit)| *bit == b'1').for_each(|(at, _)| bits.set(at));
        bits
    }

    #[test]
    fn runs_tell_every_bit_once_and_in_order() {
        for text in ["", "1", "0", "110", "00000000111111111111111100000", "1111111101", "000000001"] {
            let told: Vec<_> = bits(text).as_bits().runs().collect();
            assert!(told.array_windows().all(|[a, b]| a.0 != b.0), "{text}: neighbours differ");
            let spelled: alloc::string::String =
                told.iter().flat_map(|(set, len)| (0..*len).map(|_| if *set { '1' } else { '0' })).collect();
            assert_eq!(spelled, text);
        }
    }

    #[test]
    fn a_run_is_set_and_found_wherever_it_lies() {
        for (from, count) in
            [(0, 0), (0, 1), (3, 4), (3, 5), (3, 6), (7, 1), (7, 10), (8, 16), (0, 24), (20, 9)]
        {
            let mut one_by_one = BitsBuf::zeros(24);
            (from..from + count).for_each(|at| one_by_one.set(at));
            let mut at_once = BitsBuf::zeros(24);
            at_once.set_run(from, count);
            assert_eq!(at_once, one_by_one);
            for at in 0..24 {
                assert_eq!(at_once.as_bits().any(at, 1), at_once.as_bits().get(at));
            }
            assert_eq!(at_once.as_bits().any(0, 24), count > 0);
            assert!(!at_once.as_bits().any(0, from.min(24)));
        }
    }
}
