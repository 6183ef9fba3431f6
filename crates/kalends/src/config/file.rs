//! The file of settings, in TOML.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Arg, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::{is_secret, key, settings};

/// Bytes of the file. There are some dozens of settings, and lists of some hundred addresses.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// A key that ends so names the file in which a secret stands.
const SECRET_FILE: &str = "-file";

/// What a file says, checked.
pub(super) struct SettingsFile {
    path: PathBuf,
    /// By the argument's name.
    values: BTreeMap<String, Setting>,
}

struct Setting {
    values: Vec<String>,
    line: usize,
}

impl SettingsFile {
    /// Reads a file. All that is wrong with it is told at once.
    pub(super) fn read(path: &Path, serve: &Command) -> anyhow::Result<SettingsFile> {
        let shown = path.display();
        let length = std::fs::metadata(path).with_context(|| format!("{shown}"))?.len();
        if length > FILE_BYTES_MAX {
            bail!("{shown} has {length} bytes; a file of settings has {FILE_BYTES_MAX} at most");
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("{shown}"))?;
        let read = SettingsFile::parse(path, &text, serve);
        read.map_err(|mistakes| anyhow::anyhow!("{}", mistakes.join("\n       ")))
    }

    fn parse(path: &Path, text: &str, serve: &Command) -> Result<SettingsFile, Vec<String>> {
        let shown = path.display();
        let line = |at: usize| text.get(..at).unwrap_or(text).matches('\n').count() + 1;
        let table = DeTable::parse(text).map_err(|error| {
            let line = line(error.span().map_or(0, |span| span.start));
            vec![format!("{shown}:{line}: {}", error.message().replace('\n', ", "))]
        })?;
        let mut values: BTreeMap<String, Setting> = BTreeMap::new();
        let mut mistakes = Vec::new();
        for (key, at, value) in flat(table.get_ref()) {
            let line = line(at);
            let mistake = |what: String| format!("{shown}:{line}: {key}: {what}");
            match setting(serve, &key, value) {
                Ok((argument, given)) => {
                    let id = argument.get_id().to_string();
                    let setting = Setting { values: given, line };
                    if let Some(first) = values.insert(id, setting) {
                        mistakes.push(mistake(format!("it is on line {} already", first.line)));
                    }
                }
                Err(what) => mistakes.push(mistake(what)),
            }
        }
        match mistakes.is_empty() {
            true => Ok(SettingsFile { path: path.to_owned(), values }),
            false => Err(mistakes),
        }
    }

    /// The command with what the file says in the place of its defaults.
    pub(super) fn as_defaults(&self, serve: Command) -> Command {
        serve.mut_args(|argument| match self.values.get(argument.get_id().as_str()) {
            Some(setting) => argument.default_values(setting.values.clone()),
            None => argument,
        })
    }

    /// Where the file says something about an argument.
    pub(super) fn place(&self, argument: &str) -> Option<String> {
        let setting = self.values.get(argument)?;
        Some(format!("{}:{}", self.path.display(), setting.line))
    }
}

/// The setting that a key means, and its values.
fn setting<'a>(
    serve: &'a Command,
    key: &str,
    value: &DeValue<'_>,
) -> Result<(&'a Arg, Vec<String>), String> {
    let named = |name: &str| settings(serve).find(|(key, _)| *key == name).map(|found| found.1);
    if let Some(argument) = named(key) {
        if is_secret(argument) {
            let variable = argument.get_env().unwrap_or_default().display();
            let other = format!("{key}{SECRET_FILE} = \"PATH\", or the variable {variable}");
            return Err(format!("a secret does not belong into this file; use {other}"));
        }
        return Ok((argument, key::values(argument, value)?));
    }
    let secret = key.strip_suffix(SECRET_FILE).and_then(named).filter(|found| is_secret(found));
    if let (Some(argument), DeValue::String(path)) = (secret, value) {
        return Ok((argument, vec![read_secret(argument, path)?]));
    }
    let keys = settings(serve).map(|(key, _)| key);
    Err(match key::nearest(key, keys) {
        Some(nearest) => format!("there is no such setting; did you mean {nearest}?"),
        None => "there is no such setting; kalends serve --help names all".to_owned(),
    })
}

