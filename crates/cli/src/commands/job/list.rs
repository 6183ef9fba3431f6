//! `kalends job list`.

use http::Method;
use kalends_recurrence::{Instant, Rule, Settings};
use kalends_wire::{Json, read_definition};

use super::selection::Selection;
use crate::api::Call;
use crate::commands::collection::tags_text;
use crate::error::CliError;
use crate::json::JsonMembers as _;
use crate::output::{Cell, Column, Progress};
use crate::session::Session;

/// List jobs of all collections, or of one with --collection
///
/// Examples:
///   kalends job list --state faulted
///   kalends job list --filter "contains(name,'export')" -o name
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Arguments {
    #[command(flatten)]
    selection: Selection,

    /// Maximum number of jobs
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}

pub(super) const COLUMNS: [Column; 9] = [
    Column::new("NAME", |job, _| Cell::new(job.text("name"))),
    Column::new("STATE", |job, _| Cell::state(job.text("properties.state"))),
    Column::new("NEXT RUN", |job, output| {
        Cell::new(output.relative(job.text("properties.status.nextExecutionTime")))
    }),
    Column::new("LAST RUN", |job, output| {
        Cell::new(output.relative(job.text("properties.status.lastExecutionTime")))
    }),
    Column::new("FAILED", |job, _| {
        Cell::new(job.integer("properties.status.faultedCount").to_string())
    }),
    Column::new("SCHEDULE", |job, _| Cell::new(schedule_of(job))),
    Column::wide("NEXT RUN AT", |job, output| {
        Cell::new(output.absolute(job.text("properties.status.nextExecutionTime")))
    }),
    Column::wide("TARGET", |job, _| Cell::new(target_of(job))),
    Column::wide("TAGS", |job, _| Cell::new(tags_text(job.at("properties.tags")))),
];

pub(super) fn name_of(job: &Json<'static>) -> String {
    job.text("name").to_owned()
}

/// The schedule in words.
pub(super) fn schedule_of(job: &Json<'static>) -> String {
    // The creation time is unknown; a start time, if there is one, replaces it.
    let created = job.text("properties.startTime").parse().unwrap_or(Instant::MIN);
    if job.at("properties.recurrence").is_none() {
        return "once".to_owned();
    }
    let rule = read_definition(job, created).ok();
    let rule = rule.and_then(|definition| Rule::new(definition, &Settings::default()).ok());
    rule.map_or_else(String::new, |rule| rule.describe())
}

/// The target: method and URI, or the queue.
pub(super) fn target_of(job: &Json<'static>) -> String {
    let action = |path: &str| job.text(&format!("properties.action.{path}")).to_owned();
    match action("type").to_ascii_lowercase().as_str() {
        "http" | "https" => {
            format!("{} {}", action("request.method").to_ascii_uppercase(), action("request.uri"))
        }
        "storagequeue" => {
            format!(
                "{}/{}",
                action("queueMessage.storageAccount"),
                action("queueMessage.queueName")
            )
        }
        "servicebusqueue" => format!(
            "{}/{}",
            action("serviceBusQueueMessage.namespace"),
            action("serviceBusQueueMessage.queueName")
        ),
        "servicebustopic" => format!(
            "{}/{}",
            action("serviceBusTopicMessage.namespace"),
            action("serviceBusTopicMessage.topicPath")
        ),
        _ => String::new(),
    }
}

pub(super) fn run(arguments: &Arguments, session: &Session<'_>) -> Result<(), CliError> {
    let limit = arguments.limit.unwrap_or(usize::MAX);
    let filter = arguments.selection.filter()?;
    let jobs = session.jobs(session.only_collection(), filter.as_deref(), limit)?;
    session.output.list(jobs, &COLUMNS, name_of)
}

impl Session<'_> {
    /// Jobs of a collection, or of all, that match a filter.
    pub(crate) fn jobs(
        &self,
        collection: Option<&str>,
        filter: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Json<'static>>, CliError> {
        let collections = match collection {
            Some(name) => vec![name.to_owned()],
            None => {
                let all = self.collections()?;
                all.iter().map(|collection| collection.text("name").to_owned()).collect()
            }
        };
        let progress = Progress::spinner(&self.output, "reading jobs");
        let mut jobs = Vec::new();
        for collection in collections {
            let left = limit - jobs.len();
            if left == 0 {
                break;
            }
            let path = format!("{}/jobs", self.api.collection(&collection));
            let mut call = Call::new(Method::GET, path).query_some("$filter", filter);
            if left < 100 {
                call = call.query("$top", left.to_string());
            }
            let so_far = jobs.len();
            let on_page = |count| progress.message(format!("reading jobs: {}", so_far + count));
            jobs.extend(self.api.list(call, left, on_page)?);
        }
        Ok(jobs)
    }
}
