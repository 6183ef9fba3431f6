//! A deterministic random number generator.

use kalends_environment::{Entropy, SeededEntropy};

/// Repeats the same draws for the same seed.
#[derive(Debug)]
pub(crate) struct Rng(SeededEntropy);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(SeededEntropy::new(seed))
    }

    /// An independent generator for one purpose: draws elsewhere do not change its results.
    pub(crate) fn derive(parts: &[u64]) -> Rng {
        Rng::new(parts.iter().fold(0, |mixed, &part| {
            // Each part reseeds the generator, so that the order of parts matters.
            Rng::new(mixed ^ part).next()
        }))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut bytes = [0; 8];
        // Seeded entropy never fails.
        let _ = self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A number below `bound`, or 0 if `bound` is 0.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or_default()
    }

    /// A number between `low` and `high`, both included.
    pub(crate) fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True with probability `1/n`.
    pub(crate) fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy, const N: usize>(&self, of: [T; N]) -> T {
        let index = self.below(N as u64) as usize;
        of.into_iter().cycle().nth(index).unwrap_or_else(|| unreachable_empty(of))
    }
}

/// Unreachable for a non-empty array; aborts for an empty one, which no caller passes.
fn unreachable_empty<T: Copy, const N: usize>(of: [T; N]) -> T {
    let [first, ..] = of.as_slice() else { std::process::abort() };
    *first
}
