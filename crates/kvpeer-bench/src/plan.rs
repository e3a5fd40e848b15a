//! What is measured, how much of it, and how often.

use std::fmt;

use crate::cut::{Cut, Layout};
use crate::stop::{Outcome, stop};

/// Lengths of blocks, in bytes.
pub(crate) const LENS: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 2 << 20];
/// Those that are fetched end to end.
pub(crate) const FETCHED_LENS: [usize; 2] = [SMALL, LARGE];
pub(crate) const SMALL: usize = 64 << 10;
pub(crate) const LARGE: usize = 2 << 20;

/// Bytes under way, of kvpeer's plane (as the core bounds them by default) and of the bare loop.
pub(crate) const IN_FLIGHT: u64 = 16 << 20;
/// WRITEs under way, as `FabricConfig` bounds them by default.
const MOST_WRITES: usize = 128;

/// Blocks of [`SMALL`] bytes behind the others, for fetches beside a large one.
pub(crate) const TAIL: usize = 64;
/// Peers of the idle node.
pub(crate) const CROWD: usize = 100;

/// WRITEs of one block each that are [`IN_FLIGHT`].
pub(crate) fn depth(block_len: usize) -> usize {
    usize::try_from(IN_FLIGHT / block_len as u64).unwrap_or(MOST_WRITES).clamp(1, MOST_WRITES)
}

/// What moves whole cuts of memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Series {
    Memcpy,
    RawTcp,
    BareSpin,
    BareSleep,
    PlaneContiguous,
    PlaneScattered,
}

impl Series {
    pub(crate) const ALL: [Self; 6] = [
        Self::Memcpy,
        Self::RawTcp,
        Self::BareSpin,
        Self::BareSleep,
        Self::PlaneContiguous,
        Self::PlaneScattered,
    ];

    fn layout(self) -> Layout {
        match self {
            Self::Memcpy | Self::RawTcp | Self::PlaneContiguous => Layout::Contiguous,
            // The same blocks in the same order, so that the same is compared.
            Self::BareSpin | Self::BareSleep | Self::PlaneScattered => Layout::Scattered,
        }
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memcpy => "memcpy",
            Self::RawTcp => "raw TCP",
            Self::BareSpin => "bare libfabric, spinning",
            Self::BareSleep => "bare libfabric, sleeping",
            Self::PlaneContiguous => "kvpeer's plane, contiguous",
            Self::PlaneScattered => "kvpeer's plane, scattered",
        })
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// After one that only warms up.
    pub(crate) rounds: usize,
    /// One-block fetches in a round.
    pub(crate) singles: u32,
    /// 1,024-block fetches in a round.
    pub(crate) batches: u32,
    /// How long the idle node is watched, in seconds.
    pub(crate) idle: f64,
    /// Bytes that the samples go through in turns: more than the last-level cache holds, so that what a sample
    /// moves was not touched lately.
    pub(crate) working_set: usize,
}

/// A sample moves this part of the working set.
const PARTS: usize = 4;

impl Plan {
    pub(crate) fn new(quick: bool, cache: usize) -> Self {
        let working_set = (1usize << 30).max((2 * cache).next_power_of_two());
        if quick {
            Self { rounds: 5, singles: 40, batches: 2, idle: 10.0, working_set }
        } else {
            Self { rounds: 11, singles: 100, batches: 4, idle: 30.0, working_set }
        }
    }

    /// Bytes that each process maps; the consumer maps as many again, to copy from.
    pub(crate) fn memory(&self) -> usize {
        self.working_set + TAIL * SMALL
    }

    /// Refuses a machine that is too small, before it starts to swap.
    pub(crate) fn check(&self, available: usize) -> Outcome<()> {
        let needed = 3 * self.memory() + (1 << 30);
        if available < needed {
            return Err(stop(format!(
                "{} MiB of memory are needed (the working set must not fit the last-level cache), {} MiB are \
                 available: end other programs, or use a larger machine",
                needed >> 20,
                available >> 20
            )));
        }
        Ok(())
    }

    /// What the `turn`th sample of a series moves.
    pub(crate) fn cut(&self, series: Series, block_len: usize, turn: usize) -> Cut {
        let count = self.working_set / PARTS / block_len;
        let first = turn % PARTS * count;
        cut(block_len, first, count, series.layout())
    }

    /// A run of blocks for the `turn`th fetch of so many, none of them used by the fetches just before.
    pub(crate) fn run(&self, block_len: usize, count: usize, turn: usize) -> Cut {
        let places = self.working_set / block_len / count;
        cut(block_len, turn % places * count, count, Layout::Contiguous)
    }

    /// Blocks that no other fetch uses.
    pub(crate) fn tail(&self) -> Cut {
        cut(SMALL, self.working_set / SMALL, TAIL, Layout::Contiguous)
    }
}

fn cut(block_len: usize, first: usize, count: usize, layout: Layout) -> Cut {
    // All of them are numbers of blocks in memory that is mapped.
    let number = |blocks: usize| u32::try_from(blocks).unwrap_or(u32::MAX);
    Cut { block_len, first: number(first), count: number(count), layout }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_lie_in_the_memory_and_take_turns() {
        let plan = Plan::new(true, 700 << 20);
        assert_eq!(plan.working_set, 2 << 30);
        for series in Series::ALL {
            for block_len in LENS {
                let ends = (0..PARTS).map(|turn| {
                    let cut = plan.cut(series, block_len, turn);
                    u64::from(cut.first + cut.count) * block_len as u64
                });
                assert_eq!(ends.max(), Some(plan.working_set as u64));
            }
        }
        let tail = plan.tail();
        assert_eq!(u64::from(tail.first + tail.count) * SMALL as u64, plan.memory() as u64);
    }

    #[test]
    fn as_much_is_under_way_for_every_length() {
        assert_eq!(LENS.map(depth), [128, 64, 16, 8]);
    }

    #[test]
    fn a_machine_without_the_memory_is_told_so() {
        let plan = Plan::new(true, 32 << 20);
        assert!(plan.check(8 << 30).is_ok());
        assert!(plan.check(2 << 30).expect_err("too little").to_string().contains("available"));
    }
}
