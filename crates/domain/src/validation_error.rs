//! Validation errors of jobs and collections.

use std::fmt;

/// A value of a job or collection was rejected. The caller knows the path of the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// Category, from which callers derive an error code.
    pub kind: ValidationErrorKind,
    /// The problem and the values allowed: a sentence whose subject is the member.
    pub message: String,
    /// The value that messages show.
    pub found: Found,
    /// Advice at the end of the message.
    pub hint: Option<String>,
}

/// The value that the message of a [`ValidationError`] shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The value of the member, which the caller knows.
    Value,
    /// This text, such as a length.
    Text(String),
    /// None: it can be a secret, or says nothing.
    Nothing,
}

impl ValidationError {
    /// Creates an error. `message` says which values are allowed.
    pub fn new(kind: ValidationErrorKind, message: impl Into<String>) -> ValidationError {
        ValidationError { kind, message: message.into(), found: Found::Value, hint: None }
    }

    /// Sets the text that the message shows instead of the value.
    pub fn found(self, text: impl Into<String>) -> ValidationError {
        ValidationError { found: Found::Text(text.into()), ..self }
    }

    /// Hides the value.
    pub fn without_value(self) -> ValidationError {
        ValidationError { found: Found::Nothing, ..self }
    }

    /// Adds advice at the end of the message.
    pub fn hint(self, hint: impl Into<String>) -> ValidationError {
        ValidationError { hint: Some(hint.into()), ..self }
    }
}

/// The message, without the value of the member.
impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Found::Text(found) = &self.found {
            write!(f, " (found {found})")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ValidationError {}

/// Categories of [`ValidationError`], one for each error code of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "self-explanatory")]
pub enum ValidationErrorKind {
    BodyTooLarge,
    CollectionsMax,
    DestinationNotAllowed,
    DuplicateHeader,
    HeaderNotAllowed,
    HeadersTooLarge,
    InvalidAuthentication,
    InvalidBrokeredProperty,
    InvalidClientCertificate,
    InvalidDescription,
    InvalidHeader,
    InvalidHttpMethod,
    InvalidQueueName,
    InvalidQuota,
    InvalidRetryPolicy,
    InvalidServiceBus,
    InvalidStorageAccount,
    InvalidStorageMessage,
    InvalidTag,
    InvalidTimeout,
    InvalidUri,
    LocationRequired,
    NotInFreePlan,
    PortNotAllowed,
    QuotaAbovePlan,
    QuotaConflict,
    RecurrenceTooFrequent,
    TooManyHeaders,
    UnsupportedUriScheme,
}
