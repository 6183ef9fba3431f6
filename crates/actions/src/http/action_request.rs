//! Builds the request of an HTTP action: the job's headers and body, its credentials, and the
//! headers of the scheduler.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kalends_domain::{CollectionPath, HttpAuthentication, HttpRequest, Secret, SecretHeaders};
use kalends_environment::Entropy;
use url::{Position, Url};

use super::error::HttpActionError;
use super::redirect::{NextBody, NextMethod};
use crate::client::{Headers, Request};
use crate::executor::AttemptRequest;
use crate::idempotency_key::{IdempotencyKey, hex_digits};
use crate::signing::Signer;

/// Initial capacity for headers.
const HEADERS_CAPACITY: usize = 16;
/// Below a kilobyte, for which the allocator of the C library has a fast path.
const HEADER_BYTES_CAPACITY: usize = 900;

/// Methods in upper case.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"];

/// Headers of a job that a redirect to another origin takes along. Any other header may authenticate
/// the job: names such as `X-Token` are a matter of taste.
const JOB_HEADERS_KEPT: [&str; 8] = [
    "accept",
    "accept-charset",
    "accept-language",
    "cache-control",
    "content-language",
    "content-type",
    "pragma",
    "user-agent",
];
/// Headers of the scheduler. They hold no secret, and the final target needs them as much as the first:
/// the most common redirect leads from http to https of the same host, and without the idempotency key
/// its target could not recognise a repeated attempt. Jobs cannot set them.
const OWN_HEADERS: [&str; 9] = [
    "accept-encoding",
    "idempotency-key",
    "traceparent",
    "x-ms-client-request-id",
    "x-ms-execution-tag",
    "x-ms-scheduler-expected-execution-time",
    "x-ms-scheduler-jobcollection",
    "x-ms-scheduler-jobid",
    "x-ms-scheduler-region",
];

/// The request of an HTTP action.
pub(super) struct ActionRequest {
    request: Request,
    idempotency_key: IdempotencyKey,
}

impl ActionRequest {
    /// Builds the first request of an attempt, without signature and access token.
    pub(super) fn new(
        attempt: &AttemptRequest<'_>,
        request: &HttpRequest,
        url: &Url,
        entropy: &dyn Entropy,
    ) -> Result<ActionRequest, HttpActionError> {
        let mut built = ActionRequest {
            request: Request {
                method: method(request.method.as_str()),
                target: target(url),
                authority: authority(url),
                headers: Headers::with_capacity(HEADERS_CAPACITY, HEADER_BYTES_CAPACITY),
                body: Bytes::from(request.body.clone().unwrap_or_default()),
            },
            idempotency_key: IdempotencyKey::of(attempt),
        };
        for (name, value) in request.headers.iter().flat_map(|headers| headers.iter()) {
            if !is_own_header(name) {
                built.set_text_header(name, value)?;
            }
        }
        built.set_basic_credentials(request)?;
        let (id, span) = random_ids(entropy);
        let key = built.idempotency_key;
        let (job, collection) = (&attempt.path.job, &attempt.path.collection.collection);
        for (name, value) in [
            ("x-ms-scheduler-jobid", job.as_str()),
            ("x-ms-scheduler-jobcollection", collection.as_str()),
            ("x-ms-scheduler-region", attempt.region),
            // The client does not decompress.
            ("accept-encoding", "identity"),
        ] {
            built.append(name, |line| line.extend_from_slice(value.as_bytes()))?;
        }
        built.append("x-ms-scheduler-expected-execution-time", |line| {
            // Writing to a vector does not fail.
            drop(write!(line, "{}", attempt.scheduled));
        })?;
        built.append("x-ms-client-request-id", |line| append_guid(line, id))?;
        // All attempts of an occurrence share one trace id: the idempotency key.
        built.append("traceparent", |line| {
            let span: [u8; 16] = hex_digits(&span.to_be_bytes());
            [b"00-", key.as_bytes(), b"-", &span, b"-01"]
                .iter()
                .for_each(|part| line.extend_from_slice(part));
        })?;
        for name in ["idempotency-key", "x-ms-execution-tag"] {
            built.append(name, |line| line.extend_from_slice(key.as_bytes()))?;
        }
        Ok(built)
    }

    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    /// Adds the signature headers of Standard Webhooks.
    pub(super) fn sign(
        &mut self,
        signer: &Signer,
        collection: &CollectionPath,
        now: i64,
    ) -> Result<(), HttpActionError> {
        let key = self.idempotency_key;
        let signature = signer.sign(collection, key.as_str(), now, &self.request.body);
        self.set_header("webhook-id", key.as_str())?;
        self.set_header("webhook-timestamp", now)?;
        self.set_header("webhook-signature", signature)
    }

