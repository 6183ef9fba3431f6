//! The kinds of mistakes, as clients see them: their names, their HTTP statuses, and what the old
//! versions of the API call them.

use kalends_domain::{NameError, ValidationErrorKind};

/// Makes the enum, its names and its statuses from one table.
macro_rules! codes {
    ($($status:literal: $($name:ident)+;)+) => {
        /// A kind of mistake, as clients see it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names are the documented codes")]
        pub enum Code { $($($name,)+)+ }

        impl Code {
            /// All of them, by status.
            pub const ALL: &[Code] = &[$($(Code::$name,)+)+];

            /// The code as it is written in an answer of the new version.
            pub const fn as_str(self) -> &'static str {
                match self { $($(Code::$name => stringify!($name),)+)+ }
            }

            /// The HTTP status of an answer with this code.
            pub const fn status(self) -> u16 {
                match self { $($(Code::$name)|+ => $status,)+ }
            }
        }
    };
}

codes! {
    400: ActionMismatch BodyTooLarge DestinationNotAllowed DuplicateHeader DuplicateProperty
        HeaderNotAllowed HeadersTooLarge InvalidActionType InvalidApiVersionParameter
        InvalidAuthentication InvalidBrokeredProperty InvalidCharacter InvalidClientCertificate
        InvalidDateTime InvalidDescription InvalidFilter InvalidHeader InvalidHttpMethod
        InvalidJobState InvalidQueryParameter InvalidQueueName InvalidQuota InvalidRecurrence
        InvalidRequest InvalidRequestContent InvalidResourceName InvalidRetryPolicy InvalidSchedule
        InvalidServiceBus InvalidSku InvalidStorageAccount InvalidStorageMessage
        InvalidSubscriptionId InvalidTag InvalidTimeout InvalidUri JobTooLarge LocationRequired
        MissingApiVersionParameter MissingRequiredProperty MissingSecret NotInFreePlan
        PortNotAllowed RecurrenceNeverFires RecurrenceSpanExceeded StartTimeOutOfRange
        TooManyHeaders UnknownProperty UnsupportedUriScheme;
    401: AuthenticationFailed ExpiredAuthenticationToken InvalidAuthenticationToken
        InvalidAuthenticationTokenAudience InvalidAuthenticationTokenTenant;
    403: AuthorizationFailed;
    404: NotFound ParentResourceNotFound ResourceNotFound;
    405: MethodNotAllowed;
    408: RequestTimeout;
    409: Conflict JobNotRunnable JobStateFinal MaxJobCountExceeded MaxRecurrenceQuotaExceeded
        QuotaConflict QuotaExceeded;
    412: PreconditionFailed;
    413: RequestEntityTooLarge;
    414: RequestUriTooLong;
    415: UnsupportedMediaType;
    421: MisdirectedRequest;
    429: TooManyRequests;
    431: RequestHeaderFieldsTooLarge;
    500: InternalError;
    503: OperationOutcomeUnknown ServerBusy;
    507: InsufficientStorage;
}

/// Status and code of an answer of the old versions, which know a handful of codes only.
pub const fn old_code(code: Code) -> (u16, &'static str) {
    let status = code.status();
    let word = match (code, status) {
        (Code::MissingApiVersionParameter | Code::InvalidApiVersionParameter, _) => code.as_str(),
        (Code::NotFound, _) => "NotFound",
        (_, 401) => "AuthenticationFailed",
        (_, 403) => "AuthorizationFailed",
        (_, 404) => "ResourceNotFound",
        (_, 409 | 412) => "Conflict",
        (_, 429) => "TooManyRequests",
        (_, 503) => "ServerBusy",
        (_, 507) => "InsufficientStorage",
        (_, 500..) => "InternalError",
        _ => "BadRequest",
    };
    (status, word)
}

impl From<ValidationErrorKind> for Code {
    fn from(kind: ValidationErrorKind) -> Code {
        match kind {
            ValidationErrorKind::BodyTooLarge => Code::BodyTooLarge,
            ValidationErrorKind::CollectionsMax => Code::QuotaExceeded,
            ValidationErrorKind::DestinationNotAllowed => Code::DestinationNotAllowed,
            ValidationErrorKind::DuplicateHeader => Code::DuplicateHeader,
            ValidationErrorKind::HeaderNotAllowed => Code::HeaderNotAllowed,
            ValidationErrorKind::HeadersTooLarge => Code::HeadersTooLarge,
            ValidationErrorKind::InvalidAuthentication => Code::InvalidAuthentication,
            ValidationErrorKind::InvalidBrokeredProperty => Code::InvalidBrokeredProperty,
            ValidationErrorKind::InvalidClientCertificate => Code::InvalidClientCertificate,
            ValidationErrorKind::InvalidDescription => Code::InvalidDescription,
            ValidationErrorKind::InvalidHeader => Code::InvalidHeader,
            ValidationErrorKind::InvalidHttpMethod => Code::InvalidHttpMethod,
            ValidationErrorKind::InvalidQueueName => Code::InvalidQueueName,
            ValidationErrorKind::InvalidQuota => Code::InvalidQuota,
            ValidationErrorKind::InvalidRetryPolicy => Code::InvalidRetryPolicy,
            ValidationErrorKind::InvalidServiceBus => Code::InvalidServiceBus,
            ValidationErrorKind::InvalidStorageAccount => Code::InvalidStorageAccount,
            ValidationErrorKind::InvalidStorageMessage => Code::InvalidStorageMessage,
            ValidationErrorKind::InvalidTag => Code::InvalidTag,
            ValidationErrorKind::InvalidTimeout => Code::InvalidTimeout,
            ValidationErrorKind::InvalidUri => Code::InvalidUri,
            ValidationErrorKind::LocationRequired => Code::LocationRequired,
            ValidationErrorKind::NotInFreePlan => Code::NotInFreePlan,
            ValidationErrorKind::PortNotAllowed => Code::PortNotAllowed,
            ValidationErrorKind::QuotaAbovePlan => Code::QuotaExceeded,
            ValidationErrorKind::QuotaConflict => Code::QuotaConflict,
            ValidationErrorKind::RecurrenceTooFrequent => Code::MaxRecurrenceQuotaExceeded,
            ValidationErrorKind::TooManyHeaders => Code::TooManyHeaders,
            ValidationErrorKind::UnsupportedUriScheme => Code::UnsupportedUriScheme,
        }
    }
}

impl From<NameError> for Code {
    fn from(error: NameError) -> Code {
        match error {
            NameError::Resource | NameError::Group => Code::InvalidResourceName,
            NameError::Subscription => Code::InvalidSubscriptionId,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_versions_know_a_handful_of_codes_with_the_same_statuses() {
        let known = [
            (400, "BadRequest"),
            (400, "InvalidApiVersionParameter"),
            (400, "MissingApiVersionParameter"),
            (401, "AuthenticationFailed"),
            (403, "AuthorizationFailed"),
            (404, "NotFound"),
            (404, "ResourceNotFound"),
            (409, "Conflict"),
            (429, "TooManyRequests"),
            (500, "InternalError"),
            (503, "ServerBusy"),
            (507, "InsufficientStorage"),
        ];
        // The old versions have no words for these, and ask for nothing that leads to a 412.
        let without_a_word = [405, 408, 412, 413, 414, 415, 421, 431];
        for &code in Code::ALL {
            let (status, word) = old_code(code);
            assert_eq!(status, code.status(), "{code:?}");
            let is_known = known.contains(&(status, word)) || without_a_word.contains(&status);
            assert!(is_known, "{code:?}: {status} {word}");
        }
    }
}
