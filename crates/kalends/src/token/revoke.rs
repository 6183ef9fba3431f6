//! `kalends token revoke`: revokes or deletes an API token.

use std::io::{self, Write as _};

use anyhow::{Context as _, bail};
use kalends_store::TokenId;

use crate::token::token_store::{IfMissing, OpenTokens, TokenStore};

/// Revoke an API token
///
/// A running server refuses the token within seconds.
///
/// Example:
///   kalends token revoke 0123456789abcdef
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    store: TokenStore,

    /// Id of the token: the 16 hexadecimal digits after kal_, as in kalends token list
    id: String,

    /// Delete the record of the token as well. A server on a loopback address whose store contains
    /// no tokens starts without authentication
    #[arg(long, alias = "forget")]
    delete: bool,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let id = TokenId::new(&arguments.id).context("the token id must have 16 hexadecimal digits")?;
    let OpenTokens { tokens, now } = arguments.store.open(IfMissing::Fail).await?;
    let (exists, done) = match arguments.delete {
        true => (tokens.delete_token(id.clone()).await?, "deleted"),
        false => (tokens.revoke_token(id.clone(), now).await?, "revoked"),
    };
    match exists {
        true => Ok(writeln!(io::stdout(), "token {id} {done}")?),
        false => bail!("there is no token {id}"),
    }
}
