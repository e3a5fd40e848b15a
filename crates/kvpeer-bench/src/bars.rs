//! The bars: what must be reached, and whether it was.

use crate::core::KEYS;
use crate::figures::{Figures, Measured, Vllm, median, quantile};
use crate::plan::{LENS, SMALL, Series};

/// One figure, beside what it must reach.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) measured: Measured<Values>,
    pub(crate) aim: Aim,
    pub(crate) unit: &'static str,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Values {
    pub(crate) kvpeer: f64,
    /// If the bar is a relation to one.
    pub(crate) yardstick: Option<f64>,
}

/// What the ratio to the yardstick, or the figure itself if there is none, must be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

impl Bar {
    /// What is not measured is not met.
    pub(crate) fn is_met(&self) -> bool {
        self.measured.as_ref().is_ok_and(|values| {
            let value = values.ratio().unwrap_or(values.kvpeer);
            match self.aim {
                Aim::AtLeast(least) => value >= least,
                Aim::AtMost(most) => value <= most,
            }
        })
    }
}

impl Values {
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.yardstick.map(|yardstick| self.kvpeer / yardstick)
    }
}

/// What the yardsticks must reach among themselves for the run to count: each with its name, ratio and least.
pub(crate) fn yardsticks(figures: &Figures) -> Vec<(&'static str, Option<f64>, f64)> {
    const LEN: usize = 1 << 20;
    let ratio = |value: Option<f64>, to: Option<f64>| Some(value? / to?);
    let (memcpy, tcp) = (figures.rate(Series::Memcpy, LEN), figures.rate(Series::RawTcp, LEN));
    vec![
        ("raw TCP of memcpy at 1 MiB", ratio(tcp, memcpy), 0.4),
        ("bare libfabric of raw TCP at 1 MiB", ratio(figures.bare(LEN), tcp), 0.55),
    ]
}

/// Every bar. `version` is libfabric's.
pub(crate) fn bars(figures: &Figures, version: (u16, u16)) -> Vec<Bar> {
    let mut bars = Vec::new();
    core(figures, &mut bars);
    plane(figures, version, &mut bars);
    fetches(figures, &mut bars);
    bars.push(Bar {
        name: "idle node with 100 connected peers".to_owned(),
        measured: Ok(Values { kvpeer: figures.idle_share * 100.0, yardstick: None }),
        aim: Aim::AtMost(0.5),
        unit: "% of a core",
    });
    same_host(figures, &mut bars);
    bars
}

fn core(figures: &Figures, bars: &mut Vec<Bar>) {
    let instructions = figures.core.instructions.clone();
    bars.push(Bar {
        name: "core instructions per key at 8,192 keys".to_owned(),
        measured: instructions.map(|kvpeer| Values { kvpeer, yardstick: None }),
        aim: Aim::AtMost(800.0),
        unit: "instructions",
    });
    for keys in KEYS {
        let of = |series: &[(u32, f64)]| series.iter().find(|(of, _)| *of == keys).map(|(_, micros)| *micros);
        let measured = with_vllm(figures, |vllm| {
            let micros = figures.core.micros.clone()?;
            let (ours, theirs) = (of(&micros), of(&vllm.core_micros));
            let (ours, theirs) = ours.zip(theirs).ok_or_else(|| "no figure for so many keys".to_owned())?;
            // Cycles in a second: more is better.
            Ok(Values { kvpeer: 1e6 / ours, yardstick: Some(1e6 / theirs) })
        });
        bars.push(Bar {
            name: format!("core cycle, {keys} keys, of vLLM's"),
            measured,
            aim: Aim::AtLeast(40.0),
            unit: "cycles/s",
        });
    }
}

fn plane(figures: &Figures, version: (u16, u16), bars: &mut Vec<Bar>) {
    let mut push = |name: String, kvpeer: Option<f64>, yardstick: Option<f64>, least: f64| {
        let measured = kvpeer.zip(yardstick).ok_or_else(|| "not in this run".to_owned());
        let measured = measured.map(|(kvpeer, yardstick)| Values { kvpeer, yardstick: Some(yardstick) });
        bars.push(Bar { name, measured, aim: Aim::AtLeast(least), unit: "GB/s" });
    };
    for len in LENS {
        let least = if len >= 256 << 10 { 0.95 } else { 0.9 };
        let name = format!("plane, scattered {} KiB, of bare libfabric", len >> 10);
        push(name, figures.rate(Series::PlaneScattered, len), figures.bare(len), least);
    }
    let contiguous = |len| figures.rate(Series::PlaneContiguous, len);
    let name = "plane, contiguous 64 KiB, of contiguous 256 KiB".to_owned();
    push(name, contiguous(SMALL), contiguous(256 << 10), 0.9);
    let scattered = figures.rate(Series::PlaneScattered, SMALL);
    let least = if version >= (2, 0) { 0.75 } else { 0.6 };
    let name = "plane, scattered 64 KiB, of raw TCP".to_owned();
    push(name, scattered, figures.rate(Series::RawTcp, SMALL), least);
}

