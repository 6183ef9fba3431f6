//! What can be asked of each kind of resource.

mod collections;
mod groups;
pub(crate) mod health;
mod history;
mod home;
mod jobs;
mod providers;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, header};
use kalends_wire::{Code, Errors, Version};

use crate::answer::{Answer, Refused};
use crate::app::App;
use crate::request::Query;
use crate::route::{Route, route};

/// A request, taken apart.
pub(crate) struct Asked {
    pub(crate) app: App,
    pub(crate) method: Method,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

type Done = Result<Answer, Refused>;

/// Answers whatever is not answered elsewhere.
pub(crate) async fn handle(State(app): State<App>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let query = Query::read(parts.uri.query().unwrap_or(""));
    // A refusal is told in the words of the version that was asked for, where that can be read.
    let version = query.as_ref().ok().and_then(|query| query.version().ok());
    let asked = query.map(|query| {
        let (method, headers) = (parts.method.clone(), parts.headers);
        Asked { app: app.clone(), method, query, headers, body }
    });
    let done = match (asked, route(parts.uri.path())) {
        (Err(errors), _) | (_, Err(errors)) => Err(errors.into()),
        (Ok(_), Ok(None)) => Err(no_such_path(parts.uri.path())),
        (Ok(asked), Ok(Some(route))) => dispatch(asked, route).await,
    };
    let answer =
        done.unwrap_or_else(|refused| refused.answer(version.unwrap_or(Version::V2016_03_01)));
    answer.respond(&app)
}

async fn dispatch(asked: Asked, route: Route) -> Done {
    match route {
        Route::Home => home::handle(asked),
        Route::Operations => providers::operations(asked),
        Route::Provider { subscription } => providers::provider(asked, subscription),
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
        Route::Job(path) => jobs::one(asked, path).await,
        Route::Run(path) => jobs::run(asked, path).await,
        Route::Preview(path) => jobs::preview(asked, path).await,
        Route::History(path) => history::list(asked, path).await,
    }
}

fn no_such_path(path: &str) -> Refused {
    let shown: String = path.chars().take(200).collect();
    let message = format!("The request uri is invalid. The requested path '{shown}' is not found.");
    Refused::from(Errors::one(Code::NotFound, "", message))
}

/// The methods that a resource has are others.
fn not_allowed(allowed: &str) -> Done {
    let message = format!("allowed are {allowed}");
    let refused = Refused::from(Errors::one(Code::MethodNotAllowed, "", message));
    Ok(refused.answer(Version::V2026_11_01).with(header::ALLOW, allowed))
}

/// Done, and there is nothing to say.
fn done() -> Done {
    Ok(Answer::empty(StatusCode::OK))
}

/// A store that wrote something and has nothing to show for it.
fn nothing_there() -> Refused {
    Refused::internal("the store shows nothing of what it wrote")
}
