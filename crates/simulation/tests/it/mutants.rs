//! The checker sees every bug that can be planted: what passes it has none of them.

use kalends_simulation::{Mutant, Tracing, simulate, simulate_mutant};

/// Within as many worlds every bug must be found.
const SEEDS: u64 = 300;

#[test]
fn every_planted_bug_is_found() {
    let found_in = |mutant: Mutant| {
        (0..SEEDS).find(|&seed| !simulate_mutant(seed, Tracing::Off, mutant).broken.is_empty())
    };
    let missed: Vec<_> =
        Mutant::ALL.into_iter().filter(|&mutant| found_in(mutant).is_none()).collect();
    assert!(missed.is_empty(), "the checker is blind to {missed:?}");
}

#[test]
fn the_same_worlds_are_whole_without_a_bug() {
    for seed in 0..SEEDS {
        assert_eq!(simulate(seed, Tracing::Off).broken, Vec::<String>::new(), "seed {seed}");
    }
}
