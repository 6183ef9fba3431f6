//! How long things take.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The upper ends of the buckets, in seconds; what takes longer is in one more.
pub const SECONDS_MAX: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// How many things took how long.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; SECONDS_MAX.len()],
    longer: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Histogram {
    /// Something took so long.
    pub fn record(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut buckets = SECONDS_MAX.iter().zip(&self.buckets);
        let bucket = buckets.find(|(max, _)| seconds <= **max).map(|(_, bucket)| bucket);
        bucket.unwrap_or(&self.longer).fetch_add(1, Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Relaxed);
    }

    /// How many took no longer than each of [`SECONDS_MAX`], and how many there are.
    pub(crate) fn counts(&self) -> ([u64; SECONDS_MAX.len()], u64) {
        let mut sum = 0;
        let counts = self.buckets.each_ref().map(|bucket| {
            sum += bucket.load(Relaxed);
            sum
        });
        (counts, sum + self.longer.load(Relaxed))
    }

    /// How long they took together.
    pub(crate) fn seconds(&self) -> f64 {
        Duration::from_nanos(self.nanoseconds.load(Relaxed)).as_secs_f64()
    }
}
