//! Requests that are refused for how they came, before anything is looked up.
//!
//! A server without authentication trusts whoever can reach it. A web page can reach it through the
//! browser of its user: under a name of its own that it lets point here, or by sending to this
//! address from its own origin. Neither comes through.

use axum::http::{HeaderMap, Method, Uri, header};
use kalends_wire::{ErrorCode, ErrorDetails};

use crate::hosts::Hosts;

/// Bytes of a path with its query. The longest path has some 500, the longest filter 256.
const URI_BYTES_MAX: usize = 8 * 1024;

/// Whether a request may go on.
pub(crate) fn check(
    hosts: &Hosts,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), ErrorDetails> {
    let length = uri.path_and_query().map_or(0, |target| target.as_str().len());
    if length > URI_BYTES_MAX {
        let message = format!("the path has {length} bytes; allowed are {URI_BYTES_MAX}");
        return Err(ErrorDetails::one(ErrorCode::RequestUriTooLong, "", message));
    }
    let host = host(headers)?;
    let named = uri.authority().map(|authority| authority.as_str());
    if ![Some(host), named].into_iter().flatten().all(|host| hosts.allow(host)) {
        let message = format!("the server answers to {}", hosts.in_words());
        return Err(ErrorDetails::one(ErrorCode::MisdirectedRequest, "", message));
    }
    if !method.is_safe() && is_foreign(headers, host) {
        let message = "a page of another origin must not change anything here";
        return Err(ErrorDetails::one(ErrorCode::AuthorizationFailed, "", message));
    }
    if method == Method::POST || method == Method::DELETE {
        check_no_form(headers)?;
    }
    Ok(())
}

fn host(headers: &HeaderMap) -> Result<&str, ErrorDetails> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
        (Some(host), None) => Ok(host),
        _ => Err(ErrorDetails::one(ErrorCode::InvalidRequest, "", "expected one Host header")),
    }
}

/// Whether a browser says that a page of another origin sends this. Other programs say nothing.
fn is_foreign(headers: &HeaderMap, host: &str) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let other_site = text("sec-fetch-site").is_some_and(|site| {
        !["same-origin", "none"].iter().any(|own| site.eq_ignore_ascii_case(own))
    });
    let is_own = |origin: &str| {
        let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        name.is_some_and(|name| name.eq_ignore_ascii_case(host))
    };
    other_site || text("origin").is_some_and(|origin| !is_own(origin))
}

/// Forms of web pages need no permission to be sent anywhere; nothing here takes them.
fn check_no_form(headers: &HeaderMap) -> Result<(), ErrorDetails> {
    let forms = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.unwrap_or("").split(';').next().unwrap_or("").trim();
    match forms.iter().any(|form| form.eq_ignore_ascii_case(media_type)) {
        true => {
            let message = "expected no body, or Content-Type application/json in UTF-8";
            Err(ErrorDetails::one(ErrorCode::UnsupportedMediaType, "", message))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn code(method: &Method, target: &str, headers: &[(&'static str, &str)]) -> Option<ErrorCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        let checked = check(&Hosts::Loopback, method, &target.parse().unwrap(), &map);
        checked.err().map(|errors| errors.code())
    }

    #[test]
    fn the_server_answers_to_its_own_names_only() {
        for host in
            ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.9.9.9", "[::1]:8080", "[::1]"]
        {
            assert_eq!(code(&Method::GET, "/", &[("host", host)]), None, "{host}");
        }
        for host in [
            "evil.test",
            "localhost.evil.test",
            "10.0.0.1",
            "127.0.0.1.nip.io:80",
            "[::2]",
            "",
            "a:b",
        ] {
            let found = code(&Method::GET, "/", &[("host", host)]);
            assert_eq!(found, Some(ErrorCode::MisdirectedRequest), "{host}");
        }
        let absolute = code(&Method::GET, "http://evil.test/", &[("host", "localhost")]);
        assert_eq!(absolute, Some(ErrorCode::MisdirectedRequest));
        let twice = [("host", "localhost"), ("host", "localhost")];
        for hosts in [&[][..], &twice] {
            assert_eq!(
                code(&Method::GET, "/", hosts),
                Some(ErrorCode::InvalidRequest),
                "{hosts:?}"
            );
        }
    }

    #[test]
    fn pages_of_other_origins_change_nothing() {
        let host = ("host", "localhost:8080");
        let check = |method: &Method, name, value, expected| {
            assert_eq!(code(method, "/", &[host, (name, value)]), expected, "{name}: {value}");
        };
        let foreign = Some(ErrorCode::AuthorizationFailed);
        check(&Method::PUT, "origin", "http://evil.test", foreign);
        check(&Method::POST, "origin", "null", foreign);
        check(&Method::DELETE, "origin", "http://localhost:3000", foreign);
        check(&Method::POST, "sec-fetch-site", "cross-site", foreign);
        check(&Method::POST, "sec-fetch-site", "same-site", foreign);
        check(&Method::POST, "sec-fetch-site", "same-origin", None);
        check(&Method::PUT, "origin", "http://localhost:8080", None);
        check(&Method::GET, "origin", "http://evil.test", None);
    }

    #[test]
    fn forms_are_not_taken() {
        let check = |media_type, expected| {
            let headers = [("host", "localhost"), ("content-type", media_type)];
            assert_eq!(code(&Method::POST, "/", &headers), expected, "{media_type}");
        };
        let refused = Some(ErrorCode::UnsupportedMediaType);
        check("application/x-www-form-urlencoded", refused);
        check("text/plain;charset=UTF-8", refused);
        check("multipart/form-data; boundary=x", refused);
        check("application/json; charset=utf-8", None);
    }

    #[test]
    fn long_paths_are_refused() {
        let host = [("host", "localhost")];
        let path = |length: usize| format!("/{}", "x".repeat(length - 1));
        assert_eq!(code(&Method::GET, &path(URI_BYTES_MAX), &host), None);
        let found = code(&Method::GET, &path(URI_BYTES_MAX + 1), &host);
        assert_eq!(found, Some(ErrorCode::RequestUriTooLong));
    }
}
