//! HTTP and HTTPS requests: one attempt, with its redirects, and what history says of it.
//!
//! `message` builds what is sent; `redirect` decides where an answer leads; `words` says how it
//! went, in the words of the retired service; `mask` keeps secrets out of them; `retry_after` reads
//! what a target asks for.

mod mask;
mod message;
mod redirect;
mod retry_after;
mod words;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{CollectionPath, HttpAuthentication, HttpRequest, Outcome, Secret, Target};
use kalends_environment::{Clock, Entropy, Stopwatch};
use kalends_recurrence::Instant;
use url::Url;

use self::mask::Mask;
use self::message::Message;
use self::redirect::{Hop, Step};
use crate::client::{Answer, Client};
use crate::egress::{Destination, Identity};
use crate::executor::{AttemptReport, AttemptRequest, PrewarmFuture};
use crate::laps::Laps;
use crate::oauth::{Application, Tokens};
use crate::signing::Signer;

/// Bytes of an answer's body that are kept until it is cut to what history shows: as many
/// characters have room in them, and behind those a secret that must not be cut before it is seen.
const BODY_BYTES_KEPT: usize = 8 * 1024;

/// Makes requests.
pub(crate) struct HttpExecutor {
    client: Arc<Client>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    tokens: Tokens,
    signer: Option<Signer>,
    /// Names of headers that are secret beside those that always are, in lower case.
    secret_headers: Vec<String>,
}

impl HttpExecutor {
    pub(crate) fn new(
        client: Arc<Client>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        tokens: Tokens,
        signer: Option<Signer>,
        secret_headers: &[String],
    ) -> HttpExecutor {
        let secret_headers = secret_headers.iter().map(|name| name.to_ascii_lowercase()).collect();
        HttpExecutor { client, clock, entropy, tokens, signer, secret_headers }
    }

    pub(crate) async fn execute(
        &self,
        order: &AttemptRequest,
        request: &HttpRequest,
        laps: &Laps,
    ) -> AttemptReport {
        let Ok(url) = Url::parse(request.uri.as_str()) else {
            return AttemptReport::failed(words::failure("", "the address cannot be read"));
        };
        let mask = Mask::of(request, &url, &self.secret_headers);
        let attempt = self.attempt(order, request, url.clone(), mask, laps);
        match tokio::time::timeout(order.timeout, attempt).await {
            Ok(report) => report,
            Err(_) => {
                let why = "Timeout The operation has timed out";
                AttemptReport::failed(words::failure(url.host_str().unwrap_or_default(), why))
            }
        }
    }

    /// Makes the connections that requests need which are to be sent together. Those that show a
    /// certificate are left out: reading it takes longer than there is time.
    pub(crate) fn prewarm(
        &self,
        orders: &[&AttemptRequest],
        ahead: Duration,
    ) -> Vec<PrewarmFuture> {
        let mut wanted: HashMap<Destination, usize> = HashMap::new();
        for order in orders {
            let Target::Http(request) = &order.action.target else { continue };
            if matches!(request.authentication, Some(HttpAuthentication::ClientCertificate { .. }))
            {
                continue;
            }
            let url = Url::parse(request.uri.as_str()).ok();
            let to = url.and_then(|url| Destination::of_url(&url, &order.path.collection));
            to.into_iter().for_each(|to| *wanted.entry(to).or_default() += 1);
        }
        let watch = Stopwatch::start();
        let connect = |(to, count)| -> PrewarmFuture {
            let client = Arc::clone(&self.client);
            Box::pin(async move {
                let left = ahead.saturating_sub(watch.elapsed());
                drop(tokio::time::timeout(left, client.connect_ahead(to, count)).await);
            })
        };
        wanted.into_iter().map(connect).collect()
    }

