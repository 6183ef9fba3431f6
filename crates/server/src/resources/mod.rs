//! Request handling: routing, access checks, audit, and one module for each kind of resource.

mod all_jobs;
mod bulk;
mod bulk_preview;
mod collections;
mod console;
mod definitions;
mod events;
mod explain;
mod groups;
mod health;
mod history;
mod job_draft;
mod job_search;
mod jobs;
mod last_failures;
mod me;
mod metrics;
mod node;
mod notes;
mod occurrences;
mod openapi;
mod overview;
mod pause;
mod preview;
mod providers;
mod readable_collections;
mod run_counts;
mod runs;
mod search;
mod search_words;
mod session;
mod sign_in;
mod skip;
mod statistics;
mod test_run;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use kalends_console::Screen;
use kalends_domain::{AccessScope, NewNote, Permission};
use kalends_wire::{ErrorCode, ErrorDetails, Version, quoted};

pub(crate) use groups::not_found as group_not_found;
pub use openapi::OPENAPI;

use crate::access::Caller;
use crate::access::authorization::{self, Requirement};
use crate::app::App;
use crate::audit::{AuditEntry, Wait};
use crate::body::ResponseBody;
use crate::capacity::{CapacityExceeded, RequestSlot};
use crate::client::ClientNetwork;
use crate::connection::{ConnectionPermit, RequestOrigin};
use crate::forwarded::RequestSource;
use crate::origin_policy;
use crate::protocol::Protocol;
use crate::request::{Query, ignore_body, invalid};
use crate::response::{ApiError, ApiResponse};
use crate::route::{PathForm, Route, SignInStep, route};

/// A parsed request with its caller.
pub(crate) struct RequestContext {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    /// The request as its client sent it.
    pub(crate) source: RequestSource,
    /// Audit entry of the request.
    pub(crate) entry: Arc<AuditEntry>,
    pub(crate) method: Method,
    pub(crate) path: Arc<str>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    /// `None` once it was read.
    pub(crate) body: Option<Incoming>,
    pub(crate) slot: Arc<RequestSlot>,
}

type HandlerResult = Result<ApiResponse, ApiError>;

/// Facts for the audit log, collected while a request is processed.
struct AuditTrace {
    entry: Arc<AuditEntry>,
    is_write: bool,
    /// Whether the caller lacked the permission: the response is 403, or 404 to hide the resource.
    is_denied: bool,
    /// Source and reason of a request that was refused before its permission was checked.
    refusal: Option<(Arc<str>, ErrorCode)>,
}

impl AuditTrace {
    fn new(entry: Arc<AuditEntry>) -> AuditTrace {
        AuditTrace { entry, is_write: false, is_denied: false, refusal: None }
    }

    /// Notes that the request was refused before its permission was checked. `caller` is absent if
    /// authentication failed.
    fn refuse(&mut self, caller: Option<&Caller>, reason: ErrorCode) {
        let network = |client| format!("address:{}", ClientNetwork::from(client)).into();
        let client = self.entry.client.map(network);
        let source = caller.map(|caller| Arc::clone(&caller.id)).or(client);
        self.refusal = source.map(|source| (source, reason));
    }
}

/// A request before it is processed. Boxed, because every future that it passes through would have
/// room for it.
struct ArrivedRequest {
    source: RequestSource,
    route: Result<Option<Route>, ErrorDetails>,
    parts: Parts,
    body: Incoming,
    slot: Arc<RequestSlot>,
}

impl ArrivedRequest {
    /// The request for its handler, and its route.
    fn into_context(
        self: Box<ArrivedRequest>,
        app: &Arc<App>,
        caller: Caller,
        query: Result<Query, ErrorDetails>,
        trace: &AuditTrace,
    ) -> Result<(Box<RequestContext>, Route), ApiError> {
        let ArrivedRequest { source, route, parts, body, slot } = *self;
        let path = Arc::clone(&trace.entry.path);
        let route = route?.ok_or_else(|| no_such_path(&path))?;
        let request = RequestContext {
            app: Arc::clone(app),
            caller,
            source,
            entry: Arc::clone(&trace.entry),
            method: parts.method,
            path,
            query: query?,
            headers: parts.headers,
            body: Some(body),
            slot,
        };
        Ok((Box::new(request), route))
    }
}

