//! Counters and gauges that many threads update without locks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A monotonically increasing value.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds 1.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A value that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Replaces the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Adds 1 until the returned guard is dropped.
    pub fn guard(&self) -> GaugeGuard<'_> {
        self.0.fetch_add(1, Relaxed);
        GaugeGuard(self)
    }

    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Subtracts 1 from its [`Gauge`] when it is dropped.
#[derive(Debug)]
pub struct GaugeGuard<'a>(&'a Gauge);

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_counts_the_guards_that_exist() {
        let gauge = Gauge::default();
        let guards = [gauge.guard(), gauge.guard()];
        assert_eq!(gauge.get(), 2);
        drop(guards);
        assert_eq!(gauge.get(), 0);
    }
}