    /// Sets the access token.
    pub(super) fn set_bearer_token(&mut self, token: &Secret) -> Result<(), HttpActionError> {
        self.set_header("authorization", format_args!("Bearer {}", token.reveal()))
    }

    /// Removes the headers that a redirect to another origin does not take along: all headers of the
    /// job except harmless ones, its credentials and its signature.
    pub(super) fn leave_origin(&mut self, secret_headers: &SecretHeaders) {
        self.request.remove_headers(|name| {
            let is_kept = JOB_HEADERS_KEPT.iter().any(|kept| kept.eq_ignore_ascii_case(name));
            !(is_kept || is_own_header(name)) || secret_headers.contains(name)
        });
    }

    /// Changes the request for a redirect.
    pub(super) fn redirect_to(&mut self, to: &Url, method: NextMethod, body: NextBody) {
        (self.request.target, self.request.authority) = (target(to), authority(to));
        if method == NextMethod::Get {
            self.request.method = "GET".into();
        }
        if body == NextBody::Empty {
            self.request.body = Bytes::new();
            let describes_body = |name: &str| {
                name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("content-"))
                    || name.eq_ignore_ascii_case("webhook-signature")
            };
            self.request.remove_headers(describes_body);
        }
    }

    fn set_basic_credentials(&mut self, request: &HttpRequest) -> Result<(), HttpActionError> {
        match request.authentication.as_deref() {
            Some(HttpAuthentication::Basic { username: Some(user), password: Some(password) }) => {
                let pair = STANDARD.encode(format!("{user}:{}", password.reveal()));
                self.set_header("authorization", format_args!("Basic {pair}"))
            }
            Some(HttpAuthentication::Basic { .. }) => Err(HttpActionError::MissingPassword),
            _ => Ok(()),
        }
    }

    /// Adds a header of the scheduler.
    fn append(
        &mut self,
        name: &'static str,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), HttpActionError> {
        set_or_refuse(name, self.request.append_header(name, write))
    }

    fn set_header(&mut self, name: &str, value: impl Display) -> Result<(), HttpActionError> {
        set_or_refuse(name, self.request.set_header(name, value))
    }

    fn set_text_header(&mut self, name: &str, value: &str) -> Result<(), HttpActionError> {
        set_or_refuse(name, self.request.set_text_header(name, value))
    }
}

fn is_own_header(name: &str) -> bool {
    OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn set_or_refuse(name: &str, is_set: bool) -> Result<(), HttpActionError> {
    is_set.then_some(()).ok_or_else(|| HttpActionError::InvalidHeader(name.to_owned()))
}

/// The method in upper case.
fn method(text: &str) -> Cow<'static, str> {
    let known = METHODS.into_iter().find(|known| known.eq_ignore_ascii_case(text));
    known.map_or_else(|| text.to_ascii_uppercase().into(), Cow::Borrowed)
}

/// Appends 16 bytes as a GUID, in big-endian order.
fn append_guid(line: &mut Vec<u8>, id: [u8; 16]) {
    let digits: [u8; 32] = hex_digits(&id);
    let mut digits = digits.as_slice();
    for length in [8, 4, 4, 4, 12] {
        let (part, rest) = digits.split_at_checked(length).unwrap_or((digits, &[]));
        line.extend_from_slice(part);
        if !rest.is_empty() {
            line.push(b'-');
        }
        digits = rest;
    }
}

fn target(url: &Url) -> String {
    url[Position::BeforePath..Position::AfterQuery].to_owned()
}

fn authority(url: &Url) -> String {
    url[Position::BeforeHost..Position::AfterPort].to_owned()
}

/// Random request id and span id of one attempt.
fn random_ids(entropy: &dyn Entropy) -> ([u8; 16], u64) {
    let mut bytes = [0; 24];
    // Without entropy the id is all zeros, which shows the failure.
    let _ = entropy.fill(&mut bytes);
    let (mut id, mut span) = ([0; 16], [0; 8]);
    let random = bytes.iter();
    id.iter_mut().chain(&mut span).zip(random).for_each(|(to, from)| *to = *from);
    // A span id of zero is invalid.
    (id, u64::from_be_bytes(span).max(1))
}
