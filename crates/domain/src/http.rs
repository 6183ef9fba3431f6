//! HTTP requests of jobs.

use std::fmt;

use url::Url;

use crate::limits::Limits;
use crate::secret::Secret;
use crate::validation_error::{ValidationError, ValidationErrorKind};

/// An absolute http or https URI. Validated in its parsed form, stored and sent in its original form.
#[derive(Clone, PartialEq, Eq)]
pub struct Uri {
    text: Box<str>,
    is_https: bool,
}

/// Redacts query and fragment, which can contain keys and signatures.
impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text.split_once(['?', '#']) {
            Some((shown, _)) => write!(f, "{shown:?} and [secret]"),
            None => write!(f, "{:?}", self.text),
        }
    }
}

impl Uri {
    /// Validates a URI.
    pub fn new(text: &str, limits: &Limits) -> Result<Uri, ValidationError> {
        let invalid =
            |message: &str| ValidationError::new(ValidationErrorKind::InvalidUri, message);
        let max = limits.uri_chars_max;
        if text.chars().count() > max {
            let found = format!("{} characters", text.chars().count());
            return Err(invalid(&format!("must have at most {max} characters")).found(found));
        }
        // The URL parser drops or rewrites these characters, so they are rejected first.
        let rewritten = |c: char| c.is_control() || c.is_whitespace() || c == '\\' || c == '\u{ad}';
        if text.contains(rewritten) {
            return Err(invalid(
                "must not contain whitespace, control characters, backslashes or soft hyphens",
            ));
        }
        let relative = || invalid("must be an absolute URI such as https://example.com/path");
        let (scheme, rest) = text.split_once(':').ok_or_else(relative)?;
        let is_https = scheme.eq_ignore_ascii_case("https");
        if !is_https && !scheme.eq_ignore_ascii_case("http") {
            let is_scheme =
                scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
            return Err(match is_scheme && !scheme.is_empty() && !scheme.contains('.') {
                true => ValidationError::new(
                    ValidationErrorKind::UnsupportedUriScheme,
                    "must have the scheme http or https",
                ),
                false => relative(),
            });
        }
        if !rest.starts_with("//") || rest.starts_with("///") {
            return Err(invalid("must have // and a host after the scheme"));
        }
        let url =
            Url::parse(text).map_err(|error| invalid(&format!("must be a valid URI: {error}")))?;
        // The URL parser drops an empty user and password (`http://:@host/`).
        let authority = rest.trim_start_matches('/').split(['/', '?', '#']).next();
        if authority.is_some_and(|authority| authority.contains('@')) {
            let error = invalid("must not contain a user name or password").without_value();
            return Err(error.hint("use authentication"));
        }
        if url.port() == Some(0) {
            return Err(ValidationError::new(
                ValidationErrorKind::PortNotAllowed,
                "must have a port between 1 and 65535",
            ));
        }
        Ok(Uri { text: text.into(), is_https })
    }

    /// A stored URI, without validation: limits may have changed since it was written.
    pub fn restore(text: String) -> Uri {
        let is_https = text.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
        Uri { text: text.into(), is_https }
    }

    /// The URI in its original form.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Scheme, host and port in a form to compare: `https://Example.com:443/x` has the origin
    /// `https://example.com`.
    pub fn origin(&self) -> String {
        match Url::parse(&self.text) {
            Ok(url) => url.origin().ascii_serialization(),
            // Not an absolute URI, from a store that was edited by hand: only equal to itself.
            Err(_) => self.text.to_string(),
        }
    }

    /// Whether the scheme is https.
    pub fn is_https(&self) -> bool {
        self.is_https
    }
}

/// An HTTP method that jobs can use, in its original spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method(Box<str>);

impl Method {
    const ALLOWED: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

    /// Validates a method, ignoring case.
    pub fn new(text: &str) -> Result<Method, ValidationError> {
        match Method::ALLOWED.iter().any(|allowed| allowed.eq_ignore_ascii_case(text)) {
            true => Ok(Method(text.into())),
            false => {
                let message = format!("must be one of {}", Method::ALLOWED.join(", "));
                Err(ValidationError::new(ValidationErrorKind::InvalidHttpMethod, message))
            }
        }
    }