/// A secret that stands in a file of its own, alone; what is wrong with it never shows it.
fn read_secret(argument: &Arg, path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let secret = text.trim();
    key::check(argument, secret).map_err(|_| format!("{path} holds nothing that is allowed"))?;
    Ok(secret.to_owned())
}

/// The keys of a table with those of the tables in it, whose names go before theirs, and where
/// they stand. How deep tables nest is bounded by the parser.
fn flat<'a>(table: &'a DeTable<'a>) -> Vec<(String, usize, &'a DeValue<'a>)> {
    let mut found = Vec::new();
    for (key, value) in table {
        match value.get_ref() {
            DeValue::Table(inner) => found.extend(
                flat(inner)
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
            Arg::new("config").long("config"),
        ])
    }

    fn check(text: &str, arguments: &[&str], id: &str, expected: &[&str]) {
        let file = SettingsFile::parse(Path::new("k.toml"), text, &command())
            .unwrap_or_else(|e| panic!("{e:?}"));
        let arguments = ["serve"].iter().chain(arguments);
        let matches = file.as_defaults(command()).try_get_matches_from(arguments).unwrap();
        let values = matches.get_raw(id).into_iter().flatten();
        let values: Vec<_> = values.map(|value| value.to_str().unwrap()).collect();
        assert_eq!(values, expected, "{text}");
    }

    fn refused(text: &str, expected: &[&str]) {
        let parsed = SettingsFile::parse(Path::new("k.toml"), text, &command());
        assert_eq!(parsed.err().unwrap_or_default(), expected, "{text}");
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
    fn a_flag_goes_before_the_file_and_the_file_before_the_default() {
        check("", &[], "listen", &["here"]);
        check("listen = 'there'", &["--listen", "flag"], "listen", &["flag"]);
        check("egress-allow = ['a', 'b']", &["--egress-allow", "c"], "egress_allow", &["c"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_all_at_once() {
        refused(
            "\nlisen = 'x'",
            &["k.toml:2: lisen: there is no such setting; did you mean listen?"],
        );
        refused(
            "egress_allow = 'x'",
            &["k.toml:1: egress_allow: there is no such setting; did you mean egress-allow?"],
        );
        refused(
            "zzz = 1",
            &["k.toml:1: zzz: there is no such setting; kalends serve --help names all"],
        );
        refused(
            "config = 'x'",
            &["k.toml:1: config: there is no such setting; kalends serve --help names all"],
        );
        refused(
            "hold = 'yes'\nworkers = '5'\nlisten = ['a']",
            &[
                "k.toml:1: hold: expected true or false; this is of type string",
                "k.toml:2: workers: expected a number; this is of type string",
                "k.toml:3: listen: expected a text in quotes; this is of type array",
            ],
        );
        refused(
            "[egress]\nallow = [1]",
            &[
                "k.toml:2: egress-allow: expected a text in quotes, or a list of such; this is of type integer",
            ],
        );
        refused("workers = 65", &["k.toml:1: workers: 65 is not in 1..=64"]);
        refused("log-format = 'xml'", &["k.toml:1: log-format: allowed are text, json"]);
        refused(
            "egress-allow = 'a'\n[egress]\nallow = 'b'",
            &["k.toml:3: egress-allow: it is on line 1 already"],
        );
        let broken = SettingsFile::parse(Path::new("k.toml"), "listen = \n", &command());
        assert!(broken.err().unwrap()[0].starts_with("k.toml:1: "));
    }

    #[test]
    fn a_secret_is_read_from_a_file_of_its_own_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "s3cret\n").unwrap();
        check(&format!("token-file = '{}'", path.display()), &[], "token", &["s3cret"]);
        refused(
            "token = 's3cret'",
            &[
                "k.toml:1: token: a secret does not belong into this file; use token-file = \"PATH\", or the variable TOKEN",
            ],
        );
        refused(
            "token-file = '/nowhere'",
            &["k.toml:1: token-file: /nowhere: No such file or directory (os error 2)"],
        );
    }
}