/// Handles a request.
pub(crate) async fn handle(
    app: &Arc<App>,
    RequestOrigin { source, protocol, slot, permit }: RequestOrigin,
    request: Box<Request<Incoming>>,
) -> Response<ResponseBody> {
    let ids = app.new_response_ids();
    let entry = Arc::new(AuditEntry {
        time: app.now(),
        request: Arc::clone(&ids.request),
        caller: app.access.is_single_user().then(Caller::single_user),
        client: Some(source.client),
        method: request.method().clone(),
        operation: None,
        path: request.uri().path().into(),
        status: StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
        refusals: None,
    });
    let is_write = !request.method().is_safe();
    let route = match route(request.method(), request.uri().path(), &app.settings.default_group) {
        Ok(None) if console::is_for_person(&request) => Ok(Some(Route::Console(Screen::Missing))),
        route => route,
    };
    let is_fast = !is_write && matches!(&route, Ok(Some(route)) if route.is_fast_read());
    // An HTTP/2 client can reset a stream, which drops this future, and keep its connection.
    let runs_inline = is_fast && protocol == Protocol::Http1;
    let (parts, body) = request.into_parts();
    let arrived = Box::new(ArrivedRequest { source, route, parts, body, slot });
    // Reads that fail are not in the audit log.
    let entry_after_panic = (!runs_inline).then(|| Arc::clone(&entry));
    let work = process_and_audit(Arc::clone(app), entry, arrived, permit);
    // Other requests run in their own task: if the client disconnects, an edit is still completed,
    // and a search holds its slot until it ends. A panic becomes a 500 either way.
    let processed = if runs_inline {
        AssertUnwindSafe(work).catch_unwind().await.map_err(|_| "it panicked".to_owned())
    } else {
        tokio::spawn(work).await.map_err(|error| error.to_string())
    };
    let response = match processed {
        Ok(response) => response,
        Err(error) => {
            if let Some(entry) = entry_after_panic {
                let trace = AuditTrace { is_write, ..AuditTrace::new(entry) };
                audit(app, trace, StatusCode::INTERNAL_SERVER_ERROR).await;
            }
            ApiError::internal(error).response(Version::V2016_03_01)
        }
    };
    response.into_http(app, ids)
}

async fn process_and_audit(
    app: Arc<App>,
    entry: Arc<AuditEntry>,
    arrived: Box<ArrivedRequest>,
    _permit: ConnectionPermit,
) -> ApiResponse {
    // Held until the audit entry is written.
    let _slot = Arc::clone(&arrived.slot);
    let mut trace = AuditTrace::new(entry);
    let response = process(&app, arrived, &mut trace).await;
    audit(&app, trace, response.status).await;
    response
}

/// Writes an audit entry for every write and every denied request, or counts it. Writes wait until it
/// is written.
async fn audit(app: &App, trace: AuditTrace, status: StatusCode) {
    let denials = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
    let wait = match trace.is_write {
        true => Wait::UntilWritten,
        false if trace.is_denied || denials.contains(&status) => Wait::UntilQueued,
        false => return,
    };
    let entry = AuditEntry { status: status.as_u16(), ..Arc::unwrap_or_clone(trace.entry) };
    // Boxed like the arms of `dispatch`.
    Box::pin(async {
        match trace.refusal {
            Some((source, reason)) => app.access.audit.write_refusal(source, reason, entry).await,
            None => app.access.audit.write(&entry, wait).await,
        }
    })
    .await;
}

/// Authenticates the caller of a request, counts the request against rate limits and executes it.
async fn process(
    app: &Arc<App>,
    arrived: Box<ArrivedRequest>,
    trace: &mut AuditTrace,
) -> ApiResponse {
    let Parts { method, uri, headers, .. } = &arrived.parts;
    let query = Query::read(uri.query().unwrap_or(""), PathForm::of(uri.path()));
    // Errors have the form of the requested API version, where that can be parsed.
    let version = query.as_ref().ok().and_then(|query| query.version().ok());
    let version = version.unwrap_or(Version::V2016_03_01);
    let ArrivedRequest { source, route, slot, .. } = &*arrived;
    if let Err(errors) = origin_policy::check(&app.settings.hosts, method, uri, source, headers) {
        trace.refuse(None, errors.code());
        return ApiError::from(errors).response(version);
    }
    let known_route = route.as_ref().ok().and_then(Option::as_ref);
    let known_route = known_route.map(|route| authorization::requirement(route, method));
    let (requirement, operation) = match known_route {
        Some((requirement, operation)) => (requirement, Some(operation)),
        // An unknown path returns 404 to authenticated callers only.
        None => (Requirement::Token, None),
    };
    Arc::make_mut(&mut trace.entry).operation = operation;
    let is_probe = matches!(route, Ok(Some(Route::Live | Route::Ready | Route::Metrics)));
    let busy = |exceeded: CapacityExceeded| {
        app.metrics.request_rejected();
        ApiError::from(exceeded).response(version)
    };
    if !is_probe && let Err(exceeded) = slot.enter() {
        return busy(exceeded);
    }
    let caller = app.access.authenticate(app, source, method, headers, &requirement, slot).await;
    let caller = match caller {
        Ok(caller) => caller,
        Err(error) => {
            app.health.request_failed(&error);
            trace.refuse(None, error.code());
            return match route {
                Ok(Some(Route::Console(_))) => console::to_sign_in(uri, &error),
                _ => error.response(version),
            };
        }
    };
    Arc::make_mut(&mut trace.entry).caller = Some(caller.clone());
    let remaining = match app.access.count_request(app, &caller, method, &requirement) {
        Ok(remaining) => remaining,
        Err(error) => {
            trace.refuse(Some(&caller), error.code());
            return error.response(version);
        }
    };
    if let Err(exceeded) = slot.assign(&caller.id) {
        return busy(exceeded);
    }
    let executed = match arrived.into_context(app, caller, query, trace) {
        Ok((request, route)) => execute(request, route, requirement, version, trace).await,
        Err(error) => error.response(version),
    };
    executed.with_remaining(remaining)
}

