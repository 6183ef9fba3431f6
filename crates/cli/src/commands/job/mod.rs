//! `kalends job`.

mod bulk;
mod create;
pub(super) mod definition_flags;
mod edit;
mod editable;
pub(super) mod explain;
mod input;
pub(super) mod list;
mod logs;
mod notes;
mod preview;
pub(super) mod run;
mod selection;
mod show;
mod skip;
pub(super) mod watch;

use clap::Subcommand;
use kalends_environment::Clock;

use crate::error::CliError;
use crate::session::JobSessionArguments;

/// List, create, change, run and watch jobs
///
/// A job is named JOB or COLLECTION/JOB.
///
/// Examples:
///   kalends job create nightly --cron "30 2 * * *" --post https://example.com/export
///   kalends job list
///   kalends job run nightly --wait
///   kalends job logs nightly
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    command: JobCommand,

    #[command(flatten)]
    session: JobSessionArguments,
}

#[derive(Subcommand)]
enum JobCommand {
    List(list::Arguments),
    Show(show::Arguments),
    Create(Box<create::Arguments>),
    Edit(Box<edit::Arguments>),
    Preview(preview::Arguments),
    Run(run::Arguments),
    Wait(run::WaitArguments),
    Skip(skip::Arguments),
    Watch(watch::Arguments),
    Logs(logs::Arguments),
    Explain(explain::Arguments),
    Notes(notes::Arguments),
    /// Enable jobs
    Enable(bulk::SwitchArguments),
    /// Disable jobs; they do not run until they are enabled
    Disable(bulk::SwitchArguments),
    /// Delete jobs with their history
    Delete(bulk::Arguments),
}

pub(super) fn run(arguments: Arguments, clock: &dyn Clock) -> Result<(), CliError> {
    let session = arguments.session.open(clock)?;
    match arguments.command {
        JobCommand::List(arguments) => list::run(&arguments, &session),
        JobCommand::Show(arguments) => show::run(&arguments, &session),
        JobCommand::Create(arguments) => create::run(&arguments, &session),
        JobCommand::Edit(arguments) => edit::run(&arguments, &session),
        JobCommand::Preview(arguments) => preview::run(&arguments, &session),
        JobCommand::Run(arguments) => run::start(&arguments, &session),
        JobCommand::Wait(arguments) => run::wait(&arguments, &session),
        JobCommand::Skip(arguments) => skip::run(&arguments, &session),
        JobCommand::Watch(arguments) => watch::run(&arguments, &session),
        JobCommand::Logs(arguments) => logs::run(&arguments, &session),
        JobCommand::Explain(arguments) => explain::run(&arguments, &session),
        JobCommand::Notes(arguments) => notes::run(&arguments, &session),
        JobCommand::Enable(arguments) => arguments.run(bulk::Action::Enable, &session),
        JobCommand::Disable(arguments) => arguments.run(bulk::Action::Disable, &session),
        JobCommand::Delete(arguments) => bulk::delete(&arguments, &session),
    }
}
