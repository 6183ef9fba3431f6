//! `kalends job run` and `kalends job wait`.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use kalends_wire::Json;

use super::definition_flags::duration;
use crate::api::{Call, Event, EventFilter, EventStream};
use crate::commands::note::NoteArgument;
use crate::error::CliError;
use crate::json::JsonMembers as _;
use crate::output::{Progress, date_time};
use crate::resource_name::JobRef;
use crate::session::Session;

/// Run jobs now, in addition to their schedule
///
/// Disabled and finished jobs run too. With --wait the exit status is 1 if a run failed.
///
/// Examples:
///   kalends job run nightly
///   kalends job run nightly hourly --wait --timeout 10m
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// Names of jobs
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,

    /// Wait until the runs have ended
    #[arg(short, long)]
    wait: bool,

    /// Longest time to wait, such as 10m
    #[arg(long, value_name = "DURATION", requires = "wait")]
    timeout: Option<String>,

    /// Only check that the jobs exist
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    note: NoteArgument,
}

/// Wait until a run has ended
///
/// Waits for the runs in flight, or for the next one if there is none. The exit status is 1 if a run
/// failed.
#[derive(clap::Args)]
pub(in crate::commands) struct WaitArguments {
    /// Names of jobs
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,

    /// Longest time to wait, such as 10m
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
}

pub(super) fn start(arguments: &Arguments, session: &Session<'_>) -> Result<(), CliError> {
    let jobs = JobRef::parse_all(&arguments.jobs, &session.collection)?;
    if arguments.dry_run {
        return session.for_each(&jobs, |job| {
            session.api.get(&session.api.job(job))?;
            session.output.done(&format!("job {job} would run"), &job.to_string(), None)
        });
    }
    if !arguments.wait {
        return session.for_each(&jobs, |job| {
            request_run(job, &arguments.note, session)?;
            session.output.done(&format!("job {job} runs now"), &job.to_string(), None)
        });
    }
    // The stream is open before the runs start, so that their ends are not missed.
    let mut stream = open_stream(&jobs, arguments.timeout.as_deref(), session)?;
    let mut expected = BTreeMap::new();
    for job in &jobs {
        let earlier = in_flight(job, session)?.into_iter().collect();
        request_run(job, &arguments.note, session)?;
        expected.insert(job.to_string(), Expected::ManualRunExcept(earlier));
    }
    wait_for(&mut stream, expected, session)
}

fn request_run(job: &JobRef, note: &NoteArgument, session: &Session<'_>) -> Result<(), CliError> {
    let path = format!("{}/run", session.api.job(job));
    session.api.send(&note.add_to(Call::new(Method::POST, path))).map(|_| ())
}

pub(in crate::commands) fn wait(
    arguments: &WaitArguments,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let jobs = JobRef::parse_all(&arguments.jobs, &session.collection)?;
    let mut stream = open_stream(&jobs, arguments.timeout.as_deref(), session)?;
    let mut expected = BTreeMap::new();
    for job in &jobs {
        let definition = session.api.get(&session.api.job(job))?.body;
        let in_flight = in_flight(job, session)?;
        let next = definition.text("properties.status.nextExecutionTime");
        let state = definition.text("properties.state");
        match (in_flight.is_empty(), next, state) {
            (false, _, _) => {
                for time in &in_flight {
                    let when = date_time(time, &session.output);
                    session.output.note(&format!("job {job}: waiting for the run of {when}"));
                }
                expected.insert(job.to_string(), Expected::Runs(in_flight.into_iter().collect()));
            }
            (true, "", state) => {
                return Err(CliError::Failure(format!(
                    "job {job} has no run in flight and none is scheduled; its state is {state}"
                )));
            }
            (true, next, _) => {
                let when = date_time(next, &session.output);
                session.output.note(&format!("job {job}: waiting for the run of {when}"));
                expected.insert(job.to_string(), Expected::NextRun);
            }
        }
    }
    wait_for(&mut stream, expected, session)
}

/// The runs of a job that a command waits for.
enum Expected {
    /// The first run that ends.
    NextRun,
    /// Runs in flight, by their scheduled time.
    Runs(BTreeSet<String>),
    /// A manual run with another scheduled time than these.
    ManualRunExcept(BTreeSet<String>),
}

impl Expected {
    /// Whether the command still waits after this occurrence ended; `None` if it is another one.
    fn after(&mut self, occurrence: &Json<'static>) -> Option<bool> {
        let time = occurrence.text("scheduledTime");
        let is_run = matches!(occurrence.text("disposition"), "Completed" | "Failed");
        match self {
            Expected::NextRun => is_run.then_some(false),
            Expected::Runs(times) => times.remove(time).then_some(!times.is_empty()),
            Expected::ManualRunExcept(earlier) => {
                let is_expected = occurrence.text("cause") == "Manual" && !earlier.contains(time);
                is_expected.then_some(false)
            }
        }
    }
}

