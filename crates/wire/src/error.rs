//! What is wrong with what a client sent.

use std::fmt;

use kalends_domain::{CollectionPath, JobName, ValidationError};
use kalends_recurrence::{RuleError, RuleErrorKind, RuleErrors};

use crate::code::{Code, old_code};
use crate::json::Json;
use crate::members::{Members, list};
use crate::version::Version;

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

impl From<RuleError> for Error {
    fn from(problem: RuleError) -> Error {
        let code = match problem.kind {
            RuleErrorKind::StartTooFarAhead => Code::StartTimeOutOfRange,
            RuleErrorKind::InvalidRecurrence => Code::InvalidRecurrence,
            RuleErrorKind::IntervalTooLong => Code::RecurrenceSpanExceeded,
            RuleErrorKind::InvalidSchedule => Code::InvalidSchedule,
            RuleErrorKind::NeverFires => Code::RecurrenceNeverFires,
        };
        Error { code, path: problem.path, message: problem.message }
    }
}

impl Error {
    /// There is no such job.
    pub fn job_not_found(job: &JobName) -> Error {
        let message = format!("Job '{job}' cannot be found.");
        Error { code: Code::NotFound, path: String::new(), message }
    }

    /// There is no such collection.
    pub fn collection_not_found(path: &CollectionPath) -> Error {
        let message = format!(
            "The Resource 'Microsoft.Scheduler/jobcollections/{}' under resource group '{}' was not found.",
            path.collection, path.group.group
        );
        Error { code: Code::ResourceNotFound, path: String::new(), message }
    }

    fn members(&self) -> Members<'_> {
        let target = Some(self.path.as_str()).filter(|path| !path.is_empty());
        Members::new()
            .put("code", self.code.as_str())
            .put("message", &self.message)
            .put_some("target", target)
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
    /// A single mistake.
    pub fn one(code: Code, path: impl Into<String>, message: impl Into<String>) -> Errors {
        Errors(vec![Error { code, path: path.into(), message: message.into() }])
    }

    /// What is wrong with when a job is due, told with the paths of a job's body.
    pub fn of_schedule(problems: RuleErrors) -> Errors {
        let within_job = |problem: RuleError| {
            let error = Error::from(problem);
            Error { path: format!("properties.{}", error.path), ..error }
        };
        problems.0.into_iter().map(within_job).collect()
    }

    /// What a decision found in a member of a job's or collection's `properties`.
    pub fn of_fault(member: &str, fault: ValidationError) -> Errors {
        Errors::one(fault.kind.into(), format!("properties.{member}"), fault.message)
    }

    /// The HTTP status and the body of the answer.
    ///
    /// The old versions have one message that says it all; the newest tells code and member, and
    /// every mistake in `details` where there are several.
    pub fn answer(&self, version: Version) -> (u16, String) {
        let (status, old) = old_code(self.code());
        let error: Json<'_> = match self.0.first() {
            Some(first) if !version.is_old() => {
                let several = self.0.iter().filter(|_| self.0.len() > 1);
                first.members().put("details", list(several.map(Error::members))).into()
            }
            _ => Members::new().put("code", old).put("message", self.to_string()).into(),
        };
        (status, Json::from(Members::new().put("error", error)).to_string())
    }

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

impl From<Error> for Errors {
    fn from(error: Error) -> Errors {
        Errors(vec![error])
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
