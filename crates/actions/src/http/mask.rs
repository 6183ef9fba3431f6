//! Keeps a job's secrets out of what history says: targets repeat what they were sent.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kalends_domain::{HttpAuthentication, HttpRequest, SECRET_HEADERS, SECRET_PARAMETERS, Secret};
use url::Url;
use zeroize::Zeroizing;

const MASKED: &str = "[masked]";
/// Shorter texts are in every other sentence; they are masked only where a parameter names them.
const CHARS_MIN: usize = 4;

/// Whether a header's value is secret.
pub(super) fn is_secret_header(name: &str, named: &[String]) -> bool {
    SECRET_HEADERS.iter().any(|secret| secret.eq_ignore_ascii_case(name))
        || named.iter().any(|secret| secret.eq_ignore_ascii_case(name))
}

/// The secrets of a request.
pub(super) struct Mask(Vec<Zeroizing<String>>);

impl Mask {
    pub(super) fn of(request: &HttpRequest, url: &Url, named: &[String]) -> Mask {
        let mut secrets = Vec::new();
        for (name, value) in request.headers.iter().flat_map(|headers| headers.iter()) {
            if is_secret_header(name, named) {
                // `Bearer x`: x alone is the secret.
                secrets.extend(value.split_once(' ').map(|(_, rest)| rest.to_owned()));
                secrets.push(value.to_owned());
            }
        }
        if let Some(HttpAuthentication::Basic { username, password: Some(password) }) =
            &request.authentication
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
        secrets.retain(|secret| secret.len() >= CHARS_MIN);
        // A secret that holds another goes first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Mask(secrets.into_iter().map(Zeroizing::new).collect())
    }

    /// One more, longer than all that a user writes.
    pub(super) fn add(&mut self, secret: &Secret) {
        self.0.insert(0, Zeroizing::new(secret.reveal().to_owned()));
    }

    /// The text without them.
    pub(super) fn apply(&self, mut text: String) -> String {
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), MASKED);
            }
        }
        mask_parameters(text)
    }
}

fn is_secret_parameter(name: &str) -> bool {
    SECRET_PARAMETERS.iter().any(|secret| secret.eq_ignore_ascii_case(name))
}

/// Masks the values of secret parameters of any address in a text.
fn mask_parameters(text: String) -> String {
    let marks = text.bytes().enumerate().filter(|(_, byte)| matches!(byte, b'?' | b'&'));
    let values: Vec<_> = marks.filter_map(|(at, _)| secret_value(&text, at + 1)).collect();
    if values.is_empty() {
        return text;
    }
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    for value in values {
        masked.push_str(text.get(at..value.start).unwrap_or_default());
        masked.push_str(MASKED);
        at = value.end;
    }
    masked.push_str(text.get(at..).unwrap_or_default());
    masked
}

/// Where the value of a secret parameter is that begins at `at`; none where none begins there.
fn secret_value(text: &str, at: usize) -> Option<Range<usize>> {
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

#[cfg(test)]
mod tests {
    use kalends_domain::{Headers, Limits, Method, Uri};

    use super::*;

    fn mask(uri: &str, headers: &[(&str, &str)]) -> Mask {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let request = HttpRequest {
            uri: Uri::new(uri, &Limits::default()).unwrap(),
            method: Method::new("GET").unwrap(),
            headers: Some(Headers::restore(headers.collect())),
            body: None,
            authentication: Some(HttpAuthentication::Basic {
                username: Some("user".into()),
                password: Some(Secret::new("canary-password".into())),
            }),
        };
        Mask::of(&request, &Url::parse(uri).unwrap(), &["x-token".into()])
    }

    #[test]
    fn what_a_target_repeats_is_masked() {
        let mask = mask(
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
        let masked = mask.apply(echo);
        assert!(!masked.contains("canary") && !masked.contains(&basic), "{masked}");
        assert!(masked.ends_with("seen"));
    }

    #[test]
    fn parameters_of_any_address_are_masked() {
        let mask = mask("https://example.com/", &[]);
        for (text, expected) in [
            ("see https://a/?sv=1&sig=x%20y&se=2", "see https://a/?sv=1&sig=[masked]&se=2"),
            ("\"/f?CODE=abc\" and ?sig=d", "\"/f?CODE=[masked]\" and ?sig=[masked]"),
            ("exit code=5, ?barcode=1&design=2", "exit code=5, ?barcode=1&design=2"),
            ("ß?sig=ß", "ß?sig=[masked]"),
        ] {
            assert_eq!(mask.apply(text.to_owned()), expected);
        }
    }
}
