//! Secret strings.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// Query parameters that make a URI secret: signatures and function keys.
pub const SECRET_PARAMETERS: [&str; 2] = ["sig", "code"];

/// Whether a query parameter is one of [`SECRET_PARAMETERS`], ignoring case.
pub fn is_secret_parameter(name: &str) -> bool {
    SECRET_PARAMETERS.iter().any(|secret| secret.eq_ignore_ascii_case(name))
}

/// A URI with `mask` in place of the values of secret query parameters.
pub fn mask_secret_parameters(uri: &str, mask: &str) -> String {
    let Some((path, rest)) = uri.split_once('?') else { return uri.to_owned() };
    let (query, fragment) = match rest.split_once('#') {
        Some((query, fragment)) => (query, format!("#{fragment}")),
        None => (rest, String::new()),
    };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_secret_parameter(name) => format!("{name}={mask}"),
        _ => pair.to_owned(),
    });
    format!("{path}?{}{fragment}", pairs.collect::<Vec<_>>().join("&"))
}

/// The names of headers with secret values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretHeaders {
    /// Names that the operator added, in lower case.
    configured: Arc<[String]>,
}

impl SecretHeaders {
    /// Names that are always secret, of requests and of responses.
    const ALWAYS: [&str; 5] =
        ["authorization", "cookie", "proxy-authorization", "set-cookie", "x-api-key"];

    /// The names that are always secret, and those that an operator adds.
    pub fn new(configured: impl IntoIterator<Item = String>) -> SecretHeaders {
        let lower_case = |name: String| name.to_ascii_lowercase();
        SecretHeaders { configured: configured.into_iter().map(lower_case).collect() }
    }

    /// The names that the operator added, in lower case.
    pub fn configured(&self) -> &[String] {
        &self.configured
    }

    /// Whether the values of a header are secret.
    pub fn contains(&self, name: &str) -> bool {
        let is_name = |secret: &str| secret.eq_ignore_ascii_case(name);
        SecretHeaders::ALWAYS.into_iter().any(is_name)
            || self.configured.iter().any(|secret| is_name(secret))
    }
}

/// A string that `Debug` redacts and that is zeroed when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a string.
    pub fn new(text: String) -> Secret {
        Secret(Zeroizing::new(text))
    }

    /// The secret itself. Review every call of this function for leaks.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_headers_are_secret_in_addition_to_the_known_ones() {
        let headers = SecretHeaders::new(["X-Token".to_owned()]);
        assert!(headers.contains("x-TOKEN") && headers.contains("Authorization"));
        assert!(!headers.contains("Accept") && !SecretHeaders::default().contains("X-Token"));
    }

    #[test]
    fn debug_redacts_secrets() {
        let secret = Secret::new("canary".to_owned());
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "[secret] Some([secret])");
        assert_eq!(secret.reveal(), "canary");
    }
}
