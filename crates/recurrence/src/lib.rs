//! When a job is due.
//!
//! A [`Definition`] (start, creation, recurrence) is checked into a [`Rule`], and the rule answers:
//! which is the first occurrence, the next after an instant, the last before one, how many lie
//! between two, what does it say in words, and what happens when the clocks change.
//!
//! The crate is pure: it reads no clock, does no I/O, and takes its limits as [`Settings`]. Zone
//! data is in the binary.
//!
//! The way through it: `validate` checks the members; `compile` makes an `expand::Pattern`, which
//! is arithmetic on a straight line of time; `placement` lays the pattern over the `zone` and
//! decides gaps and overlaps; `rule` adds the beginning and the end.

mod civil;
mod compile;
mod definition;
mod describe;
mod dst_notes;
mod error;
mod expand;
mod instant;
mod placement;
mod rule;
mod settings;
mod validate;
mod zone;

pub use definition::{Definition, Frequency, MonthlyOccurrence, Recurrence, Schedule, Weekday};
pub use dst_notes::DstNote;
pub use error::{RuleError, RuleErrorKind, RuleErrors};
pub use instant::{Instant, InstantError};
pub use rule::Rule;
pub use settings::{IntervalMax, Settings};
pub use zone::{UnknownZoneError, Zone};
