//! HTTP and HTTPS actions: one attempt with its redirects, and its history message.
//!
//! `action_request` builds the request, `redirect` decides whether a redirect is followed,
//! `history_message` formats the result with the wording of the retired service, and `retry_after`
//! parses the delay that a busy target requests.

mod action_request;
mod error;
mod history_message;
mod redirect;
mod retry_after;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{
    HttpAuthentication, HttpRequest, Outcome, Secret, SecretHeaders, Signing, Target,
};
use kalends_environment::{Clock, Entropy, Stopwatch};
use kalends_recurrence::Instant;
use url::Url;

use self::action_request::ActionRequest;
use self::error::HttpActionError;
use self::redirect::{Origin, Redirect, RedirectDecision, RedirectError};
use crate::client::{Client, Response};
use crate::egress::{Destination, Identity};
use crate::executor::{AttemptReport, AttemptRequest, PrewarmFuture};
use crate::oauth::{ClientCredentials, TokenCache};
use crate::redaction::Redactor;
use crate::send_fence::AttemptContext;
use crate::signing::Signer;

/// Bytes of a response's body that are read for history: enough for the characters it stores, and
/// for a secret that begins among them, which must be complete to be redacted.
const BODY_BYTES_MAX: usize = 8 * 1024;

/// Executes HTTP actions.
pub(crate) struct HttpExecutor {
    client: Arc<Client>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    tokens: TokenCache,
    signer: Option<Signer>,
    secret_headers: SecretHeaders,
}

/// The first request of an attempt and its credentials.
struct Prepared {
    request: ActionRequest,
    identity: Identity,
    token: Option<Secret>,
}

impl HttpExecutor {
    pub(crate) fn new(
        client: Arc<Client>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        tokens: TokenCache,
        signer: Option<Signer>,
        secret_headers: SecretHeaders,
    ) -> HttpExecutor {
        HttpExecutor { client, clock, entropy, tokens, signer, secret_headers }
    }

    pub(crate) async fn execute(
        &self,
        attempt: &AttemptRequest<'_>,
        request: &HttpRequest,
        context: AttemptContext<'_>,
    ) -> AttemptReport {
        let Ok(mut url) = Url::parse(request.uri.as_str()) else {
            let message = history_message::failure("", &HttpActionError::InvalidUrl);
            return AttemptReport::failed(message);
        };
        let redactor = Redactor::for_http_request(request, &url, &self.secret_headers);
        let execution = self.send_and_redirect(attempt, request, &mut url, redactor, context);
        match tokio::time::timeout(attempt.timeout, execution).await {
            Ok(report) => report,
            Err(_) => {
                let host = url.host_str().unwrap_or_default();
                let message = history_message::failure(host, &HttpActionError::Timeout);
                AttemptReport::failed(message)
            }
        }
    }

