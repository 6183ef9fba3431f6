//! `kalends token revoke`: makes a token worth nothing.

use std::io::{self, Write as _};

use anyhow::{Context as _, bail};
use kalends_environment::{Clock as _, SystemClock};
use kalends_store::TokenId;

use crate::token::book::{Book, IfAbsent};

/// Make a token worth nothing. A running server knows within seconds.
///
///   kalends token revoke 0123456789abcdef
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    book: Book,

    /// The sixteen digits after kal_, as kalends token list shows them
    id: String,

    /// Take it out of the list too. A server whose store knows no token at all asks for none when it
    /// starts on the loopback
    #[arg(long)]
    forget: bool,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let id = TokenId::new(&arguments.id).context("expected the sixteen digits of a token's id")?;
    let tokens = arguments.book.open(IfAbsent::Refuse).await?;
    let (known, word) = match arguments.forget {
        true => (tokens.delete_token(id.clone()).await?, "forgotten"),
        false => (tokens.revoke_token(id.clone(), SystemClock.now().into()).await?, "revoked"),
    };
    match known {
        true => Ok(writeln!(io::stdout(), "token {id} is {word}")?),
        false => bail!("there is no token {id}"),
    }
}
