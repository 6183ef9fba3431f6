//! Counters that parts of the program keep of their own work, and the page that shows them.
//!
//! A part has a struct of counters, counts into it where the work is done, and says with
//! [`Figures`] what they are called. The page is text in the format of Prometheus. Nobody keeps a
//! list of all counters: whoever serves the page is handed those who have some.

mod counter;
mod histogram;
mod page;

pub use counter::{Counter, Gauge, Held};
pub use histogram::{Histogram, SECONDS_MAX};
pub use page::{Labels, Page, Series};

/// Who has figures to show.
pub trait Figures: Send + Sync {
    /// Writes them.
    fn write(&self, page: &mut Page);
}
