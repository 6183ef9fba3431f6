//! `kalends collection`.

use clap::Subcommand;
use http::Method;
use kalends_environment::Clock;
use kalends_wire::Json;

use super::note::NoteArgument;
use crate::api::Call;
use crate::error::CliError;
use crate::json::{JsonMembers as _, object, or_null};
use crate::output::{Cell, Column};
use crate::resource_name::check_collection;
use crate::session::{Session, SessionArguments};

/// List, create and change collections of jobs
///
/// `kalends job create` creates the collection of a job if there is none.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: CollectionCommand,

    #[command(flatten)]
    session: SessionArguments,
}

#[derive(Subcommand)]
enum CollectionCommand {
    /// List collections
    List,
    /// Show collections
    Show(Names),
    /// Create a collection
    Create(Create),
    /// Change the plan or the tags of a collection
    Edit(Edit),
    /// Delete collections with all their jobs
    Delete(DeleteArguments),
    /// Enable collections
    Enable(Change),
    /// Disable collections; their jobs do not run until they are enabled
    Disable(Change),
}

#[derive(clap::Args)]
struct Names {
    /// Names of collections
    #[arg(required = true, value_name = "COLLECTION")]
    names: Vec<String>,
}

#[derive(clap::Args)]
struct Change {
    #[command(flatten)]
    names: Names,

    /// Only print what would change
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    note: NoteArgument,
}

#[derive(clap::Args)]
struct DeleteArguments {
    #[command(flatten)]
    names: Names,

    /// Also delete collections that have jobs
    #[arg(long)]
    with_jobs: bool,

    /// Only print what would be deleted
    #[arg(long)]
    dry_run: bool,
}

#[derive(clap::Args)]
struct Create {
    /// Name of the collection
    #[arg(value_name = "COLLECTION")]
    name: String,

    /// Plan: Free, Standard, P10Premium or P20Premium
    #[arg(long, default_value = "Standard")]
    plan: String,

    /// Location, an arbitrary text
    #[arg(long, default_value = "local")]
    location: String,

    /// Tag, such as team=billing; may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,

    /// Only print what would be created
    #[arg(long)]
    dry_run: bool,
}

#[derive(clap::Args)]
struct Edit {
    /// Name of the collection
    #[arg(value_name = "COLLECTION")]
    name: String,

    /// Plan: Free, Standard, P10Premium or P20Premium
    #[arg(long)]
    plan: Option<String>,

    /// Tag, such as team=billing; may be repeated. Replaces all tags
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,

    /// Only print what would change
    #[arg(long)]
    dry_run: bool,
}

const COLUMNS: [Column; 5] = [
    Column::new("NAME", |collection, _| Cell::new(collection.text("name"))),
    Column::new("STATE", |collection, _| Cell::state(collection.text("properties.state"))),
    Column::new("PLAN", |collection, _| Cell::new(collection.text("properties.sku.name"))),
    Column::wide("LOCATION", |collection, _| Cell::new(collection.text("location"))),
    Column::wide("TAGS", |collection, _| Cell::new(tags_text(collection.at("tags")))),
];

/// Tags in a table: `env=prod, team=billing`.
pub(super) fn tags_text(tags: Option<&Json<'static>>) -> String {
    let Some(Json::Object(tags)) = tags else { return String::new() };
    let text = |(name, value): &(std::borrow::Cow<'_, str>, Json<'static>)| match value {
        Json::String(value) => format!("{name}={value}"),
        _ => name.to_string(),
    };
    tags.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Parses tags such as `team=billing`; null if there are none.
pub(super) fn parse_tags(texts: &[String]) -> Result<Json<'static>, CliError> {
    let mut tags = Vec::new();
    for text in texts {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            CliError::usage(format!(
                "--tag must be NAME=VALUE, such as team=billing (found {text:?})"
            ))
        })?;
        tags.push((name.to_owned().into(), value.to_owned().into()));
    }
    Ok(if tags.is_empty() { Json::Null } else { Json::Object(tags) })
}

fn name_of(collection: &Json<'static>) -> String {
    collection.text("name").to_owned()
}

pub(super) fn run(arguments: Arguments, clock: &dyn Clock) -> Result<(), CliError> {
    let session = Session::new(&arguments.session, clock)?;
    match arguments.command {
        CollectionCommand::List => session.output.list(session.collections()?, &COLUMNS, name_of),
        CollectionCommand::Show(names) => show(&session, &names),
        CollectionCommand::Create(create) => create.run(&session),
        CollectionCommand::Edit(edit) => edit.run(&session),
        CollectionCommand::Delete(arguments) => arguments.run(&session),
        CollectionCommand::Enable(change) => change.run(&session, "enable"),
        CollectionCommand::Disable(change) => change.run(&session, "disable"),
    }
}

