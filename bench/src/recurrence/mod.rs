//! The next occurrence after an instant, how many lie between two, and making a rule: Kalends,
//! code written by hand for each schedule, and the crates that answer the same question.
//!
//! Every contender starts from an instant in its own library's type and ends with one; what it
//! takes to get into the zone and out of it is part of the work.

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
