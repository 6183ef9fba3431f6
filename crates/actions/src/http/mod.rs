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
mod url_cache;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{
    CollectionPath, HttpAuthentication, HttpRequest, Outcome, Secret, SecretHeaders, Signing,
    Target,
};
use kalends_environment::{Clock, Entropy, Stopwatch};
use kalends_recurrence::Instant;
use url::Url;

use self::action_request::ActionRequest;
use self::error::HttpActionError;
use self::redirect::{Origin, Redirect, RedirectDecision, RedirectError};
use self::url_cache::UrlCache;
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
    urls: UrlCache,
}

/// The requests of an attempt: the one that is sent next, and its credentials.
struct Exchange {
    url: Arc<Url>,
    sent: ActionRequest,
    identity: Identity,
    token: Option<Secret>,
    redactor: Redactor,
}

impl Exchange {
    fn failed(&self, error: &HttpActionError) -> AttemptReport {
        failed(&self.url, error, &self.redactor)
    }
}

fn failed(url: &Url, error: &HttpActionError, redactor: &Redactor) -> AttemptReport {
    let host = url.host_str().unwrap_or_default();
    AttemptReport::failed(redactor.redact(history_message::failure(host, error)))
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
        let urls = UrlCache::default();
        HttpExecutor { client, clock, entropy, tokens, signer, secret_headers, urls }
    }

    pub(crate) async fn execute(
        &self,
        attempt: &AttemptRequest<'_>,
        request: &HttpRequest,
        context: AttemptContext<'_>,
    ) -> AttemptReport {
        let Some(url) = self.urls.parse(request.uri.as_str()) else {
            let message = history_message::failure("", &HttpActionError::InvalidUrl);
            return AttemptReport::failed(message);
        };
        let redactor = Redactor::for_http_request(request, &url, &self.secret_headers);
        let sent = match self.first_request(attempt, request, &url) {
            Ok(sent) => sent,
            Err(error) => return failed(&url, &error, &redactor),
        };
        let mut exchange =
            Exchange { url, sent, identity: Identity::none(), token: None, redactor };
        let execution = self.send_and_redirect(attempt, request, &mut exchange, context);
        match tokio::time::timeout(attempt.timeout, execution).await {
            Ok(report) => report,
            Err(_) => exchange.failed(&HttpActionError::Timeout),
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
            if matches!(
                request.authentication.as_deref(),
                Some(HttpAuthentication::ClientCertificate { .. })
            ) {
                continue;
            }
            let url = self.urls.parse(request.uri.as_str());
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
        exchange: &mut Exchange,
        context: AttemptContext<'_>,
    ) -> AttemptReport {
        let collection = &attempt.path.collection;
        if request.authentication.is_some()
            && let Err(error) = Box::pin(self.authenticate(collection, request, exchange)).await
        {
            return exchange.failed(&error);
        }
        for followed in 0..=redirect::REDIRECTS_MAX {
            let Some(to) = Destination::of_url(&exchange.url, collection) else {
                return exchange.failed(&HttpActionError::InvalidUrl);
            };
            let (sent, identity) = (exchange.sent.request(), &exchange.identity);
            // Boxed because two small allocations take less time than a large one.
            let sending = Box::pin(self.client.send(sent, &to, identity, BODY_BYTES_MAX, context));
            let response = match sending.await {
                Ok(response) => response,
                Err(error) => return exchange.failed(&error.into()),
            };
            if let (401, Some(token)) = (response.status, &exchange.token) {
                Box::pin(self.tokens.invalidate(request.authentication.as_deref(), token)).await;
            }
            match redirect::decide(&exchange.url, &exchange.sent, &response, followed) {
                RedirectDecision::Final => return self.report(exchange, &response),
                RedirectDecision::Refuse(error) => return exchange.failed(&error.into()),
                RedirectDecision::Follow(Redirect { to, method, body, origin }) => {
                    if origin == Origin::Cross {
                        exchange.sent.leave_origin(&self.secret_headers);
                        exchange.identity = Identity::none();
                    }
                    exchange.sent.redirect_to(&to, method, body);
                    exchange.url = Arc::new(to);
                }
            }
        }
        exchange.failed(&RedirectError::TooMany.into())
    }

    /// The first request of an attempt, without client certificate and access token.
    fn first_request(
        &self,
        attempt: &AttemptRequest<'_>,
        request: &HttpRequest,
        url: &Url,
    ) -> Result<ActionRequest, HttpActionError> {
        let mut built = ActionRequest::new(attempt, request, url, &*self.entropy)?;
        if let (Signing::On, Some(signer)) = (attempt.signing, &self.signer) {
            let now = Instant::from(self.clock.now()).unix_seconds();
            built.sign(signer, &attempt.path.collection, now)?;
        }
        Ok(built)
    }

    /// Reads the client certificate or gets the access token.
    async fn authenticate(
        &self,
        collection: &CollectionPath,
        request: &HttpRequest,
        exchange: &mut Exchange,
    ) -> Result<(), HttpActionError> {
        match request.authentication.as_deref() {
            // Without TLS there is no handshake that could present the certificate.
            Some(HttpAuthentication::ClientCertificate { .. })
                if exchange.url.scheme() != "https" => {}
            Some(HttpAuthentication::ClientCertificate { pfx: Some(pfx), password, .. }) => {
                let empty = Secret::new(String::new());
                let password = password.as_ref().unwrap_or(&empty);
                exchange.identity = self.client.egress().identity(pfx, password).await?;
            }
            Some(HttpAuthentication::ClientCertificate { pfx: None, .. }) => {
                return Err(HttpActionError::MissingCertificate);
            }
            Some(
                HttpAuthentication::ActiveDirectoryOAuth { .. } | HttpAuthentication::Basic { .. },
            )
            | None => {}
        }
        if let Some(credentials) = ClientCredentials::of(request.authentication.as_deref())? {
            let token = self.tokens.token(&credentials, collection).await?;
            exchange.sent.set_bearer_token(&token)?;
            exchange.redactor.add_token(&token);
            exchange.token = Some(token);
        }
        Ok(())
    }

    fn report(&self, exchange: &Exchange, response: &Response) -> AttemptReport {
        let host = exchange.url.host_str().unwrap_or_default();
        let message = history_message::response(host, response, &exchange.redactor);
        let now = Instant::from(self.clock.now());
        let outcome = match response.status {
            200..=299 => Outcome::Succeeded,
            _ => Outcome::Failed { retry_after: retry_after::of(response, now) },
        };
        AttemptReport::new(outcome, message)
    }
}
