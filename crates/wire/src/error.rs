//! What is wrong with what a client sent.

use std::fmt;

use kalends_recurrence::{Problem, Reason};

/// One mistake: which member, and what is allowed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What kind of mistake it is.
    pub code: Code,
    /// The member, such as `recurrence.schedule.hours[1]`; empty for the body as a whole.
    pub path: String,
    /// What was found and what is allowed.
    pub message: String,
}

/// The kinds of mistakes, as clients see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the documented codes")]
pub enum Code {
    DuplicateProperty,
    InvalidCharacter,
    InvalidDateTime,
    InvalidRecurrence,
    InvalidRequestContent,
    InvalidSchedule,
    MissingRequiredProperty,
    RecurrenceNeverFires,
    RecurrenceSpanExceeded,
    StartTimeOutOfRange,
}

impl Code {
    /// The code as it is written in an answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::DuplicateProperty => "DuplicateProperty",
            Code::InvalidCharacter => "InvalidCharacter",
            Code::InvalidDateTime => "InvalidDateTime",
            Code::InvalidRecurrence => "InvalidRecurrence",
            Code::InvalidRequestContent => "InvalidRequestContent",
            Code::InvalidSchedule => "InvalidSchedule",
            Code::MissingRequiredProperty => "MissingRequiredProperty",
            Code::RecurrenceNeverFires => "RecurrenceNeverFires",
            Code::RecurrenceSpanExceeded => "RecurrenceSpanExceeded",
            Code::StartTimeOutOfRange => "StartTimeOutOfRange",
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        let code = match problem.reason {
            Reason::StartTooFarAhead => Code::StartTimeOutOfRange,
            Reason::InvalidRecurrence => Code::InvalidRecurrence,
            Reason::IntervalTooLong => Code::RecurrenceSpanExceeded,
            Reason::InvalidSchedule => Code::InvalidSchedule,
            Reason::NeverFires => Code::RecurrenceNeverFires,
        };
        Error { code, path: problem.path, message: problem.message }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// All the mistakes in a body, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors(pub(crate) Vec<Error>);

/// As many mistakes are told at once; an answer must stay readable.
const ERRORS_MAX: usize = 20;

impl Errors {
    /// Notes a mistake.
    pub fn add(&mut self, code: Code, path: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < ERRORS_MAX {
            self.0.push(Error { code, path: path.into(), message: message.into() });
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mistakes, in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.0.iter()
    }

    /// The code of the first mistake, which stands for the answer as a whole.
    pub fn code(&self) -> Code {
        self.0.first().map_or(Code::InvalidRequestContent, |error| error.code)
    }
}

impl FromIterator<Error> for Errors {
    fn from_iter<I: IntoIterator<Item = Error>>(errors: I) -> Errors {
        Errors(errors.into_iter().take(ERRORS_MAX).collect())
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
