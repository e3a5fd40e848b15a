//! Which blocks one sample moves, known to both processes without being told one by one.

use serde::{Deserialize, Serialize};

/// A run of blocks that is moved in one sample, from the same blocks on the one side to those on the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Cut {
    /// Bytes, a multiple of 8.
    pub(crate) block_len: usize,
    pub(crate) first: u32,
    /// A power of two if the layout is scattered.
    pub(crate) count: u32,
    pub(crate) layout: Layout,
}

/// In which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Layout {
    /// One after the other on both sides: what can be merged is.
    Contiguous,
    /// No two that follow one another are neighbours, on either side: nothing can be merged.
    Scattered,
}

impl Cut {
    pub(crate) fn bytes(&self) -> u64 {
        self.block_len as u64 * u64::from(self.count)
    }

    /// Source and destination blocks, in the order in which they are moved.
    pub(crate) fn pairs(self) -> impl Iterator<Item = (u32, u32)> {
        // Odd strides visit each block of a power of two once.
        let (from, to) = match self.layout {
            Layout::Contiguous => (1, 1),
            Layout::Scattered => (self.count / 8 * 5 + 1, self.count / 8 * 3 + 1),
        };
        let place = move |at: u32, stride: u32| {
            let place = u64::from(at) * u64::from(stride) % u64::from(self.count.max(1));
            self.first + u32::try_from(place).unwrap_or_default()
        };
        (0..self.count).map(move |at| (place(at, from), place(at, to)))
    }

    pub(crate) fn blocks(self) -> (Vec<u32>, Vec<u32>) {
        self.pairs().unzip()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_scattered_cut_moves_each_block_once_and_has_no_neighbours() {
        for count in [16, 128, 4096] {
            let cut = Cut { block_len: 8, first: 7, count, layout: Layout::Scattered };
            let (from, to) = cut.blocks();
            for side in [&from, &to] {
                let all: BTreeSet<u32> = side.iter().copied().collect();
                assert_eq!(all, (7..7 + count).collect());
                assert!(side.windows(2).all(|two| two[0] + 1 != two[1]));
            }
        }
    }
}
