//! Choices out of the fuzzer's bytes.

use arbitrary::Unstructured;

/// What is left of the bytes. Without any, every choice is the first.
pub(crate) struct Dice<'a>(Unstructured<'a>);

impl<'a> Dice<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(Unstructured::new(bytes))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// A number from 0 to `limit - 1`; 0 when `limit` is 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        match limit {
            0 | 1 => 0,
            limit => self.0.int_in_range(0..=limit - 1).unwrap_or(0),
        }
    }

    pub(crate) fn number(&mut self, limit: u8) -> u8 {
        self.below(usize::from(limit)) as u8
    }

    /// Mostly small, now and then anything.
    pub(crate) fn wild(&mut self, limit: u8) -> u64 {
        match self.number(limit.saturating_add(1)) {
            wild if wild == limit => self.0.arbitrary().unwrap_or(0),
            small => u64::from(small),
        }
    }

    /// Never without bytes.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        times <= 1 || self.below(times) == times - 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len())).copied()
    }

    pub(crate) fn some<T>(&mut self, most: usize, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| one(self)).collect()
    }
}
