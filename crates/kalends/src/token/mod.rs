//! `kalends token`: static API tokens. The commands work while a server uses the store.

mod create;
mod list;
mod revoke;
mod token_store;

use clap::Subcommand;

/// Create, list and revoke API tokens, also while a server uses the store
#[derive(Subcommand)]
pub(crate) enum Command {
    Create(create::Arguments),
    List(list::Arguments),
    Revoke(revoke::Arguments),
}

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Create(arguments) => create::run(arguments).await,
            Command::List(arguments) => list::run(&arguments).await,
            Command::Revoke(arguments) => revoke::run(&arguments).await,
        }
    })
}