fn open_stream<'a>(
    jobs: &[JobRef],
    timeout: Option<&str>,
    session: &'a Session<'_>,
) -> Result<EventStream<'a>, CliError> {
    let limit = timeout.map(|text| duration("--timeout", text)).transpose()?;
    let filter = match jobs {
        [job] => {
            EventFilter { collection: Some(job.collection.clone()), job: Some(job.job.clone()) }
        }
        _ => EventFilter::default(),
    };
    let mut stream = session.api.events(filter)?;
    if let (Some(limit), Some(text)) = (limit, timeout) {
        stream.end_after(limit, format!("no end of the run within {text}"));
    }
    Ok(stream)
}

/// Scheduled times of the runs of a job that are in flight or wait.
fn in_flight(job: &JobRef, session: &Session<'_>) -> Result<Vec<String>, CliError> {
    let path = format!("{}/occurrences", session.api.job(job));
    let rows = session.api.list(
        Call::new(Method::GET, path).query("to", session.soon()),
        usize::MAX,
        |_| (),
    )?;
    let is_open = |row: &&Json<'static>| {
        matches!(row.text("disposition"), "Running" | "Retrying" | "Waiting")
    };
    Ok(rows.iter().filter(is_open).map(|row| row.text("scheduledTime").to_owned()).collect())
}

/// Waits until the expected runs of every job have ended.
fn wait_for(
    stream: &mut EventStream<'_>,
    mut expected: BTreeMap<String, Expected>,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let names = expected.keys().cloned().collect::<Vec<_>>().join(", ");
    let progress = Progress::spinner(&session.output, format!("waiting for {names}"));
    let (mut failed, mut total) = (Vec::new(), 0);
    let mut messages = BTreeMap::new();
    while !expected.is_empty() {
        let Event { kind, data: Some(data) } = stream.next()? else { continue };
        match kind.as_str() {
            "attempt" => {
                let job = job_of_entry(&data);
                let attempt = data.at("properties").cloned().unwrap_or(Json::Null);
                progress.message(format!("{job}: attempt {}", attempt.text("status")));
                // The error action follows a failure and does not explain it.
                if attempt.text("actionName") != "ErrorAction" {
                    messages.insert(job.to_ascii_lowercase(), attempt.text("message").to_owned());
                }
            }
            "occurrence" => {
                let name = data.text("jobName").to_owned();
                let waited = expected.iter_mut().find(|(job, _)| job.eq_ignore_ascii_case(&name));
                let Some((job, wanted)) = waited else { continue };
                let Some(more) = wanted.after(&data) else { continue };
                let job = job.clone();
                if !more {
                    expected.remove(&job);
                }
                total += 1;
                let message = messages.get(&name.to_ascii_lowercase());
                let is_ok = progress
                    .suspend(|| report(&job, &data, message.map_or("", String::as_str), session))?;
                if !is_ok {
                    failed.push(job);
                }
            }
            "end" => {
                return Err(CliError::Failure(
                    "the token expired or was revoked while waiting".to_owned(),
                ));
            }
            _ => {}
        }
    }
    match (failed.as_slice(), total) {
        ([], _) => Ok(()),
        ([job], 1) => Err(CliError::Failure(format!(
            "the run of {job} failed; `kalends job logs {job}` shows its attempts"
        ))),
        (jobs, total) => {
            let names = jobs.join(", ");
            Err(CliError::Failure(format!("{} of {total} runs failed: {names}", jobs.len())))
        }
    }
}

/// Prints how a run ended and returns whether it succeeded.
fn report(
    job: &str,
    occurrence: &Json<'static>,
    message: &str,
    session: &Session<'_>,
) -> Result<bool, CliError> {
    let disposition = occurrence.text("disposition");
    let is_ok = disposition == "Completed";
    if !(session.output.is_quiet && is_ok) {
        let word = match disposition {
            "Completed" => "completed".to_owned(),
            "Failed" => "failed".to_owned(),
            other => format!("did not end with a result: {other}"),
        };
        let message = message.lines().next().unwrap_or_default();
        let message = if is_ok { "" } else { message };
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        let text = format!("run of {job} {word}{message}");
        session.output.line(occurrence, job, &crate::output::printable(&text))?;
    }
    Ok(is_ok)
}

/// The job of a history entry, whose name is `COLLECTION/JOB/ENTRY`.
pub(super) fn job_of_entry(entry: &Json<'static>) -> String {
    let name = entry.text("name");
    name.rsplit_once('/').map_or(name, |(job, _)| job).to_owned()
}
