//! Settings of `kalends serve`: from flags, environment variables and a settings file, in that
//! order of precedence.
//!
//! Every argument of the command is a setting; its key in the file is the name of its flag. Values
//! from the file replace the arguments' defaults, which gives flags and variables precedence without
//! a comparison of sources.
//!
//! The hidden aliases of an argument are its deprecated names. They are accepted as flag, as key and,
//! with the prefix `KALENDS_`, as environment variable.

mod deprecated;
mod file;
mod print;
#[cfg(test)]
mod settings_page;
mod value;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};

use crate::config::file::SettingsFile;

/// The subcommand whose arguments are settings.
const COMMAND: &str = "serve";
/// Arguments of the subcommand that are not settings.
const NO_SETTINGS: [&str; 4] = ["config", "print_config", "help", "version"];

/// The parsed command line, with the values of the settings file as defaults.
pub(crate) struct CommandLine {
    pub(crate) matches: ArgMatches,
    /// One warning for each deprecated flag, variable or key in use.
    pub(crate) warnings: Vec<String>,
    serve: Option<Command>,
    file: Option<SettingsFile>,
}

/// Parses the arguments of the process and reads the settings file. Exits the process if the
/// arguments are invalid or request help.
pub(crate) fn parse_command_line(
    command: Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> anyhow::Result<CommandLine> {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let mut warnings = deprecated::warnings(&command, arguments.iter().cloned());
    let serve = command.find_subcommand(COMMAND).cloned();
    let matches = deprecated::apply_variables(command.clone()).get_matches_from(&arguments);
    let path = matches.subcommand_matches(COMMAND);
    let path = path.and_then(|serve| serve.get_one::<PathBuf>("config"));
    let (Some(path), Some(serve)) = (path, &serve) else {
        return Ok(CommandLine { matches, warnings, serve, file: None });
    };
    let file = SettingsFile::read(path, serve)?;
    warnings.extend(file.warnings());
    let command = command.mut_subcommand(COMMAND, |serve| file.apply_as_defaults(serve));
    let matches = deprecated::apply_variables(command).get_matches_from(arguments);
    Ok(CommandLine { matches, warnings, serve: Some(serve.clone()), file: Some(file) })
}

impl CommandLine {
    /// The effective settings and their origins if `--print-config` was given.
    pub(crate) fn settings_to_print(&self) -> Option<String> {
        let matches = self.matches.subcommand_matches(COMMAND)?;
        let serve = self.serve.as_ref().filter(|_| matches.get_flag("print_config"))?;
        Some(print::settings_text(serve, matches, self.file.as_ref()))
    }
}

/// The arguments that are settings, each with its key in a settings file.
fn settings(serve: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let arguments = serve.get_arguments();
    let settings = arguments.filter(|argument| !NO_SETTINGS.contains(&argument.get_id().as_str()));
    settings.filter_map(|argument| Some((argument.get_long()?, argument)))
}

/// Whether a setting is a secret. Arguments of secrets hide the value of their variable.
fn is_secret(argument: &Arg) -> bool {
    argument.is_hide_env_values_set()
}

/// The environment variable of the setting with this key.
fn variable_name(key: &str) -> String {
    format!("KALENDS_{}", key.replace('-', "_").to_ascii_uppercase())
}
