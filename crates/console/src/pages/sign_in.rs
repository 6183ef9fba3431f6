//! Sign-in.

use askama::Template;
use percent_encoding::percent_decode_str;

use super::{PageResult, rendered};
use crate::api::Json as _;
use crate::screen::Screen;
use crate::view::{PageRequest, SignInMethod, View};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn<'a> {
    view: &'a View,
    /// URL of the page that follows.
    to: String,
    /// The same, percent-encoded for a query.
    to_parameter: String,
    /// Whether to open that page first: the user may be signed in already.
    resumes: bool,
    needs_no_sign_in: bool,
    has_oidc: bool,
    /// Why sign-in at the identity provider failed.
    failure: &'static str,
}

pub(super) fn page(view: &mut View, request: &PageRequest<'_>) -> PageResult {
    view.title = "Sign in".to_owned();
    let to = request.parameter("to");
    let to = if is_page(&to) { to } else { String::new() };
    let failure = failure(&request.parameter("failure"));
    // A failed sign-in comes from another site too, and its message must stay.
    let may_be_signed_in = request.is_cross_site || request.parameter("resume") == "true";
    rendered(&SignIn {
        to: format!("{}{to}", view.root),
        to_parameter: crate::address::encode(&to),
        resumes: failure.is_empty() && may_be_signed_in,
        needs_no_sign_in: request.sign_in == SignInMethod::None,
        has_oidc: request.sign_in == SignInMethod::TokenOrOidc,
        failure,
        view,
    })
}

/// Whether a text is the URL of a page of the console, relative to its root: no URL of another
/// server and no other path of this one.
pub fn is_page(to: &str) -> bool {
    let path = to.split(['?', '#']).next().unwrap_or_default();
    let segments = path.split('/').map(|segment| percent_decode_str(segment).decode_utf8());
    let Ok(segments) = segments.collect::<Result<Vec<_>, _>>() else { return false };
    let segments: Vec<&str> = segments.iter().map(|segment| &**segment).collect();
    let is_plain = |letter: char| !letter.is_control() && letter != '\\';
    let is_dots = |segment: &&str| [".", ".."].contains(segment);
    let screen = Screen::of(&segments).filter(|screen| *screen != Screen::SignIn);
    screen.is_some()
        && to.chars().all(is_plain)
        && !path.contains(':')
        && !segments.iter().any(is_dots)
}

/// The message about a sign-in at the identity provider that failed.
fn failure(code: &str) -> &'static str {
    match code {
        "" => "",
        "denied" => "You or the identity provider declined the sign-in.",
        "expired" => "The sign-in took too long, or began in another tab or browser. Try again.",
        "unavailable" => "The identity provider cannot be reached at the moment. Try again later.",
        "misconfigured" => {
            "The identity provider does not accept requests of this server. An administrator finds the reason in the log."
        }
        "no-role" => "Your account has no role on this server. An administrator can give you one.",
        "too-many" => "There were too many sign-ins from your network. Try again in a minute.",
        _ => {
            "The sign-in could not be verified. Try again; an administrator finds the reason in the log."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_in_leads_to_pages_of_the_console_only() {
        for to in ["", "jobs", "jobs?search=a%2Fb&state=Failing", "jobs/c/j", "jobs/@s/g/c/j/edit"]
        {
            assert!(is_page(to), "{to}");
        }
        for to in [
            "//evil.test",
            "/\\evil.test",
            "\\\\evil.test",
            "/jobs",
            "https://evil.test/",
            "https:evil.test",
            "javascript:alert(1)",
            "jobs/javascript:1/x",
            "jobs/../../x",
            "jobs/%2e%2e/x",
            "jobs/c/..",
            "jobs\\x",
            "jobs?a\nb",
            "sign-in",
            "api/session",
            "jobs/%ff/x",
            "x",
        ] {
            assert!(!is_page(to), "{to}");
        }
    }
}
