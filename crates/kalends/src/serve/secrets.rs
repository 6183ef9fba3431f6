//! Settings of secrets in definitions.

use anyhow::ensure;
use kalends_domain::SecretHeaders;

#[derive(clap::Args)]
#[command(next_help_heading = "Secrets")]
pub(super) struct SecretArguments {
    /// Further header of jobs whose values are secret, such as X-Token: encrypted in the store,
    /// redacted from history and logs, and kept for the same origin only, like Authorization, Cookie
    /// and X-Api-Key; can be repeated. Values stored before are encrypted by the next edit of
    /// their job
    #[arg(long, env = "KALENDS_SECRETS_HEADERS", value_name = "NAME", value_delimiter = ',', value_parser = header_name)]
    secrets_headers: Vec<String>,
}

impl SecretArguments {
    pub(super) fn headers(&self) -> SecretHeaders {
        SecretHeaders::new(self.secrets_headers.iter().cloned())
    }
}

fn header_name(text: &str) -> anyhow::Result<String> {
    let text = text.trim();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    ensure!(
        !text.is_empty() && text.bytes().all(is_token),
        "expected the name of a header, such as X-Token"
    );
    Ok(text.to_owned())
}
