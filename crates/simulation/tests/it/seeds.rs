//! Determinism of seeds, and seeds that once found a bug.

use kalends_simulation::{Tracing, simulate};

/// Seeds that once found a bug. The generator may have changed since; the bugs have their own tests
/// in `engine/tests/it/races.rs` and in the conformance suite of the stores.
const REGRESSION_SEEDS: [u64; 12] =
    [0, 46, 101, 104, 1_075, 1_138, 1_142, 1_215, 1_623, 2_833, 3_202, 3_532];

#[test]
fn a_seed_produces_the_same_trace_twice() {
    for seed in 0..40 {
        let [first, second] = [(); 2].map(|()| simulate(seed, Tracing::On));
        assert!(first.trace.len() > 2, "{seed}");
        assert_eq!(first.trace, second.trace, "{seed}");
    }
}

#[test]
fn seeds_that_once_found_a_bug_pass() {
    for seed in REGRESSION_SEEDS {
        let violations = simulate(seed, Tracing::Off).violations;
        assert_eq!(violations, Vec::<String>::new(), "simulate {seed}");
    }
}
