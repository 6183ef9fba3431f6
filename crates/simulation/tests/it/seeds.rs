//! Hundreds of worlds, each with its own faults.

use kalends_simulation::{Tracing, simulate};

#[test]
fn a_seed_makes_the_same_world_twice() {
    for seed in 0..40 {
        let [first, second] = [(); 2].map(|()| simulate(seed, Tracing::On));
        assert!(first.trace.len() > 2, "{seed}");
        assert_eq!(first.trace, second.trace, "{seed}");
    }
}
