//! `kalends token list`: lists API tokens.

use std::io::{self, Write as _};

use kalends_recurrence::Instant;
use kalends_store::TokenRecord;

use crate::token::token_store::{IfMissing, OpenTokens, TokenStore};

/// List API tokens with role, scope, last use and expiration
///
/// Example:
///   kalends token list --store sqlite:/var/lib/kalends/kalends.db
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    store: TokenStore,
}

const HEADER: [&str; 7] = ["id", "role", "created", "last used", "expires", "scope", "name"];

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let OpenTokens { tokens, now } = arguments.store.open(IfMissing::Fail).await?;
    let tokens = tokens.tokens().await?;
    let mut lines = vec![HEADER.map(str::to_owned)];
    lines.extend(tokens.iter().map(|token| line(token, now)));
    let mut widths = [0; HEADER.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut output = io::stdout().lock();
    for line in &lines {
        let cells = line.iter().zip(widths);
        let text: Vec<_> = cells.map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(output, "{}", text.join("  ").trim_end())?;
    }
    Ok(())
}

fn line(token: &TokenRecord, now: Instant) -> [String; 7] {
    let shown = |at: Option<Instant>, none: &str| {
        at.map_or_else(|| none.to_owned(), |at| at.whole_second().to_string())
    };
    let expires = match token.revoked {
        Some(_) => "revoked".to_owned(),
        None if !token.is_valid(now) => "expired".to_owned(),
        None => shown(token.expires, "never"),
    };
    [
        token.id.to_string(),
        token.grant.role.to_string(),
        shown(Some(token.created), ""),
        shown(token.last_used, "never"),
        expires,
        token.grant.scope.to_string(),
        token.name.clone(),
    ]
}
