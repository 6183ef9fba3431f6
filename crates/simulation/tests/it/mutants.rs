//! Mutation tests of the checker: it detects every mutant.

use kalends_simulation::{Mutant, Tracing, simulate, simulate_mutant};

/// Every mutant must be detected within this many seeds.
const SEEDS: u64 = 300;

#[test]
fn the_checker_detects_every_mutant() {
    let detected_by = |mutant: Mutant| {
        (0..SEEDS).find(|&seed| !simulate_mutant(seed, Tracing::Off, mutant).violations.is_empty())
    };
    let missed: Vec<_> =
        Mutant::ALL.into_iter().filter(|&mutant| detected_by(mutant).is_none()).collect();
    assert!(missed.is_empty(), "the checker does not detect {missed:?}");
}

#[test]
fn the_same_seeds_pass_without_a_mutant() {
    for seed in 0..SEEDS {
        assert_eq!(simulate(seed, Tracing::Off).violations, Vec::<String>::new(), "seed {seed}");
    }
}
