//! The Kalends binary: one module per command.

mod config;
mod config_commands;
mod derived_keys;
mod help_layout;
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
    #[command(flatten)]
    Client(kalends_cli::Command),
    Next(Box<next::Arguments>),
    Rehearse(rehearse::Arguments),
    Schema(schema::Arguments),
    SigningKeys(signing_keys::Arguments),
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
    let command = || help_layout::arrange(Arguments::command());
    let command_line = config::parse_command_line(command(), std::env::args_os())?;
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
        Command::Store(arguments) => store_commands::run(arguments),
        Command::Token(arguments) => token::run(arguments),
        Command::Config(arguments) => config_commands::run(arguments, command()),
        Command::Completions(arguments) => shell_files::print_completions(&arguments, command()),
        Command::Man(arguments) => shell_files::write_man_pages(&arguments, command()),
        Command::Client(arguments) => return Ok(kalends_cli::execute(arguments, &SystemClock)?),
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
