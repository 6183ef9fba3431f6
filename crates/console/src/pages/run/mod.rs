//! One run of a job: its attempts on a time axis, request and response.

mod attempt;
mod request;

use std::time::Duration;

use askama::Template;
use kalends_recurrence::Instant;

use self::attempt::AttemptEntry;
use self::request::{RequestOf, SentRequest};
use serde_json::Value;

use super::job::zone_of;
use super::{PageResult, rendered};
use crate::address::{JobAddress, encode};
use crate::api::{Api, ApiFailure, Json as _, read};
use crate::chart::{Attempt, InFlight, Responsive, Waterfall};
use crate::format::{count, counted, duration, fine_duration};
use crate::mark::Mark;
use crate::secrets::without_secrets;
use crate::sentence::{Part, sentence};
use crate::view::{Elapsed, Shared, Time, View};
use crate::words;

/// Reasons of explanations about times at which nothing was scheduled.
const NO_OCCURRENCE: [&str; 3] = ["NotAnOccurrence", "BeforeCreation", "AfterEnd"];

/// In place of a scheduled time: the newest failed run.
pub(super) const LAST_FAILURE: &str = "last-failure";

#[derive(Template)]
#[template(path = "run/run.html")]
struct RunPage<'a> {
    view: &'a View,
    address: &'a JobAddress,
    /// URL of the page of the job.
    job_href: String,
    /// Path of the job in the API.
    resource: String,
    scheduled: Time,
    mark: Mark,
    /// The outcome in words.
    outcome: String,
    /// Time since the start of a run in flight.
    elapsed: Option<Elapsed>,
    is_manual: bool,
    explanation: Vec<Part>,
    waterfall: Option<Responsive<Waterfall>>,
    /// Attempts with their responses, newest first.
    attempts: Vec<AttemptEntry>,
    /// Whether a request of the run was sent, or may be.
    is_sent: bool,
    requests: Vec<SentRequest>,
    /// Whether these are the requests of the run, not those of a later definition.
    has_request: bool,
    /// The edit since the run, if there was one.
    changed: Option<Changed>,
    facts: Vec<Fact>,
    /// The run because of which this occurrence was skipped.
    blocked_by: Option<Link>,
    previous: Option<Link>,
    next: Option<Link>,
}

/// The job was edited since a run.
struct Changed {
    /// Generation of the run.
    ran: String,
    /// The present generation.
    current: String,
    request: RequestSince,
}

/// The request of a run after an edit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestSince {
    /// The edit left the action as it was.
    Same,
    /// The action has changed; that of the run is shown.
    Earlier,
    /// The definition of the run is not retained; the present request is shown.
    Unknown,
}

impl Changed {
    /// Whether the request that is shown is that of the run.
    fn has_request(&self) -> bool {
        self.request != RequestSince::Unknown
    }
}

struct Fact {
    name: &'static str,
    time: Option<Time>,
    code: String,
    text: String,
}

/// Another occurrence.
struct Link {
    time: Time,
    href: String,
}

impl Fact {
    fn text(name: &'static str, text: String) -> Fact {
        Fact { name, time: None, code: String::new(), text }
    }

    fn time(name: &'static str, time: Time, text: String) -> Fact {
        Fact { name, time: Some(time), code: String::new(), text }
    }
}