/// Checks method and permissions, and calls the handler of the route.
async fn execute(
    request: Box<RequestContext>,
    route: Route,
    requirement: Requirement,
    version: Version,
    trace: &mut AuditTrace,
) -> ApiResponse {
    if !route.allows(&request.method) {
        let found = quoted(request.method.as_str());
        let message = format!("The method must be one of {} (found {found})", route.methods());
        let error = ApiError::from(ErrorDetails::one(ErrorCode::MethodNotAllowed, "", message));
        return error.response(version).with(header::ALLOW, route.methods());
    }
    trace.is_write = requirement.is_write() || route == Route::Session;
    if let Err(error) = authorization::check(&request.caller, &requirement, request.operation()) {
        trace.is_denied = true;
        let is_hidden = error.code() == ErrorCode::ResourceNotFound;
        // The response of a group that does not exist, see `groups`.
        if is_hidden && request.method == Method::HEAD && matches!(route, Route::Group(_)) {
            return ApiResponse::empty(StatusCode::NOT_FOUND);
        }
        return error.response(version);
    }
    let health = Arc::clone(&request.app.health);
    dispatch(request, route).await.unwrap_or_else(|error| {
        health.request_failed(&error);
        error.response(version)
    })
}

async fn dispatch(mut request: Box<RequestContext>, route: Route) -> HandlerResult {
    if request.is_strict() {
        route.check_query(&request.method, &request.query)?;
    }
    if !route.reads_body(&request.method) {
        ignore_body(&mut request).await?;
    }
    // hyper omits the body of the response. Groups have their own HEAD, with status 204.
    if request.method == Method::HEAD && !matches!(route, Route::Group(_)) {
        request.method = Method::GET;
    }
    // Boxed except for GET of a job, so that the future of the hot path stays small.
    match route {
        Route::Console(screen) => Box::pin(console::page(*request, screen)).await,
        Route::Asset(asset) => Ok(console::asset(asset, &request.headers)),
        Route::Live => Ok(ApiResponse::text(StatusCode::OK, "ok")),
        Route::Ready => Ok(Box::pin(health::ready(&request.app)).await),
        Route::Metrics => Ok(Box::pin(metrics::page(&request.app)).await),
        Route::Session => Box::pin(session::change(*request)).await,
        Route::SignIn(SignInStep::Begin) => Box::pin(sign_in::begin(*request)).await,
        Route::SignIn(SignInStep::Finish) => Box::pin(sign_in::finish(*request)).await,
        Route::Events => Box::pin(events::stream(*request)).await,
        Route::OpenApi => Ok(openapi::document()),
        Route::Me => me::describe(&request),
        Route::Node => Box::pin(node::describe(*request)).await,
        Route::Pause => Box::pin(pause::pause(*request)).await,
        Route::Resume => Box::pin(pause::resume(*request)).await,
        Route::Runs => Box::pin(runs::list(*request)).await,
        Route::RunCounts => Box::pin(run_counts::get(*request)).await,
        Route::Operations => Ok(providers::operations()),
        Route::MetadataEndpoints => Ok(providers::endpoints(&request)),
        Route::Subscriptions => {
            Ok(providers::subscriptions(&request.app.settings.default_group.subscription))
        }
        Route::Subscription(subscription) => Ok(providers::subscription(&subscription)),
        Route::Provider { subscription } | Route::Register { subscription } => {
            Ok(providers::provider(&subscription))
        }
        Route::Groups { subscription } => Box::pin(groups::list(*request, subscription)).await,
        Route::Group(path) => Box::pin(groups::one(*request, path)).await,
        Route::CollectionsOfSubscription(subscription) => {
            let scope = kalends_store::Scope::Subscription(subscription);
            Box::pin(collections::list(*request, scope)).await
        }
        Route::CollectionsOfGroup(group) => {
            Box::pin(collections::list(*request, kalends_store::Scope::Group(group))).await
        }
        Route::Collection(path) => Box::pin(collections::one(*request, path)).await,
        Route::SwitchCollection { collection, on } => {
            Box::pin(collections::switch(*request, collection, on)).await
        }
        Route::Overview => Box::pin(overview::overview(*request)).await,
        Route::Attention => Box::pin(overview::attention(*request)).await,
        Route::ExpectedRuns => Box::pin(overview::expected_runs(*request)).await,
        Route::AllJobs => Box::pin(all_jobs::list(*request)).await,
        Route::Jobs(path) => Box::pin(jobs::list(*request, path)).await,
        Route::Bulk(path) => Box::pin(bulk::edit(*request, path)).await,
        Route::BulkPreview(path) => Box::pin(bulk_preview::preview(*request, path)).await,
        Route::Job(path) if request.method == Method::GET => jobs::get(&request, path).await,
        Route::Job(path) => Box::pin(jobs::change(*request, path)).await,
        Route::Run(path) => Box::pin(jobs::run(*request, path)).await,
        Route::Skip(path) => Box::pin(skip::skip(*request, path)).await,
        Route::Preview(path) => Box::pin(preview::preview(*request, path)).await,
        Route::TestRun(path) => Box::pin(test_run::test_run(*request, path)).await,
        Route::History(path) => Box::pin(history::list(*request, path)).await,
        Route::Occurrences(path) => Box::pin(occurrences::list(*request, path)).await,
        Route::Explain(path) => Box::pin(explain::explain(*request, path)).await,
        Route::Statistics(path) => Box::pin(statistics::get(*request, path)).await,
        Route::Definition { job, generation } => {
            Box::pin(definitions::get(*request, job, generation)).await
        }
        Route::NotesOfJob(path) => Box::pin(notes::of_job(*request, path)).await,
        Route::Notes => Box::pin(notes::list(*request)).await,
    }
}

