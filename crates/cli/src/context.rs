//! Contexts: named servers with their tokens, in `~/.config/kalends/config.toml`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use kalends_domain::Secret;
use toml::de::{DeTable, DeValue};

use crate::error::CliError;

/// A server and how to call it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context {
    /// The URL of the server.
    pub(crate) server: String,
    /// The token itself.
    pub(crate) token: Option<Secret>,
    /// A file that contains the token.
    pub(crate) token_file: Option<PathBuf>,
    /// CA certificates in PEM that verify the server, in addition to those of the system.
    pub(crate) ca_file: Option<PathBuf>,
    /// The collection of jobs that are named without one.
    pub(crate) collection: Option<String>,
    /// Subscription and resource group, as `SUBSCRIPTION/GROUP`.
    pub(crate) group: Option<String>,
    /// Whether the token may be sent over plain HTTP to another machine.
    pub(crate) allow_plain_http: bool,
}

/// The configuration file of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContextFile {
    pub(crate) current: Option<String>,
    pub(crate) contexts: BTreeMap<String, Context>,
}

const CURRENT: &str = "current-context";
const CONTEXTS: &str = "contexts";

impl ContextFile {
    /// The path: `$XDG_CONFIG_HOME/kalends/config.toml`, by default below `~/.config`.
    pub(crate) fn default_path() -> Option<PathBuf> {
        let folder = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
        Some(config.join("kalends").join("config.toml"))
    }

    /// Reads the file. A file that does not exist has no contexts.
    pub(crate) fn read(path: &Path) -> Result<ContextFile, CliError> {
        match fs::read_to_string(path) {
            Ok(text) => {
                let file = ContextFile::parse(path, &text)?;
                file.warn_if_readable_by_others(path);
                Ok(file)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(ContextFile::default())
            }
            Err(error) => Err(CliError::file(path)(error)),
        }
    }

    fn parse(path: &Path, text: &str) -> Result<ContextFile, CliError> {
        let shown = path.display();
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.get(..at).unwrap_or(text).matches('\n').count() + 1;
            // The message of the parser may quote the line, and that a token.
            let message = error.message().lines().next().unwrap_or_default().to_owned();
            CliError::usage(format!("{shown}:{line}: {message}"))
        })?;
        let mut file = ContextFile::default();
        for (key, value) in table.get_ref() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                (CURRENT, DeValue::String(name)) => file.current = Some(name.to_string()),
                (CONTEXTS, DeValue::Table(contexts)) => {
                    for (name, context) in contexts {
                        let name = name.get_ref();
                        let context = read_context(context.get_ref()).map_err(|problem| {
                            CliError::usage(format!("{shown}: {CONTEXTS}.{name}{problem}"))
                        })?;
                        file.contexts.insert(name.to_string(), context);
                    }
                }
                (key, _) => {
                    return Err(CliError::usage(format!(
                        "{shown}: {key} is unknown or has the wrong type; the keys are {CURRENT} and {CONTEXTS}"
                    )));
                }
            }
        }
        Ok(file)
    }

    /// The context with this name.
    pub(crate) fn get(&self, name: &str) -> Result<&Context, CliError> {
        self.contexts.get(name).ok_or_else(|| {
            let known: Vec<_> = self.contexts.keys().map(String::as_str).collect();
            let known = match known.as_slice() {
                [] => "there is none; `kalends context create` creates one".to_owned(),
                names => format!("the contexts are {}", names.join(", ")),
            };
            CliError::usage(format!("there is no context {name:?}; {known}"))
        })
    }

    /// Replaces the file. Only its owner can read it.
    pub(crate) fn write(&self, path: &Path) -> Result<(), CliError> {
        let error = || CliError::file(path);
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut directory = fs::DirBuilder::new();
        directory.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut directory, 0o700);
        directory.create(folder).map_err(error())?;
        let temporary = path.with_extension("toml.new");
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // Left behind by a process that was killed.
        let _ = fs::remove_file(&temporary);
        let mut file = options.open(&temporary).map_err(error())?;
        file.write_all(self.to_toml().as_bytes()).map_err(error())?;
        file.sync_all().map_err(error())?;
        fs::rename(&temporary, path).map_err(error())
    }

    fn to_toml(&self) -> String {
        let mut text =
            "# Contexts of the Kalends command line; see `kalends context --help`.\n".to_owned();
        // Writing to a String does not fail.
        if let Some(current) = &self.current {
            let _ = writeln!(text, "{CURRENT} = {}", quoted(current));
        }
        for (name, context) in &self.contexts {
            let path =
                |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
            let members = [
                ("server", Some(context.server.clone())),
                ("token", context.token.as_ref().map(|token| token.reveal().to_owned())),
                ("token-file", path(&context.token_file)),
                ("ca-file", path(&context.ca_file)),
                ("collection", context.collection.clone()),
                ("group", context.group.clone()),
            ];
            let _ = writeln!(text, "\n[{CONTEXTS}.{}]", quoted(name));
            for (key, value) in members {
                if let Some(value) = value {
                    let _ = writeln!(text, "{key} = {}", quoted(&value));
                }
            }
            if context.allow_plain_http {
                let _ = writeln!(text, "allow-plain-http = true");
            }
        }
        text
    }

    #[cfg(unix)]
    fn warn_if_readable_by_others(&self, path: &Path) {
        use std::os::unix::fs::PermissionsExt as _;
        let has_token = self.contexts.values().any(|context| context.token.is_some());
        let mode = fs::metadata(path).map_or(0, |data| data.permissions().mode());
        if has_token && mode & 0o077 != 0 {
            let shown = path.display();
            let _ = writeln!(
                std::io::stderr(),
                "warning: other users can read the tokens in {shown}; run: chmod 600 {shown}"
            );
        }
    }

    #[cfg(not(unix))]
    fn warn_if_readable_by_others(&self, _: &Path) {}
}

