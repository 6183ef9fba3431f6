//! Commands, one file each.

mod apply;
mod collection;
mod context;
mod export;
mod history;
mod import;
mod job;
mod note;
mod occurrence;
mod pause;
mod run;
mod status;

use clap::Subcommand;
use kalends_environment::Clock;

use crate::error::CliError;
use crate::exit_status::ExitStatus;

/// Commands of the client.
#[derive(Subcommand)]
#[expect(missing_docs, reason = "the help text of each is at its arguments")]
pub enum Command {
    Job(job::Arguments),
    Collection(collection::Arguments),
    Run(run::Arguments),
    History(history::Arguments),
    Occurrence(occurrence::Arguments),
    Apply(apply::Arguments),
    Diff(apply::DiffArguments),
    Export(export::Arguments),
    Import(Box<import::Arguments>),
    Context(context::Arguments),
    Status(status::Arguments),
    Pause(pause::PauseArguments),
    Resume(pause::ResumeArguments),
}

/// Executes a command.
pub fn execute(command: Command, clock: &dyn Clock) -> Result<ExitStatus, CliError> {
    match command {
        Command::Collection(arguments) => collection::run(arguments, clock)?,
        Command::Job(arguments) => job::run(arguments, clock)?,
        Command::Run(arguments) => run::run(arguments, clock)?,
        Command::History(arguments) => history::run(arguments, clock)?,
        Command::Occurrence(arguments) => occurrence::run(arguments, clock)?,
        Command::Apply(arguments) => return apply::run(&arguments, clock),
        Command::Diff(arguments) => return apply::diff(&arguments, clock),
        Command::Export(arguments) => return export::run(&arguments, clock),
        Command::Import(arguments) => return import::run(&arguments, clock),
        Command::Context(arguments) => context::run(arguments, clock)?,
        Command::Status(arguments) => return status::run(&arguments, clock),
        Command::Pause(arguments) => pause::pause(&arguments, clock)?,
        Command::Resume(arguments) => pause::resume(&arguments, clock)?,
    }
    Ok(ExitStatus::Success)
}
