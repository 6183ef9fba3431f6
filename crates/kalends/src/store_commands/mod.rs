//! `kalends store`: commands on a store. Check, backup and dump work while a server uses the store.

mod backup;
mod check;
mod dump;
mod migrate;
mod progress;
mod rekey;

use clap::Subcommand;

/// Check, back up, dump or migrate a store, or rotate its key
#[derive(Subcommand)]
pub(crate) enum Command {
    Check(check::Arguments),
    Backup(backup::Arguments),
    Dump(dump::Arguments),
    Migrate(migrate::Arguments),
    Rekey(rekey::Arguments),
}

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Migrate(arguments) => migrate::run(arguments),
        Command::Rekey(arguments) => rekey::run(&arguments),
    }
}
