//! The client of the REST API, version `2026-11-01`. Calls block until the response is complete.

mod events;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;
use http::{Method, Request, header};
use kalends_actions::{UserAgent, UserAgentError};
use kalends_domain::Secret;
use kalends_environment::{Clock as _, SystemClock, SystemEntropy};
use kalends_wire::Json;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

pub(crate) use events::{Event, EventFilter, EventStream};

use crate::error::{CliError, Refusal};
use crate::json::JsonMembers as _;
use crate::resource_name::JobRef;
use crate::target::Target;

const API_VERSION: &str = "2026-11-01";
/// Longest response in bytes: room for a page of 100 jobs of 16 KiB, and for a bulk response.
const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Attempts of a request that the server refuses because of a rate limit (429).
const ATTEMPTS_MAX: u32 = 6;
/// Longest pause before the next attempt. Rate limits are per minute, so no server asks for more.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Requests of [`Api::send_each`] in flight at the same time.
const REQUESTS_AT_ONCE_MAX: usize = UserAgent::IDLE_CONNECTIONS_MAX;
/// A path that needs neither a token nor capacity of the server.
const LIVENESS: &str = "/livez";

/// A server, called through its public API.
pub(crate) struct Api {
    runtime: Runtime,
    agent: UserAgent,
    /// The URL of the server in messages.
    server: String,
    token: Option<Secret>,
    /// The path of the list of collections.
    collections: String,
    is_short: bool,
    /// Held by the request that waits for a rate limit of the server; all others wait for it.
    rate_limit: Mutex<()>,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    headers: Vec<(header::HeaderName, String)>,
    body: Option<String>,
}

/// A successful response.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    /// The version of the resource, for `If-Match`.
    pub(crate) etag: Option<String>,
    /// The body; null if it is empty or not JSON.
    pub(crate) body: Json<'static>,
}

impl Call {
    /// A request without a body.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Call {
        Call { method, path: path.into(), query: Vec::new(), headers: Vec::new(), body: None }
    }

    /// Adds a query parameter.
    #[must_use]
    pub(crate) fn query(mut self, name: &'static str, value: impl Into<String>) -> Call {
        self.query.push((name, value.into()));
        self
    }

    /// Adds a query parameter if there is a value.
    #[must_use]
    pub(crate) fn query_some(self, name: &'static str, value: Option<impl Into<String>>) -> Call {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Sends a JSON body.
    #[must_use]
    pub(crate) fn body(mut self, body: &Json<'_>) -> Call {
        self.body = Some(body.to_string());
        self
    }

    /// Only if the resource still has this version.
    #[must_use]
    pub(crate) fn if_match(mut self, etag: Option<&str>) -> Call {
        self.headers.extend(etag.map(|etag| (header::IF_MATCH, etag.to_owned())));
        self
    }

    /// Only if the resource does not exist.
    #[must_use]
    pub(crate) fn if_absent(mut self) -> Call {
        self.headers.push((header::IF_NONE_MATCH, "*".to_owned()));
        self
    }
}

