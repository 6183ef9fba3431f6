//! The tab "Ledger": every occurrence with its disposition, one time window after the other.

use std::time::Duration;

use kalends_recurrence::Instant;
use serde_json::Value;

use super::Job;
use super::runs::occurrences;
use crate::address::encode;
use crate::api::{Api, ApiFailure, Json as _};
use crate::format::count;
use crate::mark::Mark;
use crate::view::{PageRequest, Time, View};
use crate::words;

/// Occurrences of the schedule that a window should have.
const PER_WINDOW: u32 = 50;
/// Pages of 100 occurrences that are read for a window.
const PAGES_MAX: usize = 3;
/// Shortest window.
const WINDOW_MIN: Duration = Duration::from_secs(3_600);
/// Time between the occurrences of a job without coming ones.
const INTERVAL_DEFAULT: Duration = Duration::from_secs(86_400);

pub(super) struct Ledger {
    pub(super) rows: Vec<Row>,
    pub(super) from: Time,
    pub(super) to: Time,
    /// The rest of the window is not shown.
    pub(super) has_more: bool,
    pub(super) filters: Vec<Filter>,
    pub(super) earlier: Option<String>,
    pub(super) later: Option<String>,
}

/// A disposition to show alone.
pub(super) struct Filter {
    pub(super) name: &'static str,
    pub(super) href: String,
    pub(super) is_current: bool,
}

pub(super) struct Row {
    pub(super) mark: Mark,
    pub(super) disposition: String,
    pub(super) scheduled: Time,
    /// The last scheduled time of a row that is several occurrences.
    pub(super) until: Option<Time>,
    pub(super) count: String,
    pub(super) is_manual: bool,
    pub(super) decided: Option<Time>,
    pub(super) generation: String,
    pub(super) reason: &'static str,
    pub(super) href: String,
}

/// Filters and the dispositions that each shows.
const FILTERS: [(&str, &str); 6] = [
    ("", "All"),
    ("Completed", "Succeeded"),
    ("Failed", "Failed"),
    ("Skipped", "Skipped"),
    ("Missed", "Missed"),
    ("Superseded", "Superseded"),
];

impl Ledger {
    pub(super) async fn load(
        job: &Job<'_>,
        request: &PageRequest<'_>,
        view: &View,
        api: &dyn Api,
    ) -> Result<Ledger, ApiFailure> {
        let window = window(job);
        let wanted = request.parameter("disposition");
        let created = job.created().unwrap_or(Instant::MIN);
        let to: Instant = request.parameter("to").parse().unwrap_or(view.now).min(view.now);
        let from = to.saturating_sub(window).max(created.min(to));
        let found = occurrences(job, from, to, PAGES_MAX, api).await;
        let is_wanted = |row: &&Value| row.text("disposition").starts_with(&wanted);
        let rows = found.rows.iter().rev().filter(is_wanted);
        let rows = rows.filter_map(|row| Row::new(row, job, view)).collect();
        let link = |to: Option<Instant>, disposition: &str| {
            let to = to.map(|to| format!("&to={}", encode(&to.to_string()))).unwrap_or_default();
            let disposition = match disposition {
                "" => String::new(),
                disposition => format!("&disposition={}", encode(disposition)),
            };
            format!("?tab=ledger{to}{disposition}")
        };
        let own_to = Some(to).filter(|to| *to < view.now);
        let later = to.saturating_add(window);
        let filters = FILTERS.iter().map(|(id, name)| Filter {
            name,
            href: link(own_to, id),
            is_current: *id == wanted,
        });
        Ok(Ledger {
            rows,
            from: view.time(from.whole_second()),
            to: view.time(to.whole_second()),
            has_more: found.has_more,
            filters: filters.collect(),
            earlier: (from > created).then(|| link(Some(from.previous_tick()), &wanted)),
            later: own_to.map(|_| link(Some(later).filter(|to| *to < view.now), &wanted)),
        })
    }
}

/// The length of a window that has about as many occurrences as a page should.
fn window(job: &Job<'_>) -> Duration {
    (job.interval().unwrap_or(INTERVAL_DEFAULT) * PER_WINDOW).max(WINDOW_MIN)
}

impl Row {
    fn new(row: &Value, job: &Job<'_>, view: &View) -> Option<Row> {
        let at = row.time("scheduledTime")?;
        let disposition = row.text("disposition");
        Some(Row {
            mark: Mark::of_disposition(&disposition),
            scheduled: view.time(at),
            until: row.time("lastScheduledTime").map(|at| view.time(at)),
            count: count(row.integer("count")),
            is_manual: row.text("cause") == "Manual",
            decided: row.time("decidedTime").map(|at| view.time(at)),
            generation: row.text("generation"),
            reason: words::disposition_reason(&disposition),
            disposition: words::disposition(&disposition).to_owned(),
            href: format!(
                "{}jobs/{}/runs/{}",
                view.root,
                job.address.in_console(),
                encode(&at.to_string())
            ),
        })
    }
}