    /// A stored method, without validation.
    pub fn restore(text: String) -> Method {
        Method(text.into())
    }

    /// The method in its original spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Headers of a job's request, in the order in which they were sent.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Box<str>, Box<str>)>);

/// Redacts the values, which can be keys.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, _)| (name, "[secret]"))).finish()
    }
}

/// Headers that jobs cannot set: headers of the connection, headers that the scheduler sets itself, and
/// headers that unlock cloud metadata services. They would allow request smuggling, forged messages or
/// access to credentials of the host.
const HEADERS_NOT_ALLOWED: [&str; 19] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "idempotency-key",
    "keep-alive",
    "metadata",
    "metadata-flavor",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
    "x-ms-execution-tag",
];
const HEADER_PREFIXES_NOT_ALLOWED: [&str; 4] =
    ["proxy-", "x-ms-scheduler-", "x-aws-ec2-metadata-token", "x-ms-client-request-id"];

impl Headers {
    /// Validates headers. The error names the header.
    pub fn new(headers: Vec<(String, String)>, limits: &Limits) -> Result<Headers, HeaderError> {
        let whole = |kind, message: String, found: usize| {
            let error = ValidationError::new(kind, message).found(found.to_string());
            HeaderError { name: None, error }
        };
        if headers.len() > limits.headers_max {
            let message = format!("must have at most {} headers", limits.headers_max);
            return Err(whole(ValidationErrorKind::TooManyHeaders, message, headers.len()));
        }
        let chars = |text: &str| text.chars().count();
        let total: usize = headers.iter().map(|(name, value)| chars(name) + chars(value)).sum();
        if total > limits.headers_chars_max {
            let max = limits.headers_chars_max;
            let message = format!("must have at most {max} characters in all names and values");
            return Err(whole(ValidationErrorKind::HeadersTooLarge, message, total));
        }
        for (number, (name, value)) in headers.iter().enumerate() {
            let earlier = headers.iter().take(number);
            let error = match check_header(name, value) {
                Err(error) => Some(error),
                Ok(()) => earlier
                    .into_iter()
                    .any(|(other, _)| other.eq_ignore_ascii_case(name))
                    .then(|| {
                        ValidationError::new(
                            ValidationErrorKind::DuplicateHeader,
                            "is given twice; names of headers are case-insensitive",
                        )
                    }),
            };
            if let Some(error) = error {
                return Err(HeaderError { name: Some(name.clone()), error });
            }
        }
        Ok(Headers::restore(headers))
    }

    /// Stored headers, without validation.
    pub fn restore(headers: Vec<(String, String)>) -> Headers {
        let boxed = |(name, value): (String, String)| (name.into(), value.into());
        Headers(headers.into_iter().map(boxed).collect())
    }

    /// Names and values in their original spelling and order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether there are no headers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Validation error of headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderError {
    /// Name of the invalid header; absent if there are too many or they are too large in total.
    pub name: Option<String>,
    /// The error of this header or of all headers.
    pub error: ValidationError,
}

fn check_header(name: &str, value: &str) -> Result<(), ValidationError> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        let message = "must have a name of letters, digits and !#$%&'*+-.^_`|~";
        return Err(ValidationError::new(ValidationErrorKind::InvalidHeader, message));
    }
    let lower = name.to_ascii_lowercase();
    let is_reserved = HEADERS_NOT_ALLOWED.contains(&lower.as_str())
        || HEADER_PREFIXES_NOT_ALLOWED.iter().any(|prefix| lower.starts_with(prefix));
    if is_reserved {
        let message = "is a reserved header that jobs cannot set";
        return Err(ValidationError::new(ValidationErrorKind::HeaderNotAllowed, message));
    }
    let is_visible = |byte: u8| (b' '..=b'~').contains(&byte) || byte == b'\t';
    let has_edges = value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']);
    if !value.bytes().all(is_visible) || has_edges {
        let message =
            "must have a value of visible ASCII characters, with spaces and tabs only inside";
        return Err(ValidationError::new(ValidationErrorKind::InvalidHeader, message));
    }
    Ok(())
}

