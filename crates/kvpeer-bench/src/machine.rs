//! What the figures were measured on.

use std::fs;

use crate::stop::{Outcome, stop};

pub(crate) struct Machine {
    cpu: String,
    cpus: usize,
    kernel: String,
    /// Bytes of the last-level cache, as the kernel says.
    pub(crate) cache: usize,
    /// Bytes of memory that programs can have.
    pub(crate) available: usize,
    libfabric: (u16, u16),
    /// Programs that wanted to run, averaged over the last minute, before the benchmark began.
    load: String,
}

impl Machine {
    pub(crate) fn look() -> Outcome<Self> {
        let read = |path: &str| {
            fs::read_to_string(path)
                .map_err(|error| stop(format!("{path}: {error}; this benchmark needs Linux")))
        };
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let available = field(&read("/proc/meminfo")?, "MemAvailable")
            .and_then(|text| text.trim_end_matches("kB").trim().parse::<usize>().ok())
            .ok_or_else(|| stop("/proc/meminfo does not say how much memory is available"))?;
        Ok(Self {
            cpu: field(&read("/proc/cpuinfo")?, "model name").unwrap_or_else(|| "unknown CPU".to_owned()),
            cpus: std::thread::available_parallelism()?.get(),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            cache: last_level_cache(),
            available: available << 10,
            libfabric: kvpeer_fabric::version(),
            load: read("/proc/loadavg")?.split_whitespace().next().unwrap_or("?").to_owned(),
        })
    }

    pub(crate) fn libfabric(&self) -> (u16, u16) {
        self.libfabric
    }

    pub(crate) fn describe(&self) -> String {
        let (major, minor) = self.libfabric;
        format!(
            "{} x {}, last-level cache {} MiB, Linux {}, libfabric {major}.{minor}; load average {} at the start",
            self.cpus,
            self.cpu,
            self.cache >> 20,
            self.kernel,
            self.load
        )
    }
}

/// The largest cache that the kernel names; 32 MiB if it names none.
fn last_level_cache() -> usize {
    let sizes = (0..8).filter_map(|index| {
        let size =
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
        let (number, unit) = size.trim().split_at_checked(size.trim().len().checked_sub(1)?)?;
        let unit = match unit {
            "K" => 10,
            "M" => 20,
            _ => return None,
        };
        Some(number.parse::<usize>().ok()? << unit)
    });
    sizes.max().unwrap_or(32 << 20)
}
