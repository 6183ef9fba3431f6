//! One job: its schedule, why it is or is not running, its runs, definition and ledger.

mod answer;
mod command;
mod facts;
mod ledger;
mod runs;
mod schedule;

use std::time::Duration;

use askama::Template;
use kalends_recurrence::{Instant, Zone};

use self::answer::Answer;
use self::facts::Fact;
pub(super) use self::facts::target;
use self::ledger::Ledger;
use self::runs::Runs;
use self::schedule::Schedule;
use serde::Deserialize as _;
use serde_json::Value;

use super::jobs::FAILING_MIN;
use super::{PageResult, rendered};
use crate::address::{JobAddress, encode};
use crate::api::{Api, ApiFailure, Json as _, read};
use crate::chart::{Outcome, Outcomes};
use crate::mark::Mark;
use crate::note::Note;
use crate::secrets::without_secrets;
use crate::sentence::{Part, sentence};
use crate::view::{PageRequest, Shared, Time, View};
use crate::words;

/// Coming occurrences in the list beside the facts.
const NEXT_SHOWN: usize = 10;
/// The end of the time in which they are searched: the next 29 February may be eight years away.
const END_OF_TIME: &str = "9999-12-31T23:59:59Z";

/// History entries in which the last attempt of the main action is searched: attempts of the error
/// action follow it.
const HISTORY_READ: usize = 21;

const TABS: [(&str, &str); 5] = [
    ("runs", "Runs"),
    ("schedule", "Schedule"),
    ("definition", "Definition"),
    ("ledger", "Ledger"),
    ("notes", "Notes"),
];

#[derive(Template)]
#[template(path = "job/job.html")]
struct JobPage<'a> {
    view: &'a View,
    address: &'a JobAddress,
    /// URL of this page.
    href: String,
    /// Path in the API.
    resource: String,
    description: String,
    schedule: Vec<Part>,
    state: String,
    mark: Mark,
    is_enabled: bool,
    is_finished: bool,
    run_effect: RunEffect,
    /// Path of bulk operations in the API, and the body of the one that enables or disables this job:
    /// unlike an edit, it needs only the permission to run jobs.
    bulk: String,
    switch: String,
    answer: Answer,
    definition: Vec<Fact>,
    statistics: Vec<Fact>,
    /// The last runs, once there is one.
    outcomes: Option<Outcomes>,
    next: Vec<NextRun>,
    /// Why these runs will not happen; empty if they will.
    next_condition: &'static str,
    /// The next run that can be skipped.
    skippable: Option<Time>,
    /// Whether a coming run will be skipped.
    has_skipped: bool,
    dst_notes: Vec<String>,
    tab: &'static str,
    content: Tab,
}

/// The effect of a manual run, in the question and in the message that follows.
struct RunEffect {
    text: &'static str,
    done: &'static str,
}

impl RunEffect {
    fn of(job: &Job<'_>) -> RunEffect {
        match job.explanation.text("reason").as_str() {
            "CollectionDisabled" => RunEffect {
                text: "Its collection is disabled: the run waits until somebody enables it.",
                done: "A run waits until the collection is enabled",
            },
            _ => RunEffect {
                text: "It runs once, in addition to its schedule.",
                done: "Started a run",
            },
        }
    }
}

/// The content below the tabs.
enum Tab {
    Runs(Runs),
    Schedule(Schedule),
    Definition { json: String, command: String, has_secrets: bool },
    Ledger(Ledger),
    Notes(Vec<Note>),
}

struct NextRun {
    time: Time,
    /// The disposition, unless the run simply will happen.
    remark: String,
}

/// The data that all parts of the page share.
struct Job<'a> {
    address: &'a JobAddress,
    /// The job as the API returns it.
    job: Value,
    /// Why it is or is not running now.
    explanation: Value,
    statistics: Value,
    /// The newest page of the history.
    history: Result<Value, ApiFailure>,
    /// Coming occurrences.
    coming: Vec<Value>,
}

