//! The settings file, in TOML.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Arg, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::{deprecated, is_secret, settings, value};

/// Largest settings file in bytes: room for all settings and for lists of thousands of addresses.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Suffix of the key that names the file of a secret.
const SECRET_FILE: &str = "-file";

/// The validated contents of a settings file.
pub(super) struct SettingsFile {
    path: PathBuf,
    /// By the id of the argument.
    values: BTreeMap<String, Setting>,
    warnings: Vec<String>,
}

/// Every error in a settings file, each with file and line.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n       "))]
pub(super) struct SettingsFileErrors(Vec<String>);

struct Setting {
    values: Vec<String>,
    line: usize,
}

impl SettingsFile {
    /// Reads and validates a settings file. The error lists everything that is wrong with it.
    pub(super) fn read(path: &Path, serve: &Command) -> anyhow::Result<SettingsFile> {
        let shown = path.display();
        let length = std::fs::metadata(path).with_context(|| format!("{shown}"))?.len();
        if length > FILE_BYTES_MAX {
            bail!("{shown} has {length} bytes; a settings file has at most {FILE_BYTES_MAX}");
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("{shown}"))?;
        Ok(SettingsFile::parse(path, &text, serve)?)
    }

    fn parse(path: &Path, text: &str, serve: &Command) -> Result<SettingsFile, SettingsFileErrors> {
        let shown = path.display();
        let line = |at: usize| text.get(..at).unwrap_or(text).matches('\n').count() + 1;
        let table = DeTable::parse(text).map_err(|error| {
            let line = line(error.span().map_or(0, |span| span.start));
            let message = error.message().replace('\n', ", ");
            SettingsFileErrors(vec![format!("{shown}:{line}: {message}")])
        })?;
        let mut values: BTreeMap<String, Setting> = BTreeMap::new();
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        for (key, at, value) in flatten(table.get_ref()) {
            let line = line(at);
            let with_line = |message: String| format!("{shown}:{line}: {key}: {message}");
            match read_setting(serve, &key, value) {
                Ok((argument, given)) => {
                    let id = argument.get_id().to_string();
                    let setting = Setting { values: given, line };
                    if let Some(first) = values.insert(id, setting) {
                        errors.push(with_line(format!("already set on line {}", first.line)));
                    }
                    if deprecated::names(argument).contains(&key.as_str()) {
                        let current = argument.get_long().unwrap_or_default();
                        let warning = deprecated::warning(&key, current);
                        warnings.push(format!("{shown}:{line}: {warning}"));
                    }
                }
                Err(error) => errors.push(with_line(format!("{error:#}"))),
            }
        }
        match errors.is_empty() {
            true => Ok(SettingsFile { path: path.to_owned(), values, warnings }),
            false => Err(SettingsFileErrors(errors)),
        }
    }

    /// A warning for each deprecated key.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.warnings.iter().cloned()
    }

    /// The command with the values of the file as defaults.
    pub(super) fn apply_as_defaults(&self, serve: Command) -> Command {
        serve.mut_args(|argument| match self.values.get(argument.get_id().as_str()) {
            Some(setting) => argument.default_values(setting.values.clone()),
            None => argument,
        })
    }

    /// The file and line that set an argument, as `FILE:LINE`.
    pub(super) fn location(&self, argument: &str) -> Option<String> {
        let setting = self.values.get(argument)?;
        Some(format!("{}:{}", self.path.display(), setting.line))
    }
}

/// The argument that a key sets, and its values.
fn read_setting<'a>(
    serve: &'a Command,
    key: &str,
    value: &DeValue<'_>,
) -> anyhow::Result<(&'a Arg, Vec<String>)> {
    let named = |name: &str| {
        let is_named = |(key, argument): &(&str, &Arg)| {
            *key == name || deprecated::names(argument).contains(&name)
        };
        settings(serve).find(is_named).map(|(_, argument)| argument)
    };
    if let Some(argument) = named(key) {
        if is_secret(argument) {
            let variable = argument.get_env().unwrap_or_default().display();
            bail!(
                "secrets are not allowed in this file; use {key}{SECRET_FILE} = \"PATH\" or the \
                 environment variable {variable}"
            );
        }
        return Ok((argument, value::texts(argument, value)?));
    }
    let secret = key.strip_suffix(SECRET_FILE).and_then(named).filter(|found| is_secret(found));
    if let (Some(argument), DeValue::String(path)) = (secret, value) {
        return Ok((argument, vec![read_secret(argument, path)?]));
    }
    match value::most_similar(key, settings(serve).map(|(key, _)| key)) {
        Some(similar) => bail!("unknown setting; did you mean {similar}?"),
        None => bail!("unknown setting; see kalends serve --help"),
    }
}

/// Reads a secret from a file that contains nothing else. Errors never contain the secret.
fn read_secret(argument: &Arg, path: &str) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
    let secret = text.trim();
    match value::check(argument, secret) {
        Ok(()) => Ok(secret.to_owned()),
        // The cause may quote the value.
        Err(_) => bail!("{path} does not contain a valid value"),
    }
}

