//! `simulate [FIRST [COUNT [STEPS]]]`: runs seeds until one breaks a promise, which is shrunk and told.

use std::collections::BTreeMap;
use std::process::ExitCode;

use kvpeer_sim::{Log, Tale, replay, shrink, simulate};

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let at = |at: usize, default: u64| numbers.get(at).copied().unwrap_or(default);
    let (first, count, steps) = (at(0, 0), at(1, 10_000), at(2, 300));
    let mut taken = 0;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for seed in first..first.saturating_add(count) {
        let run = simulate(kvpeer_sim::Family::Seed, seed, usize::try_from(steps).unwrap_or(300));
        taken += run.tale.steps.len();
        run.log.seen.iter().for_each(|what| *seen.entry(format!("{what:?}")).or_default() += 1);
        let Some(broken) = run.broken else { continue };
        println!("seed {seed}: {broken}");
        let short = shrink(&run.setup, &run.tale.steps);
        let telling = replay(&run.setup, &short, Log::told());
        telling.log.lines.iter().flatten().for_each(|line| println!("{line}"));
        println!("\n{}", Tale { world: run.setup.name.clone(), steps: short });
        return ExitCode::FAILURE;
    }
    seen.iter().for_each(|(what, times)| println!("{times:>9} {what}"));
    println!("{count} seeds from {first}, {taken} steps: every promise kept");
    ExitCode::SUCCESS
}
