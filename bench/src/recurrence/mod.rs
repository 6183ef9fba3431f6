//! Next occurrence, number of occurrences in a period, and construction of a rule: Kalends, hand-written
//! code for each schedule, and third-party crates.
//!
//! Every contender takes and returns times in its own library's type; conversion to and from the time
//! zone is part of the workload.

mod by_hand;
mod case;
mod check;
mod contender;
mod instants;
mod kalends;
mod peers;
mod report;
mod schedule;
mod work;

pub use case::Case;
pub use check::check;
pub use contender::Contender;
pub use report::{Timed, report};
