//! Validation errors of a [`Definition`](crate::Definition).

use std::fmt;

/// A validation error of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Path of the member, such as `recurrence.schedule.hours[1]`.
    pub path: String,
    /// Category, from which callers derive an error code.
    pub kind: RuleErrorKind,
    /// The problem, the value found and the values allowed: a sentence whose subject is the member.
    pub message: String,
}

/// Categories of [`RuleError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleErrorKind {
    /// `startTime` is later than [`Settings::start_months_ahead_max`](crate::Settings) allows.
    StartTooFarAhead,
    /// `interval` is below 1, or `count` is out of range.
    InvalidRecurrence,
    /// `interval` exceeds [`Settings::interval_max`](crate::Settings).
    IntervalTooLong,
    /// A member of the schedule is out of range, empty, too long or not supported by the frequency.
    InvalidSchedule,
    /// No date and time in the 400-year cycle of the calendar matches, or `endTime` lies before the
    /// first that does.
    NeverFires,
}

/// All validation errors of a definition; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RuleErrors(pub Vec<RuleError>);

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.message)
    }
}

impl fmt::Display for RuleErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ". " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}
