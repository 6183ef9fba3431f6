//! How long the parts of an attempt took.

use std::time::Duration;

/// A length of time in whole microseconds. The longest is 35 minutes; attempts end within 30.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(u32);

impl Micros {
    /// Stores keep it in a signed number of four bytes.
    const MAX: u32 = i32::MAX.cast_unsigned();

    /// So many; the longest where there are more.
    pub fn new(micros: u32) -> Micros {
        Micros(micros.min(Micros::MAX))
    }

    /// As a number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl From<Duration> for Micros {
    fn from(time: Duration) -> Micros {
        Micros::new(u32::try_from(time.as_micros()).unwrap_or(Micros::MAX))
    }
}

/// How long the parts of an attempt took. What did not happen, or did not end, is absent: a kept
/// connection is not made again. Where redirects were followed, parts are those of the last hop and
/// the total is of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Finding the addresses.
    pub dns: Option<Micros>,
    /// Being connected.
    pub connect: Option<Micros>,
    /// Agreeing on encryption.
    pub tls: Option<Micros>,
    /// From the first byte sent to the first byte of the answer.
    pub first_byte: Option<Micros>,
    /// All of it.
    pub total: Option<Micros>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_cut_and_what_is_too_long_is_the_longest() {
        let micros = |time: Duration| Micros::from(time).get();
        assert_eq!(micros(Duration::from_nanos(1_999)), 1);
        assert_eq!(micros(Duration::from_secs(1_801)), 1_801_000_000);
        assert_eq!(micros(Duration::from_secs(2_148)), 2_147_483_647);
        assert_eq!(micros(Duration::MAX), 2_147_483_647);
        assert_eq!(Micros::new(u32::MAX).get(), 2_147_483_647);
    }
}
