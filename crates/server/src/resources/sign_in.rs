//! Sign-in at the identity provider: `/sign-in/oidc` leads there, and the provider leads the browser
//! back to `/sign-in/callback`.

use http::{StatusCode, header};
use kalends_wire::ErrorCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::session::{session_of_browser, start, with_session};
use super::{HandlerResult, RequestContext, no_such_path};
use crate::access::{
    CALLBACK_PATH, Caller, OidcProvider, PendingSignIn, SIGN_IN_TIME, SignInFailure,
    StartedSession, cookie, set_cookie,
};
use crate::audit::{AuditEntry, Wait};
use crate::client::ClientNetwork;
use crate::response::{ApiError, ApiResponse};

/// Holds a [`PendingSignIn`]. Not `SameSite=Strict`: browsers would leave it out when the provider
/// leads back.
const SIGN_IN_COOKIE: &str = "__Host-kalends-sign-in";
const SAME_SITE: &str = "Lax";
/// Characters of an error of the provider in the log.
const ERROR_CHARS_MAX: usize = 200;

/// Leads the browser to the provider.
pub(super) async fn begin(request: RequestContext) -> HandlerResult {
    let provider = provider(&request)?;
    let (app, now) = (&request.app, request.app.now());
    let to = request.query.text("to")?.filter(|to| kalends_console::is_page(to)).unwrap_or("");
    let previous = session_of_browser(&request.headers);
    let pending = PendingSignIn::begin(to, previous, now, &*app.entropy);
    let pending = pending.map_err(|error| ApiError::internal(error.to_string()))?;
    let url = callback_url(&request, provider);
    match provider.authorization_url(&pending.secret, &url, now, &request.slot).await {
        Ok(location) => {
            let value = pending.seal(&app.position_key, &*app.entropy);
            let seconds = SIGN_IN_TIME.as_secs().cast_signed();
            let cookie = set_cookie(SIGN_IN_COOKIE, &value, SAME_SITE, seconds);
            Ok(redirect(&location).with(header::SET_COOKIE, &cookie))
        }
        Err(failure) => Ok(to_sign_in_page(to, &format!("failure={}", failure.as_str()))),
    }
}

/// Receives the response of the provider, and begins a session if it has a valid code.
pub(super) async fn finish(request: RequestContext) -> HandlerResult {
    let provider = provider(&request)?;
    let app = &request.app;
    let pending = cookie(&request.headers, SIGN_IN_COOKIE);
    let pending = pending.and_then(|text| PendingSignIn::open(text, &app.position_key, app.now()));
    let Some(pending) = pending else {
        let failure = SignInFailure::Expired;
        audit(&request, &Err(failure)).await;
        return Ok(to_sign_in_page("", &format!("failure={}", failure.as_str())));
    };
    // Both are hashes of a random secret, so the time of the comparison reveals nothing.
    let is_own = request.query.text("state")? == Some(&pending.secret.state());
    let finished = match is_own {
        true => session(&request, provider, &pending).await?,
        false => Err(SignInFailure::Expired),
    };
    audit(&request, &finished).await;
    let response = match &finished {
        Ok((_, session)) => with_session(to_sign_in_page(&pending.to, "resume=true"), session),
        Err(failure) => to_sign_in_page(&pending.to, &format!("failure={}", failure.as_str())),
    };
    // A response to another sign-in, such as one in another tab, does not end this one.
    Ok(match is_own {
        true => response.with(header::SET_COOKIE, &set_cookie(SIGN_IN_COOKIE, "", SAME_SITE, 0)),
        false => response,
    })
}

type FinishedSignIn = Result<(Caller, StartedSession), SignInFailure>;

/// Begins a session of the user whom the response of the provider names.
async fn session(
    request: &RequestContext,
    provider: &OidcProvider,
    pending: &PendingSignIn,
) -> Result<FinishedSignIn, ApiError> {
    let (app, query) = (&request.app, &request.query);
    if !app.access.allows_code_exchange(app, request.source.client) {
        return Ok(Err(SignInFailure::TooMany));
    }
    // Another provider cannot pass its codes off as those of this one (RFC 9207).
    if query.text("iss")?.is_some_and(|issuer| issuer != provider.issuer()) {
        return Ok(Err(SignInFailure::Rejected));
    }
    let Some(code) = query.text("code")? else {
        let error = query.text("error")?.unwrap_or("neither code nor error");
        let shown = |text: &str| text.escape_debug().take(ERROR_CHARS_MAX).collect::<String>();
        let description = query.text("error_description")?.map(shown);
        tracing::warn!(error = shown(error), description, "the identity provider returned no code");
        return Ok(Err(SignInFailure::of_callback(error)));
    };
    let url = callback_url(request, provider);
    match provider.sign_in(code, &pending.secret, &url, app.now(), &request.slot).await {
        Ok(caller) => {
            let session = start(request, &caller, pending.previous).await?;
            Ok(Ok((caller, session)))
        }
        Err(failure) => Ok(Err(failure)),
    }
}

/// The provider; 404 unless users can sign in there.
fn provider(request: &RequestContext) -> Result<&OidcProvider, ApiError> {
    request.app.access.sign_in_provider().ok_or_else(|| no_such_path(&request.path))
}

/// The redirect URI. Without a configured one it has the host of the request, which
/// `origin_policy::check` has compared with the names of this server; the provider compares it with
/// those that are registered.
fn callback_url(request: &RequestContext, provider: &OidcProvider) -> String {
    let default = || format!("{}{CALLBACK_PATH}", request.server_url());
    provider.redirect_url().map_or_else(default, str::to_owned)
}

/// Leads to the sign-in page. After a success that page opens the wanted one: browsers leave the new
/// session cookie out of redirects that began at another site.
fn to_sign_in_page(to: &str, parameter: &str) -> ApiResponse {
    redirect(&format!("../sign-in?{parameter}&to={}", encode(to)))
}

fn redirect(location: &str) -> ApiResponse {
    ApiResponse::empty(StatusCode::SEE_OTHER)
        .with(header::LOCATION, location)
        .with(header::CACHE_CONTROL, "no-store")
        .with(header::REFERRER_POLICY, "no-referrer")
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Audits a sign-in like one with a token: a line for each success, a count of failures.
async fn audit(request: &RequestContext, finished: &FinishedSignIn) {
    let audit = &request.app.access.audit;
    match finished {
        Ok((caller, _)) => {
            let (caller, status) = (Some(caller.clone()), StatusCode::SEE_OTHER.as_u16());
            let entry = AuditEntry { caller, status, ..AuditEntry::clone(&request.entry) };
            audit.write(&entry, Wait::UntilWritten).await;
        }
        Err(failure) => {
            let (status, code) = match failure {
                SignInFailure::TooMany => {
                    (StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyRequests)
                }
                _ => (StatusCode::UNAUTHORIZED, ErrorCode::AuthenticationFailed),
            };
            let status = status.as_u16();
            let entry = AuditEntry { caller: None, status, ..AuditEntry::clone(&request.entry) };
            let source = format!("address:{}", ClientNetwork::from(request.source.client));
            audit.write_refusal(source.into(), code, entry).await;
        }
    }
}
