//! Clock and random numbers behind traits, so that tests and simulations control them.
//!
//! This is the only crate that reads the system clock and the system's random number generator.

mod clock;
mod entropy;
mod guid;
mod stopwatch;
mod timer;

pub use clock::{Clock, ManualClock, Sleep, SystemClock};
pub use entropy::{BufferedEntropy, Entropy, EntropyError, SeededEntropy, SystemEntropy};
pub use guid::{format_guid, new_guid};
pub use stopwatch::Stopwatch;
