//! Validation errors of jobs and collections.

/// A value of a job or collection was rejected. The caller knows the path of the member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ValidationError {
    /// Category, from which callers derive an error code.
    pub kind: ValidationErrorKind,
    /// The value found and the values allowed.
    pub message: String,
}

impl ValidationError {
    /// Creates an error. `message` says which values are allowed.
    pub fn new(kind: ValidationErrorKind, message: impl Into<String>) -> ValidationError {
        ValidationError { kind, message: message.into() }
    }
}

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
