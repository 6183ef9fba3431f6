//! Answers: what goes out, and what a refusal becomes.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use kalends_recurrence::Instant;
use kalends_store::{RefusalKind, StoreError};
use kalends_wire::{ErrorCode, ErrorDetail, ErrorDetails, Json, Version};

use crate::app::{App, Ids};

/// What nearly every answer has, with what hyper adds; the map is made for as many.
const HEADERS_USUAL: usize = 12;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
const CORRELATION_ID: HeaderName = HeaderName::from_static("x-ms-correlation-request-id");
const ROUTING_ID: HeaderName = HeaderName::from_static("x-ms-routing-request-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// What goes out, before its headers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Option<Body>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// What the operator is told and the client is not.
    pub(crate) cause: Option<String>,
}

impl Answer {
    pub(crate) fn empty(status: StatusCode) -> Answer {
        Answer { status, body: None, headers: vec![], cause: None }
    }

    pub(crate) fn json(status: StatusCode, body: &Json<'_>) -> Answer {
        Answer { status, body: Some(body.to_string().into()), headers: vec![], cause: None }
    }

    /// A body that goes out piece by piece. It says of which type it is.
    pub(crate) fn stream(status: StatusCode, body: Body) -> Answer {
        Answer { status, body: Some(body), headers: vec![], cause: None }
    }

    pub(crate) fn text(status: StatusCode, text: &str) -> Answer {
        let body = Some(text.to_owned().into());
        let answer = Answer { status, body, headers: vec![], cause: None };
        answer.with(header::CONTENT_TYPE, "text/plain; charset=utf-8")
    }

    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Answer {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// How often the caller may ask again at once.
    pub(crate) fn with_left(self, left: Option<(HeaderName, u32)>) -> Answer {
        match left {
            Some((name, left)) => self.with(name, &left.to_string()),
            None => self,
        }
    }

    /// The version of a resource, for the versions of the API that have it.
    pub(crate) fn with_etag(self, number: u64, version: Version) -> Answer {
        match version.is_old() {
            true => self,
            false => self.with(header::ETAG, &format!("\"{number}\"")),
        }
    }

    /// The answer with the headers that every answer has.
    pub(crate) fn respond(self, app: &App, ids: Ids) -> Response<Body> {
        let Ids { request, correlation } = ids;
        if let Some(cause) = &self.cause {
            tell_operator(&request, cause);
        }
        let routing = format!("KALENDS:{}:{correlation}", compact(app.now()));
        let mut response = Response::new(self.body.unwrap_or_default());
        let has_body = axum::body::HttpBody::size_hint(response.body()).exact() != Some(0);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.reserve(HEADERS_USUAL);
        headers.insert(header::CACHE_CONTROL, const { HeaderValue::from_static("no-cache") });
        headers.insert(header::PRAGMA, const { HeaderValue::from_static("no-cache") });
        headers.insert(header::EXPIRES, const { HeaderValue::from_static("-1") });
        for (name, value) in [
            (REQUEST_ID, HeaderValue::from_str(&request)),
            (CORRELATION_ID, HeaderValue::try_from(correlation)),
            (ROUTING_ID, HeaderValue::try_from(routing)),
        ] {
            headers.extend(value.ok().map(|value| (name, value)));
        }
        let nosniff = const { HeaderValue::from_static("nosniff") };
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
        if has_body {
            headers.insert(header::CONTENT_TYPE, JSON);
        }
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
        response
    }
}

/// `20160719T222412Z`
fn compact(at: Instant) -> String {
    at.whole_second().to_string().replace(['-', ':'], "")
}

/// A line in the log, with the id that the client was given.
fn tell_operator(request: &str, cause: &str) {
    tracing::error!(request, cause, "a request failed");
}

/// Why a request is not done as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) errors: ErrorDetails,
    /// What the operator is told and the client is not.
    cause: Option<String>,
    /// After how many seconds it may be asked again.
    wait: Option<u64>,
}