impl Session<'_> {
    /// All collections of the resource group.
    pub(super) fn collections(&self) -> Result<Vec<Json<'static>>, CliError> {
        self.api.list(Call::new(Method::GET, self.api.collections()), usize::MAX, |_| ())
    }
}

fn show(session: &Session<'_>, names: &Names) -> Result<(), CliError> {
    let output = &session.output;
    session.for_each(&names.names, |name| {
        let body = session.api.get(&session.api.collection(&check_collection(name)?))?.body;
        match output.is_table() {
            true => output.list(vec![body], &COLUMNS, name_of),
            false => output.value(&body, &name_of(&body), |_| Ok(())),
        }
    })
}

impl Create {
    fn run(self, session: &Session<'_>) -> Result<(), CliError> {
        let Create { name, plan, location, tags, dry_run } = self;
        let path = session.api.collection(&check_collection(&name)?);
        let body = object([
            ("location", location.into()),
            ("tags", parse_tags(&tags)?),
            ("properties", object([("sku", object([("name", plan.into())]))])),
        ]);
        if dry_run {
            let exists = session.api.get(&path);
            return match exists {
                Ok(_) => Err(already_exists(&name)),
                Err(error) if error.is_not_found() => {
                    let sentence = format!("collection {name} would be created");
                    session.output.done(&sentence, &name, Some(&body))
                }
                Err(error) => Err(error),
            };
        }
        let call = Call::new(Method::PUT, path).body(&body).if_absent();
        match session.api.send(&call) {
            Ok(created) => {
                let sentence = format!("collection {name} created");
                session.output.done(&sentence, &name, Some(&created.body))
            }
            Err(CliError::Refused(refusal)) if refusal.status == 412 => Err(already_exists(&name)),
            Err(error) => Err(error),
        }
    }
}

fn already_exists(name: &str) -> CliError {
    CliError::Refused(crate::error::Refusal {
        status: 409,
        code: String::new(),
        message: format!(
            "the collection {name} exists already; `kalends collection edit {name}` changes it"
        ),
        request_id: None,
    })
}

impl Edit {
    fn run(self, session: &Session<'_>) -> Result<(), CliError> {
        let path = session.api.collection(&check_collection(&self.name)?);
        let tags = parse_tags(&self.tags)?;
        if self.plan.is_none() && tags == Json::Null {
            return Err(CliError::usage("nothing to change; give --plan or --tag"));
        }
        let sku = self.plan.map(|plan| object([("sku", object([("name", plan.into())]))]));
        let patch = object([("tags", tags), ("properties", or_null(sku))]);
        let before = session.api.get(&path)?;
        if self.dry_run {
            let sentence = format!("collection {} would change", self.name);
            return session.output.done(&sentence, &self.name, Some(&patch));
        }
        let call = Call::new(Method::PATCH, path).body(&patch).if_match(before.etag.as_deref());
        let edited = session.api.send(&call)?;
        session.output.done(
            &format!("collection {} changed", self.name),
            &self.name,
            Some(&edited.body),
        )
    }
}

impl Change {
    fn run(self, session: &Session<'_>, verb: &'static str) -> Result<(), CliError> {
        session.for_each(&self.names.names, |name| {
            let path = session.api.collection(&check_collection(name)?);
            if self.dry_run {
                session.api.get(&path)?;
                return session.output.done(
                    &format!("collection {name} would be {verb}d"),
                    name,
                    None,
                );
            }
            let call = Call::new(Method::POST, format!("{path}/{verb}"));
            session.api.send(&self.note.add_to(call))?;
            session.output.done(&format!("collection {name} {verb}d"), name, None)
        })
    }
}

impl DeleteArguments {
    fn run(self, session: &Session<'_>) -> Result<(), CliError> {
        session.for_each(&self.names.names, |name| {
            let path = session.api.collection(&check_collection(name)?);
            session.api.get(&path)?;
            let jobs = session.api.list(
                Call::new(Method::GET, format!("{path}/jobs")).query("$top", "1"),
                1,
                |_| (),
            )?;
            if !jobs.is_empty() && !self.with_jobs {
                return Err(CliError::usage(format!(
                    "the collection {name} has jobs; --with-jobs deletes them too"
                )));
            }
            if self.dry_run {
                return session.output.done(
                    &format!("collection {name} would be deleted"),
                    name,
                    None,
                );
            }
            session.api.send(&Call::new(Method::DELETE, path))?;
            session.output.done(&format!("collection {name} deleted"), name, None)
        })
    }
}
