//! Counters, gauges and histograms, and their export in the Prometheus text format.
//!
//! Each component owns a struct of metrics, updates it where the work happens, and implements
//! [`Metrics`] to export it. There is no global registry: the endpoint that serves `/metrics` is
//! given the components to export.

mod counter;
mod exposition;
mod histogram;

pub use counter::{Counter, Gauge, GaugeGuard};
pub use exposition::{Exposition, Labels, MetricFamily};
pub use histogram::{BUCKET_BOUNDS_SECONDS, Histogram};

/// A component that exports metrics.
pub trait Metrics: Send + Sync {
    /// Appends the current values to `page`.
    fn write(&self, page: &mut Exposition);
}
