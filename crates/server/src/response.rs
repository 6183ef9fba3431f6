//! Responses, and the error type of the API.

use std::fmt;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use hyper::body::Bytes;
use kalends_recurrence::Instant;
use kalends_store::StoreError;
use kalends_wire::{ErrorCode, ErrorDetail, ErrorDetails, Json, Version};

use crate::app::{App, ResponseIds};
use crate::body::ResponseBody;

/// Headers of a typical response, those that hyper adds included. The header map is allocated
/// once for that many.
const HEADERS_TYPICAL: usize = 12;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
const CORRELATION_ID: HeaderName = HeaderName::from_static("x-ms-correlation-request-id");
const ROUTING_ID: HeaderName = HeaderName::from_static("x-ms-routing-request-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// A response before the common headers are added.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    body: ResponseBody,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Cause of an internal error. It is logged and not sent.
    cause: Option<Arc<str>>,
}

impl ApiResponse {
    fn new(status: StatusCode, body: ResponseBody) -> ApiResponse {
        ApiResponse { status, body, headers: vec![], cause: None }
    }

    pub(crate) fn empty(status: StatusCode) -> ApiResponse {
        ApiResponse::new(status, ResponseBody::empty())
    }

    pub(crate) fn json(status: StatusCode, body: &Json<'_>) -> ApiResponse {
        ApiResponse::new(status, ResponseBody::full(body.to_text()))
    }

    /// A body that is sent while it is produced. The caller sets its `Content-Type`.
    pub(crate) fn stream(status: StatusCode, body: ResponseBody) -> ApiResponse {
        ApiResponse::new(status, body)
    }

    pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> ApiResponse {
        let response = ApiResponse::new(status, ResponseBody::full(text));
        response.with(header::CONTENT_TYPE, "text/plain; charset=utf-8")
    }

    pub(crate) fn into_body(self) -> ResponseBody {
        self.body
    }

    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> ApiResponse {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// Adds the number of requests that the caller may send before its rate limit applies.
    pub(crate) fn with_remaining(self, remaining: Option<(HeaderName, u32)>) -> ApiResponse {
        match remaining {
            Some((name, remaining)) => self.with(name, &remaining.to_string()),
            None => self,
        }
    }

    /// Adds the `ETag`, which the old API versions do not have.
    pub(crate) fn with_etag(self, number: u64, version: Version) -> ApiResponse {
        match version.is_old() {
            true => self,
            false => self.with(header::ETAG, &format!("\"{number}\"")),
        }
    }

    /// The HTTP response with the common headers. Logs the cause of an internal error.
    pub(crate) fn into_http(self, app: &App, ids: ResponseIds) -> Response<ResponseBody> {
        let ResponseIds { request, correlation } = ids;
        if let Some(cause) = &self.cause {
            tracing::error!(request = &*request, cause = &**cause, "request failed");
        }
        let routing = ["KALENDS:", &compact(app.now()), ":", &correlation].concat();
        let has_body = !self.body.is_empty();
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.reserve(HEADERS_TYPICAL);
        headers.insert(header::CACHE_CONTROL, const { HeaderValue::from_static("no-cache") });
        headers.insert(header::PRAGMA, const { HeaderValue::from_static("no-cache") });
        headers.insert(header::EXPIRES, const { HeaderValue::from_static("-1") });
        for (name, value) in [
            (REQUEST_ID, HeaderValue::from_str(&request)),
            (CORRELATION_ID, HeaderValue::try_from(correlation)),
            (ROUTING_ID, HeaderValue::try_from(routing)),
        ] {
            if let Ok(value) = value {
                headers.insert(name, value);
            }
        }
        let nosniff = const { HeaderValue::from_static("nosniff") };
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
        if has_body {
            headers.insert(header::CONTENT_TYPE, JSON);
        }
        for (name, value) in self.headers {
            if name == header::CACHE_CONTROL {
                // Browsers would not cache an asset that has them.
                headers.remove(header::PRAGMA);
                headers.remove(header::EXPIRES);
            }
            match name {
                header::SET_COOKIE => drop(headers.append(name, value)),
                name => drop(headers.insert(name, value)),
            }
        }
        response
    }
}

/// `20160719T222412Z`
fn compact(at: Instant) -> String {
    let mut text = at.whole_second().to_string();
    text.retain(|letter| letter != '-' && letter != ':');
    text
}

/// The error of a request: status and body follow from its code and the API version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) errors: ErrorDetails,
    /// Cause of an internal error. It is logged and not sent.
    cause: Option<Arc<str>>,
    /// The failure of the store that caused it.
    pub(crate) store_error: Option<Box<StoreError>>,
    /// Seconds for the header `Retry-After`.
    retry_after: Option<u64>,
    /// The header that says how many requests remain, where a rate limit was exceeded.
    remaining: Option<(HeaderName, u32)>,
}

