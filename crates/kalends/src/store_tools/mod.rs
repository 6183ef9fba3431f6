//! `kalends store`: tools for the file of a store, also while a server works with it.

mod backup;
mod check;

use clap::Subcommand;

/// Look into a store and copy it, also while a server works with it.
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
