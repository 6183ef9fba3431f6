//! `GET …/explain?at=`: why a job did or did not run at a time, or why it is not running now.

use std::time::Duration;

use http::StatusCode;
use kalends_domain::{CollectionState, ExplainInput, JobPath};
use kalends_recurrence::ImmediateRun;
use kalends_store::record::HistoryRecord;
use kalends_store::{HistoryFilter, JobFilterState, Page};
use kalends_wire::{ErrorDetail, ExplainContext, write_explanation, write_history_entry};

use super::{HandlerResult, RequestContext, jobs};
use crate::resources::occurrences::JobTimeline;
use crate::response::{ApiError, ApiResponse};

/// History entries that are searched; by default no more are retained.
const HISTORY_READ_MAX: usize = 1_000;
/// Ledger rows that are read for one second: manual runs and edits can add several.
const LEDGER_READ_MAX: usize = 100;
/// History entries in the response, the newest ones.
const HISTORY_SHOWN_MAX: usize = 20;
/// `at` covers the second that it names.
const SECOND: Duration = Duration::from_secs(1);

pub(super) async fn explain(request: RequestContext, path: JobPath) -> HandlerResult {
    let version = request.new_version()?;
    let at = request.query.time("at")?;
    let (app, now) = (&request.app, request.app.now());
    let (job, collection) = jobs::find(app, &path).await?;
    let timeline = JobTimeline::load(app, job, collection, now).await?;
    let ledger = match at {
        None => vec![],
        Some(at) => {
            let until = at.saturating_add(SECOND);
            app.store.ledger(timeline.job.key, at, until, LEDGER_READ_MAX).await?
        }
    };
    let page = Page::first(HISTORY_READ_MAX);
    let read = app.store.history(path.clone(), HistoryFilter::default(), page).await;
    let history =
        read.map_err(ApiError::from)?.ok_or_else(|| ErrorDetail::job_not_found(&path.job))?;
    let entries: Vec<_> = history.iter().map(|record| record.entry.clone()).collect();
    let explanation = kalends_domain::explain(ExplainInput {
        rule: &timeline.rule,
        job: timeline.snapshot,
        created: timeline.job.job.created,
        at,
        ledger: &ledger,
        runs: &timeline.runs,
        history: &entries,
        obstacle: app.health.obstacle().as_deref(),
        pause: timeline.pause.as_ref(),
    });
    let occurrence = explanation.occurrence;
    let rows = occurrence.map_or_else(Vec::new, |at| timeline.rows_at(&ledger, at));
    let from = rows.iter().map(|row| row.from).min().or(occurrence);
    let is_of_occurrence =
        |record: &&HistoryRecord| from.is_some_and(|from| record.entry.expected == from);
    let shown = history.iter().filter(is_of_occurrence).take(HISTORY_SHOWN_MAX);
    let shown = shown.map(|one| {
        write_history_entry(&path, &one.entry, app.position_key.pseudonym(one.sequence), version)
    });
    let state = JobFilterState::of(timeline.job.job.definition.switch, timeline.snapshot.lifecycle);
    let schedule = timeline.rule.describe_with(ImmediateRun::Past);
    let facts = ExplainContext {
        job_state: state_word(state),
        collection_state: match collection.state {
            CollectionState::Enabled => "Enabled",
            _ => "Disabled",
        },
        created: timeline.job.job.created,
        generation: timeline.job.job.generation,
        schedule: &schedule,
        pause: timeline.pause.as_ref(),
    };
    let rows = rows.iter().map(|row| timeline.write(row)).collect();
    Ok(ApiResponse::json(
        StatusCode::OK,
        &write_explanation(&explanation, facts, rows, shown.collect()),
    ))
}

/// The state of a job in the newest API version.
pub(super) fn state_word(state: JobFilterState) -> &'static str {
    match state {
        JobFilterState::Enabled => "Enabled",
        JobFilterState::Disabled => "Disabled",
        JobFilterState::Completed => "Completed",
        JobFilterState::Faulted => "Faulted",
    }
}
