//! Converting jobs of other schedulers to definitions.
//!
//! Each source has a module that turns its documents into jobs, with the next runs by the rules of the
//! source, and lists the parts of a job that Kalends does not have. Nothing here uses a server.

pub(crate) mod arm;
mod arm_expression;
mod cloud_scheduler;
mod cron_fields;
mod crontab;
mod eventbridge;
mod eventbridge_schedule;
mod kubernetes;
mod names;
#[cfg(test)]
mod samples;
mod source_cron;
mod unix_cron;
mod url_template;

use kalends_domain::{CollectionName, JobName};
use kalends_recurrence::{Definition, Instant, Rule, Settings};
use kalends_wire::{ErrorDetails, Json, read_definition};

pub(crate) use cloud_scheduler::import as import_cloud_scheduler;
pub(crate) use crontab::CrontabForm;
pub(crate) use crontab::import as import_crontab;
pub(crate) use eventbridge::import as import_eventbridge;
pub(crate) use kubernetes::import as import_kubernetes;
pub(crate) use url_template::UrlTemplate;

use crate::json::{JsonMembers as _, set};
use names::Names;

/// Runs in a report.
pub(crate) const RUNS_SHOWN: usize = 10;
/// A resolution of a minute: schedules of sources have no seconds.
const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);

/// Settings of an import.
pub(crate) struct ImportOptions {
    pub(crate) now: Instant,
    /// The URL of jobs whose source runs a command, a container or a cloud target.
    pub(crate) url_template: Option<UrlTemplate>,
    /// The collection of all jobs, in place of that of the source.
    pub(crate) collection: Option<CollectionName>,
    /// The time zone of a crontab without `CRON_TZ`, an IANA name.
    pub(crate) time_zone: Option<String>,
}

/// The result of an import.
#[derive(Debug, Default)]
pub(crate) struct Import {
    pub(crate) jobs: Vec<ImportedJob>,
    pub(crate) not_carried_over: Vec<NotCarriedOver>,
    names: Names,
}

/// A job that was converted.
#[derive(Debug)]
pub(crate) struct ImportedJob {
    pub(crate) collection: CollectionName,
    pub(crate) job: JobName,
    /// File and line of its source.
    pub(crate) source: String,
    /// The members of `properties`.
    pub(crate) properties: Json<'static>,
    /// Whether the source has no start time, and the job got one so that it does not run at once.
    pub(crate) has_added_start: bool,
    /// The next runs by the rules of the source.
    pub(crate) source_runs: Vec<Instant>,
    /// The next runs of the definition.
    pub(crate) runs: Vec<Instant>,
    /// The schedule in words.
    pub(crate) description: String,
    /// Differences from the source.
    pub(crate) notes: Vec<String>,
}

/// A job, or an entry of a file, that has no equivalent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotCarriedOver {
    pub(crate) source: String,
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// A job of a source before its schedule was checked.
struct Candidate {
    collection: String,
    name: String,
    source: String,
    properties: Json<'static>,
    source_runs: Vec<Instant>,
    notes: Vec<String>,
}

impl Import {
    fn refuse(&mut self, source: &str, name: &str, reason: impl Into<String>) {
        let (source, name) = (source.to_owned(), name.to_owned());
        self.not_carried_over.push(NotCarriedOver { source, name, reason: reason.into() });
    }

    /// Adds a job, with a start time if it would otherwise run at once.
    fn add(&mut self, candidate: Candidate, options: &ImportOptions) {
        let Candidate { collection, name, source, properties, source_runs, mut notes } = candidate;
        let collection = match &options.collection {
            Some(collection) => Some(collection.clone()),
            None => self.names.collection(&collection),
        };
        let Some((collection, job)) = collection.and_then(|collection| {
            let job = self.names.job(&collection, &name)?;
            Some((collection, job))
        }) else {
            return self.refuse(&source, &name, "No valid name is left for the job");
        };
        if job.as_str() != name {
            notes.insert(0, format!("The name of the job is {job} (found {name:?})"));
        }
        let body = |properties: &Json<'static>| {
            Json::Object(vec![("properties".into(), properties.clone())])
        };
        let definition = match read_definition(&body(&properties), options.now) {
            Ok(definition) => definition,
            Err(errors) => return self.refuse(&source, &name, schedule_problem(&errors)),
        };
        let had_start = definition.start.is_some();
        let (properties, definition) = match start(definition, properties, options.now) {
            Ok(started) => started,
            Err(reason) => return self.refuse(&source, &name, reason),
        };
        let rule = match Rule::new(definition, &Settings::default()) {
            Ok(rule) => rule,
            Err(errors) => {
                let errors: ErrorDetails = errors.0.into_iter().map(Into::into).collect();
                return self.refuse(&source, &name, schedule_problem(&errors));
            }
        };
        let runs = rule.occurrences_after(options.now).take(RUNS_SHOWN).collect::<Vec<_>>();
        if runs.is_empty() {
            return self.refuse(&source, &name, "The schedule has ended");
        }
        let description = rule.describe();
        self.jobs.push(ImportedJob {
            collection,
            job,
            source,
            has_added_start: !had_start && properties.at("startTime").is_some(),
            properties,
            source_runs,
            runs,
            description,
            notes,
        });
    }
}

