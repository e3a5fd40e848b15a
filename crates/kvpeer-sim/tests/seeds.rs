//! Worlds from seeds keep every promise, and a run can be told, read and replayed.

use kvpeer_sim::{Family, Log, Tale, replay, simulate};

/// How many steps with wishes and faults; the world then comes to rest.
const STEPS: usize = 250;

fn keep_every_promise(family: Family, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let run = simulate(family, seed, STEPS);
        assert!(run.broken.is_none(), "seed {family:?} {seed}: {:?}\n{}", run.broken, run.tale);
    }
}

fn both(seeds: std::ops::Range<u64>) -> impl Iterator<Item = (Family, u64)> {
    seeds.flat_map(|seed| [(Family::Seed, seed), (Family::Odd, seed)])
}

#[test]
fn worlds_from_seeds_keep_every_promise_1() {
    keep_every_promise(Family::Seed, 0..400);
}

#[test]
fn worlds_from_seeds_keep_every_promise_2() {
    keep_every_promise(Family::Seed, 1_000_000..1_000_400);
}

#[test]
fn odd_worlds_keep_every_promise_1() {
    keep_every_promise(Family::Odd, 0..1200);
}

#[test]
fn odd_worlds_keep_every_promise_2() {
    keep_every_promise(Family::Odd, 1_000_000..1_001_200);
}

#[test]
fn a_seed_is_one_world() {
    for (family, seed) in both(0..20) {
        assert_eq!(simulate(family, seed, STEPS).tale, simulate(family, seed, STEPS).tale);
    }
}

#[test]
fn a_run_can_be_written_down_read_and_replayed() {
    for (family, seed) in both(0..20) {
        let run = simulate(family, seed, STEPS);
        let read: Tale = run.tale.to_string().parse().unwrap();
        assert_eq!(read, run.tale);
        let telling = replay(&run.setup, &read.steps, Log::default());
        assert_eq!(telling.taken, run.tale.steps);
        assert!(telling.broken().is_none());
    }
}
