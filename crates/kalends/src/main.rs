//! The Kalends binary: a file per command.

mod config;
mod key;
mod location;
mod log;
mod next;
mod rehearse;
mod serve;
mod signing_keys;
mod store_tools;
mod token;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use kalends_environment::SystemClock;
use kalends_recurrence::Zone;

/// A durable job scheduler.
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
    SigningKeys(signing_keys::Arguments),
    #[command(subcommand)]
    Store(store_tools::Command),
    #[command(subcommand)]
    Token(token::Command),
}

fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        format!("{}\nzone data {}", env!("CARGO_PKG_VERSION"), Zone::data_version())
    });
    &TEXT
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing more can be done where even this cannot be written.
            drop(writeln!(std::io::stderr(), "error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let asked = config::asked(Arguments::command())?;
    if let Some(settings) = asked.settings_to_print() {
        return Ok(std::io::stdout().write_all(settings.as_bytes())?);
    }
    match Arguments::from_arg_matches(&asked.matches)?.command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Next(arguments) => next::run(*arguments, &SystemClock),
        Command::Rehearse(arguments) => rehearse::run(arguments),
        Command::SigningKeys(arguments) => signing_keys::run(&arguments),
        Command::Store(command) => store_tools::run(command),
        Command::Token(command) => token::run(command),
    }
}

/// Whether the reader of our output has seen enough, as in `kalends next … | head`.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
