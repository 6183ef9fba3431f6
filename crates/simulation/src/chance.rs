//! Chance that follows from a seed.

use kalends_environment::{Entropy, SeededEntropy};

/// Draws that a seed repeats.
#[derive(Debug)]
pub(crate) struct Chance(SeededEntropy);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(SeededEntropy::new(seed))
    }

    /// Chance of its own for one thing, whatever else is drawn before or after.
    pub(crate) fn of(parts: &[u64]) -> Chance {
        Chance::new(parts.iter().fold(0, |mixed, &part| {
            // The draws of one generator are the seeds of the next.
            Chance::new(mixed ^ part).next()
        }))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut bytes = [0; 8];
        // Seeded chance is never used up.
        let _ = self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A number below `bound`; 0 where there is none.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or_default()
    }

    pub(crate) fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy, const N: usize>(&self, of: [T; N]) -> T {
        let index = self.below(N as u64) as usize;
        of.into_iter().cycle().nth(index).unwrap_or_else(|| unreachable_empty(of))
    }
}

/// Nobody picks from nothing; the first stands in so that nothing can panic.
fn unreachable_empty<T: Copy, const N: usize>(of: [T; N]) -> T {
    let [first, ..] = of.as_slice() else { std::process::abort() };
    *first
}
