//! Deprecated names of settings: the hidden aliases of their flags.

use std::ffi::OsString;

use clap::{Arg, Command};

use crate::config::variable_name;

/// Deprecated names of an argument, as flags without dashes.
pub(super) fn names(argument: &Arg) -> Vec<&str> {
    let visible = argument.get_visible_aliases().unwrap_or_default();
    let all = argument.get_all_aliases().unwrap_or_default();
    all.into_iter().filter(|name| !visible.contains(name)).collect()
}

/// The deprecated environment variable that supplies the value of an argument, and that value. The
/// current variable takes precedence.
pub(super) fn variable(argument: &Arg) -> Option<(String, OsString)> {
    let current = argument.get_env()?;
    if std::env::var_os(current).is_some() {
        return None;
    }
    let variables = names(argument).into_iter().map(variable_name);
    variables.filter_map(|name| Some((name.clone(), std::env::var_os(name)?))).next()
}

/// The command with the values of deprecated environment variables as defaults.
pub(super) fn apply_variables(command: Command) -> Command {
    let apply = |argument: Arg| match variable(&argument) {
        Some((_, value)) => argument.default_value(clap::builder::OsStr::from(value)),
        None => argument,
    };
    let subcommands: Vec<_> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    subcommands.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |subcommand| subcommand.mut_args(apply))
    })
}

/// A warning for each deprecated flag and environment variable in use.
pub(super) fn warnings(
    command: &Command,
    arguments: impl Iterator<Item = OsString>,
) -> Vec<String> {
    let given: Vec<_> = arguments.filter_map(|argument| argument.into_string().ok()).collect();
    let Some(subcommand) = given.get(1).and_then(|name| command.find_subcommand(name)) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    for argument in subcommand.get_arguments() {
        let current = argument.get_long().unwrap_or_default();
        for name in names(argument) {
            let flag = format!("--{name}");
            let is_flag = |given: &String| given.split('=').next() == Some(flag.as_str());
            if given.iter().any(is_flag) {
                warnings.push(warning(&flag, &format!("--{current}")));
            }
        }
        if let Some((name, _)) = variable(argument) {
            warnings.push(warning(&name, &variable_name(current)));
        }
    }
    warnings
}

pub(super) fn warning(name: &str, current: &str) -> String {
    format!("{name} is deprecated; use {current}")
}
