//! Errors of a request, and the bodies of error responses.

use std::fmt;

use kalends_domain::{CollectionPath, JobName, ValidationError};
use kalends_recurrence::{RuleError, RuleErrorKind, RuleErrors};

use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::object::{ObjectBuilder, list};
use crate::version::Version;

/// One error: the member it is about, and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorDetail {
    /// Determines the HTTP status.
    pub code: ErrorCode,
    /// Path of the member, such as `recurrence.schedule.hours[1]`; empty for the whole request.
    pub path: String,
    /// The problem, the value found and the values allowed: a sentence whose subject is the member,
    /// or a complete sentence if there is no path. It never quotes a secret.
    pub message: String,
}

impl From<RuleError> for ErrorDetail {
    fn from(error: RuleError) -> ErrorDetail {
        let code = match error.kind {
            RuleErrorKind::StartTooFarAhead => ErrorCode::StartTimeOutOfRange,
            RuleErrorKind::InvalidRecurrence => ErrorCode::InvalidRecurrence,
            RuleErrorKind::IntervalTooLong => ErrorCode::RecurrenceSpanExceeded,
            RuleErrorKind::InvalidSchedule => ErrorCode::InvalidSchedule,
            RuleErrorKind::NeverFires => ErrorCode::RecurrenceNeverFires,
        };
        ErrorDetail { code, path: error.path, message: error.message }
    }
}

impl ErrorDetail {
    /// The error of a request for a job that does not exist. The text is that of the retired service.
    pub fn job_not_found(job: &JobName) -> ErrorDetail {
        let message = format!("Job '{job}' cannot be found.");
        ErrorDetail { code: ErrorCode::NotFound, path: String::new(), message }
    }

    /// The error of a request for a collection that does not exist. The text is that of the retired service.
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
            .put("message", self.to_string())
            .put_some("target", target)
    }
}

impl fmt::Display for ErrorDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path} {}", self.message),
        }
    }
}

/// The errors of a request, in the order in which they were found; at most 20.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorDetails(pub(crate) Vec<ErrorDetail>);

/// Limit of errors in one response, which must stay readable.
const ERRORS_MAX: usize = 20;

impl ErrorDetails {
    /// Creates a list with one error.
    pub fn one(
        code: ErrorCode,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> ErrorDetails {
        ErrorDetails(vec![ErrorDetail { code, path: path.into(), message: message.into() }])
    }

    /// Converts errors of a recurrence, with paths as in the body of a job (`properties.recurrence`).
    pub fn from_rule_errors(errors: RuleErrors) -> ErrorDetails {
        let within_job = |error: RuleError| {
            let detail = ErrorDetail::from(error);
            ErrorDetail { path: format!("properties.{}", detail.path), ..detail }
        };
        errors.0.into_iter().map(within_job).collect()
    }

    /// Converts an error of `member` of the `properties` of a job or collection.
    pub fn from_validation_error(member: &str, error: ValidationError) -> ErrorDetails {
        ErrorDetails::one(error.kind.into(), format!("properties.{member}"), error.to_string())
    }

    /// Returns the HTTP status and the body of the response.
    ///
    /// The old versions join all errors into one message. The newest version reports the code and
    /// the member of the first error, and lists all errors in `details` if there are several.
    pub fn response(&self, version: Version) -> (u16, String) {
        let code = self.code();
        let error: Json<'_> = match version.is_old() {
            false => self.to_json(),
            true => ObjectBuilder::new()
                .put("code", code.as_old_str())
                .put("message", self.to_string())
                .into(),
        };
        (code.status(), Json::from(ObjectBuilder::new().put("error", error)).to_string())
    }

    /// The errors as the newest version reports them.
    pub fn to_json(&self) -> Json<'_> {
        let first = self.0.first().map(ErrorDetail::members).unwrap_or_default();
        let several = self.0.iter().filter(|_| self.0.len() > 1);
        first.put("details", list(several.map(ErrorDetail::members))).into()
    }

    /// Adds an error unless there are 20 already.
    pub fn add(&mut self, code: ErrorCode, path: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < ERRORS_MAX {
            self.0.push(ErrorDetail { code, path: path.into(), message: message.into() });
        }
    }

    /// Whether no error was added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The errors, in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &ErrorDetail> {
        self.0.iter()
    }

    /// The code of the first error, which determines the status of the response.
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
            let separator = if number == 0 { "" } else { ". " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ErrorDetails {}
