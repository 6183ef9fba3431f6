//! The pages, one module each.

mod collections;
mod editor;
mod job;
mod jobs;
mod overview;
mod run;
mod runs;
mod sign_in;
mod system;

use askama::Template;
use percent_encoding::percent_decode_str;

pub use sign_in::is_page;

use crate::Page;
use crate::api::{Api, ApiFailure, Json as _};
use crate::screen::Screen;
use crate::view::{PageRequest, Shared, View};

/// Renders a screen.
pub async fn respond(screen: Screen, request: PageRequest<'_>, api: &dyn Api) -> Page {
    let mut view = View::new(&request, &screen);
    // Each page awaits it, those with many reads together with their own.
    let shared = Shared::load(&screen, api);
    let page = match &screen {
        Screen::Overview => overview::page(&mut view, shared, &request, api).await,
        Screen::Jobs => jobs::page(&mut view, shared, &request, api).await,
        Screen::Job(job) => job::page(&mut view, shared, &request, job, api).await,
        Screen::Run(job, time) => run::page(&mut view, shared, job, time, api).await,
        Screen::NewJob => editor::page(&mut view, shared, &request, None, api).await,
        Screen::EditJob(job) => editor::page(&mut view, shared, &request, Some(job), api).await,
        Screen::Runs => runs::page(&mut view, shared, &request, api).await,
        Screen::Collections => collections::page(&mut view, shared, api).await,
        Screen::Collection(collection) => {
            collections::one(&mut view, shared, collection, api).await
        }
        Screen::System => system::page(&mut view, shared, api).await,
        Screen::SignIn => sign_in::page(&mut view, &request),
        Screen::Missing => missing(&mut view, shared, &request).await,
    };
    page.unwrap_or_else(|failure| error(view, &failure))
}

type PageResult = Result<Page, ApiFailure>;

/// A page with status 200.
fn rendered(template: &impl Template) -> PageResult {
    match template.render() {
        Ok(body) => Ok(Page { status: 200, body }),
        Err(error) => Err(ApiFailure { status: 500, message: error.to_string() }),
    }
}

async fn missing(
    view: &mut View,
    shared: impl Future<Output = Shared>,
    request: &PageRequest<'_>,
) -> PageResult {
    view.share(shared.await);
    let path = percent_decode_str(request.path).decode_utf8_lossy();
    Err(ApiFailure { status: 404, message: format!("There is no page {path}") })
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    view: View,
    heading: &'a str,
    message: &'a str,
}

fn error(mut view: View, failure: &ApiFailure) -> Page {
    let heading = match failure.status {
        404 => "Not found",
        401 | 403 => "Not allowed",
        429 | 503 => "Busy",
        _ => "The page cannot be shown",
    };
    view.title = heading.to_owned();
    let page = ErrorPage { view, heading, message: &failure.message };
    Page { status: failure.status, body: page.render().unwrap_or_default() }
}
