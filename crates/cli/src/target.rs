//! Selects the server and the token of a command.

use std::fs;
use std::path::{Path, PathBuf};

use kalends_actions::UserAgent;
use kalends_domain::{GroupName, Secret, SubscriptionId};
use url::Url;

use crate::context::{Context, ContextFile};
use crate::error::CliError;
use crate::resource_name::{DEFAULT_COLLECTION, check_collection};

const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";
/// Largest token file in bytes. Tokens of identity providers have some kilobytes.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// Selection of the server
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ServerArguments {
    /// Context to use [default: KALENDS_CONTEXT, else that of `kalends context use`]
    #[arg(long, value_name = "NAME", global = true, help_heading = "Server")]
    pub(crate) context: Option<String>,

    /// URL of the server [default: KALENDS_SERVER, else that of the context, else http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", global = true, help_heading = "Server")]
    pub(crate) server: Option<String>,

    /// File with the token [default: KALENDS_CLIENT_TOKEN, else the token of the context]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Server")]
    pub(crate) token_file: Option<PathBuf>,

    /// CA certificates in PEM that verify the server, in addition to those of the system
    #[arg(long, value_name = "FILE", global = true, help_heading = "Server")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Subscription and resource group [default: those of the short paths of the server]
    #[arg(long, value_name = "SUBSCRIPTION/GROUP", global = true, help_heading = "Server")]
    pub(crate) group: Option<String>,

    /// Send the token over plain HTTP to another machine, where others may read it
    #[arg(long, global = true, help_heading = "Server")]
    pub(crate) allow_plain_http: bool,
}

/// Environment variables of the client. `KALENDS_TOKEN` is not one of them: it is a setting of the
/// server and would create an owner if a server was started in the same shell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    pub(crate) server: Option<String>,
    pub(crate) token: Option<Secret>,
    pub(crate) context: Option<String>,
}

impl Variables {
    pub(crate) fn read() -> Variables {
        let read = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
        Variables {
            server: read("KALENDS_SERVER"),
            token: read("KALENDS_CLIENT_TOKEN").map(|text| Secret::new(text.trim().to_owned())),
            context: read("KALENDS_CONTEXT"),
        }
    }
}

/// The server of a command.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) token: Option<Secret>,
    pub(crate) ca_file: Option<PathBuf>,
    /// The collection of jobs that are named without one.
    pub(crate) collection: String,
    /// Subscription and resource group; the default ones of the server if absent.
    pub(crate) group: Option<(String, String)>,
}

impl Target {
    /// Selects the server: `--server`, `--context`, `KALENDS_SERVER`, `KALENDS_CONTEXT`, the current
    /// context, or the default, whichever is given first.
    ///
    /// A token is sent only to the server that it was given for: that of a context to the server of the
    /// context, and `KALENDS_CLIENT_TOKEN` to `KALENDS_SERVER` if that is set.
    pub(crate) fn select(
        arguments: &ServerArguments,
        variables: &Variables,
        file: &ContextFile,
    ) -> Result<Target, CliError> {
        let by_flag = arguments.context.as_deref().map(|name| file.get(name)).transpose()?;
        let context = match (by_flag, &arguments.server, &variables.server) {
            (Some(context), _, _) => Some(context),
            (None, Some(_), _) | (None, None, Some(_)) => None,
            (None, None, None) => {
                let name = variables.context.as_ref().or(file.current.as_ref());
                name.map(|name| file.get(name)).transpose()?
            }
        };
        let server = match (&arguments.server, context, &variables.server) {
            (Some(server), _, _) => server,
            (None, Some(context), _) => &context.server,
            (None, None, Some(server)) => server,
            (None, None, None) => DEFAULT_SERVER,
        };
        let url = parse_server(server)?;
        let is_of = |server: &str| parse_server(server).is_ok_and(|other| other == url);
        let context = context.filter(|context| is_of(&context.server));
        let token = match (&arguments.token_file, context.map(token_of).transpose()?.flatten()) {
            (Some(path), _) => Some(read_token(path)?),
            (None, Some(token)) => Some(token),
            (None, None) => {
                let is_for_server = variables.server.as_deref().is_none_or(is_of);
                variables.token.clone().filter(|_| is_for_server)
            }
        };
        let is_allowed = arguments.allow_plain_http
            || context.is_some_and(|context| context.allow_plain_http)
            || UserAgent::is_loopback(&url);
        if token.is_some() && url.scheme() == "http" && !is_allowed {
            return Err(CliError::usage(format!(
                "the token was not sent to {server}: plain HTTP can be read on the way; use https, \
                 or --allow-plain-http on a network that you trust"
            )));
        }
        let of_context = |member: fn(&Context) -> Option<String>| context.and_then(member);
        let ca_file = arguments.ca_file.clone();
        let group = arguments.group.clone().or_else(|| of_context(|context| context.group.clone()));
        let collection = of_context(|context| context.collection.clone());
        Ok(Target {
            url,
            token,
            ca_file: ca_file.or_else(|| context.and_then(|context| context.ca_file.clone())),
            collection: match collection {
                Some(name) => check_collection(&name)?,
                None => DEFAULT_COLLECTION.to_owned(),
            },
            group: group.as_deref().map(parse_group).transpose()?,
        })
    }
}

/// Parses the URL of a server.
pub(crate) fn parse_server(text: &str) -> Result<Url, CliError> {
    let url = Url::parse(text).ok().filter(|url| {
        let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
        let is_plain = url.username().is_empty() && url.password().is_none();
        is_http
            && is_plain
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
    });
    url.ok_or_else(|| {
        CliError::usage(format!(
            "the server must be http://HOST:PORT or https://HOST without user, path or query (found {text:?})"
        ))
    })
}

