//! The Kalends binary: one module per command.

mod config;
mod log;
mod master_key;
mod next;
mod rehearse;
mod schema;
mod serve;
mod signing_keys;
mod store_commands;
mod store_location;
mod token;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use kalends_environment::SystemClock;
use kalends_recurrence::Zone;

/// Durable job scheduler with the REST API of Azure Scheduler
#[derive(Parser)]
#[command(name = "kalends", version, long_version = long_version(), disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(Box<serve::Arguments>),
    Next(Box<next::Arguments>),
    Rehearse(rehearse::Arguments),
    Schema(schema::Arguments),
    SigningKeys(signing_keys::Arguments),
    #[command(subcommand)]
    Store(store_commands::Command),
    #[command(subcommand)]
    Token(token::Command),
}

fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        format!("{}\ntime zone data {}", env!("CARGO_PKG_VERSION"), Zone::data_version())
    });
    &TEXT
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed there is nowhere left to report to.
            drop(writeln!(std::io::stderr(), "error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let command_line = config::parse_command_line(Arguments::command())?;
    for warning in &command_line.warnings {
        let _ = writeln!(std::io::stderr(), "warning: {warning}");
    }
    if let Some(settings) = command_line.settings_to_print() {
        return Ok(std::io::stdout().write_all(settings.as_bytes())?);
    }
    match Arguments::from_arg_matches(&command_line.matches)?.command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Next(arguments) => next::run(*arguments, &SystemClock),
        Command::Rehearse(arguments) => rehearse::run(arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::SigningKeys(arguments) => signing_keys::run(&arguments),
        Command::Store(command) => store_commands::run(command),
        Command::Token(command) => token::run(command),
    }
}

/// Whether the reader closed standard output, as in `kalends next … | head`.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
