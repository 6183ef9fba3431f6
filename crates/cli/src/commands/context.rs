//! `kalends context`: servers that the user knows by name.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Subcommand;
use kalends_environment::Clock;
use kalends_wire::Json;

use crate::context::{Context, ContextFile};
use crate::error::CliError;
use crate::json::{JsonMembers as _, object, or_null};
use crate::output::{Cell, Column, Output, OutputArguments};
use crate::resource_name::check_collection;
use crate::target::{parse_server, parse_token, read_token};

/// Manage contexts: servers with their tokens
///
/// Contexts are in ~/.config/kalends/config.toml ($XDG_CONFIG_HOME is respected), which only its owner
/// can read. A command uses --context, KALENDS_CONTEXT or the context of `kalends context use`.
///
/// Examples:
///   kalends context create prod --server https://kalends.example.com --token-file ~/prod.token
///   kalends context use prod
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    command: ContextCommand,

    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Subcommand)]
enum ContextCommand {
    /// List contexts
    List,
    /// Show a context, without its token
    Show {
        /// Name of the context [default: the current one]
        name: Option<String>,
    },
    /// Create or replace a context
    Create(Box<Create>),
    /// Select the context of further commands
    Use {
        /// Name of the context
        name: String,
    },
    /// Delete a context
    Delete {
        /// Name of the context
        name: String,
    },
}

#[derive(clap::Args)]
struct Create {
    /// Name of the context
    name: String,

    /// URL of the server
    #[arg(long, value_name = "URL")]
    server: String,

    /// File with the token, read by each command
    #[arg(long, value_name = "FILE", conflicts_with = "token_stdin")]
    token_file: Option<PathBuf>,

    /// Read the token from standard input and save it in the configuration file
    #[arg(long)]
    token_stdin: bool,

    /// CA certificates in PEM that verify the server
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Collection of jobs that are named without one [default: default]
    #[arg(long, short, value_name = "COLLECTION")]
    collection: Option<String>,

    /// Subscription and resource group
    #[arg(long, value_name = "SUBSCRIPTION/GROUP")]
    group: Option<String>,

    /// Allow the token over plain HTTP to another machine
    #[arg(long)]
    allow_plain_http: bool,
}

const COLUMNS: [Column; 5] = [
    Column::new("CURRENT", |context, _| {
        Cell::new(if context.at("current").is_some() { "*" } else { "" })
    }),
    Column::new("NAME", |context, _| Cell::new(context.text("name"))),
    Column::new("SERVER", |context, _| Cell::new(context.text("server"))),
    Column::new("TOKEN", |context, _| Cell::new(context.text("token"))),
    Column::wide("COLLECTION", |context, _| Cell::new(context.text("collection"))),
];

pub(super) fn run(arguments: Arguments, clock: &dyn Clock) -> Result<(), CliError> {
    let output = Output::new(&arguments.output, clock);
    let path = ContextFile::default_path().ok_or_else(|| {
        CliError::usage("there is no home directory; set HOME or XDG_CONFIG_HOME")
    })?;
    let mut file = ContextFile::read(&path)?;
    match arguments.command {
        ContextCommand::List => {
            let rows = file.contexts.iter().map(|(name, context)| describe(&file, name, context));
            output.list(rows.collect(), &COLUMNS, |context| context.text("name").to_owned())
        }
        ContextCommand::Show { name } => {
            let name = name.or_else(|| file.current.clone());
            let name = name.ok_or_else(|| {
                CliError::usage("no context is selected; `kalends context use NAME` selects one")
            })?;
            let row = describe(&file, &name, file.get(&name)?);
            match output.is_table() {
                true => output.list(vec![row], &COLUMNS, |context| context.text("name").to_owned()),
                false => output.value(&row, &name, |_| Ok(())),
            }
        }
        ContextCommand::Create(create) => {
            let name = create.name.clone();
            let is_first = file.contexts.is_empty();
            file.contexts.insert(name.clone(), create.context()?);
            if is_first {
                file.current = Some(name.clone());
            }
            file.write(&path)?;
            let current = if is_first { ", and is the current context" } else { "" };
            output.done(&format!("context {name} created{current}"), &name, None)
        }
        ContextCommand::Use { name } => {
            let server = file.get(&name)?.server.clone();
            file.current = Some(name.clone());
            file.write(&path)?;
            output.done(&format!("context {name} selected: {server}"), &name, None)
        }
        ContextCommand::Delete { name } => {
            file.get(&name)?;
            file.contexts.remove(&name);
            file.current = file.current.filter(|current| *current != name);
            file.write(&path)?;
            output.done(&format!("context {name} deleted"), &name, None)
        }
    }
}

impl Create {
    fn context(self) -> Result<Context, CliError> {
        parse_server(&self.server)?;
        let absolute = |path: PathBuf| std::path::absolute(&path).map_err(CliError::file(path));
        let token =
            match self.token_stdin {
                true => {
                    let mut text = String::new();
                    std::io::stdin().lock().read_to_string(&mut text)?;
                    let token = parse_token(&text);
                    Some(token.ok_or_else(|| {
                        CliError::usage("standard input does not contain a token")
                    })?)
                }
                false => None,
            };
        if let Some(path) = &self.token_file {
            read_token(path)?;
        }
        Ok(Context {
            server: self.server,
            token,
            token_file: self.token_file.map(absolute).transpose()?,
            ca_file: self.ca_file.map(absolute).transpose()?,
            collection: self.collection.as_deref().map(check_collection).transpose()?,
            group: self.group,
            allow_plain_http: self.allow_plain_http,
        })
    }
}

/// A context as JSON. It says where the token is, never the token.
fn describe(file: &ContextFile, name: &str, context: &Context) -> Json<'static> {
    let token = match (&context.token, &context.token_file) {
        (Some(_), _) => "saved".to_owned(),
        (None, Some(path)) => path.display().to_string(),
        (None, None) => "none".to_owned(),
    };
    object([
        ("name", name.to_owned().into()),
        ("current", or_null((file.current.as_deref() == Some(name)).then_some(true))),
        ("server", context.server.clone().into()),
        ("token", token.into()),
        ("caFile", or_null(context.ca_file.as_ref().map(|path| path.display().to_string()))),
        ("collection", or_null(context.collection.clone())),
        ("group", or_null(context.group.clone())),
    ])
}
