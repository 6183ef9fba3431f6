//! Determinism of seeds, and seeds that once found a bug.

use kalends_simulation::{StoreKind, Tracing, simulate};

/// Seeds that once found a bug. The generator may have changed since; the bugs have their own tests
/// in `engine/tests/it/races.rs` and in the conformance suite of the stores.
const REGRESSION_SEEDS: [u64; 17] = [
    0, 46, 93, 101, 104, 146, 271, 302, 329, 1_075, 1_138, 1_142, 1_215, 1_623, 2_833, 3_202, 3_532,
];

#[test]
fn a_seed_produces_the_same_trace_twice() {
    for (store, seed) in on_every_store(0..20) {
        let [first, second] = [(); 2].map(|()| simulate(seed, store, Tracing::On));
        assert!(first.trace.len() > 2, "{store:?} {seed}");
        assert_eq!(first.trace, second.trace, "{store:?} {seed}");
    }
}

#[test]
fn seeds_that_once_found_a_bug_pass() {
    for (store, seed) in on_every_store(REGRESSION_SEEDS) {
        let violations = simulate(seed, store, Tracing::Off).violations;
        assert_eq!(violations, Vec::<String>::new(), "simulate {store:?} {seed}");
    }
}

/// Both stores return the same in every call of these worlds, up to the last event.
#[test]
fn a_seed_produces_the_same_trace_on_every_store() {
    for seed in 0..20 {
        let [memory, sqlite] = StoreKind::ALL.map(|store| simulate(seed, store, Tracing::On));
        assert_eq!(memory.trace, sqlite.trace, "{seed}");
    }
}

fn on_every_store(seeds: impl IntoIterator<Item = u64>) -> Vec<(StoreKind, u64)> {
    let seeds = seeds.into_iter();
    seeds.flat_map(|seed| StoreKind::ALL.map(|store| (store, seed))).collect()
}