/// All keys of a table with their offsets in the file; keys of nested tables get the name of their
/// table as a prefix. The parser bounds the nesting.
fn flatten<'a>(table: &'a DeTable<'a>) -> Vec<(String, usize, &'a DeValue<'a>)> {
    let mut found = Vec::new();
    for (key, value) in table {
        match value.get_ref() {
            DeValue::Table(inner) => found.extend(
                flatten(inner)
                    .into_iter()
                    .map(|(name, at, value)| (format!("{}-{name}", key.get_ref()), at, value)),
            ),
            plain => found.push((key.get_ref().to_string(), Spanned::span(key).start, plain)),
        }
    }
    found.sort_by_key(|(_, at, _)| *at);
    found
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    fn command() -> Command {
        Command::new("serve").args([
            Arg::new("listen").long("listen").env("KALENDS_TEST_NEVER_SET").default_value("here"),
            Arg::new("hold").long("hold").action(ArgAction::SetTrue),
            Arg::new("egress_allow").long("egress-allow").action(ArgAction::Append),
            Arg::new("workers")
                .long("workers")
                .value_parser(clap::value_parser!(u16).range(1..=64)),
            Arg::new("log").long("log-format").value_parser(["text", "json"]),
            Arg::new("token").long("token").env("TOKEN").hide_env_values(true),
            Arg::new("keys").long("key-version").alias("epoch"),
            Arg::new("config").long("config"),
        ])
    }

    fn check(text: &str, arguments: &[&str], id: &str, expected: &[&str]) {
        let file = SettingsFile::parse(Path::new("k.toml"), text, &command())
            .unwrap_or_else(|errors| panic!("{errors}"));
        let arguments = ["serve"].iter().chain(arguments);
        let matches = file.apply_as_defaults(command()).try_get_matches_from(arguments).unwrap();
        let values = matches.get_raw(id).into_iter().flatten();
        let values: Vec<_> = values.map(|value| value.to_str().unwrap()).collect();
        assert_eq!(values, expected, "{text}");
    }

    fn check_refused(text: &str, expected: &[&str]) {
        let parsed = SettingsFile::parse(Path::new("k.toml"), text, &command());
        assert_eq!(parsed.err().unwrap().0, expected, "{text}");
    }

    #[test]
    fn keys_are_the_names_of_flags() {
        check("listen = 'there'", &[], "listen", &["there"]);
        check("workers = 0x10", &[], "workers", &["16"]);
        check("hold = true", &[], "hold", &["true"]);
        check("hold = false", &["--hold"], "hold", &["true"]);
        check("egress-allow = ['a', 'b']", &[], "egress_allow", &["a", "b"]);
        check("egress-allow = 'a'", &[], "egress_allow", &["a"]);
        check("[egress]\nallow = ['a']", &[], "egress_allow", &["a"]);
        check("egress.allow = ['a']", &[], "egress_allow", &["a"]);
    }

    #[test]
    fn a_deprecated_key_sets_its_setting_and_gives_a_warning() {
        check("epoch = '2'", &[], "keys", &["2"]);
        check("key-version = '2'", &[], "keys", &["2"]);
        let warnings = |text| {
            let file = SettingsFile::parse(Path::new("k.toml"), text, &command()).unwrap();
            file.warnings().collect::<Vec<_>>()
        };
        assert_eq!(warnings("\nepoch = '2'"), ["k.toml:2: epoch is deprecated; use key-version"]);
        assert_eq!(warnings("key-version = '2'"), [""; 0]);
        check_refused(
            "key-version = '2'\nepoch = '3'",
            &["k.toml:2: epoch: already set on line 1"],
        );
    }

    #[test]
    fn flags_take_precedence_over_the_file_and_the_file_over_defaults() {
        check("", &[], "listen", &["here"]);
        check("listen = 'there'", &["--listen", "flag"], "listen", &["flag"]);
        check("egress-allow = ['a', 'b']", &["--egress-allow", "c"], "egress_allow", &["c"]);
    }

    #[test]
    fn all_errors_are_reported_with_their_lines() {
        check_refused("\nlisen = 'x'", &["k.toml:2: lisen: unknown setting; did you mean listen?"]);
        check_refused(
            "egress_allow = 'x'",
            &["k.toml:1: egress_allow: unknown setting; did you mean egress-allow?"],
        );
        check_refused("zzz = 1", &["k.toml:1: zzz: unknown setting; see kalends serve --help"]);
        check_refused(
            "config = 'x'",
            &["k.toml:1: config: unknown setting; see kalends serve --help"],
        );
        check_refused(
            "hold = 'yes'\nworkers = '5'\nlisten = ['a']",
            &[
                "k.toml:1: hold: must be true or false (found a string)",
                "k.toml:2: workers: must be a number (found a string)",
                "k.toml:3: listen: must be a string (found an array)",
            ],
        );
        check_refused(
            "[egress]\nallow = [1]",
            &["k.toml:2: egress-allow: must be a string or an array of them (found an integer)"],
        );
        check_refused("workers = 65", &["k.toml:1: workers: 65 is not in 1..=64"]);
        check_refused("log-format = 'xml'", &["k.toml:1: log-format: must be one of text, json"]);
        check_refused(
            "egress-allow = 'a'\n[egress]\nallow = 'b'",
            &["k.toml:3: egress-allow: already set on line 1"],
        );
        let broken = SettingsFile::parse(Path::new("k.toml"), "listen = \n", &command());
        assert!(broken.err().unwrap().0[0].starts_with("k.toml:1: "));
    }

    #[test]
    fn secrets_are_accepted_only_in_their_own_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "s3cret\n").unwrap();
        check(&format!("token-file = '{}'", path.display()), &[], "token", &["s3cret"]);
        check_refused(
            "token = 's3cret'",
            &[
                "k.toml:1: token: secrets are not allowed in this file; use token-file = \"PATH\" or the environment variable TOKEN",
            ],
        );
        check_refused(
            "token-file = '/nowhere'",
            &["k.toml:1: token-file: /nowhere: No such file or directory (os error 2)"],
        );
    }
}
