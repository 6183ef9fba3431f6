//! A line cut into equal periods.
//!
//! Every search begins by asking in which period something lies. The length is known long before,
//! so the division is made into a multiplication once: for `n < 2^63` and a length `d` with
//! `2^(s-1) < d <= 2^s`, `n / d` is `n × ⌈2^(63+s) / d⌉ / 2^(63+s)`, exactly. Doubling `n`, the
//! result is the upper half of a product of 64-bit numbers, shifted by `s`.

/// Equal periods, one of which begins at a given place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Periods {
    /// Where a period begins that lies before everything that is ever asked for.
    base: i64,
    length: i64,
    multiplier: u64,
    shift: u32,
}

impl Periods {
    /// Periods of `length`, one of which begins at `origin`. Nothing is asked before `earliest`,
    /// and nothing as far as 2^62 after it.
    pub(crate) fn new(origin: i64, length: i64, earliest: i64) -> Periods {
        let shift = 64 - (length as u64 - 1).leading_zeros();
        let multiplier = (1_u128 << (63 + shift)).div_ceil(length as u128) as u64;
        let base = earliest - (earliest - origin).rem_euclid(length);
        Periods { base, length, multiplier, shift }
    }

    /// Where the period begins that holds a place.
    #[inline]
    pub(crate) fn begin(&self, place: i64) -> i64 {
        self.base + self.index(place) * self.length
    }

    /// How far into its period a place lies.
    #[inline]
    pub(crate) fn passed(&self, place: i64) -> i64 {
        place - self.begin(place)
    }

    /// The number of the period that holds a place.
    #[inline]
    pub(crate) fn index(&self, place: i64) -> i64 {
        let from_base = (place - self.base) as u64;
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
    fn multiplying_is_dividing() {
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
            let places = [somewhere, origin, -(1 << 60), 1 << 60].into_iter();
            for place in places.chain(edges(begins.max(-(1 << 60) + 1))) {
                let passed = (i128::from(place) - i128::from(origin)).rem_euclid(length.into());
                assert_eq!(i128::from(periods.passed(place)), passed, "{length} {origin} {place}");
                assert_eq!(periods.begin(place), place - periods.passed(place));
            }
        }
    }
}