    /// Opens the connections of requests that are due together, except those with a client
    /// certificate: reading it takes longer than `ahead`.
    pub(crate) fn prewarm(
        &self,
        attempts: &[AttemptRequest<'_>],
        ahead: Duration,
    ) -> Vec<PrewarmFuture> {
        let mut counts: HashMap<Destination, usize> = HashMap::new();
        for attempt in attempts {
            let Target::Http(request) = &attempt.action.target else { continue };
            if matches!(request.authentication, Some(HttpAuthentication::ClientCertificate { .. }))
            {
                continue;
            }
            let url = Url::parse(request.uri.as_str()).ok();
            let to = url.and_then(|url| Destination::of_url(&url, &attempt.path.collection));
            to.into_iter().for_each(|to| *counts.entry(to).or_default() += 1);
        }
        let stopwatch = Stopwatch::start();
        let connect = |(to, count)| -> PrewarmFuture {
            let client = Arc::clone(&self.client);
            Box::pin(async move {
                let left = ahead.saturating_sub(stopwatch.elapsed());
                drop(tokio::time::timeout(left, client.prewarm(to, count)).await);
            })
        };
        counts.into_iter().map(connect).collect()
    }

    async fn send_and_redirect(
        &self,
        attempt: &AttemptRequest<'_>,
        request: &HttpRequest,
        url: &mut Url,
        mut redactor: Redactor,
        context: AttemptContext<'_>,
    ) -> AttemptReport {
        let failed = |url: &Url, error: HttpActionError, redactor: &Redactor| {
            let host = url.host_str().unwrap_or_default();
            AttemptReport::failed(redactor.redact(history_message::failure(host, &error)))
        };
        let prepared = match self.prepare(attempt, request, url).await {
            Ok(prepared) => prepared,
            Err(error) => return failed(url, error, &redactor),
        };
        let Prepared { request: mut sent, mut identity, token } = prepared;
        if let Some(token) = &token {
            redactor.add_token(token);
        }
        for followed in 0..=redirect::REDIRECTS_MAX {
            let response = match self.send(attempt, &sent, url, &identity, context).await {
                Ok(response) => response,
                Err(error) => return failed(url, error, &redactor),
            };
            if let (401, Some(token)) = (response.status, &token) {
                Box::pin(self.tokens.invalidate(request.authentication.as_ref(), token)).await;
            }
            match redirect::decide(url, &sent, &response, followed) {
                RedirectDecision::Final => return self.report(url, &response, &redactor),
                RedirectDecision::Refuse(error) => return failed(url, error.into(), &redactor),
                RedirectDecision::Follow(Redirect { to, method, body, origin }) => {
                    if origin == Origin::Cross {
                        sent.leave_origin(&self.secret_headers);
                        identity = Identity::none();
                    }
                    sent.redirect_to(&to, method, body);
                    *url = to;
                }
            }
        }
        failed(url, RedirectError::TooMany.into(), &redactor)
    }

    async fn prepare(
        &self,
        attempt: &AttemptRequest<'_>,
        request: &HttpRequest,
        url: &Url,
    ) -> Result<Prepared, HttpActionError> {
        let mut built = ActionRequest::new(attempt, request, url, &*self.entropy)?;
        let collection = &attempt.path.collection;
        if let (Signing::On, Some(signer)) = (attempt.signing, &self.signer) {
            let now = Instant::from(self.clock.now()).unix_seconds();
            built.sign(signer, collection, now)?;
        }
        let identity = match &request.authentication {
            // Without TLS there is no handshake that could present the certificate.
            Some(HttpAuthentication::ClientCertificate { .. }) if url.scheme() != "https" => {
                Identity::none()
            }
            Some(HttpAuthentication::ClientCertificate { pfx: Some(pfx), password, .. }) => {
                let empty = Secret::new(String::new());
                let password = password.as_ref().unwrap_or(&empty);
                Box::pin(self.client.egress().identity(pfx, password)).await?
            }
            Some(HttpAuthentication::ClientCertificate { pfx: None, .. }) => {
                return Err(HttpActionError::MissingCertificate);
            }
            Some(
                HttpAuthentication::ActiveDirectoryOAuth { .. } | HttpAuthentication::Basic { .. },
            )
            | None => Identity::none(),
        };
        let token = match ClientCredentials::of(request.authentication.as_ref())? {
            Some(credentials) => {
                let token = Box::pin(self.tokens.token(&credentials, collection)).await?;
                built.set_bearer_token(&token)?;
                Some(token)
            }
            None => None,
        };
        Ok(Prepared { request: built, identity, token })
    }

    async fn send(
        &self,
        attempt: &AttemptRequest<'_>,
        request: &ActionRequest,
        url: &Url,
        identity: &Identity,
        context: AttemptContext<'_>,
    ) -> Result<Response, HttpActionError> {
        let to = Destination::of_url(url, &attempt.path.collection);
        let to = to.ok_or(HttpActionError::InvalidUrl)?;
        let request = request.request();
        Ok(self.client.send(request, &to, identity, BODY_BYTES_MAX, context).await?)
    }

    fn report(&self, url: &Url, response: &Response, redactor: &Redactor) -> AttemptReport {
        let host = url.host_str().unwrap_or_default();
        let message = history_message::response(host, response, redactor);
        let now = Instant::from(self.clock.now());
        let outcome = match response.status {
            200..=299 => Outcome::Succeeded,
            _ => Outcome::Failed { retry_after: retry_after::of(response, now) },
        };
        AttemptReport::new(outcome, message)
    }
}
