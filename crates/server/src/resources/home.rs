//! The page at `/`: an introduction with a first job.

use http::{StatusCode, header};

use crate::resources::RequestContext;
use crate::response::ApiResponse;

const PAGE: &str = include_str!("home.html");
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Target of the first job on a server without an echo target.
const OTHER_TARGET: &str = "https://example.org";

/// URL of the server for a host that the page does not show.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";

pub(super) fn page(request: &RequestContext) -> ApiResponse {
    let target = request.app.settings.echo;
    let target = target.map_or(OTHER_TARGET.to_owned(), |address| format!("http://{address}"));
    // Neither a browser nor a shell may interpret a part of the host.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.:[]_-".contains(c);
    let server = Some(request.server_url()).filter(|url| url.chars().all(is_plain));
    let server = server.as_deref().unwrap_or(DEFAULT_SERVER);
    let page = PAGE.replace("{server}", server).replace("{target}", &target);
    ApiResponse::text(StatusCode::OK, page)
        .with(header::CONTENT_TYPE, "text/html; charset=utf-8")
        .with(header::CONTENT_SECURITY_POLICY, POLICY)
}
