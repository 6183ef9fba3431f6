//! Why a part of a job is refused. Where it stood is known to who reads it.

/// A refusal: of what kind, and in words that say what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Of what kind.
    pub kind: FaultKind,
    /// What was found and what is allowed.
    pub message: String,
}

impl Fault {
    /// A refusal of a kind, with a message that says what is allowed.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault { kind, message: message.into() }
    }
}

/// The kinds of refusals that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum FaultKind {
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
