//! `kalends occurrence`: scheduled times of jobs, past and future.

use clap::Subcommand;
use http::Method;
use kalends_environment::Clock;
use kalends_wire::Json;

use super::job::explain as job_explain;
use crate::api::Call;
use crate::error::CliError;
use crate::json::JsonMembers as _;
use crate::output::{Cell, Column};
use crate::resource_name::JobRef;
use crate::session::{JobSessionArguments, Session};

/// List scheduled times of a job, past and future, with their outcome
///
/// Examples:
///   kalends occurrence list nightly
///   kalends occurrence list nightly --from 2026-11-01 --to 2026-11-08
///   kalends occurrence explain nightly 2026-11-16T02:30
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    command: OccurrenceCommand,

    #[command(flatten)]
    session: JobSessionArguments,
}

#[derive(Subcommand)]
enum OccurrenceCommand {
    List(List),
    Explain(At),
}

/// List scheduled times of a job
#[derive(clap::Args)]
struct List {
    /// Name of the job
    #[arg(value_name = "JOB")]
    job: String,

    /// First time [default: one day ago]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,

    /// Last time [default: one year ahead]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,

    /// Maximum number of occurrences
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

/// Explain what happened at a scheduled time, with its attempts
#[derive(clap::Args)]
pub(super) struct At {
    /// Name of the job
    #[arg(value_name = "JOB")]
    job: String,

    /// Scheduled time; without an offset in the time zone of this machine
    #[arg(value_name = "TIME")]
    time: String,
}

const COLUMNS: [Column; 7] = [
    Column::new("SCHEDULED", |row, output| Cell::new(output.absolute(row.text("scheduledTime")))),
    Column::new("RELATIVE", |row, output| Cell::new(output.relative(row.text("scheduledTime")))),
    Column::new("STATE", |row, _| Cell::state(row.text("disposition"))),
    Column::new("CAUSE", |row, _| Cell::new(row.text("cause"))),
    Column::new("COUNT", |row, _| Cell::new(row.integer("count").to_string())),
    Column::wide("LAST", |row, output| Cell::new(output.absolute(row.text("lastScheduledTime")))),
    Column::wide("DECIDED", |row, output| Cell::new(output.absolute(row.text("decidedTime")))),
];

pub(super) fn run(arguments: Arguments, clock: &dyn Clock) -> Result<(), CliError> {
    let session = arguments.session.open(clock)?;
    match arguments.command {
        OccurrenceCommand::List(arguments) => list(&arguments, &session),
        OccurrenceCommand::Explain(arguments) => explain(&arguments, &session),
    }
}

fn list(arguments: &List, session: &Session<'_>) -> Result<(), CliError> {
    let job = JobRef::parse(&arguments.job, &session.collection)?;
    let time = |flag: &str, text: &Option<String>| {
        let time = text.as_deref().map(|text| session.time(flag, text)).transpose();
        time.map(|time| time.map(|time| time.to_string()))
    };
    let call = Call::new(Method::GET, format!("{}/occurrences", session.api.job(&job)))
        .query_some("from", time("--from", &arguments.from)?)
        .query_some("to", time("--to", &arguments.to)?)
        .query("$top", arguments.limit.clamp(1, 100).to_string());
    let rows = session.api.list(call, arguments.limit, |_| ())?;
    let name = |row: &Json<'static>| row.text("scheduledTime").to_owned();
    session.output.list(rows, &COLUMNS, name)
}

pub(super) fn explain(arguments: &At, session: &Session<'_>) -> Result<(), CliError> {
    let At { job, time } = arguments;
    let arguments = job_explain::Arguments { job: job.clone(), at: Some(time.clone()) };
    job_explain::run(&arguments, session)
}
