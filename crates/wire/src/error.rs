//! What is wrong with what a client sent.

use std::fmt;

use kalends_domain::{CollectionPath, JobName, ValidationError};
use kalends_recurrence::{RuleError, RuleErrorKind, RuleErrors};

use crate::error_code::{ErrorCode, old_code};
use crate::json::Json;
use crate::object::{ObjectBuilder, list};
use crate::version::Version;

/// One mistake: which member, and what is allowed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorDetail {
    /// What kind of mistake it is.
    pub code: ErrorCode,
    /// The member, such as `recurrence.schedule.hours[1]`; empty for the body as a whole.
    pub path: String,
    /// What was found and what is allowed.
    pub message: String,
}

impl From<RuleError> for ErrorDetail {
    fn from(problem: RuleError) -> ErrorDetail {
        let code = match problem.kind {
            RuleErrorKind::StartTooFarAhead => ErrorCode::StartTimeOutOfRange,
            RuleErrorKind::InvalidRecurrence => ErrorCode::InvalidRecurrence,
            RuleErrorKind::IntervalTooLong => ErrorCode::RecurrenceSpanExceeded,
            RuleErrorKind::InvalidSchedule => ErrorCode::InvalidSchedule,
            RuleErrorKind::NeverFires => ErrorCode::RecurrenceNeverFires,
        };
        ErrorDetail { code, path: problem.path, message: problem.message }
    }
}

impl ErrorDetail {
    /// There is no such job.
    pub fn job_not_found(job: &JobName) -> ErrorDetail {
        let message = format!("Job '{job}' cannot be found.");
        ErrorDetail { code: ErrorCode::NotFound, path: String::new(), message }
    }

    /// There is no such collection.
    pub fn collection_not_found(path: &CollectionPath) -> ErrorDetail {
        let message = format!(
            "The Resource 'Microsoft.Scheduler/jobcollections/{}' under resource group '{}' was not found.",
            path.collection, path.group.group
        );
        ErrorDetail { code: ErrorCode::ResourceNotFound, path: String::new(), message }
    }

    fn members(&self) -> ObjectBuilder<'_> {
        let target = Some(self.path.as_str()).filter(|path| !path.is_empty());
        ObjectBuilder::new()
            .put("code", self.code.as_str())
            .put("message", &self.message)
            .put_some("target", target)
    }
}

impl fmt::Display for ErrorDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// All the mistakes in a body, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorDetails(pub(crate) Vec<ErrorDetail>);

/// As many mistakes are told at once; an answer must stay readable.
const ERRORS_MAX: usize = 20;

impl ErrorDetails {
    /// A single mistake.
    pub fn one(
        code: ErrorCode,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> ErrorDetails {
        ErrorDetails(vec![ErrorDetail { code, path: path.into(), message: message.into() }])
    }

    /// What is wrong with when a job is due, told with the paths of a job's body.
    pub fn from_rule_errors(problems: RuleErrors) -> ErrorDetails {
        let within_job = |problem: RuleError| {
            let error = ErrorDetail::from(problem);
            ErrorDetail { path: format!("properties.{}", error.path), ..error }
        };
        problems.0.into_iter().map(within_job).collect()
    }

    /// What a decision found in a member of a job's or collection's `properties`.
    pub fn from_validation_error(member: &str, fault: ValidationError) -> ErrorDetails {
        ErrorDetails::one(fault.kind.into(), format!("properties.{member}"), fault.message)
    }

    /// The HTTP status and the body of the answer.
    ///
    /// The old versions have one message that says it all; the newest tells code and member, and
    /// every mistake in `details` where there are several.
    pub fn response(&self, version: Version) -> (u16, String) {
        let (status, old) = old_code(self.code());
        let error: Json<'_> = match self.0.first() {
            Some(first) if !version.is_old() => {
                let several = self.0.iter().filter(|_| self.0.len() > 1);
                first.members().put("details", list(several.map(ErrorDetail::members))).into()
            }
            _ => ObjectBuilder::new().put("code", old).put("message", self.to_string()).into(),
        };
        (status, Json::from(ObjectBuilder::new().put("error", error)).to_string())
    }

    /// Notes a mistake.
    pub fn add(&mut self, code: ErrorCode, path: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < ERRORS_MAX {
            self.0.push(ErrorDetail { code, path: path.into(), message: message.into() });
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mistakes, in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &ErrorDetail> {
        self.0.iter()
    }

    /// The code of the first mistake, which stands for the answer as a whole.
    pub fn code(&self) -> ErrorCode {
        self.0.first().map_or(ErrorCode::InvalidRequestContent, |error| error.code)
    }
}

impl From<ErrorDetail> for ErrorDetails {
    fn from(error: ErrorDetail) -> ErrorDetails {
        ErrorDetails(vec![error])
    }
}

impl FromIterator<ErrorDetail> for ErrorDetails {
    fn from_iter<I: IntoIterator<Item = ErrorDetail>>(errors: I) -> ErrorDetails {
        ErrorDetails(errors.into_iter().take(ERRORS_MAX).collect())
    }
}

impl fmt::Display for ErrorDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ErrorDetails {}