impl Refused {
    /// It may be asked again, but not at once.
    pub(crate) fn wait(errors: ErrorDetails, seconds: u64) -> Refused {
        Refused { errors, cause: None, wait: Some(seconds) }
    }

    /// It failed for a reason that is none of the client's business.
    pub(crate) fn internal(cause: impl Into<String>) -> Refused {
        let message = "it failed; the log has more under the request id";
        let errors = ErrorDetails::one(ErrorCode::InternalError, "", message);
        Refused { errors, cause: Some(cause.into()), wait: None }
    }

    /// The answer to a client of that version.
    pub(crate) fn answer(&self, version: Version) -> Answer {
        let (status, body) = self.errors.response(version);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let answer =
            Answer { status, body: Some(body.into()), headers: vec![], cause: self.cause.clone() };
        let answer = match self.wait {
            Some(seconds) => answer.with(header::RETRY_AFTER, &seconds.to_string()),
            None => answer,
        };
        match self.errors.code() {
            ErrorCode::AuthenticationFailed => answer.with(header::WWW_AUTHENTICATE, "Bearer"),
            code if code.status() == 401 => {
                answer.with(header::WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"")
            }
            ErrorCode::ServerBusy
            | ErrorCode::OperationOutcomeUnknown
            | ErrorCode::InsufficientStorage => answer.with(header::RETRY_AFTER, "5"),
            // What is left of the body is not waited for.
            ErrorCode::RequestTimeout | ErrorCode::RequestEntityTooLarge => {
                answer.with(header::CONNECTION, "close")
            }
            ErrorCode::ResourceNotFound => {
                answer.with(HeaderName::from_static("x-ms-failure-cause"), "gateway")
            }
            _ => answer,
        }
    }
}

impl From<ErrorDetails> for Refused {
    fn from(errors: ErrorDetails) -> Refused {
        Refused { errors, cause: None, wait: None }
    }
}

impl From<ErrorDetail> for Refused {
    fn from(error: ErrorDetail) -> Refused {
        ErrorDetails::from(error).into()
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Refused {
        let one = |code, message: &str| Refused::from(ErrorDetails::one(code, "", message));
        match error {
            StoreError::Refused(refusal) => {
                let code = match refusal.kind {
                    RefusalKind::NotFound => ErrorCode::NotFound,
                    RefusalKind::Invalid => ErrorCode::InvalidRequestContent,
                    RefusalKind::JobFinished => ErrorCode::JobStateFinal,
                    RefusalKind::JobsMax => ErrorCode::MaxJobCountExceeded,
                    RefusalKind::CollectionsMax => ErrorCode::QuotaExceeded,
                    RefusalKind::QuotaConflict => ErrorCode::QuotaConflict,
                    RefusalKind::RecurrenceTooFrequent => ErrorCode::MaxRecurrenceQuotaExceeded,
                    RefusalKind::NotInFreePlan => ErrorCode::NotInFreePlan,
                    RefusalKind::PreconditionFailed => ErrorCode::PreconditionFailed,
                };
                ErrorDetails::one(code, refusal.path.unwrap_or_default(), refusal.message).into()
            }
            StoreError::NoCollection => {
                one(ErrorCode::ResourceNotFound, "there is no such collection")
            }
            StoreError::Busy(_) => {
                one(ErrorCode::ServerBusy, "too much is asked at once; try again")
            }
            StoreError::Unknown(_) => {
                let message = "whether it was done is not known; ask again, a repeated PUT is safe";
                one(ErrorCode::OperationOutcomeUnknown, message)
            }
            StoreError::Full => one(ErrorCode::InsufficientStorage, "there is no room left"),
            StoreError::Damaged(_) | StoreError::TooNew { .. } | StoreError::Failed(_) => {
                Refused::internal(error.to_string())
            }
        }
    }
}
