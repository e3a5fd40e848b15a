//! What was measured, before it is judged.

use std::collections::BTreeMap;

use crate::order::Fetched;
use crate::plan::Series;

/// Why something has no figure.
pub(crate) type Measured<T> = Result<T, String>;

pub(crate) struct Figures {
    /// GB/s, one a round.
    pub(crate) moved: BTreeMap<(Series, usize), Vec<f64>>,
    /// One block of 64 KiB, nothing else under way.
    pub(crate) single: Vec<Fetched>,
    /// The same while 1 GiB (or the whole working set) is fetched by another request.
    pub(crate) beside: Vec<Fetched>,
    /// 1,024 blocks of 64 KiB: GB/s of each fetch.
    pub(crate) many_small: Vec<f64>,
    /// 512 blocks of 2 MiB (or the whole working set): GB/s of each fetch.
    pub(crate) many_large: Vec<f64>,
    /// Share of a core that a node with 100 idle peers uses.
    pub(crate) idle_share: f64,
    pub(crate) core: Core,
    pub(crate) vllm: Measured<Vllm>,
}

/// The core alone.
pub(crate) struct Core {
    /// Instructions for one key of a whole cycle of 8,192.
    pub(crate) instructions: Measured<f64>,
    /// Microseconds of a whole cycle, both ends, for so many keys.
    pub(crate) micros: Measured<Vec<(u32, f64)>>,
}

/// vLLM with NIXL, measured in the same run.
pub(crate) struct Vllm {
    pub(crate) auto: Nixl,
    pub(crate) tcp: Nixl,
    /// Microseconds of a whole cycle of its session objects, msgpack included, for so many keys.
    pub(crate) core_micros: Vec<(u32, f64)>,
}

/// Its fetches, from `submit_load` until the result.
pub(crate) struct Nixl {
    /// Median seconds of one block of 64 KiB.
    pub(crate) single: f64,
    /// Median GB/s of 1,024 x 64 KiB.
    pub(crate) many_small: f64,
    /// Median GB/s of 512 x 2 MiB.
    pub(crate) many_large: f64,
}

impl Figures {
    /// Median GB/s.
    pub(crate) fn rate(&self, series: Series, block_len: usize) -> Option<f64> {
        median(self.moved.get(&(series, block_len))?)
    }

    /// Of libfabric itself, by the better way of waiting.
    pub(crate) fn bare(&self, block_len: usize) -> Option<f64> {
        let ways = [Series::BareSpin, Series::BareSleep];
        ways.into_iter().filter_map(|way| self.rate(way, block_len)).reduce(f64::max)
    }
}

pub(crate) fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The smallest value that this share of all does not exceed; the mean of the two in the middle for the median.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    if share == 0.5 && last % 2 == 1 {
        return Some((sorted.get(last / 2)? + sorted.get(last / 2 + 1)?) / 2.0);
    }
    let at = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1).min(last)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few_and_of_many() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
        let many: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(quantile(&many, 0.99), Some(198.0));
        assert_eq!(quantile(&many, 1.0), Some(200.0));
    }
}
