//! The web console: pages of the crate `kalends_console`, on the API with the rights of the caller.

use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, Method, Request, StatusCode, Uri, header};
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use kalends_console::{
    Answer, Api, Asset, CONTENT_SECURITY_POLICY, PageRequest, Screen, SignInMethod,
};
use kalends_wire::Version;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{HandlerResult, RequestContext, dispatch, no_such_path};
use crate::access::{Caller, authorization};
use crate::app::App;
use crate::audit::AuditEntry;
use crate::capacity::RequestSlot;
use crate::compression::gzip;
use crate::forwarded::RequestSource;
use crate::request::Query;
use crate::response::{ApiError, ApiResponse};
use crate::route::{PathForm, route};

/// Headers of every page, besides those of all responses.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

const SPECULATION_RULES: HeaderName = HeaderName::from_static("speculation-rules");

/// Assets have the hash of their content in the URL.
const ASSET_CACHE: &str = "public, max-age=31536000, immutable";

pub(super) async fn page(request: RequestContext, screen: Screen) -> HandlerResult {
    let group = &request.app.settings.default_group;
    let default_group =
        format!("/subscriptions/{}/resourceGroups/{}", group.subscription, group.group);
    // HTTP/2 clients may send one line for each cookie.
    let cookies = request.headers.get_all(header::COOKIE).iter();
    let cookies = cookies.filter_map(|line| line.to_str().ok()).collect::<Vec<_>>().join("; ");
    let page_request = PageRequest {
        path: &request.path,
        parameters: request.query.parameters(),
        cookies: &cookies,
        now: request.app.now(),
        version: env!("CARGO_PKG_VERSION"),
        default_group: &default_group,
        secret_headers: &request.app.settings.secret_headers,
        sign_in: sign_in_method(&request.app),
        is_cross_site: is_cross_site(&request.headers),
    };
    let api = CallerApi {
        app: Arc::clone(&request.app),
        caller: request.caller.clone(),
        source: request.source.clone(),
        entry: request.entry.clone(),
        headers: request.headers.clone(),
        slot: Arc::clone(&request.slot),
    };
    let page = kalends_console::respond(screen, page_request, &api).await;
    let status = StatusCode::from_u16(page.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let response = compressed(status, page.body.into(), &request.headers)
        .with(SPECULATION_RULES, &kalends_console::speculation_rules(&request.path));
    Ok(HEADERS.into_iter().fold(response, |response, (name, value)| response.with(name, value)))
}

/// A response whose body is compressed if the client accepts that.
fn compressed(status: StatusCode, body: Bytes, headers: &HeaderMap) -> ApiResponse {
    let response = match gzip(&body, headers) {
        Some(body) => ApiResponse::text(status, body).with(header::CONTENT_ENCODING, "gzip"),
        None => ApiResponse::text(status, body),
    };
    response.with(header::VARY, "Accept-Encoding")
}

/// Whether a request of a path without a route comes from the address bar or a link of a browser. Below
/// the folders of the API, errors are those of the API for every client.
pub(super) fn is_for_person<B>(request: &Request<B>) -> bool {
    let folder = request.uri().path().split('/').nth(1).unwrap_or_default();
    let is_api = ["api", "subscriptions", "providers", "metadata"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(folder));
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    !is_api
        && request.method() == Method::GET
        && accept.is_some_and(|accept| accept.contains("text/html"))
}

fn sign_in_method(app: &App) -> SignInMethod {
    match (app.access.is_single_user(), app.access.sign_in_provider()) {
        (true, _) => SignInMethod::None,
        (false, None) => SignInMethod::Token,
        (false, Some(_)) => SignInMethod::TokenOrOidc,
    }
}

/// Whether a page of another site led to this one.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    site.is_some_and(|site| !["same-origin", "none"].contains(&site))
}

pub(super) fn asset(asset: &'static Asset, headers: &HeaderMap) -> ApiResponse {
    compressed(StatusCode::OK, Bytes::from_static(asset.content), headers)
        .with(header::CONTENT_TYPE, asset.content_type)
        .with(header::CACHE_CONTROL, ASSET_CACHE)
}

/// The response to a caller who is not signed in: the sign-in page, which leads back to `uri`.
pub(super) fn to_sign_in(uri: &Uri, error: &ApiError) -> ApiResponse {
    if error.response(Version::NEWEST).status != StatusCode::UNAUTHORIZED {
        return error.response(Version::NEWEST);
    }
    let path = uri.path().trim_start_matches('/');
    let root = match path.matches('/').count() {
        0 => "./".to_owned(),
        depth => "../".repeat(depth),
    };
    let here = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let to = utf8_percent_encode(&here, NON_ALPHANUMERIC);
    ApiResponse::empty(StatusCode::SEE_OTHER)
        .with(header::LOCATION, &format!("{root}sign-in?to={to}"))
        .with(header::CACHE_CONTROL, "no-store")
}

/// The API with the rights of the caller of a page.
struct CallerApi {
    app: Arc<App>,
    caller: Caller,
    source: RequestSource,
    entry: Arc<AuditEntry>,
    headers: HeaderMap,
    slot: Arc<RequestSlot>,
}

impl Api for CallerApi {
    fn get<'a>(&'a self, target: &'a str) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(async move {
            let response = match self.respond(target).await {
                Ok(response) => response,
                Err(error) => error.response(Version::NEWEST),
            };
            let status = response.status.as_u16();
            let Ok(body) = response.into_body().collect().await;
            Answer { status, body: body.to_bytes().to_vec() }
        })
    }
}

impl CallerApi {
    async fn respond(&self, target: &str) -> HandlerResult {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query = Query::read(query, PathForm::of(path))?;
        let route = route(&Method::GET, path, &self.app.settings.default_group)?;
        let route = route.ok_or_else(|| no_such_path(path))?;
        let (requirement, operation) = authorization::requirement(&route, &Method::GET);
        authorization::check(&self.caller, &requirement, operation)?;
        let request = RequestContext {
            app: Arc::clone(&self.app),
            caller: self.caller.clone(),
            source: self.source.clone(),
            entry: self.entry.clone(),
            method: Method::GET,
            path: path.into(),
            query,
            headers: self.headers.clone(),
            body: None,
            slot: Arc::clone(&self.slot),
        };
        dispatch(Box::new(request), route).await
    }
}
