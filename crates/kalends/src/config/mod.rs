//! The settings of `kalends serve`: from flags, the environment and a file, in that order.
//!
//! A setting is an argument of the command, whoever adds it: its key in the file is the name of its
//! flag. What the file says takes the place of the argument's default, so flags and the environment
//! go before it without anybody having to compare them.

mod file;
mod key;
#[cfg(test)]
mod page;
mod print;

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};

use crate::config::file::SettingsFile;

/// The command whose arguments are settings.
const COMMAND: &str = "serve";
/// Arguments of it that are about settings and are none themselves.
const NO_SETTINGS: [&str; 4] = ["config", "print_config", "help", "version"];

/// What was asked for, the file of settings included.
pub(crate) struct Asked {
    pub(crate) matches: ArgMatches,
    serve: Option<Command>,
    file: Option<SettingsFile>,
}

/// Reads the arguments of the process. Ends it where they are wrong, or ask for help.
pub(crate) fn asked(command: Command) -> anyhow::Result<Asked> {
    let matches = command.clone().get_matches();
    let serve = command.find_subcommand(COMMAND).cloned();
    let path = matches.subcommand_matches(COMMAND);
    let path = path.and_then(|serve| serve.get_one::<PathBuf>("config"));
    let (Some(path), Some(serve)) = (path, &serve) else {
        return Ok(Asked { matches, serve, file: None });
    };
    let file = SettingsFile::read(path, serve)?;
    let command = command.mut_subcommand(COMMAND, |serve| file.as_defaults(serve));
    Ok(Asked { matches: command.get_matches(), serve: Some(serve.clone()), file: Some(file) })
}

impl Asked {
    /// The settings that hold and where they come from, where that is what was asked for.
    pub(crate) fn settings_to_print(&self) -> Option<String> {
        let matches = self.matches.subcommand_matches(COMMAND)?;
        let serve = self.serve.as_ref().filter(|_| matches.get_flag("print_config"))?;
        Some(print::settings_text(serve, matches, self.file.as_ref()))
    }
}

/// The arguments that are settings, with the keys that they have in a file.
fn settings(serve: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let arguments = serve.get_arguments();
    let settings = arguments.filter(|argument| !NO_SETTINGS.contains(&argument.get_id().as_str()));
    settings.filter_map(|argument| Some((argument.get_long()?, argument)))
}

/// Whether a setting is a secret: it says so by hiding what its variable holds.
fn is_secret(argument: &Arg) -> bool {
    argument.is_hide_env_values_set()
}
