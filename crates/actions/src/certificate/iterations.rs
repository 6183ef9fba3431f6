//! Limits the key derivation work that a file can cause.

use std::num::NonZeroU32;

use super::error::PfxError;

/// Key derivation iterations of all parts of a file together. Common programs use between 1 and
/// 100,000 for each of three parts; the maximum takes some tenths of a second.
pub const ITERATIONS_MAX: u32 = 600_000;

/// The iteration count of one derivation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Iterations(NonZeroU32);

impl Iterations {
    /// Refuses zero and counts above [`ITERATIONS_MAX`].
    pub(crate) fn read(count: u64) -> Result<Iterations, PfxError> {
        let count = u32::try_from(count).ok().filter(|count| *count <= ITERATIONS_MAX);
        let count = count.ok_or(PfxError::TooMuchWork)?;
        NonZeroU32::new(count).map(Iterations).ok_or(PfxError::Malformed)
    }

    pub(crate) fn get(self) -> NonZeroU32 {
        self.0
    }
}

/// The remaining iterations of one file.
pub(crate) struct IterationBudget(u32);

impl IterationBudget {
    pub(crate) fn new() -> IterationBudget {
        IterationBudget(ITERATIONS_MAX)
    }

    /// Charges a derivation; call it before the derivation.
    pub(crate) fn charge(&mut self, iterations: Iterations) -> Result<(), PfxError> {
        self.0 = self.0.checked_sub(iterations.get().get()).ok_or(PfxError::TooMuchWork)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_share_one_budget() {
        let mut budget = IterationBudget::new();
        assert_eq!(budget.charge(Iterations::read(400_000).unwrap()), Ok(()));
        assert_eq!(budget.charge(Iterations::read(200_000).unwrap()), Ok(()));
        let one = Iterations::read(1).unwrap();
        assert_eq!(budget.charge(one), Err(PfxError::TooMuchWork));
    }

    #[test]
    fn zero_and_excessive_counts_are_refused() {
        assert!(Iterations::read(600_000).is_ok());
        for count in [600_001, 1 << 31, 1 << 32, u64::MAX] {
            assert_eq!(Iterations::read(count), Err(PfxError::TooMuchWork), "{count}");
        }
        assert_eq!(Iterations::read(0), Err(PfxError::Malformed));
    }
}