pub(super) async fn page(
    view: &mut View,
    shared: impl Future<Output = Shared>,
    address: &JobAddress,
    time: &str,
    api: &dyn Api,
) -> PageResult {
    view.share(shared.await);
    view.title = format!("Run of {}", address.job);
    let at = match time {
        LAST_FAILURE => last_failure(address, api).await?,
        time => time.parse().map_err(|_| not_found(format!("{time:?} is not a time")))?,
    };
    let explain = address.api("/explain", &format!("at={}", encode(&at.to_string())));
    let job = address.api("", "");
    let collection = format!("{}?api-version=2026-11-01", address.collection.in_api());
    let (job, explanation, collection) =
        tokio::join!(read(api, &job), read(api, &explain), read(api, &collection));
    let (job, explanation) = (without_secrets(job?, &view.secret_headers), explanation?);
    view.set_job_zone(zone_of(&job));
    let text = explanation.text("explanation");
    let history = explanation.list("history");
    let rows = explanation.list("occurrences");
    if history.is_empty() && NO_OCCURRENCE.contains(&explanation.text("reason").as_str()) {
        return Err(not_found(text));
    }
    // Rows of earlier generations of an edited job come first.
    let row = rows.last().cloned().unwrap_or_default();
    let scheduled = row.time("scheduledTime").or(explanation.time("occurrence")).unwrap_or(at);
    let mut attempts: Vec<_> =
        history.iter().map(|entry| AttemptEntry::new(entry.member("properties"), view)).collect();
    let disposition = match row.text("disposition") {
        name if name.is_empty() => explanation.text("reason"),
        name => name,
    };
    let generation = attempts.iter().map(|attempt| attempt.generation.clone());
    let generation = generation.chain([row.text("generation")]).find(|text| !text.is_empty());
    let current = explanation.text("job.generation");
    let ran = generation.clone().filter(|ran| *ran != current);
    let earlier = match &ran {
        Some(ran) => earlier_definition(address, ran, view, api).await,
        None => None,
    };
    let present = job.member("properties.action");
    let changed = ran.map(|ran| Changed {
        request: match &earlier {
            Some(earlier) if earlier.member("properties.action") == present => RequestSince::Same,
            Some(_) => RequestSince::Earlier,
            None => RequestSince::Unknown,
        },
        ran,
        current,
    });
    // The definition that the run used, if it is known.
    let job = earlier.as_ref().unwrap_or(&job);
    if let Some(attempt) = attempts.iter_mut().find(|attempt| attempt.is_main) {
        attempt.is_open = true;
    }
    let action = job.member("properties.action");
    let key = row.text("idempotencyKey");
    let ran_error_action = attempts.iter().any(|attempt| !attempt.is_main);
    let mark = Mark::of_disposition(&disposition);
    let ran = attempts.iter().filter(|attempt| !attempt.is_postponed);
    let started = ran.filter_map(|attempt| attempt.started).min().or(row.time("attemptTime"));
    let timeout = match row.has("attemptTime") {
        true => timeout(job, api).await,
        false => None,
    };
    let is_sent = !matches!(mark, Mark::Skipped | Mark::Disabled)
        || attempts.iter().any(|attempt| !attempt.is_postponed);
    let region = collection.unwrap_or_default().text("location");
    let is_signed = action.text("signing") == "On";
    let of = RequestOf { address, scheduled, key: &key, region: &region, is_signed };
    let mut requests = Vec::new();
    if is_sent {
        requests.push(SentRequest::new("Request", action, of));
    }
    if ran_error_action && action.has("errorAction") {
        let error_action = action.member("errorAction");
        // It has a key of its own.
        let of = RequestOf { key: "", ..of };
        requests.push(SentRequest::new("Request of the error action", error_action, of));
    }
    let link = |at: Instant| Link {
        time: view.time(at),
        href: format!(
            "{}jobs/{}/runs/{}",
            view.root,
            address.in_console(),
            encode(&at.to_string())
        ),
    };
    let page = RunPage {
        job_href: format!("{}jobs/{}", view.root, address.in_console()),
        resource: address.in_api(),
        scheduled: view.time(scheduled),
        mark,
        is_sent,
        outcome: outcome(&disposition, &attempts, &row),
        elapsed: started.filter(|_| disposition == "Running").map(|at| view.elapsed(at)),
        is_manual: row.text("cause") == "Manual",
        // The response is below.
        explanation: sentence(text.split(" The last said: ").next().unwrap_or_default(), view),
        waterfall: waterfall(scheduled, &attempts, &row, timeout, view),
        facts: facts(&row, &attempts, scheduled, generation, view),
        requests,
        has_request: changed.as_ref().is_none_or(Changed::has_request),
        changed,
        blocked_by: explanation.time("blockedBy").map(link),
        previous: explanation.time("previousOccurrence").map(link),
        next: explanation.time("nextOccurrence").filter(|at| *at <= view.now).map(link),
        attempts,
        address,
        view,
    };
    rendered(&page)
}

/// The definition of a job in an earlier generation, if it is retained.
async fn earlier_definition(
    address: &JobAddress,
    generation: &str,
    view: &View,
    api: &dyn Api,
) -> Option<Value> {
    let found = read(api, &address.api(&format!("/definitions/{generation}"), "")).await;
    found.ok().map(|definition| without_secrets(definition, &view.secret_headers))
}

/// The timeout of an attempt: that of the job, or else that of the server.
async fn timeout(job: &Value, api: &dyn Api) -> Option<Duration> {
    let own = job.text("properties.timeout");
    let text = match own.is_empty() {
        true => read(api, "/api/node").await.ok()?.text("limits.attemptTimeout"),
        false => own,
    };
    kalends_wire::parse_duration(&text)
}

/// The scheduled time of the newest run of a job that failed.
async fn last_failure(address: &JobAddress, api: &dyn Api) -> Result<Instant, ApiFailure> {
    let collection = encode(&address.collection.name_or_id());
    let job = encode(&address.job);
    let target = format!("/api/runs?status=Failed&collection={collection}&job={job}&limit=1");
    let runs = read(api, &target).await?;
    let time = runs.list("value").first().and_then(|run| run.time("scheduledTime"));
    time.ok_or_else(|| not_found("No failed run of the job is in the history.".to_owned()))
}

