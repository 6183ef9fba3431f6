//! The cookies of the web console, and the checks of requests that a cookie authenticates.
//!
//! A browser adds cookies to requests that another web page causes. `SameSite=Strict` keeps the
//! session cookie off requests of other sites; the checks here reject those of other origins of the
//! same site, and do not depend on the browser's implementation of `SameSite`.

use http::{HeaderMap, HeaderName, Method, header};
use kalends_wire::{ErrorCode, ErrorDetails};

use crate::forwarded::{RequestSource, Scheme};

/// Name of the session cookie. Browsers accept this prefix only from this very host, over TLS or from
/// a loopback address, with the path `/`: no other host or page can set or replace the cookie.
pub(crate) const SESSION_COOKIE: &str = "__Host-kalends";

/// Header of the requests of the console. A web page of another origin cannot send it without a CORS
/// preflight, which this server does not answer.
const CONSOLE_HEADER: HeaderName = HeaderName::from_static("x-kalends-console");

/// A value of the header `Set-Cookie`.
pub(crate) fn set_cookie(name: &str, value: &str, same_site: &str, max_age: i64) -> String {
    format!("{name}={value}; Path=/; Max-Age={max_age}; Secure; HttpOnly; SameSite={same_site}")
}

/// The value of a cookie; `None` if it is absent or given twice.
pub(crate) fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(other, _)| other.trim() == name).map(|(_, value)| value.trim());
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

/// Checks a request that the session cookie authenticates.
pub(super) fn check(
    method: &Method,
    source: &RequestSource,
    headers: &HeaderMap,
) -> Result<(), ErrorDetails> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site = text("sec-fetch-site");
    let refused =
        |message: &str| Err(ErrorDetails::one(ErrorCode::AuthorizationFailed, "", message));
    if method.is_safe() {
        // A link on another page may open a page of the console. Nothing else may read.
        let opens_page = text("sec-fetch-mode") == Some("navigate")
            && text("sec-fetch-dest") == Some("document");
        return match site {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) if opens_page => Ok(()),
            Some(_) => refused("A web page of another origin cannot read with the session cookie"),
        };
    }
    if text(CONSOLE_HEADER.as_str()) != Some("1") {
        return refused(
            "A write request with the session cookie requires the header X-Kalends-Console: 1",
        );
    }
    let host = source.host.as_deref().or_else(|| text(header::HOST.as_str())).unwrap_or("");
    let is_own = |origin: &str| {
        let name = match source.scheme {
            // A proxy that ends TLS may not be trusted to name the scheme.
            Scheme::Http => origin.strip_prefix("http://").or(origin.strip_prefix("https://")),
            Scheme::Https => origin.strip_prefix("https://"),
        };
        name.is_some_and(|name| name.eq_ignore_ascii_case(host))
    };
    let origin = text("origin");
    let is_same_origin = match (origin, site) {
        (None, None) => false,
        (origin, site) => {
            origin.is_none_or(is_own) && site.is_none_or(|site| site == "same-origin")
        }
    };
    match is_same_origin {
        true => Ok(()),
        false => refused(
            "A write request with the session cookie must come from a page of this server, with the header Origin or Sec-Fetch-Site",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use http::HeaderValue;

    use super::*;
    use crate::client::Client;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(name, value);
        }
        map
    }

    fn allows(scheme: Scheme, method: &Method, pairs: &[(&'static str, &str)]) -> bool {
        let client = Client(Ipv4Addr::LOCALHOST.into());
        let source = RequestSource { client, scheme, host: None };
        let all = [&[("host", "jobs.example:8443")], pairs].concat();
        check(method, &source, &headers(&all)).is_ok()
    }

    #[test]
    fn a_write_needs_the_header_of_the_console_and_the_own_origin() {
        let console = ("x-kalends-console", "1");
        let own = ("origin", "https://jobs.example:8443");
        let site = |value| ("sec-fetch-site", value);
        let check = |pairs: &[(&'static str, &str)], expected| {
            let found = allows(Scheme::Https, &Method::POST, pairs);
            assert_eq!(found, expected, "{pairs:?}");
        };
        check(&[console, own], true);
        check(&[console, site("same-origin")], true);
        check(&[console, own, site("same-origin")], true);
        check(&[own, site("same-origin")], false);
        check(&[("x-kalends-console", "0"), own], false);
        check(&[console], false);
        check(&[console, site("none")], false);
        check(&[console, own, site("same-site")], false);
        check(&[console, own, site("cross-site")], false);
        for origin in [
            "null",
            "https://evil.test",
            "https://jobs.example",
            "https://jobs.example:8443.evil.test",
            "http://jobs.example:8443",
        ] {
            check(&[console, ("origin", origin), site("same-origin")], false);
        }
        let plain = [console, ("origin", "http://jobs.example:8443")];
        assert!(allows(Scheme::Http, &Method::DELETE, &plain));
        assert!(allows(Scheme::Http, &Method::DELETE, &[console, own]));
    }

    #[test]
    fn another_origin_may_open_pages_and_nothing_else() {
        let site = |value| ("sec-fetch-site", value);
        let page = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        let check = |pairs: &[(&'static str, &str)], expected| {
            let found = allows(Scheme::Https, &Method::GET, pairs);
            assert_eq!(found, expected, "{pairs:?}");
        };
        check(&[], true);
        check(&[site("same-origin"), ("sec-fetch-mode", "cors")], true);
        check(&[site("none"), page[0], page[1]], true);
        check(&[site("same-site"), page[0], page[1]], true);
        check(&[site("same-site"), page[0], ("sec-fetch-dest", "iframe")], false);
        check(&[site("same-site"), ("sec-fetch-mode", "no-cors")], false);
        check(&[site("cross-site"), ("sec-fetch-mode", "cors")], false);
    }

    #[test]
    fn a_cookie_is_found_among_others_and_refused_if_given_twice() {
        let find = |lines: &[&str]| {
            let pairs: Vec<_> = lines.iter().map(|line| ("cookie", *line)).collect();
            cookie(&headers(&pairs), SESSION_COOKIE).map(str::to_owned)
        };
        assert_eq!(find(&["a=b; __Host-kalends=x; c=d"]).as_deref(), Some("x"));
        assert_eq!(find(&["a=b", "__Host-kalends=x"]).as_deref(), Some("x"));
        for lines in [&["a=b"][..], &["kalends=x"], &["x__Host-kalends=x"], &["__host-kalends=x"]] {
            assert_eq!(find(lines), None, "{lines:?}");
        }
        assert_eq!(find(&["__Host-kalends=x; __Host-kalends=y"]), None);
    }

    #[test]
    fn cookies_have_all_attributes_that_protect_them() {
        let expected = "__Host-kalends=x; Path=/; Max-Age=60; Secure; HttpOnly; SameSite=Strict";
        assert_eq!(set_cookie(SESSION_COOKIE, "x", "Strict", 60), expected);
    }
}
