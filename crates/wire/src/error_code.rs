//! The kinds of mistakes, as clients see them: their names, their HTTP statuses, and what the old
//! versions of the API call them.

use kalends_domain::{NameError, ValidationErrorKind};

/// Makes the enum, its names and its statuses from one table.
macro_rules! codes {
    ($($status:literal: $($name:ident)+;)+) => {
        /// A kind of mistake, as clients see it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names are the documented codes")]
        pub enum ErrorCode { $($($name,)+)+ }

        impl ErrorCode {
            /// All of them, by status.
            pub const ALL: &[ErrorCode] = &[$($(ErrorCode::$name,)+)+];

            /// The code as it is written in an answer of the new version.
            pub const fn as_str(self) -> &'static str {
                match self { $($(ErrorCode::$name => stringify!($name),)+)+ }
            }

            /// The HTTP status of an answer with this code.
            pub const fn status(self) -> u16 {
                match self { $($(ErrorCode::$name)|+ => $status,)+ }
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
pub const fn old_code(code: ErrorCode) -> (u16, &'static str) {
    let status = code.status();
    let word = match (code, status) {
        (ErrorCode::MissingApiVersionParameter | ErrorCode::InvalidApiVersionParameter, _) => {
            code.as_str()
        }
        (ErrorCode::NotFound, _) => "NotFound",
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

impl From<ValidationErrorKind> for ErrorCode {
    fn from(kind: ValidationErrorKind) -> ErrorCode {
        match kind {
            ValidationErrorKind::BodyTooLarge => ErrorCode::BodyTooLarge,
            ValidationErrorKind::CollectionsMax => ErrorCode::QuotaExceeded,
            ValidationErrorKind::DestinationNotAllowed => ErrorCode::DestinationNotAllowed,
            ValidationErrorKind::DuplicateHeader => ErrorCode::DuplicateHeader,
            ValidationErrorKind::HeaderNotAllowed => ErrorCode::HeaderNotAllowed,
            ValidationErrorKind::HeadersTooLarge => ErrorCode::HeadersTooLarge,
            ValidationErrorKind::InvalidAuthentication => ErrorCode::InvalidAuthentication,
            ValidationErrorKind::InvalidBrokeredProperty => ErrorCode::InvalidBrokeredProperty,
            ValidationErrorKind::InvalidClientCertificate => ErrorCode::InvalidClientCertificate,
            ValidationErrorKind::InvalidDescription => ErrorCode::InvalidDescription,
            ValidationErrorKind::InvalidHeader => ErrorCode::InvalidHeader,
            ValidationErrorKind::InvalidHttpMethod => ErrorCode::InvalidHttpMethod,
            ValidationErrorKind::InvalidQueueName => ErrorCode::InvalidQueueName,
            ValidationErrorKind::InvalidQuota => ErrorCode::InvalidQuota,
            ValidationErrorKind::InvalidRetryPolicy => ErrorCode::InvalidRetryPolicy,
            ValidationErrorKind::InvalidServiceBus => ErrorCode::InvalidServiceBus,
            ValidationErrorKind::InvalidStorageAccount => ErrorCode::InvalidStorageAccount,
            ValidationErrorKind::InvalidStorageMessage => ErrorCode::InvalidStorageMessage,
            ValidationErrorKind::InvalidTag => ErrorCode::InvalidTag,
            ValidationErrorKind::InvalidTimeout => ErrorCode::InvalidTimeout,
            ValidationErrorKind::InvalidUri => ErrorCode::InvalidUri,
            ValidationErrorKind::LocationRequired => ErrorCode::LocationRequired,
            ValidationErrorKind::NotInFreePlan => ErrorCode::NotInFreePlan,
            ValidationErrorKind::PortNotAllowed => ErrorCode::PortNotAllowed,
            ValidationErrorKind::QuotaAbovePlan => ErrorCode::QuotaExceeded,
            ValidationErrorKind::QuotaConflict => ErrorCode::QuotaConflict,
            ValidationErrorKind::RecurrenceTooFrequent => ErrorCode::MaxRecurrenceQuotaExceeded,
            ValidationErrorKind::TooManyHeaders => ErrorCode::TooManyHeaders,
            ValidationErrorKind::UnsupportedUriScheme => ErrorCode::UnsupportedUriScheme,
        }
    }
}

impl From<NameError> for ErrorCode {
    fn from(error: NameError) -> ErrorCode {
        match error {
            NameError::Resource | NameError::Group => ErrorCode::InvalidResourceName,
            NameError::Subscription => ErrorCode::InvalidSubscriptionId,
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
        for &code in ErrorCode::ALL {
            let (status, word) = old_code(code);
            assert_eq!(status, code.status(), "{code:?}");
            let is_known = known.contains(&(status, word)) || without_a_word.contains(&status);
            assert!(is_known, "{code:?}: {status} {word}");
        }
    }
}
