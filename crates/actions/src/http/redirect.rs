//! Decides whether a redirect is followed. Pure.

use kalends_domain::{Limits, Uri, ValidationError};
use url::Url;

use super::action_request::ActionRequest;
use crate::client::Response;

/// Redirects that one attempt follows.
pub(super) const REDIRECTS_MAX: usize = 10;

/// The decision about a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RedirectDecision {
    /// The response is final.
    Final,
    /// The response redirects.
    Follow(Redirect),
    /// The response redirects to a URL that is not followed.
    Refuse(RedirectError),
}

/// The next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) to: Url,
    pub(super) method: NextMethod,
    pub(super) body: NextBody,
    pub(super) origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextMethod {
    Same,
    Get,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextBody {
    Same,
    Empty,
}

/// Whether scheme, host and port are the same as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Same,
    Cross,
}

/// Why a redirect is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RedirectError {
    /// The attempt followed the maximum of redirects already.
    #[error("more than {REDIRECTS_MAX} redirects")]
    TooMany,
    /// `Location` is not a URL.
    #[error("the redirect has an invalid Location")]
    InvalidLocation,
    /// `Location` violates the rules for URLs of jobs.
    #[error("the Location of the redirect {0}")]
    NotAllowed(#[from] ValidationError),
    /// The redirect leads from https to http.
    #[error("the redirect leads from https to http")]
    Downgrade,
    /// The redirect would send the body to another origin.
    #[error("the redirect would send the body to another origin")]
    BodyToOtherOrigin,
}

/// Decides about the response to a request that was sent to `from` after `followed` redirects.
pub(super) fn decide(
    from: &Url,
    request: &ActionRequest,
    response: &Response,
    followed: usize,
) -> RedirectDecision {
    let request = request.request();
    let has_body = !request.body.is_empty();
    let location = response.headers.get("location");
    decide_by_parts(from, &request.method, has_body, response.status, location, followed)
}

fn decide_by_parts(
    from: &Url,
    method: &str,
    has_body: bool,
    status: u16,
    location: Option<&str>,
    followed: usize,
) -> RedirectDecision {
    let (method, body) = match (status, method) {
        (301 | 302, "POST") | (303, _) if method != "HEAD" => (NextMethod::Get, NextBody::Empty),
        (301 | 302 | 303 | 307 | 308, _) => (NextMethod::Same, NextBody::Same),
        _ => return RedirectDecision::Final,
    };
    let Some(location) = location else { return RedirectDecision::Final };
    if followed >= REDIRECTS_MAX {
        return RedirectDecision::Refuse(RedirectError::TooMany);
    }
    let to = match join(from, location) {
        Ok(to) => to,
        Err(error) => return RedirectDecision::Refuse(error),
    };
    if from.scheme() == "https" && to.scheme() != "https" {
        return RedirectDecision::Refuse(RedirectError::Downgrade);
    }
    let origin = if from.origin() == to.origin() { Origin::Same } else { Origin::Cross };
    if origin == Origin::Cross && body == NextBody::Same && has_body {
        return RedirectDecision::Refuse(RedirectError::BodyToOtherOrigin);
    }
    RedirectDecision::Follow(Redirect { to, method, body, origin })
}

/// The URL of a location, which must obey the rules for URLs of jobs.
fn join(from: &Url, location: &str) -> Result<Url, RedirectError> {
    // The URL parser would remove or rewrite these characters.
    if location.contains(|c: char| c.is_control() || c == '\\' || c == '\u{ad}') {
        return Err(RedirectError::InvalidLocation);
    }
    let to = from.join(location.trim()).map_err(|_| RedirectError::InvalidLocation)?;
    Uri::new(to.as_str(), &Limits::default())?;
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(from: &str, request: (&str, bool), response: (u16, &str)) -> RedirectDecision {
        let ((method, has_body), (status, location)) = (request, response);
        let from = Url::parse(from).unwrap();
        decide_by_parts(&from, method, has_body, status, Some(location), 0)
    }

    fn follow(to: &str, method: NextMethod, body: NextBody, origin: Origin) -> RedirectDecision {
        RedirectDecision::Follow(Redirect { to: Url::parse(to).unwrap(), method, body, origin })
    }

    const A: &str = "https://a.test/x";

    #[test]
    fn methods_change_as_in_browsers() {
        for (status, method, after, body) in [
            (301, "POST", NextMethod::Get, NextBody::Empty),
            (302, "POST", NextMethod::Get, NextBody::Empty),
            (303, "POST", NextMethod::Get, NextBody::Empty),
            (303, "PUT", NextMethod::Get, NextBody::Empty),
            (303, "HEAD", NextMethod::Same, NextBody::Same),
            (301, "GET", NextMethod::Same, NextBody::Same),
            (302, "PUT", NextMethod::Same, NextBody::Same),
            (307, "POST", NextMethod::Same, NextBody::Same),
            (308, "POST", NextMethod::Same, NextBody::Same),
        ] {
            let decision = redirect(A, (method, true), (status, "/y?z=1#f"));
            let expected = follow("https://a.test/y?z=1#f", after, body, Origin::Same);
            assert_eq!(decision, expected, "{status} {method}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let to = |from: &str, location: &str| match redirect(from, ("GET", false), (302, location))
        {
            RedirectDecision::Follow(redirect) => Some(redirect.origin),
            _ => None,
        };
        assert_eq!(to(A, "https://A.test:443/"), Some(Origin::Same));
        assert_eq!(to(A, "https://a.test:444/"), Some(Origin::Cross));
        assert_eq!(to(A, "//b.test/"), Some(Origin::Cross));
        assert_eq!(to("http://a.test/", "https://a.test/"), Some(Origin::Cross));
        assert_eq!(to(A, "http://a.test/"), None, "from https to http");
    }

    #[test]
    fn redirects_that_could_leak_or_mislead_are_refused() {
        for (request, response) in [
            (("POST", true), (307, "https://b.test/")),
            (("POST", true), (308, "https://b.test/")),
            (("PUT", true), (302, "https://b.test/")),
            (("GET", false), (302, "http://a.test/")),
            (("GET", false), (302, "file:///etc/passwd")),
            (("GET", false), (302, "javascript:alert(1)")),
            (("GET", false), (302, "https://user:pw@b.test/")),
            (("GET", false), (302, "https://b.test\\@a.test/")),
            (("GET", false), (302, "https://b.test:0/")),
            (("GET", false), (302, "https://b\u{ad}.test/")),
            (("GET", false), (302, "https://")),
        ] {
            let decision = redirect(A, request, response);
            assert!(matches!(decision, RedirectDecision::Refuse(_)), "{request:?} {response:?}");
        }
        assert!(matches!(
            redirect(A, ("POST", false), (307, "https://b.test/")),
            RedirectDecision::Follow(_)
        ));
    }

    #[test]
    fn other_responses_are_final() {
        for status in [200, 202, 300, 304, 305, 306, 404, 500] {
            assert_eq!(
                redirect(A, ("GET", false), (status, "/y")),
                RedirectDecision::Final,
                "{status}"
            );
        }
        let url = Url::parse(A).unwrap();
        assert_eq!(decide_by_parts(&url, "GET", false, 302, None, 0), RedirectDecision::Final);
        assert!(matches!(
            decide_by_parts(&url, "GET", false, 302, Some("/"), 10),
            RedirectDecision::Refuse(_)
        ));
    }
}
