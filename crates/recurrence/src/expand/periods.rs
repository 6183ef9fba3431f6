//! Division of the number line into periods of equal length.
//!
//! Every search starts with a division by the length of a period. The length is constant, so the
//! division is replaced by a multiplication: for `n < 2^63` and a length `d` with
//! `2^(s-1) < d <= 2^s`, `n / d` is exactly `n × ⌈2^(63+s) / d⌉ / 2^(63+s)`. With `n` doubled, that
//! is the upper half of a product of 64-bit numbers, shifted by `s`.

/// Contiguous periods of equal length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Periods {
    /// Start of a period before every supported position.
    base: i64,
    length: i64,
    multiplier: u64,
    shift: u32,
}

impl Periods {
    /// Periods of `length`, one of which starts at `origin`. Positions must be in
    /// `earliest..earliest + 2^62`.
    pub(crate) fn new(origin: i64, length: i64, earliest: i64) -> Periods {
        let shift = 64 - (length as u64 - 1).leading_zeros();
        let multiplier = (1_u128 << (63 + shift)).div_ceil(length as u128) as u64;
        let base = earliest - (earliest - origin).rem_euclid(length);
        Periods { base, length, multiplier, shift }
    }

    /// The start of the period that contains `position`.
    #[inline]
    pub(crate) fn begin(&self, position: i64) -> i64 {
        self.base + self.index(position) * self.length
    }

    /// The distance from the start of the period that contains `position`.
    #[inline]
    pub(crate) fn passed(&self, position: i64) -> i64 {
        position - self.begin(position)
    }

    /// The index of the period that contains `position`.
    #[inline]
    pub(crate) fn index(&self, position: i64) -> i64 {
        let from_base = (position - self.base) as u64;
        let product = u128::from(from_base << 1) * u128::from(self.multiplier);
        ((product >> 64) as u64 >> self.shift) as i64
    }

    #[inline]
    pub(crate) fn length(&self) -> i64 {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplication_equals_division() {
        let mut state = 1_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let edges = |around: i64| [around - 1, around, around + 1];
        for _ in 0..20_000 {
            let length = (random() >> (random() % 60 + 3)).max(1) as i64 % (1 << 58) + 1;
            let origin = (random() as i64) >> 5;
            let periods = Periods::new(origin, length, -(1 << 60));
            let somewhere = (random() >> 3) as i64 - (1 << 60);
            let begins = somewhere - somewhere.wrapping_sub(origin).rem_euclid(length);
            let positions = [somewhere, origin, -(1 << 60), 1 << 60].into_iter();
            for at in positions.chain(edges(begins.max(-(1 << 60) + 1))) {
                let passed = (i128::from(at) - i128::from(origin)).rem_euclid(length.into());
                assert_eq!(i128::from(periods.passed(at)), passed, "{length} {origin} {at}");
                assert_eq!(periods.begin(at), at - periods.passed(at));
            }
        }
    }
}