/// Reads a context. The error is the rest of a sentence that begins with the context.
fn read_context(value: &DeValue<'_>) -> Result<Context, &'static str> {
    let DeValue::Table(members) = value else { return Err(" must be a table") };
    let mut context = Context::default();
    for (key, value) in members {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("server", DeValue::String(text)) => context.server = text.to_string(),
            ("token", DeValue::String(text)) => context.token = Some(Secret::new(text.to_string())),
            ("token-file", DeValue::String(text)) => {
                context.token_file = Some(PathBuf::from(text.as_ref()));
            }
            ("ca-file", DeValue::String(text)) => {
                context.ca_file = Some(PathBuf::from(text.as_ref()));
            }
            ("collection", DeValue::String(text)) => context.collection = Some(text.to_string()),
            ("group", DeValue::String(text)) => context.group = Some(text.to_string()),
            ("allow-plain-http", DeValue::Boolean(allowed)) => context.allow_plain_http = *allowed,
            _ => {
                return Err(
                    " has an unknown key or a value of the wrong type; the keys are server, token, \
                     token-file, ca-file, collection, group and allow-plain-http",
                );
            }
        }
    }
    match context.server.is_empty() {
        true => Err(".server is missing"),
        false => Ok(context),
    }
}

/// JSON quoting, which TOML accepts.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> ContextFile {
        let prod = Context {
            server: "https://kalends.example.com".into(),
            token: Some(Secret::new("kal_1_s3cret".into())),
            collection: Some("web".into()),
            ..Context::default()
        };
        let lab = Context {
            server: "http://lab:8080".into(),
            token_file: Some("/run/token \"1\"".into()),
            ca_file: Some("/etc/ca.pem".into()),
            group: Some("6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg".into()),
            allow_plain_http: true,
            ..Context::default()
        };
        let contexts = [("prod".to_owned(), prod), ("my lab".to_owned(), lab)].into();
        ContextFile { current: Some("prod".into()), contexts }
    }

    #[test]
    fn a_written_file_reads_the_same_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kalends/config.toml");
        for _ in 0..2 {
            file().write(&path).unwrap();
            assert_eq!(ContextFile::read(&path).unwrap(), file());
        }
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn errors_name_the_file_and_never_a_token() {
        let path = Path::new("/c/config.toml");
        for (text, expected) in [
            ("token = 's3cret'", "/c/config.toml: token is unknown"),
            ("[contexts.a]\ntoken = 's3cret'", "/c/config.toml: contexts.a.server is missing"),
            ("[contexts.a]\nserver = 'x'\ntokn = 's3cret'", "contexts.a has an unknown key"),
            ("[contexts.a]\ntoken = 's3cret", "/c/config.toml:2: "),
        ] {
            let error = ContextFile::parse(path, text).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{text}: {error}");
        }
        let error = file().get("produ").unwrap_err().to_string();
        assert_eq!(error, "there is no context \"produ\"; the contexts are my lab, prod");
        assert!(!format!("{:?}", file()).contains("s3cret"));
    }
}
