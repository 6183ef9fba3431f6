//! Mutation tests of the checker: it detects every mutant.

use kalends_simulation::{Mutant, StoreKind, Tracing, simulate, simulate_mutant};

/// Every mutant must be detected within this many seeds.
const SEEDS: u64 = 300;
/// Seeds that must pass without a mutant; `make simulate` runs more of them.
const MEMORY_SEEDS: u64 = 120;
/// The same on SQLite, whose worlds take several times as long.
const SQLITE_SEEDS: u64 = 30;

fn check_that_mutants_are_detected(store: StoreKind) {
    let detects = |seed: u64, mutant| {
        !simulate_mutant(seed, store, Tracing::Off, mutant).violations.is_empty()
    };
    let is_detected = |mutant: &Mutant| (0..SEEDS).any(|seed| detects(seed, *mutant));
    let missed: Vec<_> = Mutant::ALL.into_iter().filter(|mutant| !is_detected(mutant)).collect();
    assert!(missed.is_empty(), "the checker does not detect {missed:?} on {store:?}");
}

fn check_that_seeds_pass(store: StoreKind, seeds: u64) {
    for seed in 0..seeds {
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
