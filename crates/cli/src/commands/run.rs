//! `kalends run`: runs of jobs.

use clap::Subcommand;
use http::Method;
use kalends_environment::Clock;
use kalends_wire::Json;

use super::job::{run as job_run, watch};
use super::occurrence;
use crate::api::Call;
use crate::error::CliError;
use crate::json::{JsonMembers as _, set};
use crate::output::{Cell, Column, Progress};
use crate::resource_name::JobRef;
use crate::session::{JobSessionArguments, Session};

/// List, watch and wait for runs; `kalends job run` starts one
///
/// Examples:
///   kalends run list nightly
///   kalends run list --active
///   kalends run watch
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    command: RunCommand,

    #[command(flatten)]
    session: JobSessionArguments,
}

#[derive(Subcommand)]
enum RunCommand {
    List(List),
    Show(occurrence::At),
    Watch(watch::Arguments),
    Wait(job_run::WaitArguments),
}

/// List runs of the last day, and those in flight
#[derive(clap::Args)]
struct List {
    /// Names of jobs [default: all jobs, or those of --collection]
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,

    /// Only runs in flight: running, waiting, or between retries
    #[arg(long)]
    active: bool,

    /// Earliest scheduled time [default: one day ago]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
}

const COLUMNS: [Column; 6] = [
    Column::new("JOB", |run, _| Cell::new(run.text("jobName"))),
    Column::new("SCHEDULED", |run, output| Cell::new(output.absolute(run.text("scheduledTime")))),
    Column::new("STATE", |run, _| Cell::state(run.text("disposition"))),
    Column::new("CAUSE", |run, _| Cell::new(run.text("cause"))),
    Column::new("ENDED", |run, output| Cell::new(output.relative(run.text("decidedTime")))),
    Column::wide("RETRIES", |run, _| Cell::new(run.integer("retryCount").to_string())),
];

pub(super) fn run(arguments: Arguments, clock: &dyn Clock) -> Result<(), CliError> {
    let session = arguments.session.open(clock)?;
    match arguments.command {
        RunCommand::List(arguments) => list(&arguments, &session),
        RunCommand::Show(arguments) => occurrence::explain(&arguments, &session),
        RunCommand::Watch(arguments) => watch::run(&arguments, &session),
        RunCommand::Wait(arguments) => job_run::wait(&arguments, &session),
    }
}

fn list(arguments: &List, session: &Session<'_>) -> Result<(), CliError> {
    let mut jobs = JobRef::parse_all(&arguments.jobs, &session.collection)?;
    if jobs.is_empty() {
        let all = session.jobs(session.only_collection(), None, usize::MAX)?;
        let names = all.iter().map(|job| JobRef::parse(job.text("name"), &session.collection));
        jobs = names.collect::<Result<_, _>>()?;
    }
    let from = arguments.from.as_deref().map(|text| session.time("--from", text)).transpose()?;
    let progress = Progress::bar(&session.output, jobs.len(), "reading runs");
    let mut runs = Vec::new();
    for job in &jobs {
        let call = Call::new(Method::GET, format!("{}/occurrences", session.api.job(job)))
            .query_some("from", from.map(|from| from.to_string()))
            .query("to", session.soon());
        for mut row in session.api.list(call, usize::MAX, |_| ())? {
            let is_active = matches!(row.text("disposition"), "Running" | "Retrying" | "Waiting");
            let is_run = is_active || matches!(row.text("disposition"), "Completed" | "Failed");
            if is_active || (is_run && !arguments.active) {
                set(&mut row, "jobName", job.to_string().into());
                runs.push(row);
            }
        }
        progress.step();
    }
    drop(progress);
    runs.sort_by(|one: &Json<'static>, other| {
        one.text("scheduledTime").cmp(other.text("scheduledTime"))
    });
    let name =
        |run: &Json<'static>| format!("{} {}", run.text("jobName"), run.text("scheduledTime"));
    session.output.list(runs, &COLUMNS, name)
}