fn parse_group(text: &str) -> Result<(String, String), CliError> {
    let group = text.split_once('/').filter(|(subscription, group)| {
        SubscriptionId::new(subscription).is_ok() && GroupName::new(group).is_ok()
    });
    let group = group.map(|(subscription, group)| (subscription.to_owned(), group.to_owned()));
    group.ok_or_else(|| {
        CliError::usage(format!(
            "--group must be SUBSCRIPTION/GROUP, a GUID and a name (found {text:?})"
        ))
    })
}

fn token_of(context: &Context) -> Result<Option<Secret>, CliError> {
    match (&context.token, &context.token_file) {
        (Some(token), _) => Ok(Some(token.clone())),
        (None, Some(path)) => read_token(path).map(Some),
        (None, None) => Ok(None),
    }
}

/// Reads a file that contains a token and nothing else.
pub(crate) fn read_token(path: &Path) -> Result<Secret, CliError> {
    let length = fs::metadata(path).map_err(CliError::file(path))?.len();
    if length > TOKEN_BYTES_MAX {
        let shown = path.display();
        return Err(CliError::usage(format!("{shown} has {length} bytes, which is no token")));
    }
    let text = fs::read_to_string(path).map_err(CliError::file(path))?;
    parse_token(&text).ok_or_else(|| {
        let shown = path.display();
        CliError::usage(format!(
            "{shown} does not contain a token: one line of printable characters"
        ))
    })
}

/// A token: one word of printable ASCII.
pub(crate) fn parse_token(text: &str) -> Option<Secret> {
    let text = text.trim();
    let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_token.then(|| Secret::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(server: &str, token: &str) -> Variables {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Variables { server: some(server), token: some(token).map(Secret::new), context: None }
    }

    fn file() -> ContextFile {
        let context = |server: &str, token: Option<&str>| Context {
            server: server.into(),
            token: token.map(|token| Secret::new(token.into())),
            ..Context::default()
        };
        let contexts = [
            ("prod".to_owned(), context("https://prod.example", Some("of-prod"))),
            ("open".to_owned(), context("https://open.example", None)),
            ("lab".to_owned(), context("http://lab.example", Some("of-lab"))),
        ];
        ContextFile { current: Some("prod".into()), contexts: contexts.into() }
    }

    fn check(arguments: ServerArguments, variables: &Variables, expected: (&str, Option<&str>)) {
        let target = Target::select(&arguments, variables, &file()).unwrap();
        let token = target.token.as_ref().map(Secret::reveal);
        assert_eq!((target.url.as_str(), token), expected, "{arguments:?}");
    }

    fn server(url: &str) -> ServerArguments {
        ServerArguments { server: Some(url.into()), ..ServerArguments::default() }
    }

    fn context(name: &str) -> ServerArguments {
        ServerArguments { context: Some(name.into()), ..ServerArguments::default() }
    }

    #[test]
    fn flags_precede_variables_and_variables_the_current_context() {
        let none = ServerArguments::default();
        check(none.clone(), &Variables::default(), ("https://prod.example/", Some("of-prod")));
        let both = variables("https://ci.example", "of-ci");
        check(none.clone(), &both, ("https://ci.example/", Some("of-ci")));
        check(context("prod"), &both, ("https://prod.example/", Some("of-prod")));
        let named = Variables { context: Some("open".into()), ..Variables::default() };
        check(none.clone(), &named, ("https://open.example/", None));
        let empty = Target::select(&none, &Variables::default(), &ContextFile::default()).unwrap();
        assert_eq!(empty.url.as_str(), "http://127.0.0.1:8080/");
        assert_eq!(empty.collection, "default");
    }

    #[test]
    fn a_token_is_sent_only_to_the_server_it_was_given_for() {
        let both = variables("https://ci.example", "of-ci");
        check(
            server("https://other.example"),
            &Variables::default(),
            ("https://other.example/", None),
        );
        check(server("https://other.example"), &both, ("https://other.example/", None));
        check(server("https://ci.example/"), &both, ("https://ci.example/", Some("of-ci")));
        check(context("open"), &both, ("https://open.example/", None));
        check(context("open"), &variables("", "mine"), ("https://open.example/", Some("mine")));
        let other =
            ServerArguments { server: Some("https://other.example".into()), ..context("prod") };
        check(other, &Variables::default(), ("https://other.example/", None));
    }

    #[test]
    fn a_token_is_not_sent_over_plain_http_to_another_machine() {
        let refused = |arguments: &ServerArguments, variables: &Variables| {
            let error = Target::select(arguments, variables, &file()).unwrap_err().to_string();
            assert!(error.contains("plain HTTP") && !error.contains("of-lab"), "{error}");
        };
        refused(&context("lab"), &Variables::default());
        refused(&server("http://10.0.0.1:8080"), &variables("", "mine"));
        refused(&server("http://127.0.0.1.example"), &variables("", "mine"));
        let allowed = ServerArguments { allow_plain_http: true, ..context("lab") };
        check(allowed, &Variables::default(), ("http://lab.example/", Some("of-lab")));
        for local in ["http://127.0.0.1:8080/", "http://localhost/", "http://[::1]:1/"] {
            check(server(local), &variables("", "mine"), (local, Some("mine")));
        }
        check(server("http://10.0.0.1/"), &Variables::default(), ("http://10.0.0.1/", None));
    }

    #[test]
    fn a_server_is_a_url_without_user_path_and_query() {
        for text in
            ["localhost:8080", "ftp://x/", "https://u:p@x/", "https://x/api", "https://x/?a=b", ""]
        {
            assert!(parse_server(text).is_err(), "{text}");
        }
    }
}