fn not_found(message: String) -> ApiFailure {
    ApiFailure { status: 404, message }
}

/// `Failed after 3 attempts; the error action succeeded`.
fn outcome(disposition: &str, attempts: &[AttemptEntry], row: &Value) -> String {
    let ran = attempts.iter().filter(|attempt| attempt.is_main && !attempt.is_postponed).count();
    let after = match (disposition, ran) {
        ("Completed" | "Failed" | "Superseded", 2..) => format!(" after {ran} attempts"),
        ("Running", 1..) if row.integer("retryCount") > 0 => {
            format!(", attempt {}", row.integer("retryCount") + 1)
        }
        ("Retrying", 1..) => format!(" after {}", counted(ran as u64, "attempt", "attempts")),
        _ => String::new(),
    };
    let error_action = match attempts.iter().find(|attempt| !attempt.is_main) {
        Some(attempt) if attempt.mark == Mark::Succeeded => "; the error action succeeded",
        Some(_) => "; the error action failed",
        None => "",
    };
    format!("{}{after}{error_action}", words::disposition(disposition))
}

fn waterfall(
    scheduled: Instant,
    attempts: &[AttemptEntry],
    row: &Value,
    timeout: Option<Duration>,
    view: &View,
) -> Option<Responsive<Waterfall>> {
    // Attempts with their number, oldest first.
    let ran = attempts.iter().rev().filter(|attempt| !attempt.is_postponed);
    let mut bars: Vec<_> = ran.filter_map(AttemptEntry::bar).collect();
    let retry = row.integer("retryCount");
    let label = attempt::label(row.text("actionName") != "ErrorAction", retry);
    let end = bars.last().map_or(scheduled, |bar| bar.ended);
    if let Some(started) = row.time("attemptTime") {
        let started = started.max(end).min(view.now);
        bars.push(Attempt {
            label,
            started,
            ended: view.now,
            in_flight: Some(InFlight {
                elapsed: view.elapsed(started),
                timeout: timeout.map(|timeout| started.saturating_add(timeout)),
            }),
            is_coming: false,
            phases: vec![],
            class: "f-run",
            text: "running".to_owned(),
        });
    } else if let Some(next) = row.time("nextAttemptTime").filter(|_| !bars.is_empty()) {
        let text = format!("due {}", view.time(next).relative);
        bars.push(Attempt {
            label,
            started: next,
            ended: next,
            in_flight: None,
            is_coming: true,
            phases: vec![],
            class: "f-faint",
            text,
        });
    }
    let chart = |screen| Waterfall::new(scheduled, &bars, screen);
    (!bars.is_empty()).then(|| Responsive::new(chart))
}

fn facts(
    row: &Value,
    attempts: &[AttemptEntry],
    scheduled: Instant,
    generation: Option<String>,
    view: &View,
) -> Vec<Fact> {
    let mut facts = vec![Fact::time("Scheduled", view.time(scheduled), String::new())];
    let several = row.integer("count");
    if let Some(last) = row.time("lastScheduledTime") {
        let text = format!("{} occurrences from then on", count(several));
        facts.push(Fact::time("Until", view.time(last), text));
    }
    let ran = || attempts.iter().filter(|attempt| !attempt.is_postponed);
    let started = ran().filter_map(|attempt| attempt.started).min();
    let ended = ran().filter_map(|attempt| attempt.ended).max();
    if let Some(started) = started {
        let lag = format!("{} after the scheduled time", fine_duration(started.since(scheduled)));
        facts.push(Fact::time("Started", view.time(started.whole_second()), lag));
    }
    if let (Some(started), Some(ended)) = (started, ended) {
        let text = format!("{} in all", duration(ended.since(started)));
        facts.push(Fact::time("Last attempt ended", view.time(ended.whole_second()), text));
    }
    if let Some(decided) = row.time("decidedTime").filter(|_| ended.is_none()) {
        // The scheduler looks a moment ahead.
        let is_early = decided < scheduled;
        let text = if is_early { "shortly before the scheduled time" } else { "" };
        facts.push(Fact::time("Decided", view.time(decided.whole_second()), text.to_owned()));
    }
    let cause = match row.text("cause").as_str() {
        "Manual" => "a manual run",
        "Scheduled" => "the schedule",
        _ => "",
    };
    if !cause.is_empty() {
        facts.push(Fact::text("Cause", cause.to_owned()));
    }
    if let Some(generation) = generation {
        facts.push(Fact::text("Generation", generation));
    }
    let key = row.text("idempotencyKey");
    if !key.is_empty() {
        let text = "the same in all attempts".to_owned();
        facts.push(Fact { name: "Idempotency key", time: None, code: key, text });
    }
    facts
}

#[cfg(test)]
mod tests;
