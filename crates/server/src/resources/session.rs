//! The session of a caller in the web console: `POST /api/session` signs in, `DELETE` signs out.

use http::{HeaderMap, Method, StatusCode, header};
use kalends_store::SessionHash;
use kalends_wire::{ErrorCode, ErrorDetails, Json};

use super::{HandlerResult, RequestContext};
use crate::access::{Caller, Credential, SESSION_COOKIE, StartedSession, cookie, set_cookie};
use crate::response::{ApiError, ApiResponse};

const SAME_SITE: &str = "Strict";

pub(super) async fn change(request: RequestContext) -> HandlerResult {
    request.new_version()?;
    match request.method {
        Method::DELETE => sign_out(&request).await,
        _ => sign_in(&request).await,
    }
}

/// Begins a session of the caller, whom a token has authenticated.
async fn sign_in(request: &RequestContext) -> HandlerResult {
    let previous = session_of_browser(&request.headers);
    let session = start(request, &request.caller, previous).await?;
    let expires = Json::String(session.expires.to_string().into());
    let body = Json::Object(vec![("expires".into(), expires)]);
    Ok(with_session(ApiResponse::json(StatusCode::CREATED, &body), &session))
}

/// Begins a session with a new id. The session that the browser had before ends.
pub(super) async fn start(
    request: &RequestContext,
    caller: &Caller,
    previous: Option<SessionHash>,
) -> Result<StartedSession, ApiError> {
    let session = request.app.access.start_session(&request.app, caller).await?;
    if let Some(previous) = previous {
        request.app.access.end_session(&request.app, previous).await?;
    }
    Ok(session)
}

/// The session whose cookie a browser sends, valid or not.
pub(super) fn session_of_browser(headers: &HeaderMap) -> Option<SessionHash> {
    cookie(headers, SESSION_COOKIE).and_then(SessionHash::of)
}

/// Adds the cookie of a session to a response.
pub(super) fn with_session(response: ApiResponse, session: &StartedSession) -> ApiResponse {
    let cookie = set_cookie(SESSION_COOKIE, session.id.reveal(), SAME_SITE, session.max_age);
    response.with(header::SET_COOKIE, &cookie).with(header::CACHE_CONTROL, "no-store")
}

/// Ends the session that authenticated the request.
async fn sign_out(request: &RequestContext) -> HandlerResult {
    let Credential::Session(hash) = request.caller.credential else {
        let message = "The request has no session cookie; there is no session to end";
        return Err(ErrorDetails::one(ErrorCode::InvalidRequest, "", message).into());
    };
    request.app.access.end_session(&request.app, hash).await?;
    let cookie = set_cookie(SESSION_COOKIE, "", SAME_SITE, 0);
    Ok(ApiResponse::empty(StatusCode::NO_CONTENT).with(header::SET_COOKIE, &cookie))
}