/// An HTTP request of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// Target URI.
    pub uri: Uri,
    /// HTTP method.
    pub method: Method,
    /// Headers; absent if the client sent no `headers` member.
    pub headers: Option<Headers>,
    /// Request body.
    pub body: Option<String>,
    /// Authentication of the request; none if absent.
    pub authentication: Option<Box<HttpAuthentication>>,
}

/// Authentication of an HTTP request. Members can be absent, because old API versions did not require
/// them; the attempt then fails with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAuthentication {
    /// HTTP Basic authentication.
    Basic {
        /// User name, without a colon.
        username: Option<String>,
        /// Password; never returned by the API.
        password: Option<Secret>,
    },
    /// TLS client certificate.
    ClientCertificate {
        /// PFX file in base64; never returned by the API.
        pfx: Option<Secret>,
        /// Password of the PFX file; never returned by the API.
        password: Option<Secret>,
        /// Certificate data read from the PFX file.
        certificate: Option<CertificateFacts>,
    },
    /// OAuth 2.0 client credentials grant of Microsoft Entra ID (Azure Active Directory).
    ActiveDirectoryOAuth {
        /// GUID or domain name of the tenant.
        tenant: Option<String>,
        /// Audience (resource) of the token.
        audience: Option<String>,
        /// Client id of the application.
        client_id: Option<String>,
        /// Client secret; never returned by the API.
        secret: Option<Secret>,
    },
}

/// The data of a client certificate that the API returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// SHA-1 of the certificate, upper-case hexadecimal.
    pub thumbprint: String,
    /// End of the validity period.
    pub expiration: kalends_recurrence::Instant,
    /// Distinguished name of the subject, most specific part first.
    pub subject_name: String,
}

/// Validates a tenant: a GUID or a domain name.
pub fn check_tenant(text: &str) -> Result<(), ValidationError> {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    match text.len() <= 253 && text.split('.').all(is_label) {
        true => Ok(()),
        false => {
            let message = "must be the GUID or a domain name of a directory";
            Err(ValidationError::new(ValidationErrorKind::InvalidAuthentication, message))
        }
    }
}

