//! `kalends config`: settings of the server.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use kalends_cli::CliError;

use crate::config;

/// Show and check the settings of `kalends serve`
#[derive(Subcommand)]
pub(crate) enum Command {
    Show(ShowArguments),
    Check(CheckArguments),
}

/// Print the effective settings and where each comes from
///
/// The same as `kalends serve --print-config`. Prints a settings file without secrets.
///
/// Example:
///   kalends config show --config /etc/kalends.toml
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ShowArguments {
    /// Flags of `kalends serve`, such as --config FILE
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

/// Check a settings file
///
/// Prints every error with its line. The exit status is 2 if there is one.
#[derive(clap::Args)]
pub(crate) struct CheckArguments {
    /// The settings file, in TOML
    file: PathBuf,
}

/// Runs the command. `command` is the whole command line.
pub(crate) fn run(arguments: Command, command: clap::Command) -> anyhow::Result<()> {
    match arguments {
        Command::Show(ShowArguments { flags }) => {
            std::io::stdout().write_all(settings(command, flags)?.as_bytes())?;
        }
        Command::Check(CheckArguments { file }) => {
            let flags = vec!["--config".into(), file.clone().into_os_string()];
            match settings(command, flags) {
                Ok(_) => writeln!(std::io::stdout(), "{} is valid", file.display())?,
                Err(error) => return Err(invalid(&file, &error).into()),
            }
        }
    }
    Ok(())
}

/// The effective settings of `kalends serve` with these flags.
fn settings(command: clap::Command, flags: Vec<OsString>) -> anyhow::Result<String> {
    let serve = ["kalends", "serve", "--print-config"].map(OsString::from);
    let arguments: Vec<_> = serve.into_iter().chain(flags).collect();
    let command_line = config::parse_command_line(command, arguments)?;
    for warning in &command_line.warnings {
        let _ = writeln!(std::io::stderr(), "warning: {warning}");
    }
    Ok(command_line.settings_to_print().unwrap_or_default())
}

fn invalid(file: &Path, error: &anyhow::Error) -> CliError {
    let message = format!("{error:#}");
    let shown = file.display().to_string();
    CliError::usage(match message.contains(&shown) {
        true => message,
        false => format!("{shown}: {message}"),
    })
}
