//! The small cases, searched to their end. `kvpeer-model quick` and `deep` search the larger ones.

use std::time::Duration;

use kvpeer_model::{Size, cases, check};

/// Small cases have far fewer.
const MOST_STATES: usize = 5_000_000;

fn keeps_every_promise(name: &str) {
    let case = cases::named(name).expect("a case of this name");
    assert_eq!(case.size, Size::Small);
    let outcome = check(&case, MOST_STATES, Duration::from_secs(600), 1);
    if let Some(found) = outcome.counterexample {
        panic!("{}\n{}\n\n{}", found.broken, found.story.join("\n"), found.tale);
    }
    assert_eq!(outcome.missing, [""; 0], "never seen in {name}");
    assert!(outcome.complete, "{name} was not searched to its end");
}

#[test]
fn fetches_and_stores_in_any_order() {
    keeps_every_promise("pd");
}

#[test]
fn faults_of_writes_of_one_request_are_no_other_requests() {
    keeps_every_promise("pd-two-requests");
}

#[test]
fn two_rounds_of_lookups() {
    keeps_every_promise("symmetric");
}

#[test]
fn both_nodes_consume_and_produce() {
    keeps_every_promise("symmetric-both-ways");
}

#[test]
fn both_nodes_dial() {
    keeps_every_promise("crossing");
}

#[test]
fn every_case_has_a_name_of_its_own() {
    let all = cases::all();
    for case in &all {
        let same = all.iter().filter(|other| other.setup.name == case.setup.name);
        assert_eq!(same.count(), 1, "{}", case.setup.name);
    }
}
