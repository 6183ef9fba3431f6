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
mod occurrences;
mod openapi;
mod providers;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, header};
use kalends_wire::{Code, Errors, Version};

use crate::answer::{Answer, Refused};
use crate::app::App;
use crate::guard;
use crate::request::Query;
use crate::route::{Route, route};

/// A request, taken apart.
pub(crate) struct Asked {
    pub(crate) app: App,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

type Done = Result<Answer, Refused>;

/// Answers everything.
pub(crate) async fn handle(State(app): State<App>, request: Request) -> Response<Body> {
    // In a task of its own: what panics there is answered, and an edit that its client does not
    // wait for is still carried out whole.
    let answered = tokio::spawn(answer(app.clone(), request)).await;
    let answer = answered
        .unwrap_or_else(|error| Refused::internal(error.to_string()).answer(Version::V2016_03_01));
    answer.respond(&app)
}

async fn answer(app: App, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let query = Query::read(parts.uri.query().unwrap_or(""));
    // A refusal is told in the words of the version that was asked for, where that can be read.
    let version = query.as_ref().ok().and_then(|query| query.version().ok());
    let version = version.unwrap_or(Version::V2016_03_01);
    let checked = guard::check(app.settings.hosts, &parts.method, &parts.uri, &parts.headers);
    let path = parts.uri.path();
    let route = match checked.and_then(|()| route(&parts.method, path)) {
        Ok(Some(route)) => route,
        Ok(None) => return no_such_path(path).answer(version),
        Err(errors) => return Refused::from(errors).answer(version),
    };
    if !route.allows(&parts.method) {
        let message = format!("allowed are {}", route.methods());
        let refused = Refused::from(Errors::one(Code::MethodNotAllowed, "", message));
        return refused.answer(version).with(header::ALLOW, route.methods());
    }
    let done = match query {
        Ok(query) => {
            let (path, method) = (path.to_owned(), parts.method);
            dispatch(Asked { app, method, path, query, headers: parts.headers, body }, route).await
        }
        Err(errors) => Err(errors.into()),
    };
    done.unwrap_or_else(|refused| refused.answer(version))
}

async fn dispatch(mut asked: Asked, route: Route) -> Done {
    // The same without its body, which the connection leaves out. Groups tell by the status alone.
    if asked.method == Method::HEAD && !matches!(route, Route::Group(_)) {
        asked.method = Method::GET;
    }
    match route {
        Route::Home => Ok(home::page()),
        Route::Live => Ok(Answer::text(StatusCode::OK, "ok")),
        Route::Ready => Ok(health::ready(&asked.app).await),
        Route::Events => events::stream(asked).await,
        Route::OpenApi => Ok(openapi::document()),
        Route::Operations => Ok(providers::operations()),
        Route::Provider { subscription } | Route::Register { subscription } => {
            Ok(providers::provider(&subscription))
        }
        Route::Groups { subscription } => groups::list(asked, subscription).await,
        Route::Group(path) => groups::one(asked, path).await,
        Route::CollectionsOfSubscription(subscription) => {
            collections::list(asked, kalends_store::Scope::Subscription(subscription)).await
        }
        Route::CollectionsOfGroup(group) => {
            collections::list(asked, kalends_store::Scope::Group(group)).await
        }
        Route::Collection(path) => collections::one(asked, path).await,
        Route::SwitchCollection { collection, on } => {
            collections::switch(asked, collection, on).await
        }
        Route::Jobs(path) => jobs::list(asked, path).await,
        Route::Bulk(path) => bulk::edit(asked, path).await,
        Route::Job(path) => jobs::one(asked, path).await,
        Route::Run(path) => jobs::run(asked, path).await,
        Route::Preview(path) => jobs::preview(asked, path).await,
        Route::History(path) => history::list(asked, path).await,
        Route::Occurrences(path) => occurrences::list(asked, path).await,
        Route::Explain(path) => explain::explain(asked, path).await,
    }
}

impl Asked {
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
    Refused::from(Errors::one(Code::NotFound, "", message))
}

/// Done, and there is nothing to say.
fn done() -> Done {
    Ok(Answer::empty(StatusCode::OK))
}

/// A store that wrote something and has nothing to show for it.
fn nothing_there() -> Refused {
    Refused::internal("the store shows nothing of what it wrote")
}
