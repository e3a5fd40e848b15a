//! `kvpeer-model [quick|deep|CASE ...]`: searches cases; `kvpeer-model replay FILE`: tells a run again.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kvpeer_model::{Case, Coverage, Outcome, Size, cases, check};
use kvpeer_sim::{Log, Tale, replay};

/// Bounds of one search that no case should meet.
const MOST_STATES: usize = 400_000_000;
const MOST_TIME: Duration = Duration::from_secs(3_600);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["quick"] => search(&sized(Size::Quick)),
        ["deep"] => search(&sized(Size::Deep)),
        ["replay", file] => tell(file),
        names => search(&names.iter().filter_map(|name| cases::named(name)).collect::<Vec<_>>()),
    }
}

fn sized(most: Size) -> Vec<Case> {
    cases::all().into_iter().filter(|case| case.size <= most).collect()
}

fn search(cases: &[Case]) -> ExitCode {
    let mut good = !cases.is_empty();
    let together = Coverage::default();
    println!("{:<20} {:>10} {:>6} {:>8}  covers", "case", "states", "depth", "seconds");
    for case in cases {
        let outcome = check(case, MOST_STATES, MOST_TIME, 2);
        together.include(&outcome.coverage);
        println!(
            "{:<20} {:>10} {:>6} {:>8.1}  {}",
            case.setup.name,
            outcome.states,
            outcome.depth,
            outcome.took.as_secs_f64(),
            case.covers
        );
        good &= report(case, &outcome);
        if !good {
            println!("  the cases after it are not searched");
            break;
        }
    }
    println!("\nseen in all of them together:");
    together.all().iter().for_each(|seen| println!("  {seen:?}"));
    let verdict = if good { "every promise kept" } else { "FAILED" };
    println!("model: {} cases, {verdict}", cases.len());
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(case: &Case, outcome: &Outcome) -> bool {
    for missing in &outcome.missing {
        println!("  never seen: {missing}");
    }
    if !outcome.complete {
        println!("  not searched to its end");
    }
    if let Some(found) = &outcome.counterexample {
        println!("  BROKEN {}", found.broken);
        found.story.iter().for_each(|line| println!("  {line}"));
        let file = format!("{}.tale", case.setup.name);
        match std::fs::write(&file, found.tale.to_string()) {
            Ok(()) => println!("  replays from {file}"),
            Err(error) => println!("  could not write {file}: {error}\n{}", found.tale),
        }
    }
    outcome.missing.is_empty() && outcome.complete && outcome.counterexample.is_none()
}

fn tell(file: &str) -> ExitCode {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            println!("{file}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let tale: Tale = match text.parse() {
        Ok(tale) => tale,
        Err(error) => {
            println!("{file}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let setup = cases::named(&tale.world).map(|case| case.setup);
    let Some(setup) = setup.or_else(|| kvpeer_sim::setup_of(&tale.world)) else {
        println!("{file}: there is no world {:?}", tale.world);
        return ExitCode::FAILURE;
    };
    let telling = replay(&Arc::new(setup), &tale.steps, Log::told());
    telling.log.lines.iter().flatten().for_each(|line| println!("{line}"));
    println!("{} of {} steps taken", telling.taken.len(), tale.steps.len());
    if telling.broken().is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
