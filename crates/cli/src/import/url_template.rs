//! The URL of an imported job whose source runs a command, a container or a cloud target.

use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that need no encoding anywhere in a URL.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A URL with the placeholders `{name}` and `{command}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UrlTemplate(String);

/// The error of [`UrlTemplate::from_str`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UrlTemplateError(String);

impl FromStr for UrlTemplate {
    type Err = UrlTemplateError;

    fn from_str(text: &str) -> Result<UrlTemplate, UrlTemplateError> {
        let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
        let plain = text.replace("{name}", "").replace("{command}", "");
        if !is_url {
            return Err(UrlTemplateError(format!(
                "the template must begin with http:// or https:// (found {text:?})"
            )));
        }
        if plain.contains(['{', '}']) {
            return Err(UrlTemplateError(format!(
                "the template has an unknown placeholder (found {text:?}); allowed are {{name}} and {{command}}"
            )));
        }
        Ok(UrlTemplate(text.to_owned()))
    }
}

impl UrlTemplate {
    /// The URL of a job.
    pub(crate) fn url(&self, name: &str, command: &str) -> String {
        let encode = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
        // The name first: it cannot contain a placeholder.
        self.0.replace("{name}", &encode(name)).replace("{command}", &encode(command))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_by_encoded_values() {
        let template: UrlTemplate = "https://run.example.com/{name}?c={command}".parse().unwrap();
        let url = template.url("backup", "/bin/sh -c 'a & {name}'");
        assert_eq!(
            url,
            "https://run.example.com/backup?c=%2Fbin%2Fsh%20-c%20%27a%20%26%20%7Bname%7D%27"
        );
        assert!("ftp://x/{name}".parse::<UrlTemplate>().is_err());
        let unknown = "https://x/{job}".parse::<UrlTemplate>().unwrap_err().to_string();
        assert!(unknown.ends_with("allowed are {name} and {command}"), "{unknown}");
    }
}
