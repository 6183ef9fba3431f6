//! Redaction: removes secrets from a text before history stores it. Targets and services may echo
//! in a response what they were sent.
//!
//! A [`Redactor`] holds the secrets of one attempt. It replaces each of them, in plain and encoded
//! form, and the values of secret query parameters in any URL.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kalends_domain::{
    HttpAuthentication, HttpRequest, SECRET_PARAMETERS, Secret, SecretHeaders, is_secret_parameter,
};
use url::Url;
use zeroize::Zeroizing;

use crate::signature::percent_encode;

/// Placeholder in history messages of HTTP actions.
pub const HTTP_PLACEHOLDER: &str = "[masked]";
/// Placeholder in messages from queues, brokers and token endpoints.
const SERVICE_PLACEHOLDER: &str = "[secret]";
/// Shorter secrets are not replaced: they occur in ordinary words.
const SECRET_CHARS_MIN: usize = 4;
/// Characters of a service's message that history stores.
const LINE_CHARS_MAX: usize = 1_024;
/// Query parameter of a shared access signature.
const SIGNATURE_PARAMETER: &str = "sig=";

/// Replaces the secrets of one attempt in texts.
pub(crate) struct Redactor {
    /// In the order of replacement.
    secrets: Vec<Zeroizing<String>>,
    placeholder: &'static str,
    /// Finds the values of secret query parameters in a text.
    find_values: fn(&str) -> Vec<Range<usize>>,
    secret_headers: SecretHeaders,
}

impl Redactor {
    /// The secrets of an HTTP action: secret headers, Basic credentials and secret parameters of the
    /// URL.
    pub(crate) fn for_http_request(
        request: &HttpRequest,
        url: &Url,
        secret_headers: &SecretHeaders,
    ) -> Redactor {
        let mut secrets = Vec::new();
        for (name, value) in request.headers.iter().flat_map(|headers| headers.iter()) {
            if secret_headers.contains(name) {
                // Of `Bearer x`, x alone is a secret too.
                secrets.extend(value.split_once(' ').map(|(_, rest)| rest.to_owned()));
                secrets.push(value.to_owned());
            }
        }
        if let Some(HttpAuthentication::Basic { username, password: Some(password) }) =
            request.authentication.as_deref()
        {
            let user = username.as_deref().unwrap_or_default();
            secrets.push(STANDARD.encode(format!("{user}:{}", password.reveal())));
            secrets.push(password.reveal().to_owned());
        }
        let decoded = url.query_pairs().filter(|(name, _)| is_secret_parameter(name));
        secrets.extend(decoded.map(|(_, value)| value.into_owned()));
        for (name, value) in
            url.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='))
        {
            if is_secret_parameter(name) {
                secrets.push(value.to_owned());
            }
        }
        secrets.retain(|secret| secret.len() >= SECRET_CHARS_MIN);
        // Longest first: a secret may contain another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        let secrets = secrets.into_iter().map(Zeroizing::new).collect();
        Redactor {
            secrets,
            placeholder: HTTP_PLACEHOLDER,
            find_values: find_query_parameters,
            secret_headers: secret_headers.clone(),
        }
    }

    /// Secrets sent to a service, in plain and percent-encoded form.
    pub(crate) fn for_secrets<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Redactor {
        let forms = |secret: &Secret| {
            let plain = Zeroizing::new(secret.reveal().to_owned());
            let encoded = Zeroizing::new(percent_encode(secret.reveal()));
            [plain, encoded].into_iter().filter(|form| form.len() >= SECRET_CHARS_MIN)
        };
        let secrets = secrets.into_iter().flat_map(forms).collect();
        Redactor {
            secrets,
            placeholder: SERVICE_PLACEHOLDER,
            find_values: find_signatures,
            secret_headers: SecretHeaders::default(),
        }
    }

    /// A shared access signature. A service may repeat its `sig` without the rest.
    pub(crate) fn for_sas_token(token: Option<&Secret>) -> Redactor {
        let parts = token.into_iter().flat_map(|token| token.reveal().split('&'));
        let values = parts.filter_map(|part| part.split_once(SIGNATURE_PARAMETER));
        let values: Vec<_> = values.map(|(_, value)| Secret::new(value.to_owned())).collect();
        Redactor::for_secrets(values.iter().chain(token))
    }

    /// Adds an access token. It is replaced first, because no other secret is longer.
    pub(crate) fn add_token(&mut self, token: &Secret) {
        self.secrets.insert(0, Zeroizing::new(token.reveal().to_owned()));
    }

    /// Whether the values of a header are secret, in a request or a response.
    pub(crate) fn is_secret_header(&self, name: &str) -> bool {
        self.secret_headers.contains(name)
    }

    /// The text with every secret replaced by the placeholder.
    pub(crate) fn redact(&self, text: String) -> String {
        self.redact_text(text.into()).into_owned()
    }

    /// The same for a text that is copied only if it contains a secret.
    pub(crate) fn redact_text<'t>(&self, mut text: Cow<'t, str>) -> Cow<'t, str> {
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), self.placeholder).into();
            }
        }
        let values = (self.find_values)(&text);
        replace_ranges(text, values, self.placeholder)
    }

    /// A service's message without secrets and control characters, on one line of bounded length.
    pub(crate) fn redact_to_line(&self, text: String) -> String {
        // Redacted before it is cut: otherwise the end could be a part of a secret.
        let text = self.redact(text);
        let parts = text.split(char::is_control).filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(" ").chars().take(LINE_CHARS_MAX).collect()
    }
}

/// The text with the values of secret query parameters of any URL replaced by the placeholder.
pub fn redact_parameters(text: String) -> String {
    let values = find_query_parameters(&text);
    replace_ranges(text.into(), values, HTTP_PLACEHOLDER).into_owned()
}