fn fetches(figures: &Figures, bars: &mut Vec<Bar>) {
    let loads: Vec<f64> = figures.single.iter().map(|fetched| fetched.load).collect();
    let single = median(&loads).ok_or_else(|| "not in this run".to_owned());
    let small = median(&figures.many_small).ok_or_else(|| "not in this run".to_owned());
    let large = median(&figures.many_large).ok_or_else(|| "not in this run".to_owned());
    let against = |ours: &Measured<f64>, scale: f64, theirs: fn(&Vllm) -> f64| {
        with_vllm(figures, |vllm| {
            Ok(Values { kvpeer: ours.clone()? * scale, yardstick: Some(theirs(vllm) * scale) })
        })
    };
    let rate = |name: &str, measured, least| Bar {
        name: name.to_owned(),
        measured,
        aim: Aim::AtLeast(least),
        unit: "GB/s",
    };
    bars.push(Bar {
        name: "fetch of 1 x 64 KiB, median, of vLLM + NIXL (auto)".to_owned(),
        measured: against(&single, 1e6, |vllm| vllm.auto.single),
        aim: Aim::AtMost(1.0 / 3.0),
        unit: "µs",
    });
    let small_auto = against(&small, 1.0, |vllm| vllm.auto.many_small);
    bars.push(rate("fetch of 1,024 x 64 KiB, of vLLM + NIXL (auto)", small_auto, 1.25));
    let small_tcp = against(&small, 1.0, |vllm| vllm.tcp.many_small);
    bars.push(rate("fetch of 1,024 x 64 KiB, of vLLM + NIXL (UCX tcp)", small_tcp, 2.0));
    let large_auto = against(&large, 1.0, |vllm| vllm.auto.many_large);
    bars.push(rate("fetch of 512 x 2 MiB, of vLLM + NIXL (auto)", large_auto, 1.25));
    let large_tcp = against(&large, 1.0, |vllm| vllm.tcp.many_large);
    bars.push(rate("fetch of 512 x 2 MiB, of vLLM + NIXL (UCX tcp)", large_tcp, 2.0));

    let beside: Vec<f64> = figures.beside.iter().map(|fetched| fetched.load).collect();
    let p99 = quantile(&beside, 0.99).ok_or_else(|| "nothing was fetched beside the large fetch".to_owned());
    bars.push(Bar {
        name: "fetch of 1 block beside 1 GiB, p99, of the idle median".to_owned(),
        measured: p99
            .and_then(|p99| Ok(Values { kvpeer: p99 * 1e6, yardstick: Some(single.clone()? * 1e6) })),
        aim: Aim::AtMost(20.0),
        unit: "µs",
    });
}

/// The plane for peers on one host.
fn same_host(figures: &Figures, bars: &mut Vec<Bar>) {
    let missing = || Err("there is no plane for one host yet".to_owned());
    for len in LENS {
        let name = format!("same-host plane, {} KiB, of memcpy", len >> 10);
        let measured = missing();
        bars.push(Bar { name, measured, aim: Aim::AtLeast(0.9), unit: "GB/s" });
    }
    let measured = with_vllm(figures, |_| missing());
    let name = "same-host fetch of 512 x 2 MiB, of vLLM + NIXL (auto)".to_owned();
    bars.push(Bar { name, measured, aim: Aim::AtLeast(2.0), unit: "GB/s" });
}

fn with_vllm(figures: &Figures, values: impl FnOnce(&Vllm) -> Measured<Values>) -> Measured<Values> {
    match &figures.vllm {
        Ok(vllm) => values(vllm),
        Err(why) => Err(format!("vLLM + NIXL: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(kvpeer: f64, yardstick: Option<f64>, aim: Aim) -> Bar {
        Bar { name: "a bar".to_owned(), measured: Ok(Values { kvpeer, yardstick }), aim, unit: "GB/s" }
    }

    #[test]
    fn a_bar_is_met_by_its_ratio_or_by_its_own_value() {
        assert!(bar(1.9, Some(2.0), Aim::AtLeast(0.95)).is_met());
        assert!(!bar(1.8, Some(2.0), Aim::AtLeast(0.95)).is_met());
        assert!(bar(0.4, None, Aim::AtMost(0.5)).is_met());
        assert!(!bar(0.6, None, Aim::AtMost(0.5)).is_met());
    }

    #[test]
    fn what_is_not_measured_or_no_number_is_not_met() {
        let missing = Bar { measured: Err("not installed".to_owned()), ..bar(0.0, None, Aim::AtLeast(0.0)) };
        assert!(!missing.is_met());
        assert!(!bar(0.0, Some(0.0), Aim::AtLeast(0.0)).is_met());
    }
}
