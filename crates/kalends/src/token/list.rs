//! `kalends token list`: the tokens there are.

use std::io::{self, Write as _};

use kalends_environment::{Clock as _, SystemClock};
use kalends_recurrence::Instant;
use kalends_store::TokenRecord;

use crate::token::book::{Book, IfAbsent};

/// List tokens: what they may do, when they were last used, and which are worth nothing any more.
///
///   kalends token list --store sqlite:/var/lib/kalends/kalends.db
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    book: Book,
}

const HEAD: [&str; 7] = ["id", "role", "created", "last used", "good until", "scope", "name"];

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let tokens = arguments.book.open(IfAbsent::Refuse).await?.tokens().await?;
    let now = SystemClock.now().into();
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(tokens.iter().map(|token| line(token, now)));
    let mut widths = [0; HEAD.len()];
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
    let until = match token.revoked {
        Some(_) => "revoked".to_owned(),
        None if !token.is_valid(now) => "expired".to_owned(),
        None => shown(token.expires, "for ever"),
    };
    [
        token.id.to_string(),
        token.grant.role.to_string(),
        shown(Some(token.created), ""),
        shown(token.last_used, "never"),
        until,
        token.grant.scope.to_string(),
        token.name.clone(),
    ]
}
