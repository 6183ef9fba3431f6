//! Everything that differs from one run to the next, behind traits, so that tests decide it.
//!
//! This is the only crate that reads the system clock.

mod clock;

pub use clock::{Clock, ManualClock, SystemClock};