/// Validates an audience: an absolute URI (http, https, api, spn, urn) or a GUID.
pub fn check_audience(text: &str) -> Result<(), ValidationError> {
    let is_guid = crate::name::SubscriptionId::new(text).is_ok();
    let is_uri = Url::parse(text)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https" | "api" | "spn" | "urn"));
    match (is_uri || is_guid) && !text.contains(char::is_control) && text.len() <= 2_048 {
        true => Ok(()),
        false => {
            let message =
                "must be an absolute URI such as https://management.core.windows.net/, or a GUID";
            Err(ValidationError::new(ValidationErrorKind::InvalidAuthentication, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Result<Uri, ValidationErrorKind> {
        Uri::new(text, &Limits::default()).map_err(|error| error.kind)
    }

    #[test]
    fn uris_keep_their_original_form() {
        for text in [
            "http://www.bing.com/workers?somekey=some%2dvalue%2f",
            "https://mywebserviceendpoint.com",
            "HTTP://example.org",
            "http://127.0.0.1:8080/x",
            "http://example.com/@x?y=a@b#c@d",
        ] {
            assert_eq!(uri(text).map(|uri| uri.as_str().to_owned()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let origin = |text: &str| uri(text).unwrap().origin();
        assert_eq!(origin("HTTPS://Example.com:443/x?y"), "https://example.com");
        assert_eq!(origin("http://127.1:80/"), "http://127.0.0.1");
        assert_eq!(origin("http://[::1]:81/"), "http://[::1]:81");
        assert_ne!(origin("http://example.com/"), origin("https://example.com/"));
    }

    #[test]
    fn invalid_uris_are_rejected() {
        let long = format!("http://example.com/{}", "x".repeat(2_030));
        for text in [
            "",
            "/x",
            "example.com",
            "example.com:80/x",
            "http:host",
            "http:///host",
            "http://",
            "http://user:pw@example.com/",
            "http://a@127.0.0.1/",
            "http://:@example.com/",
            "http://@example.com",
            "http://@example.com?x",
            "http://example.com:65536/",
            "http://example.com:abc/",
            "http://example.com/\r\nX-Injected: 1",
            "http://example.com/\t",
            "http://example.com/a b",
            "http://example.com/\u{7}",
            "http://exa\u{ad}mple.com/",
            "http://example.com\\@evil/",
            "http://[fe80::1%25eth0]/",
            &long,
        ] {
            assert_eq!(uri(text), Err(ValidationErrorKind::InvalidUri), "{text}");
        }
        for text in
            ["file:///etc/passwd", "gopher://x", "javascript:alert(1)", "data:,x", "ldap://x"]
        {
            assert_eq!(uri(text), Err(ValidationErrorKind::UnsupportedUriScheme), "{text}");
        }
        assert_eq!(uri("http://example.com:0/"), Err(ValidationErrorKind::PortNotAllowed));
        assert!(uri(&format!("http://example.com/{}", "x".repeat(2_029))).is_ok());
    }

    fn headers(list: &[(&str, &str)]) -> Result<Headers, ValidationErrorKind> {
        let owned = list.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Headers::new(owned.collect(), &Limits::default()).map_err(|rejected| rejected.error.kind)
    }

    #[test]
    fn headers_that_could_forge_or_smuggle_requests_are_rejected() {
        assert!(
            headers(&[("ConTent-tYPe", "application/json; charset=utf-8"), ("X", "a\tb")]).is_ok()
        );
        for name in [
            "Transfer-Encoding",
            "Content-Length",
            "HOST",
            "Connection",
            "Upgrade",
            "Expect",
            "x-ms-scheduler-jobid",
            "Proxy-Authorization",
            "Metadata",
            "X-aws-ec2-metadata-token-ttl-seconds",
            "Idempotency-Key",
        ] {
            assert_eq!(
                headers(&[(name, "x")]),
                Err(ValidationErrorKind::HeaderNotAllowed),
                "{name}"
            );
        }
        for (name, value) in [
            ("X Y", "1"),
            ("", "1"),
            (":path", "/"),
            ("X:", "1"),
            ("Ü", "1"),
            ("X", "a\r\nSet-Cookie: x"),
            ("X", "a\0"),
            ("X", "a\u{7f}"),
            ("X", " a"),
        ] {
            assert_eq!(
                headers(&[(name, value)]),
                Err(ValidationErrorKind::InvalidHeader),
                "{name}: {value:?}"
            );
        }
        assert_eq!(headers(&[("a", "1"), ("A", "2")]), Err(ValidationErrorKind::DuplicateHeader));
    }

    #[test]
    fn headers_are_limited_in_number_and_size() {
        let names: Vec<_> = (0..51).map(|number| format!("h{number}")).collect();
        let list: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert!(headers(&list[..50]).is_ok());
        assert_eq!(headers(&list), Err(ValidationErrorKind::TooManyHeaders));
        assert!(headers(&[("x", &"y".repeat(4_095))]).is_ok());
        assert_eq!(
            headers(&[("x", &"y".repeat(4_096))]),
            Err(ValidationErrorKind::HeadersTooLarge)
        );
    }

    #[test]
    fn methods_ignore_case() {
        assert_eq!(Method::new("get").map(|method| method.as_str().to_owned()), Ok("get".into()));
        for text in ["CONNECT", "TRACE", "GET /x HTTP/1.1\r\n", ""] {
            assert_eq!(
                Method::new(text).map_err(|f| f.kind),
                Err(ValidationErrorKind::InvalidHttpMethod)
            );
        }
    }

    #[test]
    fn tenants_and_audiences_cannot_change_the_token_endpoint() {
        for good in ["microsoft.onmicrosoft.com", "6c55a6f0-6593-472f-9b3e-a51a9a757b40", "common"]
        {
            assert!(check_tenant(good).is_ok(), "{good}");
        }
        for bad in ["", "../../evil", "a/b", "evil.com:443/x", "a..b", "-a.com", "a b"] {
            assert!(check_tenant(bad).is_err(), "{bad}");
        }
        assert!(check_audience("https://management.core.windows.net/").is_ok());
        assert!(check_audience("api://6c55a6f0-6593-472f-9b3e-a51a9a757b40").is_ok());
        for bad in ["", "audience", "javascript:x", "/x"] {
            assert!(check_audience(bad).is_err(), "{bad}");
        }
    }
}
