//! `kalends job show`.

use std::io::{self, Write};

use kalends_wire::Json;

use super::list::{schedule_of, target_of};
use crate::commands::collection::tags_text;
use crate::error::CliError;
use crate::json::JsonMembers as _;
use crate::output::{Output, Style, date_time, printable};
use crate::resource_name::JobRef;
use crate::session::Session;

/// Show jobs: schedule, target, next and last run
///
/// -o json and -o yaml print the definition, without secrets.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Names of jobs
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, session: &Session<'_>) -> Result<(), CliError> {
    let jobs = JobRef::parse_all(&arguments.jobs, &session.collection)?;
    let mut is_first = true;
    session.for_each(&jobs, |job| {
        let body = session.api.get(&session.api.job(job))?.body;
        session.output.value(&body, body.text("name"), |to| {
            if !std::mem::take(&mut is_first) {
                writeln!(to)?;
            }
            write_job(&body, &session.output, to)
        })
    })
}

fn write_job(job: &Json<'static>, output: &Output, to: &mut dyn Write) -> io::Result<()> {
    let state = job.text("properties.state");
    let time = |path: &str| date_time(job.text(path), output);
    let count = |name: &str| job.integer(&format!("properties.status.{name}"));
    let retry = match job.text("properties.action.retryPolicy.retryType") {
        "" => String::new(),
        "None" => "none".to_owned(),
        kind => format!(
            "{kind}, {} times, {}",
            job.integer("properties.action.retryPolicy.retryCount"),
            job.text("properties.action.retryPolicy.retryInterval")
        ),
    };
    let on_failure = job.text("properties.action.errorAction.request.uri");
    let on_failure = match (on_failure, job.text("properties.action.errorAction.type")) {
        ("", kind) => kind,
        (uri, _) => uri,
    };
    let runs = match count("executionCount") {
        0 => "none".to_owned(),
        attempts => format!(
            "{attempts} attempts, {} failed; {} runs failed after their last retry",
            count("failureCount"),
            count("faultedCount")
        ),
    };
    let rows = [
        ("name", job.text("name").to_owned(), Style::Heading),
        ("description", job.text("properties.description").to_owned(), Style::Plain),
        ("state", state.to_owned(), Style::of_state(state)),
        ("schedule", schedule_of(job), Style::Plain),
        ("target", target_of(job), Style::Plain),
        ("retries", retry, Style::Plain),
        ("on failure", on_failure.to_owned(), Style::Plain),
        ("overlap", job.text("properties.overlap").to_owned(), Style::Plain),
        ("timeout", job.text("properties.timeout").to_owned(), Style::Plain),
        ("jitter", job.text("properties.jitter").to_owned(), Style::Plain),
        ("start time", time("properties.startTime"), Style::Plain),
        ("skips until", time("properties.status.skipUntil"), Style::Plain),
        ("next run", time("properties.status.nextExecutionTime"), Style::Plain),
        ("last run", time("properties.status.lastExecutionTime"), Style::Plain),
        ("runs", runs, Style::Plain),
        ("tags", tags_text(job.at("properties.tags")), Style::Plain),
    ];
    for (name, value, style) in rows.iter().filter(|(_, value, _)| !value.is_empty()) {
        writeln!(to, "{name:<11}  {}", output.styled(&printable(value), *style))?;
    }
    Ok(())
}
