//! The tab "Runs": the history of a job, one row per occurrence, the newest first.

use std::collections::HashMap;
use std::time::Duration;

use kalends_recurrence::Instant;
use serde_json::Value;

use super::{Job, link_parameter};
use crate::address::encode;
use crate::api::{Api, ApiFailure, Json as _, read};
use crate::format::duration;
use crate::mark::Mark;
use crate::message::{summary, without_own_time};
use crate::sentence::{Part, sentence};
use crate::view::{Elapsed, PageRequest, Time, View};
use crate::words;

/// History entries of a page. Each is an attempt, so that there are fewer rows.
pub(super) const ENTRIES: usize = 50;
/// Pages of 100 occurrences that are read to name the outcome of the runs.
const OCCURRENCE_PAGES_MAX: usize = 3;
/// Runs in flight are searched in this time before now if there is no history.
const IN_FLIGHT_AGE: Duration = Duration::from_secs(86_400);

pub(super) struct Runs {
    pub(super) rows: Vec<Row>,
    pub(super) next_page: Option<String>,
    pub(super) is_first_page: bool,
}

pub(super) struct Row {
    pub(super) mark: Mark,
    pub(super) status: String,
    pub(super) scheduled: Time,
    pub(super) href: String,
    pub(super) is_manual: bool,
    /// Time from the scheduled time to the start.
    pub(super) lag: String,
    pub(super) attempts: String,
    pub(super) took: String,
    /// Time since the start of a run that has not ended.
    pub(super) elapsed: Option<Elapsed>,
    pub(super) message: String,
    /// The message with its times in the zone of the page.
    pub(super) sentence: Vec<Part>,
    at: Instant,
}

/// The attempts of one occurrence, newest first.
struct Attempts<'a> {
    at: Instant,
    entries: Vec<&'a Value>,
}

impl Runs {
    pub(super) async fn load(
        job: &Job<'_>,
        request: &PageRequest<'_>,
        view: &View,
        api: &dyn Api,
    ) -> Result<Runs, ApiFailure> {
        let cursor = request.parameter("cursor");
        let query = format!("%24top={ENTRIES}&%24skiptoken={}", encode(&cursor));
        let history = match cursor.is_empty() {
            true => job.history.as_ref().map_err(Clone::clone)?,
            false => &read(api, &job.address.api("/history", &query)).await?,
        };
        // The attempts of the last row of a page may continue on the next one.
        let shown_before: Option<Instant> = request.parameter("after").parse().ok();
        let mut groups = group(history.list("value"));
        groups.retain(|group| Some(group.at) != shown_before);
        let is_first_page = cursor.is_empty();
        let from = groups.iter().map(|group| group.at).min();
        let from = from.unwrap_or_else(|| view.now.saturating_sub(IN_FLIGHT_AGE));
        let to = match is_first_page {
            true => view.now,
            false => groups.iter().map(|group| group.at).max().unwrap_or(view.now),
        };
        let occurrences = occurrences(job, from, to, OCCURRENCE_PAGES_MAX, api).await.rows;
        let mut by_time = HashMap::new();
        for row in &occurrences {
            by_time.entry(row.time("scheduledTime")).or_insert(row);
        }
        let mut rows: Vec<_> = groups
            .iter()
            .map(|group| Row::new(group, by_time.get(&Some(group.at)).copied(), job, view))
            .collect();
        if is_first_page {
            // Runs without a finished attempt have no history yet.
            let in_flight = |row: &&Value| {
                matches!(row.text("disposition").as_str(), "Running" | "Waiting" | "Retrying")
            };
            for row in occurrences.iter().filter(in_flight) {
                let Some(at) = row.time("scheduledTime") else { continue };
                if !groups.iter().any(|group| group.at == at) {
                    let group = Attempts { at, entries: vec![] };
                    rows.push(Row::new(&group, Some(row), job, view));
                }
            }
            rows.sort_by_key(|row| std::cmp::Reverse(row.at));
        }
        let last = groups.last().map(|group| encode(&group.at.to_string())).unwrap_or_default();
        let next = link_parameter(&history.text("nextLink"), "%24skiptoken");
        let next_page = next.map(|cursor| format!("?tab=runs&cursor={cursor}&after={last}"));
        Ok(Runs { rows, next_page, is_first_page })
    }
}