impl<'a> Job<'a> {
    async fn load(
        address: &'a JobAddress,
        history_entries: usize,
        view: &View,
        api: &dyn Api,
    ) -> Result<Job<'a>, ApiFailure> {
        let now = encode(&view.now.to_string());
        let paths = [
            address.api("", ""),
            address.api("/explain", ""),
            address.api("/statistics", ""),
            address.api("/history", &format!("%24top={history_entries}")),
            address
                .api("/occurrences", &format!("from={now}&to={END_OF_TIME}&%24top={NEXT_SHOWN}")),
        ];
        let (job, explanation, statistics, history, coming) = tokio::join!(
            read(api, &paths[0]),
            read(api, &paths[1]),
            read(api, &paths[2]),
            read(api, &paths[3]),
            read(api, &paths[4]),
        );
        Ok(Job {
            address,
            job: without_secrets(job?, &view.secret_headers),
            explanation: explanation.unwrap_or_default(),
            statistics: statistics.unwrap_or_default(),
            history,
            coming: coming.unwrap_or_default().list("value").to_vec(),
        })
    }

    /// The history entry of the last attempt of the main action.
    fn last(&self) -> &Value {
        let entries = self.history.as_ref().map_or(&[][..], |page| page.list("value"));
        let is_main = |entry: &&Value| entry.text("properties.actionName") != "ErrorAction";
        entries.iter().find(is_main).or(entries.first()).unwrap_or(&Value::Null)
    }

    /// Whether all attempts of the newest page of the history are those of manual runs.
    fn ran_only_by_hand(&self) -> bool {
        let entries = self.history.as_ref().map_or(&[][..], |page| page.list("value"));
        let is_manual = |entry: &Value| {
            entry.has("properties.repeatCount") && entry.integer("properties.repeatCount") == 0
        };
        entries.iter().all(is_manual)
    }

    fn created(&self) -> Option<Instant> {
        self.explanation.time("job.createdTime")
    }

    /// Failed runs since the last success.
    fn consecutive_failures(&self) -> u64 {
        self.statistics.integer("consecutiveFailures")
    }

    fn state(&self) -> String {
        let own = self.job.text("properties.state");
        let reason = self.explanation.text("reason");
        match (own.as_str(), reason.as_str()) {
            ("Enabled", "Running") => "Running".to_owned(),
            ("Enabled", "Retrying") => "Retrying".to_owned(),
            ("Enabled", "CollectionDisabled") => "Collection disabled".to_owned(),
            ("Enabled", "Paused") => "Paused".to_owned(),
            ("Enabled", _) if self.consecutive_failures() >= FAILING_MIN => "Failing".to_owned(),
            _ => own,
        }
    }

    /// A typical time between two coming occurrences.
    fn interval(&self) -> Option<Duration> {
        let times: Vec<_> =
            self.coming.iter().filter_map(|row| row.time("scheduledTime")).collect();
        let (first, last) = (times.first()?, times.last()?);
        let steps = u32::try_from(times.len()).ok()?.checked_sub(1).filter(|steps| *steps > 0)?;
        Some(last.since(*first) / steps).filter(|interval| !interval.is_zero())
    }
}

/// The zone of the job with a schedule of its own; none if that is UTC.
pub(super) fn zone_of(job: &Value) -> Option<Zone> {
    let name = job.text("properties.recurrence.timeZone");
    Zone::named(&name).ok().filter(|zone| zone.name() != Zone::utc().name())
}