fn replace_ranges<'t>(
    text: Cow<'t, str>,
    ranges: Vec<Range<usize>>,
    placeholder: &str,
) -> Cow<'t, str> {
    if ranges.is_empty() {
        return text;
    }
    let mut redacted = String::with_capacity(text.len());
    let mut at = 0;
    for range in ranges {
        redacted.push_str(text.get(at..range.start).unwrap_or_default());
        redacted.push_str(placeholder);
        at = range.end;
    }
    redacted.push_str(text.get(at..).unwrap_or_default());
    redacted.into()
}

/// The values of secret query parameters of any URL in a text.
fn find_query_parameters(text: &str) -> Vec<Range<usize>> {
    let separators = text.bytes().enumerate().filter(|(_, byte)| matches!(byte, b'?' | b'&'));
    separators.filter_map(|(at, _)| find_secret_value(text, at + 1)).collect()
}

/// The value of the secret parameter whose name begins at `at`, if one does.
fn find_secret_value(text: &str, at: usize) -> Option<Range<usize>> {
    let is_here = |name: &&str| {
        let here = text.as_bytes().get(at..at + name.len());
        here.is_some_and(|here| here.eq_ignore_ascii_case(name.as_bytes()))
            && text.as_bytes().get(at + name.len()) == Some(&b'=')
    };
    let start = at + SECRET_PARAMETERS.iter().find(|name| is_here(name))?.len() + 1;
    let rest = text.get(start..)?;
    let is_end = |c: char| c.is_whitespace() || matches!(c, '&' | '#' | '"' | '\'' | '<' | ')');
    Some(start..start + rest.find(is_end).unwrap_or(rest.len()))
}

/// The values of `sig=` anywhere in a text: tokens of Service Bus have no question mark.
fn find_signatures(text: &str) -> Vec<Range<usize>> {
    let is_end = |c: char| c.is_whitespace() || "&'\"<>;,".contains(c);
    let mut values = Vec::new();
    for (at, name) in text.match_indices(SIGNATURE_PARAMETER) {
        let start = at + name.len();
        let rest = text.get(start..).unwrap_or_default();
        let rest = rest.split(SIGNATURE_PARAMETER).next().unwrap_or_default();
        values.push(start..start + rest.find(is_end).unwrap_or(rest.len()));
    }
    values
}

#[cfg(test)]
mod tests {
    use kalends_domain::{Headers, Limits, Method, Uri};

    use super::*;

    fn for_http(uri: &str, headers: &[(&str, &str)]) -> Redactor {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let request = HttpRequest {
            uri: Uri::new(uri, &Limits::default()).unwrap(),
            method: Method::new("GET").unwrap(),
            headers: Some(Headers::restore(headers.collect())),
            body: None,
            authentication: Some(Box::new(HttpAuthentication::Basic {
                username: Some("user".into()),
                password: Some(Secret::new("canary-password".into())),
            })),
        };
        Redactor::for_http_request(
            &request,
            &Url::parse(uri).unwrap(),
            &SecretHeaders::new(["x-token".into()]),
        )
    }

    #[test]
    fn secrets_that_a_target_echoes_are_redacted() {
        let redactor = for_http(
            "https://example.com/?sig=canary%2Fsig&code=canarycode&x=seen",
            &[
                ("Authorization", "Bearer canary-bearer"),
                ("X-Token", "canary-token"),
                ("X", "seen"),
            ],
        );
        let basic = STANDARD.encode("user:canary-password");
        let echo = format!(
            "canary-password {basic} Bearer canary-bearer canary-bearer canary-token canary/sig canary%2Fsig canarycode seen"
        );
        let redacted = redactor.redact(echo);
        assert!(!redacted.contains("canary") && !redacted.contains(&basic), "{redacted}");
        assert!(redacted.ends_with("seen"));
    }

    #[test]
    fn secret_parameters_of_any_url_are_redacted() {
        let redactor = for_http("https://example.com/", &[]);
        for (text, expected) in [
            ("see https://a/?sv=1&sig=x%20y&se=2", "see https://a/?sv=1&sig=[masked]&se=2"),
            ("\"/f?CODE=abc\" and ?sig=d", "\"/f?CODE=[masked]\" and ?sig=[masked]"),
            ("exit code=5, ?barcode=1&design=2", "exit code=5, ?barcode=1&design=2"),
            ("ß?sig=ß", "ß?sig=[masked]"),
        ] {
            assert_eq!(redactor.redact(text.to_owned()), expected);
        }
    }

    #[test]
    fn secrets_that_a_service_echoes_are_redacted_in_every_form() {
        let check = |secrets: &[&str], text: &str, expected: &str| {
            let secrets: Vec<_> = secrets.iter().map(|text| Secret::new((*text).into())).collect();
            let redactor = Redactor::for_secrets(&secrets);
            assert_eq!(redactor.redact_to_line(text.to_owned()), expected);
        };
        let echo = "bad key canary+/=\r\nsent as canary%2B%2F%3D\0!";
        check(&["canary+/="], echo, "bad key [secret] sent as [secret] !");
        let token = "bad 'SharedAccessSignature sr=x&sig=canary%3D&se=1' and sig=b";
        let redacted = "bad 'SharedAccessSignature sr=x&sig=[secret]&se=1' and sig=[secret]";
        check(&[], token, redacted);
        check(&[], "sig=asig=b;sig=", "sig=[secret]sig=[secret];sig=[secret]");
        check(&["b"], "abc", "abc");
        check(&[], &"x".repeat(2_000), &"x".repeat(LINE_CHARS_MAX));
    }
}
