//! `kalends token create`: makes a token.

use std::io::{self, Write as _};

use anyhow::{Context as _, bail};
use kalends_domain::{AccessScope, Grant, Role};
use kalends_environment::{Clock as _, SystemClock, SystemEntropy};
use kalends_recurrence::Instant;
use kalends_store::{NewToken, TOKENS_MAX, TokenRecord};

use crate::token::book::{Book, IfAbsent};

/// Characters of a name.
const NAME_CHARS_MAX: usize = 100;

/// Make a token and write it to standard output, once: only its hash is kept.
///
///   kalends token create --role owner --scope / --name admin
///   kalends token create --role operator --scope /subscriptions/S/resourceGroups/G --expires P90D
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    book: Book,

    /// What it may do: reader (see), operator (run, enable, disable too), contributor (make, change
    /// and delete too), owner (delete groups too)
    #[arg(long, value_parser = role)]
    role: Role,

    /// Where: /, /subscriptions/S, /subscriptions/S/resourceGroups/G or
    /// /subscriptions/S/resourceGroups/G/jobCollections/C
    #[arg(long, value_name = "PATH", value_parser = place)]
    scope: AccessScope,

    /// What people call it
    #[arg(long, default_value = "", value_parser = name)]
    name: String,

    /// Until when it is good: an instant such as 2027-01-01, or a time from now such as P90D
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
}

fn role(text: &str) -> Result<Role, String> {
    let allowed = Role::ALL.map(Role::as_str).join(", ");
    Role::named(text).ok_or_else(|| format!("expected one of {allowed}"))
}

fn place(text: &str) -> Result<AccessScope, String> {
    AccessScope::parse(text).map_err(|error| error.to_string())
}

fn name(text: &str) -> Result<String, String> {
    let is_name = text.chars().count() <= NAME_CHARS_MAX && !text.chars().any(char::is_control);
    match is_name {
        true => Ok(text.to_owned()),
        false => Err(format!("expected at most {NAME_CHARS_MAX} characters that can be printed")),
    }
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let now = Instant::from(SystemClock.now());
    let expires = arguments.expires.as_deref().map(|text| when(text, now)).transpose()?;
    let tokens = arguments.book.open(IfAbsent::Make).await?;
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
        bail!("there are {TOKENS_MAX} tokens; forget some with kalends token revoke --forget");
    }
    writeln!(
        io::stderr(),
        "token {id}, {} of {}; it is shown this once. A server that asks for no token yet does so \
         from its next start on.",
        grant.role,
        grant.scope
    )?;
    Ok(writeln!(io::stdout(), "{}", text.reveal())?)
}

fn when(text: &str, now: Instant) -> anyhow::Result<Instant> {
    let at = match kalends_wire::parse_duration(text) {
        Some(duration) => now.saturating_add(duration),
        None => text.parse().with_context(|| format!("--expires {text}"))?,
    };
    if at <= now {
        bail!("--expires {text}: that is over already");
    }
    Ok(at)
}
