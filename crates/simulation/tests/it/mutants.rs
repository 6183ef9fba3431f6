//! Mutation tests of the checker: it detects every mutant.

use kalends_simulation::{Mutant, StoreKind, Tracing, simulate, simulate_mutant};

/// Every mutant must be detected within this many seeds; `make simulate` runs more of them.
const SEEDS: u64 = 300;
/// Seeds that are tried first: together they detect every mutant, and most of their worlds are short.
const LIKELY_SEEDS: [u64; 13] = [1, 4, 26, 25, 30, 81, 55, 33, 0, 36, 266, 15, 5];
/// Seeds that must pass without a mutant; `make simulate` runs more of them.
const MEMORY_SEEDS: u64 = 60;
/// The same on SQLite, whose worlds take several times as long.
const SQLITE_SEEDS: u64 = 20;

fn check_that_mutants_are_detected(store: StoreKind) {
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        let detects =
            |seed: &u64| !simulate_mutant(*seed, store, Tracing::Off, mutant).violations.is_empty();
        let mut seeds = LIKELY_SEEDS.into_iter().chain(0..SEEDS);
        match seeds.find(detects) {
            Some(seed) => println!("{mutant:?} is detected by seed {seed}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "the checker does not detect {missed:?} on {store:?}");
}

fn check_that_seeds_pass(store: StoreKind, seeds: u64) {
    for seed in LIKELY_SEEDS.into_iter().chain(0..seeds) {
        let violations = simulate(seed, store, Tracing::Off).violations;
        assert_eq!(violations, Vec::<String>::new(), "seed {seed} on {store:?}");
    }
}

#[test]
fn the_checker_detects_every_mutant_in_memory() {
    check_that_mutants_are_detected(StoreKind::Memory);
}

#[test]
fn the_checker_detects_every_mutant_on_sqlite() {
    check_that_mutants_are_detected(StoreKind::Sqlite);
}

#[test]
fn the_same_seeds_pass_without_a_mutant_in_memory() {
    check_that_seeds_pass(StoreKind::Memory, MEMORY_SEEDS);
}

#[test]
fn the_same_seeds_pass_without_a_mutant_on_sqlite() {
    check_that_seeds_pass(StoreKind::Sqlite, SQLITE_SEEDS);
}
