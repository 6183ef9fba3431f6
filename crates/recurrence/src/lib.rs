//! Recurrence rules: computes when a job is due.
//!
//! [`Rule::new`] validates a [`Definition`] (start time, creation time, recurrence). A [`Rule`] finds the
//! first occurrence, the next one after a time, the last one at or before a time, and the number of
//! occurrences in a range. It also describes itself in English and reports the effect of DST
//! transitions.
//!
//! The crate is pure: it reads no clock, does no I/O, and takes its limits as [`Settings`]. Time zone
//! data is compiled into the binary.
//!
//! Pipeline: `validate` checks the members of the definition; `compile` builds an `expand::Pattern`, a
//! set of points that ignores DST; `zoned_pattern` applies the pattern to a `zone` and resolves DST
//! gaps and overlaps; `rule` adds start time, end time and count.

mod civil;
mod compile;
mod cron;
mod definition;
mod describe;
mod dst_notes;
mod error;
mod expand;
mod instant;
mod relative_time;
mod rule;
mod settings;
mod validate;
mod zone;
mod zone_suggestions;
mod zoned_pattern;

pub use cron::{Cron, CronError};
pub use definition::{
    Definition, Frequency, Interval, MonthlyOccurrence, Recurrence, RecurrencePattern, Schedule,
    Weekday,
};
pub use describe::ImmediateRun;
pub use dst_notes::DstNote;
pub use error::{RuleError, RuleErrorKind, RuleErrors};
pub use instant::{Instant, InstantError, TICKS_PER_SECOND, duration_to_ticks, ticks_to_duration};
pub use relative_time::{relative_time, span};
pub use rule::Rule;
pub use settings::{IntervalMax, Settings};
pub use zone::{UnknownZoneError, Zone};