/// Occurrences of a job in a time span, oldest first.
pub(super) struct Occurrences {
    pub(super) rows: Vec<Value>,
    /// Whether there are more than were read.
    pub(super) has_more: bool,
}

/// Reads occurrences with at most `pages_max` requests of 100.
pub(super) async fn occurrences(
    job: &Job<'_>,
    from: Instant,
    to: Instant,
    pages_max: usize,
    api: &dyn Api,
) -> Occurrences {
    let span = format!("from={}&to={}", encode(&from.to_string()), encode(&to.to_string()));
    let mut rows = Vec::new();
    let mut cursor = String::new();
    for _ in 0..pages_max {
        let page = job.address.api("/occurrences", &format!("{span}{cursor}"));
        let page = read(api, &page).await.unwrap_or_default();
        rows.extend_from_slice(page.list("value"));
        match link_parameter(&page.text("nextLink"), "%24skiptoken") {
            Some(next) => cursor = format!("&%24skiptoken={next}"),
            None => return Occurrences { rows, has_more: false },
        }
    }
    Occurrences { rows, has_more: true }
}

/// Groups history entries by their occurrence, in the order of the newest entry of each.
fn group(entries: &[Value]) -> Vec<Attempts<'_>> {
    let mut groups: Vec<Attempts<'_>> = Vec::new();
    for entry in entries {
        let entry = entry.member("properties");
        let Some(at) = entry.time("expectedExecutionTime") else { continue };
        match groups.iter_mut().find(|group| group.at == at) {
            Some(group) => group.entries.push(entry),
            None => groups.push(Attempts { at, entries: vec![entry] }),
        }
    }
    groups
}

impl Row {
    fn new(group: &Attempts<'_>, occurrence: Option<&Value>, job: &Job<'_>, view: &View) -> Row {
        let is_main = |entry: &&Value| entry.text("actionName") != "ErrorAction";
        let main = || group.entries.iter().copied().filter(is_main);
        let newest = main().next().or(group.entries.first().copied());
        let disposition = match (occurrence, newest) {
            (Some(row), _) => row.text("disposition"),
            (None, Some(entry)) => entry.text("status"),
            (None, None) => String::new(),
        };
        let ran = || main().filter(|entry| entry.text("status") != "Postponed");
        let finished = ran().map(|entry| entry.integer("retryCount") + 1).max().unwrap_or(0);
        let in_flight = occurrence.filter(|row| row.has("attemptTime"));
        let is_own = |row: &&Value| row.text("actionName") != "ErrorAction";
        let current = in_flight.filter(is_own).map_or(0, |row| row.integer("retryCount") + 1);
        let attempts = finished.max(current);
        let is_complete = ran().any(|entry| entry.integer("retryCount") == 0);
        let started = ran().filter_map(|entry| entry.time("startTime")).min();
        let ended = group.entries.iter().filter_map(|entry| entry.time("endTime")).max();
        let lag = started.filter(|_| is_complete).map(|started| started.since(group.at));
        let is_open = matches!(disposition.as_str(), "Running" | "Retrying");
        let since = started.filter(|_| is_complete);
        let since = since.or_else(|| in_flight?.time("attemptTime")).filter(|_| is_open);
        let took = match (started, ended, is_complete) {
            (Some(started), Some(ended), true) if !is_open => duration(ended.since(started)),
            _ => String::new(),
        };
        let message = newest.map(|entry| summary(&entry.text("message"))).unwrap_or_default();
        let message = without_own_time(message, &group.at.to_string());
        Row {
            mark: Mark::of_disposition(&disposition),
            status: words::disposition(&disposition).to_owned(),
            scheduled: view.time(group.at),
            href: format!(
                "{}jobs/{}/runs/{}",
                view.root,
                job.address.in_console(),
                encode(&group.at.to_string())
            ),
            is_manual: occurrence.is_some_and(|row| row.text("cause") == "Manual"),
            lag: lag.map(duration).unwrap_or_default(),
            attempts: if attempts == 0 { String::new() } else { attempts.to_string() },
            took,
            elapsed: since.map(|since| view.elapsed(since)),
            sentence: sentence(&message, view),
            message,
            at: group.at,
        }
    }
}