fn schedule_problem(errors: &ErrorDetails) -> String {
    format!("The schedule has no equivalent: {errors}")
}

/// Gives a new job the start time that keeps it from running at once: the next match of its schedule.
/// It is an error if the job runs once and its time has passed.
pub(crate) fn start(
    definition: Definition,
    mut properties: Json<'static>,
    now: Instant,
) -> Result<(Json<'static>, Definition), String> {
    match (&definition.recurrence, definition.start) {
        (Some(recurrence), None) if !recurrence.is_cron() => {
            let start = next_match(&definition, now);
            set(&mut properties, "startTime", start.to_string().into());
            Ok((properties, Definition { start: Some(start), ..definition }))
        }
        (Some(_), _) => Ok((properties, definition)),
        (None, Some(start)) if start > now => Ok((properties, definition)),
        (None, Some(start)) => Err(format!("The job runs once, and its time has passed ({start})")),
        (None, None) => {
            Err("The job runs once and has no start time: it would run at once".to_owned())
        }
    }
}

/// The first match of a recurrence after the next whole minute, which stands in for its start time.
fn next_match(definition: &Definition, now: Instant) -> Instant {
    let seconds = now.unix_seconds().div_euclid(60) * 60;
    let minute = Instant::from_unix_seconds(seconds).unwrap_or(now).saturating_add(MINUTE);
    let definition = Definition { start: Some(minute), created: minute, ..definition.clone() };
    // The caller reports the errors of the definition.
    let rule = Rule::new(definition, &Settings::default());
    rule.ok().and_then(|rule| rule.without_end().next_after(minute)).unwrap_or(minute)
}

/// The action that calls the URL of a template.
fn call(url: &str, body: Option<String>) -> Json<'static> {
    let kind = if url.starts_with("https:") { "Https" } else { "Http" };
    let mut request =
        crate::json::object([("uri", url.to_owned().into()), ("method", "POST".into())]);
    if let Some(body) = body {
        if serde_json::from_str::<serde_json::Value>(&body).is_ok() {
            let headers = crate::json::object([("Content-Type", "application/json".into())]);
            set(&mut request, "headers", headers);
        }
        set(&mut request, "body", body.into());
    }
    crate::json::object([("type", kind.into()), ("request", request)])
}

impl ImportedJob {
    /// Whether the next runs are those of the source.
    pub(crate) fn is_equal(&self) -> bool {
        self.runs == self.source_runs
    }

    /// Whether the job is disabled.
    pub(crate) fn is_disabled(&self) -> bool {
        self.properties.text("state").eq_ignore_ascii_case("Disabled")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(properties: &str) -> Result<String, String> {
        let now = "2026-11-16T10:33:27.5Z".parse().unwrap();
        let properties = Json::parse(properties.as_bytes()).unwrap().into_owned();
        let body = Json::Object(vec![("properties".into(), properties.clone())]);
        let definition = read_definition(&body, now).unwrap();
        start(definition, properties, now)
            .map(|(properties, _)| properties.text("startTime").to_owned())
    }

    #[test]
    fn a_new_recurring_job_starts_with_its_next_match() {
        for (recurrence, expected) in [
            (
                r#"{"frequency":"Day","schedule":{"hours":[2],"minutes":[30]}}"#,
                "2026-11-17T02:30:00Z",
            ),
            (
                r#"{"frequency":"Day","schedule":{"hours":[10],"minutes":[34]}}"#,
                "2026-11-17T10:34:00Z",
            ),
            (r#"{"frequency":"Hour"}"#, "2026-11-16T11:34:00Z"),
            (
                r#"{"frequency":"Week","interval":2,"schedule":{"weekDays":["Friday"],"hours":[5]}}"#,
                "2026-11-20T05:34:00Z",
            ),
            (
                r#"{"frequency":"Day","timeZone":"Asia/Tokyo","schedule":{"hours":[9],"minutes":[0]}}"#,
                "2026-11-17T00:00:00Z",
            ),
            (r#"{"cron":"30 2 * * *"}"#, ""),
        ] {
            let properties = format!("{{\"recurrence\":{recurrence}}}");
            assert_eq!(started(&properties).unwrap(), expected, "{recurrence}");
        }
        let given = r#"{"startTime":"2020-01-01T00:00:00Z","recurrence":{"frequency":"Day"}}"#;
        assert_eq!(started(given).unwrap(), "2020-01-01T00:00:00Z");
    }

    #[test]
    fn a_new_job_that_would_run_at_once_is_refused() {
        assert!(started("{}").unwrap_err().contains("would run at once"));
        let passed = started(r#"{"startTime":"2026-11-16T10:33:27Z"}"#).unwrap_err();
        assert!(passed.contains("its time has passed (2026-11-16T10:33:27Z)"), "{passed}");
        let coming = r#"{"startTime":"2026-11-16T10:33:28Z"}"#;
        assert_eq!(started(coming).unwrap(), "2026-11-16T10:33:28Z");
    }
}
