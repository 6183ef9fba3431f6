//! `--print-config`: the effective settings and the origin of each, as a settings file.

use std::fmt::Write as _;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use crate::config::file::SettingsFile;
use crate::config::value::{Kind, is_list};
use crate::config::{deprecated, is_secret, settings};

/// Replaces a secret.
const REDACTED: &str = "***";

fn values_of(argument: &Arg, matches: &ArgMatches) -> Vec<String> {
    let values = matches.get_raw(argument.get_id().as_str()).into_iter().flatten();
    values.map(|value| value.to_string_lossy().into_owned()).collect()
}

/// One line for each setting, followed by its origin as a comment.
pub(super) fn settings_text(
    serve: &Command,
    matches: &ArgMatches,
    file: Option<&SettingsFile>,
) -> String {
    let mut text = String::new();
    for (key, argument) in settings(serve) {
        let values = values_of(argument, matches);
        let from = origin(argument, matches, file);
        // Writing to a String does not fail.
        let _ = match values.as_slice() {
            [] => writeln!(text, "# {key} is not set"),
            _ if is_secret(argument) => writeln!(text, "# {key} is set by {from}"),
            values => writeln!(text, "{key} = {} # {from}", to_toml(argument, values)),
        };
    }
    text
}

fn origin(argument: &Arg, matches: &ArgMatches, file: Option<&SettingsFile>) -> String {
    let id = argument.get_id().as_str();
    match matches.value_source(id) {
        Some(ValueSource::CommandLine) => {
            format!("--{}", argument.get_long().unwrap_or_default())
        }
        Some(ValueSource::EnvVariable) => {
            argument.get_env().unwrap_or_default().to_string_lossy().into_owned()
        }
        _ => match (deprecated::variable(argument), file) {
            (Some((name, _)), _) => format!("{name} (deprecated)"),
            (None, Some(file)) => file.location(id).unwrap_or_else(|| "default".to_owned()),
            (None, None) => "default".to_owned(),
        },
    }
}

fn to_toml(argument: &Arg, values: &[String]) -> String {
    let one = |value: &String| match Kind::of(argument) {
        Kind::Text => quoted(&redact_password(value)),
        // Environment variables may use other words for false.
        Kind::Flag => {
            (!matches!(value.as_str(), "" | "0" | "f" | "false" | "n" | "no" | "off")).to_string()
        }
        Kind::Number => value.clone(),
    };
    let values: Vec<_> = values.iter().map(one).collect();
    match is_list(argument) {
        true => format!("[{}]", values.join(", ")),
        false => values.concat(),
    }
}

/// JSON quoting, which TOML accepts.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Replaces the password in a URL.
fn redact_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:{REDACTED}@{host}"),
            None => authority.to_owned(),
        },
        None => authority.to_owned(),
    };
    let path = match path.split_once("password=") {
        Some((before, after)) => {
            let after = after.split_once('&').map(|(_, after)| format!("&{after}"));
            format!("{before}password={REDACTED}{}", after.unwrap_or_default())
        }
        None => path.to_owned(),
    };
    format!("{scheme}://{authority}{path}")
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    #[test]
    fn passwords_in_urls_are_redacted() {
        for (text, expected) in [
            ("sqlite:a/b.db", "sqlite:a/b.db"),
            ("postgres://u@h/d", "postgres://u@h/d"),
            ("postgres://u:p@ss@h:1/d", "postgres://u:***@h:1/d"),
            ("postgres://h/d?user=u&password=x&a=b", "postgres://h/d?user=u&password=***&a=b"),
        ] {
            assert_eq!(redact_password(text), expected);
        }
    }

    #[test]
    fn settings_are_printed_with_their_origin_and_without_secrets() {
        let command = Command::new("serve").args([
            Arg::new("listen").long("listen").default_value("a\"b"),
            Arg::new("hold").long("hold").action(ArgAction::SetTrue),
            Arg::new("allow").long("egress-allow").action(ArgAction::Append),
            Arg::new("token").long("token").hide_env_values(true),
            Arg::new("none").long("none"),
        ]);
        let arguments = ["serve", "--hold", "--token", "s3cret", "--egress-allow=x"];
        let matches = command.clone().try_get_matches_from(arguments).unwrap();
        let expected = [
            "listen = \"a\\\"b\" # default",
            "hold = true # --hold",
            "egress-allow = [\"x\"] # --egress-allow",
            "# token is set by --token",
            "# none is not set",
            "",
        ];
        assert_eq!(settings_text(&command, &matches, None), expected.join("\n"));
    }
}
