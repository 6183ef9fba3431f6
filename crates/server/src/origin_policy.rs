//! Checks against attacks by web pages, before authentication and any lookup.
//!
//! A server without authentication trusts every client that can reach it, and a web page can reach
//! it through its user's browser: by DNS rebinding or by cross-origin requests. The `Host` check
//! stops the former, the `Origin` and content type checks the latter.

use http::{HeaderMap, Method, Uri, header};
use kalends_wire::{ErrorCode, ErrorDetails, quoted};

use crate::allowed_hosts::AllowedHosts;
use crate::forwarded::RequestSource;

/// Bytes of a path with its query. The longest valid path has about 500, the longest filter 256.
const URI_BYTES_MAX: usize = 8 * 1024;

/// Checks the URI length, `Host`, `Origin` and, where there may be no body, the content type.
pub(crate) fn check(
    hosts: &AllowedHosts,
    method: &Method,
    uri: &Uri,
    source: &RequestSource,
    headers: &HeaderMap,
) -> Result<(), ErrorDetails> {
    let length = uri.path_and_query().map_or(0, |target| target.as_str().len());
    if length > URI_BYTES_MAX {
        let message =
            format!("The path and query must have at most {URI_BYTES_MAX} bytes (found {length})");
        return Err(ErrorDetails::one(ErrorCode::RequestUriTooLong, "", message));
    }
    let host = host(headers)?;
    let named = uri.authority().map(|authority| authority.as_str());
    let forwarded = source.host.as_deref();
    let mut presented = [Some(host), named, forwarded].into_iter().flatten();
    if let Some(host) = presented.find(|host| !hosts.allow(host)) {
        let found = quoted(host);
        let message = format!("must be {} (found {found})", hosts.describe());
        return Err(ErrorDetails::one(ErrorCode::MisdirectedRequest, "Host", message));
    }
    for name in ["origin", "sec-fetch-site"] {
        if headers.get_all(name).iter().nth(1).is_some() {
            let message = "is given twice; send it once";
            return Err(ErrorDetails::one(ErrorCode::InvalidRequest, name, message));
        }
    }
    if !method.is_safe() && is_cross_origin(headers, forwarded.unwrap_or(host)) {
        let message = "A web page of another origin cannot send write requests to this server";
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
        (None, _) => Err(ErrorDetails::one(ErrorCode::InvalidRequest, "Host", "is missing")),
        (Some(_), Some(_)) => {
            let message = "is given twice; send it once";
            Err(ErrorDetails::one(ErrorCode::InvalidRequest, "Host", message))
        }
    }
}

/// Whether a browser marks the request as cross-origin. Other clients send neither header.
fn is_cross_origin(headers: &HeaderMap, host: &str) -> bool {
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

/// Rejects the content types of HTML forms: browsers send those cross-origin without a CORS
/// preflight.
fn check_no_form(headers: &HeaderMap) -> Result<(), ErrorDetails> {
    let forms = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.unwrap_or("").split(';').next().unwrap_or("").trim();
    match forms.iter().any(|form| form.eq_ignore_ascii_case(media_type)) {
        true => {
            let found = quoted(media_type);
            let message = format!("must be absent, or application/json in UTF-8 (found {found})");
            Err(ErrorDetails::one(ErrorCode::UnsupportedMediaType, "Content-Type", message))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::client::Client;
    use crate::forwarded::Scheme;

    fn code(method: &Method, target: &str, headers: &[(&'static str, &str)]) -> Option<ErrorCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        let client = Client(std::net::Ipv4Addr::LOCALHOST.into());
        let source = RequestSource { client, scheme: Scheme::Http, host: None };
        let target = target.parse().unwrap();
        let checked = check(&AllowedHosts::Loopback, method, &target, &source, &map);
        checked.err().map(|errors| errors.code())
    }

    #[test]
    fn only_allowed_hosts_are_accepted() {
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
    fn cross_origin_writes_are_rejected() {
        let host = ("host", "localhost:8080");
        let check = |method: &Method, name, value, expected| {
            assert_eq!(code(method, "/", &[host, (name, value)]), expected, "{name}: {value}");
        };
        let rejected = Some(ErrorCode::AuthorizationFailed);
        check(&Method::PUT, "origin", "http://evil.test", rejected);
        check(&Method::POST, "origin", "null", rejected);
        check(&Method::DELETE, "origin", "http://localhost:3000", rejected);
        check(&Method::POST, "sec-fetch-site", "cross-site", rejected);
        check(&Method::POST, "sec-fetch-site", "same-site", rejected);
        check(&Method::POST, "sec-fetch-site", "same-origin", None);
        check(&Method::PUT, "origin", "http://localhost:8080", None);
        check(&Method::GET, "origin", "http://evil.test", None);
    }

    #[test]
    fn a_repeated_origin_is_rejected() {
        let (host, own) = (("host", "localhost:8080"), ("origin", "http://localhost:8080"));
        let invalid = Some(ErrorCode::InvalidRequest);
        for other in [("origin", "http://evil.test"), own] {
            assert_eq!(code(&Method::PUT, "/", &[host, own, other]), invalid, "{other:?}");
            assert_eq!(code(&Method::GET, "/", &[host, own, other]), invalid, "{other:?}");
        }
        let site = |value| ("sec-fetch-site", value);
        let sites = [host, site("same-origin"), site("cross-site")];
        assert_eq!(code(&Method::POST, "/", &sites), invalid);
    }

    #[test]
    fn form_content_types_are_rejected() {
        let check = |media_type, expected| {
            let headers = [("host", "localhost"), ("content-type", media_type)];
            assert_eq!(code(&Method::POST, "/", &headers), expected, "{media_type}");
        };
        let rejected = Some(ErrorCode::UnsupportedMediaType);
        check("application/x-www-form-urlencoded", rejected);
        check("text/plain;charset=UTF-8", rejected);
        check("multipart/form-data; boundary=x", rejected);
        check("application/json; charset=utf-8", None);
    }

    #[test]
    fn long_uris_are_rejected() {
        let host = [("host", "localhost")];
        let path = |length: usize| format!("/{}", "x".repeat(length - 1));
        assert_eq!(code(&Method::GET, &path(URI_BYTES_MAX), &host), None);
        let found = code(&Method::GET, &path(URI_BYTES_MAX + 1), &host);
        assert_eq!(found, Some(ErrorCode::RequestUriTooLong));
    }
}
