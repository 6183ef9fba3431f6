//! Why a part of a job is refused. Where it stood is known to who reads it.

/// A refusal: of what kind, and in words that say what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ValidationError {
    /// Of what kind.
    pub kind: ValidationErrorKind,
    /// What was found and what is allowed.
    pub message: String,
}

impl ValidationError {
    /// A refusal of a kind, with a message that says what is allowed.
    pub fn new(kind: ValidationErrorKind, message: impl Into<String>) -> ValidationError {
        ValidationError { kind, message: message.into() }
    }
}

/// The kinds of refusals that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
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
