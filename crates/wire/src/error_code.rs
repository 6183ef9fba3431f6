//! Error codes of the API: names, HTTP statuses, and the codes that the old API versions use
//! instead.

use kalends_domain::{NameError, ValidationErrorKind};

/// Generates the enum, the names and the HTTP statuses from one table.
macro_rules! codes {
    ($($status:literal: $($name:ident)+;)+) => {
        /// An error code of the API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names are the documented codes")]
        pub enum ErrorCode { $($($name,)+)+ }

        impl ErrorCode {
            /// All codes, ordered by HTTP status.
            pub const ALL: &[ErrorCode] = &[$($(ErrorCode::$name,)+)+];

            /// The value of `error.code` in the newest API version.
            pub const fn as_str(self) -> &'static str {
                match self { $($(ErrorCode::$name => stringify!($name),)+)+ }
            }

            /// The HTTP status of a response with this code, in every API version.
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
        Paused QuotaConflict QuotaExceeded;
    412: PreconditionFailed;
    413: RequestEntityTooLarge;
    414: RequestUriTooLong;
    415: UnsupportedMediaType;
    421: MisdirectedRequest;
    429: TooManyRequests;
    431: RequestHeaderFieldsTooLarge;
    500: InternalError JobUnreadable;
    503: OperationOutcomeUnknown ServerBusy StoreUnavailable;
    507: InsufficientStorage;
}

impl ErrorCode {
    /// The value of `error.code` in the old API versions, which have only a few codes.
    pub const fn as_old_str(self) -> &'static str {
        match (self, self.status()) {
            (ErrorCode::MissingApiVersionParameter | ErrorCode::InvalidApiVersionParameter, _) => {
                self.as_str()
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
        }
    }
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
    fn the_old_versions_use_few_codes_with_the_same_statuses() {
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
        // The old versions have no code of their own for these, and send no preconditions (412).
        let without_own_code = [405, 408, 412, 413, 414, 415, 421, 431];
        for &code in ErrorCode::ALL {
            let (status, old) = (code.status(), code.as_old_str());
            let is_known = known.contains(&(status, old)) || without_own_code.contains(&status);
            assert!(is_known, "{code:?}: {status} {old}");
        }
    }
}
