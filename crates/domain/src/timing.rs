//! Durations of the phases of an attempt.

use std::time::Duration;

/// A duration in whole microseconds, at most 35 minutes. Attempts time out after 30 minutes at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(u32);

impl Micros {
    /// Stores use a signed 32-bit column.
    const MAX: u32 = i32::MAX.cast_unsigned();

    /// Creates a duration, capped at the maximum.
    pub fn new(micros: u32) -> Micros {
        Micros(micros.min(Micros::MAX))
    }

    /// Number of microseconds.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl From<Duration> for Micros {
    fn from(time: Duration) -> Micros {
        Micros::new(u32::try_from(time.as_micros()).unwrap_or(Micros::MAX))
    }
}

/// Durations of the phases of an attempt. A phase that did not happen or did not finish is absent: a
/// keep-alive connection, for example, has no `connect`. After redirects, the phases are those of
/// the last hop and the total covers all hops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// DNS resolution.
    pub dns: Option<Micros>,
    /// TCP connect.
    pub connect: Option<Micros>,
    /// TLS handshake.
    pub tls: Option<Micros>,
    /// From the first byte of the request to the first byte of the response.
    pub first_byte: Option<Micros>,
    /// The whole attempt.
    pub total: Option<Micros>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_truncated_and_capped() {
        let micros = |time: Duration| Micros::from(time).get();
        assert_eq!(micros(Duration::from_nanos(1_999)), 1);
        assert_eq!(micros(Duration::from_secs(1_801)), 1_801_000_000);
        assert_eq!(micros(Duration::from_secs(2_148)), 2_147_483_647);
        assert_eq!(micros(Duration::MAX), 2_147_483_647);
        assert_eq!(Micros::new(u32::MAX).get(), 2_147_483_647);
    }
}
