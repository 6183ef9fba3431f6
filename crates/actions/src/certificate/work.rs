//! How much work a file may ask for.

use std::num::NonZeroU32;

use super::problem::Problem;

/// Iterations of key derivation that a file may ask for in all its parts together. What programs
/// write lies between 1 and 100,000 for each of three parts; this many take some tenths of a second.
pub const ITERATIONS_MAX: u32 = 600_000;

/// How often a derivation repeats itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Iterations(NonZeroU32);

impl Iterations {
    /// A count that no budget could hold is refused here, so what derives need not look again.
    pub(crate) fn read(count: u64) -> Result<Iterations, Problem> {
        let count = u32::try_from(count).ok().filter(|count| *count <= ITERATIONS_MAX);
        let count = count.ok_or(Problem::TooMuchWork)?;
        NonZeroU32::new(count).map(Iterations).ok_or(Problem::Malformed)
    }

    pub(crate) fn get(self) -> NonZeroU32 {
        self.0
    }
}

/// What is left of the iterations that one file may ask for.
pub(crate) struct Budget(u32);

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget(ITERATIONS_MAX)
    }

    /// To be called for every derivation before it is done.
    pub(crate) fn take(&mut self, iterations: Iterations) -> Result<(), Problem> {
        self.0 = self.0.checked_sub(iterations.get().get()).ok_or(Problem::TooMuchWork)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_one_for_all_parts() {
        let mut budget = Budget::new();
        assert_eq!(budget.take(Iterations::read(400_000).unwrap()), Ok(()));
        assert_eq!(budget.take(Iterations::read(200_000).unwrap()), Ok(()));
        let one = Iterations::read(1).unwrap();
        assert_eq!(budget.take(one), Err(Problem::TooMuchWork));
    }

    #[test]
    fn counts_outside_the_budget_are_refused() {
        assert!(Iterations::read(600_000).is_ok());
        for count in [600_001, 1 << 31, 1 << 32, u64::MAX] {
            assert_eq!(Iterations::read(count), Err(Problem::TooMuchWork), "{count}");
        }
        assert_eq!(Iterations::read(0), Err(Problem::Malformed));
    }
}
