//! Histograms of durations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets, in seconds. Longer durations fall into the `+Inf` bucket.
pub const BUCKET_BOUNDS_SECONDS: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// Counts durations per bucket and adds them up.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKET_BOUNDS_SECONDS.len()],
    above_all_bounds: AtomicU64,
    sum_nanoseconds: AtomicU64,
}

impl Histogram {
    /// Adds one duration.
    pub fn record(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let mut buckets = BUCKET_BOUNDS_SECONDS.iter().zip(&self.buckets);
        let bucket = buckets.find(|(bound, _)| seconds <= **bound).map(|(_, bucket)| bucket);
        bucket.unwrap_or(&self.above_all_bounds).fetch_add(1, Relaxed);
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanoseconds.fetch_add(nanoseconds, Relaxed);
    }

    /// Returns the cumulative count of each bucket in [`BUCKET_BOUNDS_SECONDS`], and the total count.
    pub(crate) fn cumulative_counts(&self) -> ([u64; BUCKET_BOUNDS_SECONDS.len()], u64) {
        let mut sum = 0;
        let counts = self.buckets.each_ref().map(|bucket| {
            sum += bucket.load(Relaxed);
            sum
        });
        (counts, sum + self.above_all_bounds.load(Relaxed))
    }

    /// Returns the sum of all durations, in seconds.
    pub(crate) fn sum_seconds(&self) -> f64 {
        Duration::from_nanos(self.sum_nanoseconds.load(Relaxed)).as_secs_f64()
    }
}
