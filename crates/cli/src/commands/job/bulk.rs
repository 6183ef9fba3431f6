//! `kalends job enable`, `disable` and `delete`: of several jobs in one request per collection.

use std::collections::BTreeMap;

use http::Method;
use kalends_wire::{BulkEdit, Json};

use super::selection::Selection;
use crate::api::Call;
use crate::commands::note::NoteArgument;
use crate::error::{CliError, Refusal};
use crate::json::{JsonMembers as _, object};
use crate::output::Progress;
use crate::resource_name::JobRef;
use crate::session::Session;

/// Names of jobs, or a filter
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Names of jobs
    #[arg(value_name = "JOB", required_unless_present_any = ["filter", "state", "tag"], conflicts_with_all = ["filter", "state", "tag"])]
    jobs: Vec<String>,

    #[command(flatten)]
    selection: Selection,

    /// Only print what would change
    #[arg(long)]
    dry_run: bool,
}

/// Names of jobs, or a filter, and a note
#[derive(clap::Args)]
pub(super) struct SwitchArguments {
    #[command(flatten)]
    jobs: Arguments,

    #[command(flatten)]
    note: NoteArgument,
}

impl SwitchArguments {
    pub(super) fn run(&self, action: Action, session: &Session<'_>) -> Result<(), CliError> {
        run(&self.jobs, action, &self.note, session)
    }
}

pub(super) fn delete(arguments: &Arguments, session: &Session<'_>) -> Result<(), CliError> {
    run(arguments, Action::Delete, &NoteArgument::default(), session)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Enable,
    Disable,
    Delete,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Action::Enable => "Enable",
            Action::Disable => "Disable",
            Action::Delete => "Delete",
        }
    }

    fn done(self) -> &'static str {
        match self {
            Action::Enable => "enabled",
            Action::Disable => "disabled",
            Action::Delete => "deleted",
        }
    }
}

fn run(
    arguments: &Arguments,
    action: Action,
    note: &NoteArgument,
    session: &Session<'_>,
) -> Result<(), CliError> {
    let jobs = match arguments.selection.filter()? {
        None => JobRef::parse_all(&arguments.jobs, &session.collection)?,
        Some(filter) => {
            // Read first: what is changed is what a dry run lists.
            let found = session.jobs(Some(&session.collection), Some(&filter), usize::MAX)?;
            let names =
                found.iter().map(|job| JobRef::parse(job.text("name"), &session.collection));
            names.collect::<Result<_, _>>()?
        }
    };
    if jobs.is_empty() {
        session.output.note("no job matches");
        return Ok(());
    }
    if arguments.dry_run {
        return session.for_each(&jobs, |job| {
            session.api.get(&session.api.job(job))?;
            let sentence = format!("job {job} would be {}", action.done());
            session.output.done(&sentence, &job.to_string(), None)
        });
    }
    let progress = Progress::bar(&session.output, jobs.len(), "jobs");
    let mut results = session.bulk(action, &jobs, note, &progress)?;
    session.for_each(&jobs, |job| {
        let result = results.remove(&job.to_string().to_ascii_lowercase());
        let result = result.unwrap_or_else(|| Err(missing_result(job)))?;
        let name = job.to_string();
        progress.suspend(|| match result {
            Outcome::Done => {
                session.output.done(&format!("job {job} {}", action.done()), &name, None)
            }
            Outcome::Unchanged => {
                let sentence = format!("job {job} was {} already", action.done());
                session.output.done(&sentence, &name, None)
            }
        })
    })
}

#[derive(Clone, Copy)]
enum Outcome {
    Done,
    Unchanged,
}

/// Results by the name of the job in lower case.
type Results = BTreeMap<String, Result<Outcome, CliError>>;

impl Session<'_> {
    fn bulk(
        &self,
        action: Action,
        jobs: &[JobRef],
        note: &NoteArgument,
        progress: &Progress,
    ) -> Result<Results, CliError> {
        let mut by_collection: BTreeMap<&str, Vec<&JobRef>> = BTreeMap::new();
        for job in jobs {
            by_collection.entry(&job.collection).or_default().push(job);
        }
        let mut results = Results::new();
        for (collection, jobs) in by_collection {
            let path = format!("{}/jobs/bulk", self.api.collection(collection));
            for jobs in jobs.chunks(BulkEdit::JOBS_MAX) {
                let names = jobs.iter().map(|job| Json::from(job.job.clone())).collect();
                let body =
                    object([("action", action.name().into()), ("names", Json::Array(names))]);
                let call = note.add_to(Call::new(Method::POST, &path).body(&body));
                let response = self.api.send(&call)?.body;
                for result in response.items("value") {
                    let name = result.text("name").to_ascii_lowercase();
                    results.insert(name, outcome(result));
                    progress.step();
                }
            }
        }
        Ok(results)
    }
}

fn outcome(result: &Json<'static>) -> Result<Outcome, CliError> {
    match result.text("result") {
        "Done" => Ok(Outcome::Done),
        "Unchanged" => Ok(Outcome::Unchanged),
        _ => Err(CliError::Refused(Refusal {
            status: 0,
            code: result.text("error.code").to_owned(),
            message: result.text("error.message").to_owned(),
            request_id: None,
        })),
    }
}

fn missing_result(job: &JobRef) -> CliError {
    CliError::Failure(format!("the response does not say what became of {job}"))
}
