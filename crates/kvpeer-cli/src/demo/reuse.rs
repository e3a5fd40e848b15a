//! Blocks that are used again in the moment they are released, where it would hurt most.

use std::ops::Range;
use std::sync::Arc;

use kvpeer::{BlockError, Region};

/// Loads whose blocks are used again as soon as none of them may be written to any more.
pub(crate) struct Reuse {
    region: Arc<Region>,
    /// Loads that still own their blocks.
    owned: Vec<u64>,
    ranges: Vec<Range<u32>>,
    /// What the blocks held before the loads.
    old: u32,
    new: u32,
}

impl Reuse {
    pub(crate) fn new(region: Arc<Region>, loads: Vec<(u64, Range<u32>)>, old: u32, new: u32) -> Self {
        let (owned, ranges) = loads.into_iter().unzip();
        Self { region, owned, ranges, old, new }
    }

    /// A load has given its blocks back. Answers how many blocks were used again, when it was the last.
    pub(crate) fn given_back(&mut self, load: u64) -> Option<Result<u32, BlockError>> {
        let before = self.owned.len();
        self.owned.retain(|owned| *owned != load);
        (before > 0 && self.owned.is_empty()).then(|| self.use_again())
    }

    /// WRITEs come in the order of a load's blocks. So what a writer has left in the sockets would land in the first
    /// blocks that are still untouched: those are taken first, and faster than anything can land.
    fn use_again(&self) -> Result<u32, BlockError> {
        let mut content = vec![0; self.region.block_len()];
        let mut queues = Vec::new();
        for range in &self.ranges {
            let frontier = self.frontier(range, &mut content)?;
            queues.push((frontier..range.end).chain(range.start..frontier));
        }
        let mut used = 0;
        loop {
            let blocks: Vec<u32> = queues.iter_mut().filter_map(Iterator::next).collect();
            if blocks.is_empty() {
                return Ok(used);
            }
            for block in blocks {
                mark(block, self.new, &mut content);
                self.region.write_block(block, &content)?;
                used += 1;
            }
        }
    }

    /// The first block that nothing has been written to, in halving steps.
    fn frontier(&self, range: &Range<u32>, content: &mut [u8]) -> Result<u32, BlockError> {
        let mut untouched = vec![0; content.len()];
        let (mut from, mut to) = (range.start, range.end);
        while from < to {
            let middle = from + (to - from) / 2;
            mark(middle, self.old, &mut untouched);
            self.region.read_block(middle, content)?;
            if *content == *untouched {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        Ok(from)
    }
}

/// Another content than any prompt's: `with` and the block's number, over and over.
pub(crate) fn mark(block: u32, with: u32, content: &mut [u8]) {
    let word = u64::from(block) << 32 | u64::from(with);
    let (words, rest) = content.as_chunks_mut::<8>();
    words.fill(word.to_le_bytes());
    rest.fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: u32 = 1;
    const NEW: u32 = 2;

    fn content(region: &Region, block: u32) -> [u8; 64] {
        let mut content = [0; 64];
        region.read_block(block, &mut content).expect("a block");
        content
    }

    fn marked(block: u32, with: u32) -> [u8; 64] {
        let mut content = [0; 64];
        mark(block, with, &mut content);
        content
    }

    #[test]
    fn all_blocks_are_used_once_the_last_load_has_given_them_back() {
        let region = Region::new(10, 64).expect("memory");
        (0..10).for_each(|block| region.write_block(block, &marked(block, OLD)).expect("a block"));
        (0..3).for_each(|block| region.write_block(block, &[9; 64]).expect("a block"));
        let mut reuse = Reuse::new(region.clone(), vec![(7, 0..5), (8, 5..8)], OLD, NEW);
        assert_eq!(reuse.frontier(&(0..5), &mut [0; 64]), Ok(3));
        assert_eq!(reuse.frontier(&(5..8), &mut [0; 64]), Ok(5));
        assert_eq!(reuse.given_back(1), None);
        assert_eq!(reuse.given_back(8), None);
        assert_eq!(content(&region, 5), marked(5, OLD));
        assert_eq!(reuse.given_back(7), Some(Ok(8)));
        assert_eq!(reuse.given_back(7), None, "once");
        assert!((0..8).all(|block| content(&region, block) == marked(block, NEW)));
        assert_eq!(content(&region, 8), marked(8, OLD), "not ours");
    }
}
