//! `kalends token`: the static tokens of the API, also while a server works with their store.

mod book;
mod create;
mod list;
mod revoke;

use clap::Subcommand;

/// Make, list and revoke tokens of the API, also while a server works with their store.
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
