//! `kalends history`: attempts of jobs.

use clap::Subcommand;
use kalends_environment::Clock;
use kalends_recurrence::Instant;
use kalends_wire::Json;

use crate::error::CliError;
use crate::json::JsonMembers as _;
use crate::output::{Cell, Column};
use crate::resource_name::JobRef;
use crate::session::{JobSessionArguments, Session};

/// List attempts of jobs; `kalends job logs` prints them with their whole messages
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: HistoryCommand,

    #[command(flatten)]
    session: JobSessionArguments,
}

#[derive(Subcommand)]
enum HistoryCommand {
    List(List),
}

/// List attempts, newest first
#[derive(clap::Args)]
struct List {
    /// Names of jobs
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,

    /// Only attempts with this status: completed, failed or postponed
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,

    /// Maximum number of attempts of each job
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

/// Characters of a message in a table.
const MESSAGE_CHARACTERS_MAX: usize = 60;

const COLUMNS: [Column; 8] = [
    Column::new("JOB", |entry, _| Cell::new(job_of(entry))),
    Column::new("STARTED", |entry, output| {
        Cell::new(output.absolute(entry.text("properties.startTime")))
    }),
    Column::new("STATUS", |entry, _| Cell::state(entry.text("properties.status"))),
    Column::new("ACTION", |entry, _| Cell::new(action(entry))),
    Column::new("RETRY", |entry, _| Cell::new(entry.integer("properties.retryCount").to_string())),
    Column::new("DURATION", |entry, _| Cell::new(duration(entry))),
    Column::wide("SCHEDULED", |entry, output| {
        Cell::new(output.absolute(entry.text("properties.expectedExecutionTime")))
    }),
    Column::new("MESSAGE", |entry, _| {
        let line = entry.text("properties.message").lines().next().unwrap_or_default();
        Cell::new(line.chars().take(MESSAGE_CHARACTERS_MAX).collect::<String>())
    }),
];

fn job_of(entry: &Json<'static>) -> String {
    let name = entry.text("name");
    name.rsplit_once('/').map_or(name, |(job, _)| job).to_owned()
}

/// `main` or `error`.
fn action(entry: &Json<'static>) -> &'static str {
    match entry.text("properties.actionName") {
        "ErrorAction" => "error",
        _ => "main",
    }
}

/// The duration of an attempt in seconds or milliseconds.
fn duration(entry: &Json<'static>) -> String {
    let time = |name: &str| entry.text(&format!("properties.{name}")).parse::<Instant>();
    match (time("startTime"), time("endTime")) {
        (Ok(start), Ok(end)) => {
            let took = end.since(start);
            match took.as_secs() {
                0 => format!("{} ms", took.as_millis()),
                _ => format!("{:.1} s", took.as_secs_f64()),
            }
        }
        _ => String::new(),
    }
}

pub(super) fn run(arguments: Arguments, clock: &dyn Clock) -> Result<(), CliError> {
    let session = arguments.session.open(clock)?;
    match arguments.command {
        HistoryCommand::List(arguments) => list(&arguments, &session),
    }
}

fn list(arguments: &List, session: &Session<'_>) -> Result<(), CliError> {
    let mut entries = Vec::new();
    for job in JobRef::parse_all(&arguments.jobs, &session.collection)? {
        entries.extend(session.history(&job, arguments.status.as_deref(), arguments.limit)?);
    }
    let name = |entry: &Json<'static>| entry.text("name").to_owned();
    session.output.list(entries, &COLUMNS, name)
}