impl RequestContext {
    /// Scheme and host under which the client reaches the server, such as `http://127.0.0.1:8080`.
    pub(crate) fn server_url(&self) -> String {
        let host = self.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = self.source.host.as_deref().or(host).unwrap_or("localhost");
        format!("{}://{host}", self.source.scheme.as_str())
    }

    /// Whether unknown query parameters are an error: on short paths, except in old API versions.
    fn is_strict(&self) -> bool {
        let is_old = || self.query.version().is_ok_and(Version::is_old);
        PathForm::of(&self.path) == PathForm::Short && !is_old()
    }

    fn operation(&self) -> &'static str {
        self.entry.operation.unwrap_or("")
    }

    /// Requires a further permission, for routes whose requirement depends on the body.
    fn require(&self, permission: Permission, scope: AccessScope) -> Result<(), ApiError> {
        let requirement = Requirement::Permission(permission, scope);
        authorization::check(&self.caller, &requirement, self.operation())
    }

    /// The note that the caller gives with an edit (`note`); old API versions have none.
    fn note(&self, version: Version) -> Result<Option<NewNote>, ApiError> {
        if version.is_old() {
            return Ok(None);
        }
        let text = self.query.note()?;
        Ok(text.map(|text| NewNote { author: self.caller.note_author(), text }))
    }

    /// Rejects a note with a deletion: notes are deleted with their job or collection.
    fn reject_note(&self, version: Version) -> Result<(), ApiError> {
        match self.note(version)? {
            Some(_) => {
                let message = "must be absent: a deletion deletes the notes of its resource";
                Err(invalid("note", message).into())
            }
            None => Ok(()),
        }
    }

    /// The API version, on a path that old versions do not have.
    fn new_version(&self) -> Result<Version, ApiError> {
        match self.query.version()? {
            version if version.is_old() => Err(no_such_path(&self.path)),
            version => Ok(version),
        }
    }
}

fn no_such_path(path: &str) -> ApiError {
    let shown: String = path.chars().take(200).collect();
    let message = format!("The request uri is invalid. The requested path '{shown}' is not found.");
    ApiError::from(ErrorDetails::one(ErrorCode::NotFound, "", message))
}

/// 200 without a body.
fn ok_empty() -> HandlerResult {
    Ok(ApiResponse::empty(StatusCode::OK))
}

/// A bug of the store: a write returned no record.
fn missing_after_write() -> ApiError {
    ApiError::internal("the store shows nothing of what it wrote")
}
