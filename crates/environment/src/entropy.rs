//! Random bytes.

use std::sync::{Mutex, PoisonError};

/// A source of random bytes.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` completely or returns an error.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError>;
}

/// The random number generator of the operating system failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntropyError;

impl std::fmt::Display for EntropyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the random number generator of the operating system failed")
    }
}

impl std::error::Error for EntropyError {}

/// The random number generator of the operating system, fit for secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        getrandom::fill(bytes).map_err(|_| EntropyError)
    }
}

/// Takes random bytes of the operating system in larger pieces: a system call for each id of a request
/// would be a noticeable part of the cost of an attempt. Not for secrets, which would stay in memory.
#[derive(Debug, Default)]
pub struct BufferedEntropy(Mutex<Vec<u8>>);

impl BufferedEntropy {
    const PIECE: usize = 1_024;
}

impl Entropy for BufferedEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        if bytes.len() > BufferedEntropy::PIECE {
            return SystemEntropy.fill(bytes);
        }
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.len() < bytes.len() {
            buffer.resize(BufferedEntropy::PIECE, 0);
            if let Err(error) = SystemEntropy.fill(&mut buffer) {
                buffer.clear();
                return Err(error);
            }
        }
        let rest = buffer.len() - bytes.len();
        bytes.iter_mut().zip(buffer.drain(rest..)).for_each(|(to, from)| *to = from);
        Ok(())
    }
}

/// A deterministic generator for repeatable tests. Not fit for secrets.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<u64>);

impl SeededEntropy {
    /// Creates a generator whose output depends on `seed` alone.
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy(Mutex::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            // SplitMix64: good enough for tests, and it does not repeat.
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = *state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            for (byte, random) in chunk.iter_mut().zip(mixed.to_le_bytes()) {
                *byte = random;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_the_system_generator_does_not() {
        let draw = |entropy: &dyn Entropy| {
            let mut bytes = [0; 24];
            entropy.fill(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(draw(&SeededEntropy::new(7)), draw(&SeededEntropy::new(7)));
        assert_ne!(draw(&SeededEntropy::new(7)), draw(&SeededEntropy::new(8)));
        assert_ne!(draw(&SystemEntropy), draw(&SystemEntropy));
    }

    #[test]
    fn buffered_bytes_are_random_and_handed_out_once() {
        let entropy = BufferedEntropy::default();
        let mut drawn = std::collections::BTreeSet::new();
        for _ in 0..1_000 {
            let mut bytes = [0; 24];
            entropy.fill(&mut bytes).unwrap();
            assert!(drawn.insert(bytes));
        }
        let mut long = vec![0; 4 * BufferedEntropy::PIECE];
        entropy.fill(&mut long).unwrap();
        assert!(long.chunks(24).all(|piece| piece.iter().any(|byte| *byte != 0)));
    }
}
