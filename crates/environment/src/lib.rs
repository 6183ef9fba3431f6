//! Everything that differs from one run to the next, behind traits, so that tests decide it.
//!
//! This is the only crate that reads the system's clock and its random numbers.

mod alarm;
mod clock;
mod entropy;
mod guid;

pub use clock::{Clock, ManualClock, SystemClock, Waiting};
pub use entropy::{Entropy, NoEntropy, SeededEntropy, SystemEntropy};
pub use guid::new_guid;
