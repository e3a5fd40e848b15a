//! One search, and what came of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kvpeer_sim::{Log, Tale, replay, shrink};
use stateright::{Checker, Model};

use crate::case::{Case, Search};
use crate::coverage::Coverage;

/// What came of a search.
#[derive(Debug)]
pub struct Outcome {
    /// Worlds that differ.
    pub states: usize,
    /// Steps in the longest of the shortest ways to a world.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// What was seen.
    pub coverage: Arc<Coverage>,
    /// Whether all of it was searched.
    pub complete: bool,
    /// Expectations that were not met.
    pub missing: Vec<&'static str>,
    /// The first promise found broken.
    pub counterexample: Option<Counterexample>,
}

/// How a promise was broken.
#[derive(Debug)]
pub struct Counterexample {
    /// What was broken, and how.
    pub broken: String,
    /// A script that replays it.
    pub tale: Tale,
    /// The story of it, for people.
    pub story: Vec<String>,
}

/// Searches all of a case, or as much of it as fits into a number of states and a time.
pub fn check(case: &Case, most_states: usize, most_time: Duration, threads: usize) -> Outcome {
    let start = Instant::now();
    let setup = Arc::new(case.setup.clone());
    let coverage = Arc::new(Coverage::default());
    let search =
        Search { setup: Arc::clone(&setup), expects: case.expects.clone(), coverage: Arc::clone(&coverage) };
    let checker = search
        .checker()
        .threads(threads)
        .target_state_count(most_states)
        .timeout(most_time)
        .finish_when(stateright::HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let took = start.elapsed();
    let found = checker.discoveries();
    let promises = checker.model().properties();
    let is_always = |name: &str| {
        let of = promises.iter().find(|property| property.name == name);
        of.is_some_and(|property| matches!(property.expectation, stateright::Expectation::Always))
    };
    let broken = found.iter().filter(|(name, _)| is_always(name)).min_by_key(|(name, _)| **name);
    let counterexample = broken.map(|(_, path)| {
        let steps = path.clone().into_actions();
        let steps = shrink(&setup, &steps);
        let telling = replay(&setup, &steps, Log::told());
        Counterexample {
            broken: telling.broken().map(ToString::to_string).unwrap_or_default(),
            tale: Tale { world: setup.name.clone(), steps },
            story: telling.log.lines.unwrap_or_default(),
        }
    });
    let missing = promises
        .iter()
        .filter(|property| !is_always(property.name) && !found.contains_key(property.name))
        .map(|property| property.name);
    Outcome {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took,
        complete: checker.state_count() < most_states && took < most_time,
        missing: missing.collect(),
        coverage,
        counterexample,
    }
}