pub(super) async fn page(
    view: &mut View,
    shared: impl Future<Output = Shared>,
    request: &PageRequest<'_>,
    address: &JobAddress,
    api: &dyn Api,
) -> PageResult {
    view.title = format!("{} · {}", address.job, address.collection.collection);
    let wanted = request.parameter("tab");
    let tab = TABS.iter().find(|(id, _)| *id == wanted).map_or("runs", |(id, _)| id);
    let history_entries = if tab == "runs" { runs::ENTRIES } else { HISTORY_READ };
    let (shared, job) = tokio::join!(shared, Job::load(address, history_entries, view, api));
    view.share(shared);
    let job = job?;
    view.set_job_zone(zone_of(&job.job));
    let content = match tab {
        "schedule" => Tab::Schedule(Schedule::load(&job, request, view, api).await?),
        "definition" => definition(&job),
        "ledger" => Tab::Ledger(Ledger::load(&job, request, view, api).await?),
        "notes" => Tab::Notes(Note::of_job(address, view, api).await),
        _ => Tab::Runs(Runs::load(&job, request, view, api).await?),
    };
    let properties = job.job.member("properties");
    let state = job.state();
    let own_state = properties.text("state");
    let reason = note_of_state(&job, view, api).await;
    let next: Vec<_> = job.coming.iter().filter_map(|row| NextRun::new(row, view)).collect();
    let skippable = job.coming.iter().find(|row| row.text("disposition") == "Scheduled");
    let page = JobPage {
        href: format!("{}jobs/{}", view.root, address.in_console()),
        resource: address.in_api(),
        description: properties.text("description"),
        schedule: sentence(&job.explanation.text("job.schedule"), view),
        mark: match state.as_str() {
            "Retrying" => Mark::Running,
            state => Mark::of_job(state),
        },
        state,
        is_enabled: own_state == "Enabled",
        is_finished: matches!(own_state.as_str(), "Completed" | "Faulted"),
        run_effect: RunEffect::of(&job),
        answer: Answer::new(&job, reason, view),
        switch: switch_body(address, own_state == "Enabled"),
        bulk: format!("{}/jobs/bulk", address.collection.in_api()),
        definition: facts::definition(&job),
        statistics: facts::statistics(&job, view),
        outcomes: Vec::<Outcome<'_>>::deserialize(job.statistics.member("outcomes"))
            .ok()
            .filter(|outcomes| !outcomes.is_empty())
            .map(|outcomes| Outcomes::new(&outcomes, view)),
        next,
        next_condition: match job.coming.first().map(|row| row.text("disposition")).as_deref() {
            Some("JobDisabled") => "if the job were enabled",
            Some("CollectionDisabled") => "if the collection were enabled",
            Some("Paused") => "if nothing were paused",
            _ => "",
        },
        has_skipped: job.coming.iter().any(|row| row.text("disposition") == "WillBeSkipped"),
        skippable: skippable
            .and_then(|row| row.time("scheduledTime"))
            .filter(|_| properties.has("recurrence"))
            .map(|at| view.time(at)),
        dst_notes: job.explanation.list("notes").iter().map(|note| note.text("")).collect(),
        tab,
        content,
        address,
        view,
    };
    rendered(&page)
}

impl JobPage<'_> {
    /// Name with its collection, as in questions to the user.
    fn full_name(&self) -> String {
        format!("{}/{}", self.address.collection.collection, self.address.job)
    }

    fn collection_href(&self) -> String {
        format!("{}collections/{}", self.view.root, self.address.collection.in_console())
    }

    /// The editor of a new job with this definition.
    fn duplicate_href(&self) -> String {
        format!("{}new-job?from={}", self.view.root, encode(&self.address.in_console()))
    }

    fn tabs(&self) -> [(&'static str, &'static str); 5] {
        TABS
    }
}

impl NextRun {
    fn new(row: &Value, view: &View) -> Option<NextRun> {
        let disposition = row.text("disposition");
        let remark = match disposition.as_str() {
            // The list says it once.
            "Scheduled" | "JobDisabled" | "CollectionDisabled" | "Paused" => "",
            other => words::disposition(other),
        };
        Some(NextRun { time: view.time(row.time("scheduledTime")?), remark: remark.to_owned() })
    }
}

/// The body of the bulk operation that disables or enables the job.
fn switch_body(address: &JobAddress, is_enabled: bool) -> String {
    let action = if is_enabled { "Disable" } else { "Enable" };
    serde_json::json!({"action": action, "names": [address.job]}).to_string()
}

/// The note of the user who disabled the job or its collection, or skipped its next run.
async fn note_of_state(job: &Job<'_>, view: &View, api: &dyn Api) -> Option<Note> {
    let action = match job.explanation.text("reason").as_str() {
        "JobDisabled" => "Disabled",
        "WillBeSkipped" => "Skipped",
        "CollectionDisabled" => {
            return Note::of_disabled_collection(&job.address.collection, view, api).await;
        }
        _ => return None,
    };
    let notes = Note::of_job(job.address, view, api).await;
    notes.into_iter().find(|note| note.action == action)
}

fn definition(job: &Job<'_>) -> Tab {
    let mut definition = job.job.clone();
    if let Some(properties) = definition.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove("status");
    }
    let properties = definition.member("properties");
    Tab::Definition {
        json: definition.pretty(),
        command: command::create_command(job.address, properties),
        has_secrets: command::leaves_out_secrets(properties),
    }
}

/// The value of a parameter of a link of the API, as it is in the link.
fn link_parameter(link: &str, name: &str) -> Option<String> {
    let mut pairs = link.split(['?', '&']).filter_map(|pair| pair.split_once('='));
    pairs.find(|(other, _)| *other == name).map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests;
