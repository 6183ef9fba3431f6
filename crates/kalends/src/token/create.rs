//! `kalends token create`: creates an API token.

use std::io::{self, Write as _};

use anyhow::{Context as _, bail, ensure};
use kalends_domain::{AccessScope, Grant, Role};
use kalends_environment::SystemEntropy;
use kalends_recurrence::Instant;
use kalends_store::{NewToken, TOKENS_MAX, TokenRecord};
use kalends_wire::{parse_duration, parse_short_duration};

use crate::token::token_store::{IfMissing, OpenTokens, TokenStore};

/// Most characters in the name of a token.
const NAME_CHARS_MAX: usize = 100;

/// Create an API token
///
/// Prints the token to standard output. It cannot be shown again: the store contains only its hash.
///
/// Examples:
///   kalends token create --role owner --scope / --name admin
///   kalends token create --role operator --scope /subscriptions/S/resourceGroups/G --expires 90d
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    store: TokenStore,

    /// Role: reader (read), operator (also run, enable and disable jobs), contributor (also create,
    /// update and delete), owner (also delete resource groups)
    #[arg(long, value_parser = role)]
    role: Role,

    /// Scope of the role: /, /subscriptions/S, /subscriptions/S/resourceGroups/G or
    /// /subscriptions/S/resourceGroups/G/jobCollections/C
    #[arg(long, value_name = "PATH", value_parser = AccessScope::parse)]
    scope: AccessScope,

    /// Display name
    #[arg(long, default_value = "", hide_default_value = true, value_parser = name)]
    name: String,

    /// Expiration: a time such as 2027-01-01, or a duration from now such as 90d, 12h or P90D
    /// [default: never]
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
}

fn role(text: &str) -> anyhow::Result<Role> {
    let allowed = Role::ALL.map(Role::as_str).join(", ");
    Role::named(text).with_context(|| format!("must be one of {allowed}"))
}

fn name(text: &str) -> anyhow::Result<String> {
    let is_name = text.chars().count() <= NAME_CHARS_MAX && !text.chars().any(char::is_control);
    ensure!(is_name, "must have at most {NAME_CHARS_MAX} printable characters");
    Ok(text.to_owned())
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let OpenTokens { tokens, now } = arguments.store.open(IfMissing::Create).await?;
    let expires = arguments.expires.as_deref().map(|text| expiration(text, now)).transpose()?;
    let NewToken { id, text, hash } = NewToken::generate(&SystemEntropy)?;
    let record = TokenRecord {
        id: id.clone(),
        name: arguments.name,
        hash,
        grant: Grant { role: arguments.role, scope: arguments.scope },
        created: now,
        expires,
        revoked: None,
        last_used: None,
    };
    let grant = record.grant.clone();
    if !tokens.put_token(record).await? {
        bail!(
            "there are {TOKENS_MAX} tokens already; delete some with kalends token revoke --delete"
        );
    }
    writeln!(
        io::stderr(),
        "created token {id} with role {} and scope {}; it is shown only once. A server that runs \
         without authentication requires tokens after its next start.",
        grant.role,
        grant.scope
    )?;
    Ok(writeln!(io::stdout(), "{}", text.reveal())?)
}

fn expiration(text: &str, now: Instant) -> anyhow::Result<Instant> {
    let duration = parse_duration(text).or_else(|| parse_short_duration(text));
    let at = match (duration, text.parse()) {
        (Some(duration), _) => now.saturating_add(duration),
        (None, Ok(at)) => at,
        (None, Err(_)) => bail!(
            "--expires must be a time such as 2027-01-01, or a duration such as 90d, 12h, 2w or \
             P90D (found {text:?})"
        ),
    };
    if at <= now {
        bail!("--expires must be in the future (found {text:?}, which is in the past)");
    }
    Ok(at)
}
