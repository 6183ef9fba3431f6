//! `kalends job skip`: leaves out the next occurrence of jobs.

use http::Method;
use kalends_wire::Json;

use crate::api::Call;
use crate::commands::note::NoteArgument;
use crate::error::CliError;
use crate::json::JsonMembers as _;
use crate::output::{Output, date_time};
use crate::resource_name::JobRef;
use crate::session::Session;

const SKIP_UNTIL: &str = "properties.status.skipUntil";

/// Skip the next occurrence of jobs
///
/// The occurrence does not run and is recorded as skipped at its scheduled time. Each further command
/// skips one more. A change of the schedule ends the skip, other edits keep it.
///
/// Examples:
///   kalends job skip nightly --note "target is down for maintenance tonight"
///   kalends job skip nightly --undo
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    /// Names of jobs
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,

    /// Run all occurrences that were to be skipped and have not passed
    #[arg(long)]
    undo: bool,

    #[command(flatten)]
    note: NoteArgument,
}

pub(super) fn run(arguments: &Arguments, session: &Session<'_>) -> Result<(), CliError> {
    let jobs = JobRef::parse_all(&arguments.jobs, &session.collection)?;
    session.for_each(&jobs, |job| match arguments.undo {
        true => undo(job, &arguments.note, session),
        false => skip(job, &arguments.note, session),
    })
}

fn skip(job: &JobRef, note: &NoteArgument, session: &Session<'_>) -> Result<(), CliError> {
    let body = request(Method::POST, job, note, session)?;
    let skipped = date_time(body.text(SKIP_UNTIL), &session.output);
    let sentence = format!("job {job} skips {skipped}{}", next_run(&body, &session.output));
    session.output.done(&sentence, &job.to_string(), Some(&body))
}

fn undo(job: &JobRef, note: &NoteArgument, session: &Session<'_>) -> Result<(), CliError> {
    let before = session.api.get(&session.api.job(job))?.body;
    let after = request(Method::DELETE, job, note, session)?;
    let verb = match before.text(SKIP_UNTIL) {
        "" => "skipped no occurrence",
        _ => "no longer skips an occurrence",
    };
    let sentence = format!("job {job} {verb}{}", next_run(&after, &session.output));
    session.output.done(&sentence, &job.to_string(), Some(&after))
}

fn request(
    method: Method,
    job: &JobRef,
    note: &NoteArgument,
    session: &Session<'_>,
) -> Result<Json<'static>, CliError> {
    let path = format!("{}/skip", session.api.job(job));
    Ok(session.api.send(&note.add_to(Call::new(method, path)))?.body)
}

/// `; next run …`, or `; no next run` if the schedule ends, the collection is disabled or all jobs are
/// paused.
fn next_run(job: &Json<'static>, output: &Output) -> String {
    match job.text("properties.status.nextExecutionTime") {
        "" => "; no next run".to_owned(),
        time => format!("; next run {}", date_time(time, output)),
    }
}