impl ApiError {
    /// A rate limit was exceeded.
    pub(crate) fn rate_limited(errors: ErrorDetails, retry_after: u64) -> ApiError {
        ApiError { retry_after: Some(retry_after), ..ApiError::from(errors) }
    }

    pub(crate) fn with_remaining(self, remaining: Option<(HeaderName, u32)>) -> ApiError {
        ApiError { remaining, ..self }
    }

    /// A failure that the client did not cause.
    pub(crate) fn internal(cause: impl Into<Arc<str>>) -> ApiError {
        let message = "Internal error. Quote the request id (x-ms-request-id) when you report it.";
        let errors = ErrorDetails::one(ErrorCode::InternalError, "", message);
        ApiError { cause: Some(cause.into()), ..ApiError::from(errors) }
    }

    pub(crate) fn code(&self) -> ErrorCode {
        self.errors.code()
    }

    /// The response in the form of an API version.
    pub(crate) fn response(&self, version: Version) -> ApiResponse {
        let (status, body) = self.errors.response(version);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = ApiResponse::new(status, ResponseBody::full(body));
        response.cause = self.cause.clone();
        if let Some(seconds) = self.retry_after {
            response = response.with(header::RETRY_AFTER, &seconds.to_string());
        }
        let response = response.with_remaining(self.remaining.clone());
        match self.code() {
            ErrorCode::AuthenticationFailed => response.with(header::WWW_AUTHENTICATE, "Bearer"),
            code if code.status() == 401 => {
                response.with(header::WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"")
            }
            ErrorCode::ServerBusy
            | ErrorCode::StoreUnavailable
            | ErrorCode::OperationOutcomeUnknown
            | ErrorCode::InsufficientStorage => response.with(header::RETRY_AFTER, "5"),
            // The rest of the body is not read, so the connection cannot be reused.
            ErrorCode::RequestTimeout | ErrorCode::RequestEntityTooLarge => {
                response.with(header::CONNECTION, "close")
            }
            ErrorCode::ResourceNotFound => {
                response.with(HeaderName::from_static("x-ms-failure-cause"), "gateway")
            }
            _ => response,
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.errors.fmt(f)
    }
}

impl std::error::Error for ApiError {}

impl From<ErrorDetails> for ApiError {
    fn from(errors: ErrorDetails) -> ApiError {
        ApiError { errors, cause: None, store_error: None, retry_after: None, remaining: None }
    }
}

impl From<ErrorDetail> for ApiError {
    fn from(error: ErrorDetail) -> ApiError {
        ErrorDetails::from(error).into()
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        let one = |code, message: &str| ApiError::from(ErrorDetails::one(code, "", message));
        let store_error = Some(Box::new(error.clone()));
        let api_error = match error {
            StoreError::Rejected(rejection) => match rejection.downcast_ref::<ApiError>() {
                Some(error) => error.clone(),
                None => ApiError::internal(rejection.to_string()),
            },
            StoreError::NoCollection => {
                one(ErrorCode::ResourceNotFound, "The collection was not found")
            }
            StoreError::TooManyGroups => one(ErrorCode::QuotaExceeded, &error.to_string()),
            StoreError::Busy(_) => {
                one(ErrorCode::ServerBusy, "The server is handling too many requests; retry later")
            }
            StoreError::Unavailable(_) => {
                one(ErrorCode::StoreUnavailable, &format!("{error}; retry later"))
            }
            StoreError::Unknown(_) => {
                let message =
                    "The outcome of the write is unknown; read the resource, or repeat the PUT";
                one(ErrorCode::OperationOutcomeUnknown, message)
            }
            StoreError::Full => one(
                ErrorCode::InsufficientStorage,
                "The disk of the store is full; retry when there is space",
            ),
            StoreError::Unreadable(_) => {
                let message = format!("{error}; replace it with PUT, or delete it");
                ApiError {
                    cause: Some(error.to_string().into()),
                    ..one(ErrorCode::JobUnreadable, &message)
                }
            }
            StoreError::Key(_)
            | StoreError::Damaged(_)
            | StoreError::TooNew { .. }
            | StoreError::Failed(_) => ApiError::internal(error.to_string()),
        };
        ApiError { store_error, ..api_error }
    }
}
