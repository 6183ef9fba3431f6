//! Hundreds of worlds, each with its own faults.

use kalends_simulation::{Tracing, simulate};

/// Worlds that showed a bug once. What they are made of may have changed since; the bugs have tests
/// of their own in `engine/tests/it/narrow.rs` and in the suite of the stores.
const ONCE_BROKEN: [u64; 12] =
    [0, 46, 101, 104, 1_075, 1_138, 1_142, 1_215, 1_623, 2_833, 3_202, 3_532];

#[test]
fn a_seed_makes_the_same_world_twice() {
    for seed in 0..40 {
        let [first, second] = [(); 2].map(|()| simulate(seed, Tracing::On));
        assert!(first.trace.len() > 2, "{seed}");
        assert_eq!(first.trace, second.trace, "{seed}");
    }
}

#[test]
fn every_promise_is_kept_in_worlds_that_broke_one_once() {
    for seed in ONCE_BROKEN {
        let broken = simulate(seed, Tracing::Off).broken;
        assert_eq!(broken, Vec::<String>::new(), "simulate {seed}");
    }
}
