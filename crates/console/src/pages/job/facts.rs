//! Facts about a job and its runs so far.

use super::Job;
use crate::api::Json as _;
use crate::format::{count, counted, milliseconds, written_duration};
use crate::view::View;
use serde_json::Value;

/// A fact: a text, or a code with a text after it.
pub(super) struct Fact {
    pub(super) name: &'static str,
    pub(super) code: String,
    pub(super) text: String,
}

impl Fact {
    fn text(name: &'static str, text: impl Into<String>) -> Fact {
        Fact { name, code: String::new(), text: text.into() }
    }
}

/// The definition in words.
pub(super) fn definition(job: &Job<'_>) -> Vec<Fact> {
    let properties = job.job.member("properties");
    let action = properties.member("action");
    let is_recurring = properties.has("recurrence");
    let authentication = action.text("request.authentication.type");
    let mut facts = vec![Fact {
        name: "Target",
        code: target(action),
        text: match authentication.is_empty() {
            true => String::new(),
            false => format!("with {authentication} authentication"),
        },
    }];
    facts.push(Fact::text("Retries", retries(action.member("retryPolicy"))));
    if action.has("errorAction") {
        let code = target(action.member("errorAction"));
        facts.push(Fact { name: "Error action", code, text: String::new() });
    }
    if is_recurring {
        facts.push(Fact::text("Missed runs", missed_runs(properties.member("missedRuns"))));
        facts.push(Fact::text("Overlap", overlap(&properties.text("overlap"))));
    }
    let limits = [
        ("Jitter", properties.text("jitter"), "up to "),
        ("Timeout", properties.text("timeout"), ""),
    ];
    for (name, value, start) in limits {
        if !value.is_empty() {
            facts.push(Fact::text(name, format!("{start}{}", written_duration(&value))));
        }
    }
    if action.text("signing") == "On" {
        facts.push(Fact::text("Signing", "on"));
    }
    let tags = properties.members("tags").map(|(name, value)| {
        let value = value.text("");
        if value.is_empty() { name.to_owned() } else { format!("{name}={value}") }
    });
    // Directions of writing that a value switches end with it.
    let tags = tags.map(|tag| format!("\u{2068}{tag}\u{2069}"));
    let tags = tags.collect::<Vec<_>>().join(", ");
    if !tags.is_empty() {
        facts.push(Fact::text("Tags", tags));
    }
    facts
}

/// The runs so far.
pub(super) fn statistics(job: &Job<'_>, view: &View) -> Vec<Fact> {
    let mut facts = counters(job);
    if let Some(created) = job.created() {
        let edits = job.explanation.integer("job.generation").saturating_sub(1);
        let edits = match edits {
            0 => String::new(),
            1 => ", changed once".to_owned(),
            edits => format!(", changed {} times", count(edits)),
        };
        facts.push(Fact::text("Created", format!("{}{edits}", view.date_time(created))));
    }
    facts
}

fn counters(job: &Job<'_>) -> Vec<Fact> {
    let status = job.job.member("properties.status");
    let (runs, failures) = (status.integer("executionCount"), status.integer("failureCount"));
    let mut facts = Vec::new();
    if runs > 0 {
        let failures = match failures {
            0 => "none failed".to_owned(),
            failures => format!("{} failed", count(failures)),
        };
        facts.push(Fact::text("Attempts", format!("{}, {failures}", count(runs))));
    }
    let statistics = &job.statistics;
    let milliseconds =
        |name: &str| statistics.number(&format!("duration.{name}")).map(milliseconds);
    if let Some(rate) = statistics.number("successRate") {
        let of = match statistics.integer("runs") {
            1 => "run".to_owned(),
            runs => counted(runs, "run", "runs"),
        };
        facts.push(Fact::text("Success", format!("{:.0} % of the last {of}", rate * 100.0)));
    }
    if let (Some(median), Some(p95)) =
        (milliseconds("p50Milliseconds"), milliseconds("p95Milliseconds"))
    {
        facts.push(Fact::text("Duration", format!("median {median}, p95 {p95}")));
    }
    facts
}

/// `POST https://example.com/`, or the queue or topic.
pub(in crate::pages) fn target(action: &Value) -> String {
    let queue = action.member("queueMessage");
    let bus_queue = action.member("serviceBusQueueMessage");
    let bus_topic = action.member("serviceBusTopicMessage");
    if action.has("request") {
        return format!(
            "{} {}",
            action.text("request.method").to_uppercase(),
            action.text("request.uri")
        );
    }
    let (kind, name, place) = if queue.has("queueName") {
        ("storage queue", queue.text("queueName"), queue.text("storageAccount"))
    } else if bus_queue.has("queueName") {
        ("Service Bus queue", bus_queue.text("queueName"), bus_queue.text("namespace"))
    } else {
        ("Service Bus topic", bus_topic.text("topicPath"), bus_topic.text("namespace"))
    };
    format!("{kind} {name} of {place}")
}

fn retries(policy: &Value) -> String {
    let or = |name: &str, default: &str| match policy.text(name) {
        text if text.is_empty() => default.to_owned(),
        text => text,
    };
    let retries = match or("retryCount", "4").as_str() {
        "1" => "once".to_owned(),
        times => format!("{times} times"),
    };
    let interval = written_duration(&or("retryInterval", "PT30S"));
    match policy.text("retryType").as_str() {
        "None" => "none".to_owned(),
        "Exponential" => {
            let longest = written_duration(&or("maxInterval", "PT1H"));
            format!("{retries}, after {interval}, doubled each time up to {longest}")
        }
        _ if retries == "0 times" => "none".to_owned(),
        _ if retries == "once" => format!("once, after {interval}"),
        _ => format!("{retries}, {interval} apart"),
    }
}

fn missed_runs(policy: &Value) -> String {
    let within = match policy.text("within") {
        text if text.is_empty() => String::new(),
        text => format!(", within {}", written_duration(&text)),
    };
    match policy.text("policy").as_str() {
        "Skip" => "do not run later".to_owned(),
        "All" => format!("all run later{within}"),
        _ => format!("the last one runs later{within}"),
    }
}

fn overlap(policy: &str) -> &'static str {
    match policy {
        "QueueOne" => "one occurrence waits for the earlier run",
        "Allow" => "runs may overlap",
        _ => "skip an occurrence while an earlier run is in flight",
    }
}
