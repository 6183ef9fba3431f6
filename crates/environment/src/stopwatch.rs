//! How long things take: by a clock that nobody sets.

use std::time::Duration;

/// Tells how long ago it was started.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(tokio::time::Instant);

impl Stopwatch {
    /// Starts one.
    pub fn start() -> Stopwatch {
        Stopwatch(tokio::time::Instant::now())
    }

    /// How long ago it was started.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
