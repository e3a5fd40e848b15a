//! A set of blocks of our region.

use alloc::vec::Vec;

use crate::BlockIdx;

/// One bit for each block of the region.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BlockSet {
    num_blocks: u32,
    words: Vec<u64>,
}

/// Why blocks could not be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotAdded {
    OutOfRange(BlockIdx),
    /// It is in the set, or stands twice among the blocks to add.
    Taken(BlockIdx),
}

impl BlockSet {
    pub(crate) fn new(num_blocks: u32) -> Self {
        Self { num_blocks, words: alloc::vec![0; (num_blocks as usize).div_ceil(64)] }
    }

    pub(crate) fn contains(&self, block: BlockIdx) -> bool {
        self.words.get(block as usize / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// Adds all of `blocks`, or none of them.
    pub(crate) fn add_all(&mut self, blocks: &[BlockIdx]) -> Result<(), NotAdded> {
        for (at, block) in blocks.iter().enumerate() {
            if let Err(why) = self.add(*block) {
                self.remove_all(blocks.get(..at).unwrap_or_default());
                return Err(why);
            }
        }
        Ok(())
    }

    fn add(&mut self, block: BlockIdx) -> Result<(), NotAdded> {
        if block >= self.num_blocks {
            return Err(NotAdded::OutOfRange(block));
        }
        match self.words.get_mut(block as usize / 64) {
            Some(word) if *word >> (block % 64) & 1 == 0 => {
                *word |= 1 << (block % 64);
                Ok(())
            }
            Some(_) | None => Err(NotAdded::Taken(block)),
        }
    }

    pub(crate) fn remove_all(&mut self, blocks: &[BlockIdx]) {
        for block in blocks {
            if let Some(word) = self.words.get_mut(*block as usize / 64) {
                *word &= !(1 << (block % 64));
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockSet, NotAdded};

    #[test]
    fn adds_all_or_none() {
        let mut set = BlockSet::new(70);
        set.add_all(&[3, 69]).unwrap();
        assert_eq!(set.add_all(&[5, 69]), Err(NotAdded::Taken(69)));
        assert_eq!(set.add_all(&[6, 6]), Err(NotAdded::Taken(6)));
        assert_eq!(set.add_all(&[7, 70]), Err(NotAdded::OutOfRange(70)));
        assert_eq!([3, 5, 6, 7, 69].map(|block| set.contains(block)), [true, false, false, false, true]);
        set.remove_all(&[3, 69]);
        assert_eq!(set, BlockSet::new(70));
    }
}