impl Api {
    /// A client of the server. Does not connect yet.
    pub(crate) fn new(target: Target) -> Result<Api, CliError> {
        let server = target.url.as_str().trim_end_matches('/').to_owned();
        let ca_bundle = match &target.ca_file {
            Some(path) => std::fs::read(path).map_err(CliError::file(path))?,
            None => Vec::new(),
        };
        let agent = UserAgent::new(&target.url, ca_bundle, Arc::new(SystemEntropy));
        let agent = agent.map_err(|error| CliError::usage(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let collections = match &target.group {
            None => "/api/collections".to_owned(),
            Some((subscription, group)) => format!(
                "/subscriptions/{subscription}/resourceGroups/{}/providers/Microsoft.Scheduler/jobCollections",
                encoded(group)
            ),
        };
        let is_short = target.group.is_none();
        let (token, rate_limit) = (target.token, Mutex::new(()));
        Ok(Api { runtime, agent, server, token, collections, is_short, rate_limit })
    }

    /// The URL of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The path of the list of collections.
    pub(crate) fn collections(&self) -> &str {
        &self.collections
    }

    /// The path of a collection.
    pub(crate) fn collection(&self, name: &str) -> String {
        format!("{}/{name}", self.collections)
    }

    /// The path of a job.
    pub(crate) fn job(&self, job: &JobRef) -> String {
        format!("{}/{}/jobs/{}", self.collections, job.collection, job.job)
    }

    /// Reads a resource.
    pub(crate) fn get(&self, path: &str) -> Result<Response, CliError> {
        self.send(&Call::new(Method::GET, path))
    }

    /// Sends a request. Waits and repeats it if the server has a rate limit. A status from 400 is an
    /// error.
    pub(crate) fn send(&self, call: &Call) -> Result<Response, CliError> {
        self.runtime.block_on(self.send_within_limit(call))
    }

    /// Sends a request for each item, up to 16 at once, and calls `on_result` in the order of the items.
    ///
    /// If the server cannot be reached, no further request starts; `on_result` gets the results of those
    /// in flight that have one, and the error is returned.
    pub(crate) fn send_each<T>(
        &self,
        items: &[T],
        call: impl Fn(&T) -> Call,
        mut on_result: impl FnMut(&T, Result<Response, CliError>),
    ) -> Result<(), CliError> {
        self.runtime.block_on(async {
            let at_once = self.open_connections(items.len().min(REQUESTS_AT_ONCE_MAX)).await?;
            let is_reachable = Cell::new(true);
            let wanted = items.iter().take_while(|_| is_reachable.get());
            let requests = stream::iter(wanted).map(|item| {
                let call = call(item);
                async move { (item, self.send_within_limit(&call).await) }
            });
            let mut results = std::pin::pin!(requests.buffered(at_once));
            let mut unreachable = None;
            while let Some((item, result)) = results.next().await {
                match result {
                    Err(error @ CliError::Unreachable { .. }) => {
                        is_reachable.set(false);
                        unreachable.get_or_insert(error);
                    }
                    result => on_result(item, result),
                }
            }
            unreachable.map_or(Ok(()), Err)
        })
    }

    /// Opens connections for `number` requests at once. Returns how many there are, at least one: the
    /// server may close those above its limit for one client, so each is tried first.
    async fn open_connections(&self, number: usize) -> Result<usize, CliError> {
        if number <= 1 {
            return Ok(1);
        }
        let probe = self.request(&Call::new(Method::GET, LIVENESS))?;
        let probes = (0..number).map(|_| self.agent.send(probe.clone(), RESPONSE_BYTES_MAX));
        let opened = join_all(probes).await.iter().filter(|result| result.is_ok()).count();
        Ok(opened.max(1))
    }

    async fn send_within_limit(&self, call: &Call) -> Result<Response, CliError> {
        drop(self.rate_limit.lock().await);
        let mut turn = None;
        let mut attempt = 1;
        loop {
            let response = self.exchange(call).await?;
            match retry_pause(&response).filter(|_| attempt < ATTEMPTS_MAX) {
                None => return read_response(&response),
                Some(pause) => {
                    let until = SystemClock.uptime().saturating_add(pause);
                    if turn.is_none() {
                        turn = Some(self.rate_limit.lock().await);
                    }
                    attempt += 1;
                    SystemClock.sleep(until.saturating_sub(SystemClock.uptime())).await;
                }
            }
        }
    }

    /// Reads all pages of a list, at most `limit` entries of it, and calls `on_page` with the number of
    /// entries so far.
    pub(crate) fn list(
        &self,
        call: Call,
        limit: usize,
        mut on_page: impl FnMut(usize),
    ) -> Result<Vec<Json<'static>>, CliError> {
        let mut entries = Vec::new();
        let mut call = call;
        loop {
            let mut page = self.send(&call)?.body;
            if let Some(Json::Array(values)) = crate::json::remove(&mut page, "value") {
                entries.extend(values);
            }
            on_page(entries.len());
            let next = page.text("nextLink");
            if next.is_empty() || entries.len() >= limit {
                entries.truncate(limit);
                return Ok(entries);
            }
            // Only the path is used: the token stays with this server.
            let link = url::Url::parse(next);
            let link = link.map_err(|_| self.unexpected("the link to the next page is invalid"))?;
            let path = &link[url::Position::BeforePath..url::Position::AfterQuery];
            call = Call::new(Method::GET, path);
        }
    }

    /// Reads a text, such as that of `/readyz`, whatever its status.
    pub(crate) fn text(&self, path: &str) -> Result<(u16, String), CliError> {
        let response = self.runtime.block_on(self.exchange(&Call::new(Method::GET, path)))?;
        let status = response.status().as_u16();
        Ok((status, String::from_utf8_lossy(response.body()).trim().to_owned()))
    }

    async fn exchange(&self, call: &Call) -> Result<http::Response<Vec<u8>>, CliError> {
        let request = self.request(call)?;
        let sent = self.agent.send(request, RESPONSE_BYTES_MAX).await;
        sent.map_err(|source| self.unreachable(source))
    }

    fn request(&self, call: &Call) -> Result<Request<Bytes>, CliError> {
        let mut uri = call.path.clone();
        let has_version = !self.is_versioned(&uri) || uri.contains("api-version=");
        let version = (!has_version).then(|| ("api-version", API_VERSION.to_owned()));
        for (name, value) in version.iter().chain(&call.query) {
            uri.push(if uri.contains('?') { '&' } else { '?' });
            uri.push_str(&format!("{name}={}", encoded(value)));
        }
        let mut request = Request::builder().method(&call.method).uri(uri);
        request = request
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, concat!("kalends/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.reveal()));
        }
        if call.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = call.body.clone().unwrap_or_default();
        request.body(Bytes::from(body)).map_err(|_| self.unexpected("the request is invalid"))
    }

    /// Whether a path needs an API version. Short paths have the newest by default.
    fn is_versioned(&self, path: &str) -> bool {
        path.starts_with("/events") || (!self.is_short && path.starts_with("/subscriptions"))
    }

    fn unreachable(&self, source: UserAgentError) -> CliError {
        CliError::Unreachable { server: self.server.clone(), source }
    }

    fn unexpected(&self, problem: &str) -> CliError {
        CliError::Failure(format!("{}: {problem}", self.server))
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The pause before the next attempt; `None` if there is none. A request above a rate limit had no effect.
fn retry_pause(response: &http::Response<Vec<u8>>) -> Option<Duration> {
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
    let pause = Duration::from_secs(retry_after.unwrap_or(1));
    (response.status() == 429 && pause <= RETRY_PAUSE_MAX).then_some(pause)
}

fn read_response(response: &http::Response<Vec<u8>>) -> Result<Response, CliError> {
    let text = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
    let (status, body) = (response.status().as_u16(), response.body());
    if status >= 400 {
        return Err(CliError::Refused(refusal(status, body, text("x-ms-request-id"))));
    }
    let json = serde_json::from_slice::<Json<'_>>(body).map(Json::into_owned);
    Ok(Response { etag: text("etag"), body: json.unwrap_or(Json::Null) })
}

/// Reads an error response.
fn refusal(status: u16, body: &[u8], request_id: Option<String>) -> Refusal {
    let body = serde_json::from_slice::<Json<'_>>(body).map_or(Json::Null, Json::into_owned);
    let details = body.items("error.details");
    let messages: Vec<_> = details.iter().map(|detail| detail.text("message")).collect();
    let message = match (messages.len(), body.text("error.message")) {
        (2.., _) => messages.join("\n       "),
        (_, "") => format!("the server returned the status {status}"),
        (_, message) => message.to_owned(),
    };
    Refusal { status, code: body.text("error.code").to_owned(), message, request_id }
}
