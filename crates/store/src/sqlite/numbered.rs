//! Maps by numbers that the store has given itself.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by the number of a job or a run.
pub(crate) type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Numbers that follow each other lie side by side, so many at a time: folds go through a map in
/// the order of its numbers, and find the next one in the processor's cache.
const TOGETHER_BITS: u32 = 6;

/// An odd number without a pattern: the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads numbers over a map. Nobody outside chooses them, so that nobody can make them collide.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        let number = self.0;
        let mut spread = (number >> TOGETHER_BITS).wrapping_mul(SPREAD);
        spread ^= spread >> 32;
        spread = spread.wrapping_mul(SPREAD);
        spread ^= spread >> 29;
        // Where in their stretch they lie differs, for numbers may come in steps of its length.
        let near = (number ^ (spread >> 40)) & ((1 << TOGETHER_BITS) - 1);
        // The map compares the highest seven bits first: there, neighbours differ.
        ((spread << TOGETHER_BITS) | near) ^ (number << 57)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_i64(&mut self, number: i64) {
        self.0 = number.cast_unsigned();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher as _, BuildHasherDefault};

    use super::*;
    use crate::record::JobKey;

    #[test]
    fn numbers_in_a_row_and_in_steps_are_spread() {
        const ROOM: u64 = 1 << 16;
        let hashes = BuildHasherDefault::<NumberHasher>::default();
        for step in [1, 2, 60, 64, 100, 1 << 10, 1 << 16, 1 << 20, 1 << 33] {
            let hashes = (0..30_000).map(|n| hashes.hash_one(JobKey(n * step)));
            let places: HashSet<_> = hashes.map(|hash| hash & (ROOM - 1)).collect();
            // By chance alone it would be 24,000.
            assert!(places.len() > 22_000, "{} for steps of {step}", places.len());
        }
    }
}
