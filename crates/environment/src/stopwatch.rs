//! Measuring elapsed time with the monotonic clock.

use std::time::Duration;

/// Measures the time since it was started. Setting the system clock does not affect it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(tokio::time::Instant);

impl Stopwatch {
    /// Starts a stopwatch at the current time.
    pub fn start() -> Stopwatch {
        Stopwatch(tokio::time::Instant::now())
    }

    /// Returns the time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
