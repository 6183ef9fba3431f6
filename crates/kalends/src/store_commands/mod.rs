//! `kalends store`: commands on an SQLite store. They work while a server uses the store.

mod backup;
mod check;

use clap::Subcommand;

/// Check or back up an SQLite store, also while a server uses it
#[derive(Subcommand)]
pub(crate) enum Command {
    Check(check::Arguments),
    Backup(backup::Arguments),
}

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
    }
}
