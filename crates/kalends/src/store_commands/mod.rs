//! `kalends store`: commands on a store. They work while a server uses the store.

mod backup;
mod check;
mod dump;

use clap::Subcommand;

/// Check, back up or dump a store, also while a server uses it
#[derive(Subcommand)]
pub(crate) enum Command {
    Check(check::Arguments),
    Backup(backup::Arguments),
    Dump(dump::Arguments),
}

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
    }
}