    async fn attempt(
        &self,
        order: &AttemptRequest,
        request: &HttpRequest,
        mut url: Url,
        mut mask: Mask,
        laps: &Laps,
    ) -> AttemptReport {
        let failed = |url: &Url, why: &str, mask: &Mask| {
            let host = url.host_str().unwrap_or_default();
            AttemptReport::failed(mask.apply(words::failure(host, why)))
        };
        let prepared = match self.prepare(order, request, &url).await {
            Ok(prepared) => prepared,
            Err(why) => return failed(&url, &why, &mask),
        };
        let (mut message, mut identity, token) = prepared;
        if let Some(token) = &token {
            mask.add(token);
        }
        for hop in 0..=redirect::HOPS_MAX {
            let collection = &order.path.collection;
            let sent = self.send(&message, &url, &identity, collection, laps).await;
            let answer = match sent {
                Ok(answer) => answer,
                Err(why) => return failed(&url, &why, &mask),
            };
            if let (401, Some(token)) = (answer.status, &token) {
                Box::pin(self.tokens.forget(request.authentication.as_ref(), token)).await;
            }
            match redirect::step(&url, &message, &answer, hop) {
                Step::Stay => return self.report(&url, &answer, &mask),
                Step::Refuse(why) => {
                    return failed(&url, &format!("RedirectRefused {why}"), &mask);
                }
                Step::Go(Hop { to, method, body, origin }) => {
                    if origin == redirect::Origin::Other {
                        message.leave_secrets(|name| self.is_secret_header(name));
                        identity = Identity::none();
                    }
                    message.move_to(&to, method, body);
                    url = to;
                }
            }
        }
        failed(&url, "RedirectRefused the target redirects too often", &mask)
    }

    /// What is sent first, as whom, and the token that says so.
    async fn prepare(
        &self,
        order: &AttemptRequest,
        request: &HttpRequest,
        url: &Url,
    ) -> Result<(Message, Identity, Option<Secret>), String> {
        let mut message = Message::new(order, request, url, &*self.entropy)?;
        if let (kalends_domain::Signing::On, Some(signer)) = (order.signing, &self.signer) {
            let now = Instant::from(self.clock.now()).unix_seconds();
            message.sign(signer, &order.path.collection, now)?;
        }
        let identity = match &request.authentication {
            // Without TLS there is nobody to show a certificate to.
            Some(HttpAuthentication::ClientCertificate { .. }) if url.scheme() != "https" => {
                Identity::none()
            }
            Some(HttpAuthentication::ClientCertificate { pfx: Some(pfx), password, .. }) => {
                let empty = Secret::new(String::new());
                let password = password.as_ref().unwrap_or(&empty);
                let read = Box::pin(self.client.egress().identity(pfx, password)).await;
                read.map_err(|why| format!("the client certificate cannot be used: {why}"))?
            }
            Some(HttpAuthentication::ClientCertificate { pfx: None, .. }) => {
                return Err("the job has no certificate for its authentication".into());
            }
            Some(
                HttpAuthentication::ActiveDirectoryOAuth { .. } | HttpAuthentication::Basic { .. },
            )
            | None => Identity::none(),
        };
        let token = match Application::of(request.authentication.as_ref())? {
            Some(application) => {
                let token =
                    Box::pin(self.tokens.token(&application, &order.path.collection)).await?;
                message.bear(&token)?;
                Some(token)
            }
            None => None,
        };
        Ok((message, identity, token))
    }

    async fn send(
        &self,
        message: &Message,
        url: &Url,
        identity: &Identity,
        collection: &CollectionPath,
        laps: &Laps,
    ) -> Result<Answer, String> {
        let to = Destination::of_url(url, collection).ok_or("the address cannot be read")?;
        let sent = self.client.send(message.request(), &to, identity, BODY_BYTES_KEPT, laps).await;
        sent.map_err(|failure| failure.to_string())
    }

    fn report(&self, url: &Url, answer: &Answer, mask: &Mask) -> AttemptReport {
        let message = words::answer(url.host_str().unwrap_or_default(), answer, mask);
        let now = Instant::from(self.clock.now());
        let outcome = match answer.status {
            200..=299 => Outcome::Succeeded,
            _ => Outcome::Failed { retry_after: retry_after::of(answer, now) },
        };
        AttemptReport::new(outcome, message)
    }

    fn is_secret_header(&self, name: &str) -> bool {
        mask::is_secret_header(name, &self.secret_headers)
    }
}
