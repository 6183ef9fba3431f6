//! The Kalends binary: one module per command.

mod config;
mod config_commands;
mod derived_keys;
mod log;
mod master_key;
mod next;
mod rehearse;
mod schema;
mod serve;
mod shell_files;
mod signing_keys;
mod store_commands;
mod store_location;
mod token;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use kalends_cli::{CliError, ExitStatus};
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
    #[command(flatten)]
    Client(kalends_cli::Command),
    #[command(subcommand)]
    Store(store_commands::Command),
    #[command(subcommand)]
    Token(token::Command),
    #[command(subcommand)]
    Config(config_commands::Command),
    Completions(shell_files::CompletionsArguments),
    Man(shell_files::ManArguments),
}

fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        format!("{}\ntime zone data {}", env!("CARGO_PKG_VERSION"), Zone::data_version())
    });
    &TEXT
}

fn main() -> ExitCode {
    let error = match run() {
        Ok(status) => return ExitCode::from(status as u8),
        Err(error) if is_closed_pipe(&error) => return ExitCode::SUCCESS,
        Err(error) => error,
    };
    match error.downcast_ref::<CliError>() {
        Some(error) => {
            kalends_cli::report(&error.to_string(), error.hint().as_deref());
            ExitCode::from(error.exit_status() as u8)
        }
        None => {
            kalends_cli::report(&format!("{error:#}"), None);
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<ExitStatus> {
    let command_line = config::parse_command_line(Arguments::command(), std::env::args_os())?;
    for warning in &command_line.warnings {
        let _ = writeln!(std::io::stderr(), "warning: {warning}");
    }
    if let Some(settings) = command_line.settings_to_print() {
        std::io::stdout().write_all(settings.as_bytes())?;
        return Ok(ExitStatus::Success);
    }
    match Arguments::from_arg_matches(&command_line.matches)?.command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Next(arguments) => next::run(*arguments, &SystemClock),
        Command::Rehearse(arguments) => rehearse::run(arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::SigningKeys(arguments) => signing_keys::run(&arguments),
        Command::Store(command) => store_commands::run(command),
        Command::Token(command) => token::run(command),
        Command::Config(command) => config_commands::run(command, Arguments::command()),
        Command::Completions(arguments) => {
            shell_files::print_completions(&arguments, Arguments::command())
        }
        Command::Man(arguments) => shell_files::write_man_pages(&arguments, Arguments::command()),
        Command::Client(command) => return Ok(kalends_cli::execute(command, &SystemClock)?),
    }?;
    Ok(ExitStatus::Success)
}

/// Whether the reader closed standard output, as in `kalends next … | head`.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io: Option<&std::io::Error> = match error.downcast_ref::<CliError>() {
        Some(CliError::Io(error)) => Some(error),
        _ => error.downcast_ref(),
    };
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
