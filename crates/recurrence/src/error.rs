//! What is wrong with a definition, said so that its author can mend it.

use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Which member, such as `recurrence.schedule.hours[1]`.
    pub path: String,
    /// What kind of mistake it is.
    pub kind: RuleErrorKind,
    /// What was found and what is allowed.
    pub message: String,
}

/// The kinds of mistakes that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleErrorKind {
    /// `startTime` lies too far ahead.
    StartTooFarAhead,
    /// `interval` or `count` is no positive number, or too large a one.
    InvalidRecurrence,
    /// `interval` is longer than allowed.
    IntervalTooLong,
    /// A member of the schedule is out of range, empty, too long, or not for this frequency.
    InvalidSchedule,
    /// No date on the calendar fits.
    NeverFires,
}

/// Everything that is wrong with a definition; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RuleErrors(pub Vec<RuleError>);

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl fmt::Display for RuleErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}
