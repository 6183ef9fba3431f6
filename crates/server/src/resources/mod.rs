//! What can be asked of each kind of resource.

mod bulk;
mod collections;
mod events;
mod explain;
mod groups;
mod health;
mod history;
mod home;
mod jobs;
mod metrics;
mod occurrences;
mod openapi;
mod providers;
mod search;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Response, StatusCode, header};
use futures_util::FutureExt as _;
use kalends_domain::{AccessScope, Permission};
use kalends_wire::{ErrorCode, ErrorDetails, Version};

pub(crate) use groups::not_found as group_not_found;

use crate::access::permit::{self, Need};
use crate::access::{Caller, Passed};
use crate::answer::{Answer, Refused};
use crate::app::App;
use crate::audit::{Entry, Wait};
use crate::door::{Arrived, Places};
use crate::guard;
use crate::preface::Protocol;
use crate::request::Query;
use crate::route::{Route, route};

/// A request, taken apart.
pub(crate) struct Asked {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    /// What the audit log is told of it.
    pub(crate) entry: Entry,
    pub(crate) method: Method,
    pub(crate) path: Arc<str>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

type Done = Result<Answer, Refused>;

/// What is told of a request in the audit log, as far as it got.
struct Trace {
    entry: Entry,
    is_write: bool,
    /// What the caller may not do, or not even know of.
    is_unallowed: bool,
}

/// Answers everything.
pub(crate) async fn handle(
    app: &Arc<App>,
    Arrived { client, protocol, places }: Arrived,
    request: Request,
) -> Response<Body> {
    let ids = app.new_ids();
    let entry = Entry {
        time: app.now(),
        request: Arc::clone(&ids.request),
        caller: app.gate.is_open().then(Caller::single_user),
        client: Some(client),
        method: request.method().clone(),
        operation: None,
        path: request.uri().path().into(),
        status: StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
    };
    let is_write = !request.method().is_safe();
    let route = route(request.method(), request.uri().path());
    let is_brief = !is_write && matches!(&route, Ok(Some(route)) if route.is_brief());
    // A request of HTTP/2 can be taken back without giving up the connection.
    let is_brief = is_brief && protocol == Protocol::Http1;
    // What panics is answered. And an edit that its client does not wait for is still carried out
    // whole, and a search holds its places until it has ended, in tasks of their own.
    let answered = if is_brief {
        let work = answer_and_audit(Arc::clone(app), entry.clone(), route, request, places);
        AssertUnwindSafe(work).catch_unwind().await.map_err(|_| "it panicked".to_owned())
    } else {
        let work = answer_and_audit(Arc::clone(app), entry.clone(), route, request, places);
        tokio::spawn(work).await.map_err(|error| error.to_string())
    };
    let answer = match answered {
        Ok(answer) => answer,
        Err(error) => {
            let trace = Trace { entry, is_write, is_unallowed: false };
            audit(app, trace, StatusCode::INTERNAL_SERVER_ERROR).await;
            Refused::internal(error).answer(Version::V2016_03_01)
        }
    };
    answer.respond(app, ids)
}

async fn answer_and_audit(
    app: Arc<App>,
    entry: Entry,
    route: Result<Option<Route>, ErrorDetails>,
    request: Request,
    _places: Places,
) -> Answer {
    let mut trace = Trace { entry, is_write: false, is_unallowed: false };
    let answer = answer(&app, route, request, &mut trace).await;
    audit(&app, trace, answer.status).await;
    answer
}

/// A line for every write and every refusal.
async fn audit(app: &App, trace: Trace, status: StatusCode) {
    let refusals = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
    let wait = match trace.is_write {
        true => Wait::UntilWritten,
        false if trace.is_unallowed || refusals.contains(&status) => Wait::UntilQueued,
        false => return,
    };
    let entry = Entry { status: status.as_u16(), ..trace.entry };
    app.gate.audit.write(&entry, wait).await;
}

async fn answer(
    app: &Arc<App>,
    route: Result<Option<Route>, ErrorDetails>,
    request: Request,
    trace: &mut Trace,
) -> Answer {
    let (parts, body) = request.into_parts();
    let query = Query::read(parts.uri.query().unwrap_or(""));
    // A refusal is told in the words of the version that was asked for, where that can be read.
    let version = query.as_ref().ok().and_then(|query| query.version().ok());
    let version = version.unwrap_or(Version::V2016_03_01);
    let Parts { method, uri, headers, .. } = parts;
    if let Err(errors) = guard::check(&app.settings.hosts, &method, &uri, &headers) {
        return Refused::from(errors).answer(version);
    }
    let needed = route.as_ref().ok().and_then(Option::as_ref);
    let (need, operation) = match needed.map(|route| permit::need(route, &method)) {
        Some((need, operation)) => (need, Some(operation)),
        // Where nothing is, who asks is not told so before he has shown who he is.
        None => (Need::Token, None),
    };
    trace.entry.operation = operation;
    let passed = app.gate.pass(app, trace.entry.client, &method, &headers, &need).await;
    let Passed { caller, left } = match passed {
        Ok(passed) => passed,
        Err(stopped) => {
            trace.entry.caller = stopped.caller.or(trace.entry.caller.take());
            return stopped.refused.answer(version).with_left(stopped.left);
        }
    };
    trace.entry.caller = Some(caller.clone());
    let (app, entry) = (Arc::clone(app), trace.entry.clone());
    let path = Arc::clone(&entry.path);
    let asked = move |query| Asked { app, caller, entry, method, path, query, headers, body };
    let answer = match route.map_err(Refused::from) {
        Ok(None) => no_such_path(uri.path()).answer(version),
        Ok(Some(route)) => match query.map(asked) {
            Ok(asked) => carry_out(asked, route, need, version, trace).await,
            Err(errors) => Refused::from(errors).answer(version),
        },
        Err(refused) => refused.answer(version),
    };
    answer.with_left(left)
}

/// Does what is asked, where that is possible and allowed.
async fn carry_out(
    asked: Asked,
    route: Route,
    need: Need,
    version: Version,
    trace: &mut Trace,
) -> Answer {
    if !route.allows(&asked.method) {
        let message = format!("allowed are {}", route.methods());
        let refused = Refused::from(ErrorDetails::one(ErrorCode::MethodNotAllowed, "", message));
        return refused.answer(version).with(header::ALLOW, route.methods());
    }
    trace.is_write = need.is_write();
    if let Err(unallowed) = permit::check(&asked.caller, &need, asked.operation()) {
        trace.is_unallowed = true;
        return unallowed.answer(&asked.method, version);
    }
    dispatch(asked, route).await.unwrap_or_else(|refused| refused.answer(version))
}

async fn dispatch(mut asked: Asked, route: Route) -> Done {
    // The same without its body, which the connection leaves out. Groups tell by the status alone.
    if asked.method == Method::HEAD && !matches!(route, Route::Group(_)) {
        asked.method = Method::GET;
    }
    // In boxes of their own, so that what is asked most often need not move what all the others need.
    match route {
        Route::Home => Ok(home::page()),
        Route::Live => Ok(Answer::text(StatusCode::OK, "ok")),
        Route::Ready => Ok(health::ready(&asked.app).await),
        Route::Metrics => Ok(metrics::page(&asked.app)),
        Route::Events => Box::pin(events::stream(asked)).await,
        Route::OpenApi => Ok(openapi::document()),
        Route::Operations => Ok(providers::operations()),
        Route::Provider { subscription } | Route::Register { subscription } => {
            Ok(providers::provider(&subscription))
        }
        Route::Groups { subscription } => Box::pin(groups::list(asked, subscription)).await,
        Route::Group(path) => Box::pin(groups::one(asked, path)).await,
        Route::CollectionsOfSubscription(subscription) => {
            let scope = kalends_store::Scope::Subscription(subscription);
            Box::pin(collections::list(asked, scope)).await
        }
        Route::CollectionsOfGroup(group) => {
            Box::pin(collections::list(asked, kalends_store::Scope::Group(group))).await
        }
        Route::Collection(path) => Box::pin(collections::one(asked, path)).await,
        Route::SwitchCollection { collection, on } => {
            Box::pin(collections::switch(asked, collection, on)).await
        }
        Route::Jobs(path) => Box::pin(jobs::list(asked, path)).await,
        Route::Bulk(path) => Box::pin(bulk::edit(asked, path)).await,
        Route::Job(path) if asked.method == Method::GET => jobs::get(asked, path).await,
        Route::Job(path) => Box::pin(jobs::change(asked, path)).await,
        Route::Run(path) => Box::pin(jobs::run(asked, path)).await,
        Route::Preview(path) => Box::pin(jobs::preview(asked, path)).await,
        Route::History(path) => Box::pin(history::list(asked, path)).await,
        Route::Occurrences(path) => Box::pin(occurrences::list(asked, path)).await,
        Route::Explain(path) => Box::pin(explain::explain(asked, path)).await,
    }
}

impl Asked {
    fn operation(&self) -> &'static str {
        self.entry.operation.unwrap_or("")
    }

    /// Asks for more than the route did, where that is known only from the body.
    fn require(&self, permission: Permission, place: AccessScope) -> Result<(), Refused> {
        let need = Need::Permission(permission, place);
        permit::check(&self.caller, &need, self.operation()).map_err(permit::Unallowed::refused)
    }

    /// The version, on a path that the old ones do not have.
    fn new_version(&self) -> Result<Version, Refused> {
        match self.query.version()? {
            version if version.is_old() => Err(no_such_path(&self.path)),
            version => Ok(version),
        }
    }
}

fn no_such_path(path: &str) -> Refused {
    let shown: String = path.chars().take(200).collect();
    let message = format!("The request uri is invalid. The requested path '{shown}' is not found.");
    Refused::from(ErrorDetails::one(ErrorCode::NotFound, "", message))
}

/// Done, and there is nothing to say.
fn done() -> Done {
    Ok(Answer::empty(StatusCode::OK))
}

/// A store that wrote something and has nothing to show for it.
fn nothing_there() -> Refused {
    Refused::internal("the store shows nothing of what it wrote")
}
