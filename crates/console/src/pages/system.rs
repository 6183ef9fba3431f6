//! System: the pause of everything, this node, the store, limits and rules.

use std::time::Duration;

use askama::Template;
use serde_json::Value;

use super::{PageResult, rendered};
use crate::api::{Api, Json as _, read};
use crate::format::{bytes, count, duration, written_duration};
use crate::mark::Mark;
use crate::note::{Note, NoteGroup};
use crate::view::{Shared, Time, View};

/// Notes that are read; a bulk operation gives one to each of its jobs.
const NOTES_READ: usize = 100;
/// Groups of notes at the end of the page.
const NOTES_SHOWN: usize = 10;

#[derive(Template)]
#[template(path = "system.html")]
struct System<'a> {
    view: &'a View,
    paused_since: Option<Time>,
    paused_until: Option<Time>,
    scheduler: Line,
    store: Option<Line>,
    started: Option<Time>,
    node: Vec<Fact>,
    limits: Vec<Fact>,
    retention: Vec<Fact>,
    egress: &'static str,
    allowed: Vec<String>,
    notes: Vec<NoteGroup>,
}

/// A state in words.
struct Line {
    mark: Mark,
    text: String,
}

struct Fact {
    name: &'static str,
    value: String,
}

pub(super) async fn page(
    view: &mut View,
    shared: impl Future<Output = Shared>,
    api: &dyn Api,
) -> PageResult {
    view.share(shared.await);
    view.title = "System".to_owned();
    let (node, notes) = tokio::join!(read(api, "/api/node"), Note::newest(NOTES_READ, view, api));
    let node = node?;
    let fact = |name, path: &str| Fact { name, value: node.text(path) };
    let number = |name, path: &str| Fact { name, value: count(node.integer(path)) };
    let span = |name, path: &str| Fact { name, value: period(&node.text(path)) };
    let page = System {
        paused_since: view.pause.time("since").map(|at| view.time(at)),
        paused_until: view.pause.time("until").map(|at| view.time(at)),
        scheduler: scheduler(&node),
        store: node.has("store").then(|| store(&node)),
        started: node.time("startedAt").map(|at| view.time(at)),
        node: known(vec![
            fact("Version", "version"),
            fact("Node", "node"),
            fact("Time zone data", "zoneData"),
            fact("Echo target", "echo"),
        ]),
        limits: known(vec![
            number("Attempts at the same time", "limits.attempts"),
            number("Of these, to one host", "limits.attemptsPerHost"),
            number("Of these, of one collection", "limits.attemptsPerCollection"),
            span("Timeout of an attempt", "limits.attemptTimeout"),
            number("Open runs of one job", "limits.openRunsPerJob"),
            Fact { name: "Size of a job", value: bytes(node.integer("limits.jobBytes")) },
            Fact {
                name: "Limits of plans",
                value: if node.is_true("limits.plans") { "enforced" } else { "off" }.to_owned(),
            },
        ]),
        retention: known(vec![
            span("History", "retention.history"),
            number("History entries of one job", "retention.entriesPerJob"),
            span("Finished jobs", "retention.finishedJobs"),
        ]),
        egress: match node.text("egress.mode").as_str() {
            "SingleUser" => {
                "Jobs may reach this machine and the private network, because only its user can use this server."
            }
            "Listed" => "Jobs may reach the listed destinations only.",
            _ => "Jobs may reach public addresses, and the listed destinations.",
        },
        allowed: node.list("egress.allow").iter().map(|rule| rule.text("")).collect(),
        notes: NoteGroup::of(notes).into_iter().take(NOTES_SHOWN).collect(),
        view,
    };
    rendered(&page)
}

fn known(facts: Vec<Fact>) -> Vec<Fact> {
    facts.into_iter().filter(|fact| !fact.value.is_empty()).collect()
}

/// `60 days` for `P60D`, `1 min` for `PT1M`.
fn period(text: &str) -> String {
    let days = text.strip_prefix('P').and_then(|text| text.strip_suffix('D'));
    let seconds = text.strip_prefix("PT").and_then(|text| text.strip_suffix('S'));
    match (days.and_then(|days| days.parse().ok()), seconds.and_then(|text| text.parse().ok())) {
        (Some(days), _) => crate::format::counted(days, "day", "days"),
        (_, Some(seconds)) => duration(Duration::from_secs(seconds)),
        _ => written_duration(text),
    }
}

fn scheduler(node: &Value) -> Line {
    let state = node.text("scheduler.state");
    let mark = match state.as_str() {
        "Running" => Mark::Succeeded,
        "Held" | "Paused" => Mark::Skipped,
        _ => Mark::Failed,
    };
    let text = match node.has("scheduler.running") {
        true => format!(
            "{state}: {} in flight, {} waiting, {} late",
            count(node.integer("scheduler.running")),
            count(node.integer("scheduler.waiting")),
            duration(Duration::from_millis(node.integer("scheduler.latenessMilliseconds"))),
        ),
        false => state,
    };
    Line { mark, text }
}

fn store(node: &Value) -> Line {
    let kind = match node.text("store.kind").as_str() {
        "Sqlite" => "SQLite".to_owned(),
        "Postgres" => "PostgreSQL".to_owned(),
        other => other.to_owned(),
    };
    let size = match node.has("store.bytes") {
        true => format!(", {}", bytes(node.integer("store.bytes"))),
        false => String::new(),
    };
    match node.is_true("store.healthy") {
        true => Line { mark: Mark::Succeeded, text: format!("{kind}{size}") },
        false => Line {
            mark: Mark::Failed,
            text: format!("{kind}{size}: {}", node.text("store.reason")),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake_api::FakeApi;

    #[tokio::test]
    async fn a_note_on_many_jobs_is_shown_once() {
        let note = |second: u32, job: &str, text: &str| {
            let id = format!(
                "/subscriptions/s/resourceGroups/g/providers/Microsoft.Scheduler\
                /jobCollections/c/jobs/{job}"
            );
            json!({"time": format!("2026-11-16T11:00:{second:02}Z"), "action": "Disabled",
                "note": text, "by": "ada", "resource": id})
        };
        let notes = [
            note(50, "late", "moved"),
            note(21, "a", "moved"),
            note(20, "b", "moved"),
            note(19, "c", "moved"),
            note(18, "d", "other"),
        ];
        let api = FakeApi::of_owner().with("/api/node", json!({}));
        let page = api.with("/api/notes", json!({"value": notes})).page("/system").await.body;
        assert_eq!(page.matches("<div>moved</div>").count(), 2, "{page}");
        assert!(page.contains("Disabled 3 jobs by ada"), "{page}");
        assert!(page.contains(">c/late</a>") && page.contains(">c/d</a>"), "{page}");
    }

    #[test]
    fn periods_are_in_words() {
        for (text, expected) in [
            ("P60D", "60 days"),
            ("P1D", "1 day"),
            ("PT60S", "1 min"),
            ("PT1M", "1 min"),
            ("PT1H30M", "1 h 30 min"),
        ] {
            assert_eq!(period(text), expected);
        }
    }
}
