//! Numbers that many threads count up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn count(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// How many.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// It is so much now.
    pub fn set(&self, number: u64) {
        self.0.store(number, Relaxed);
    }

    /// One more, until what is returned is dropped.
    pub fn hold(&self) -> Held<'_> {
        self.0.fetch_add(1, Relaxed);
        Held(self)
    }

    /// How much it is.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One of those that a gauge counts.
#[derive(Debug)]
pub struct Held<'a>(&'a Gauge);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_counts_what_is_held() {
        let gauge = Gauge::default();
        let held = [gauge.hold(), gauge.hold()];
        assert_eq!(gauge.get(), 2);
        drop(held);
        assert_eq!(gauge.get(), 0);
    }
}
