//! What is sent: the job's own headers and body, who it is, and what the scheduler says of it.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kalends_domain::{CollectionPath, HttpAuthentication, HttpRequest, Secret};
use kalends_environment::{Entropy, format_guid};
use url::{Position, Url};

use super::redirect::{BodyAfter, MethodAfter};
use crate::client::{Headers, Request};
use crate::executor::AttemptRequest;
use crate::idempotency_key::idempotency_key;
use crate::signing::Signer;

/// Room that is made for headers; there may be more.
const HEADERS: usize = 16;
const HEADER_BYTES: usize = 1_024;

/// A request of a job.
pub(super) struct Message {
    request: Request,
    tag: String,
}

impl Message {
    /// The request of an order, not signed yet.
    pub(super) fn new(
        order: &AttemptRequest,
        request: &HttpRequest,
        url: &Url,
        entropy: &dyn Entropy,
    ) -> Result<Message, String> {
        let tag = idempotency_key(order);
        let mut message = Message {
            request: Request {
                method: request.method.as_str().to_ascii_uppercase(),
                target: target(url),
                authority: authority(url),
                headers: Headers::with_capacity(HEADERS, HEADER_BYTES),
                body: Bytes::from(request.body.clone().unwrap_or_default()),
            },
            tag,
        };
        for (name, value) in request.headers.iter().flat_map(|headers| headers.iter()) {
            message.put(name, value)?;
        }
        message.authenticate(request)?;
        let (id, span) = chance(entropy);
        let tag = message.tag.clone();
        message.put("x-ms-scheduler-jobid", &order.path.job)?;
        message.put("x-ms-scheduler-jobcollection", &order.path.collection.collection)?;
        message.put("x-ms-scheduler-region", &order.region)?;
        message.put("x-ms-scheduler-expected-execution-time", order.scheduled)?;
        message.put("x-ms-client-request-id", format_guid(id))?;
        // All attempts of an occurrence are one trace, named by its tag.
        message.put("traceparent", format_args!("00-{tag}-{span:016x}-01"))?;
        message.put("idempotency-key", &tag)?;
        message.put("x-ms-execution-tag", &tag)?;
        // What cannot be read is not asked for.
        message.put("accept-encoding", "identity")?;
        Ok(message)
    }

    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    /// Signs it as "Standard Webhooks" has it.
    pub(super) fn sign(
        &mut self,
        signer: &Signer,
        collection: &CollectionPath,
        now: i64,
    ) -> Result<(), String> {
        let signature = signer.sign(collection, &self.tag, now, &self.request.body);
        let tag = self.tag.clone();
        self.put("webhook-id", tag)?;
        self.put("webhook-timestamp", now)?;
        self.put("webhook-signature", signature)
    }

    /// Says as whom it is sent.
    pub(super) fn bear(&mut self, token: &Secret) -> Result<(), String> {
        self.put("authorization", format_args!("Bearer {}", token.reveal()))
    }

    /// Leaves behind what is for the first target alone.
    pub(super) fn leave_secrets(&mut self, is_secret: impl Fn(&str) -> bool) {
        let is_signature = |name: &str| name.eq_ignore_ascii_case("webhook-signature");
        self.request.drop_headers(|name| is_secret(name) || is_signature(name));
    }

    /// Aims it at where a redirect leads.
    pub(super) fn move_to(&mut self, to: &Url, method: MethodAfter, body: BodyAfter) {
        (self.request.target, self.request.authority) = (target(to), authority(to));
        if method == MethodAfter::Get {
            self.request.method = "GET".into();
        }
        if body == BodyAfter::Dropped {
            self.request.body = Bytes::new();
            let is_of_body = |name: &str| {
                name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("content-"))
                    || name.eq_ignore_ascii_case("webhook-signature")
            };
            self.request.drop_headers(is_of_body);
        }
    }

    fn authenticate(&mut self, request: &HttpRequest) -> Result<(), String> {
        match &request.authentication {
            Some(HttpAuthentication::Basic { username: Some(user), password: Some(password) }) => {
                let pair = STANDARD.encode(format!("{user}:{}", password.reveal()));
                self.put("authorization", format_args!("Basic {pair}"))
            }
            Some(HttpAuthentication::Basic { .. }) => {
                Err("the job has no user or no password for its authentication".into())
            }
            _ => Ok(()),
        }
    }

    fn put(&mut self, name: &str, value: impl Display) -> Result<(), String> {
        match self.request.header(name, value) {
            true => Ok(()),
            false => Err(format!("the header {name} cannot be sent")),
        }
    }
}

fn target(url: &Url) -> String {
    url[Position::BeforePath..Position::AfterQuery].to_owned()
}

fn authority(url: &Url) -> String {
    url[Position::BeforeHost..Position::AfterPort].to_owned()
}

/// What differs from attempt to attempt, drawn in one go: the id of the request and its span.
fn chance(entropy: &dyn Entropy) -> ([u8; 16], u64) {
    let mut bytes = [0; 24];
    // Where there is no chance the id is all zeros, which says so.
    let _ = entropy.fill(&mut bytes);
    let (mut id, mut span) = ([0; 16], [0; 8]);
    let drawn = bytes.iter();
    id.iter_mut().chain(&mut span).zip(drawn).for_each(|(to, from)| *to = *from);
    // A span of zero would void the header.
    (id, u64::from_be_bytes(span).max(1))
}
