//! `GET …/occurrences`: past, running and future occurrences of a job, one row for each scheduled
//! time, the oldest first.

use std::time::Duration;

use http::StatusCode;
use kalends_actions::{RunIdentity, idempotency_key};
use kalends_domain::{
    ActionRole, CollectionState, Disposition, JobDefinition, JobPath, JobSnapshot, LedgerRecord,
    OccurrenceState, Pause, PauseRecord, RunInFlight, SlotLimit, Timeline, TimelineRow,
    stored_rule_of,
};
use kalends_recurrence::{Instant, Rule};
use kalends_store::record::{CollectionStatus, JobRecord, JobState, OpenRun};
use kalends_wire::{Json, write_list, write_occurrence};

use super::{HandlerResult, RequestContext, jobs};
use crate::app::App;
use crate::paging::PageRequest;
use crate::request::invalid;
use crate::response::{ApiError, ApiResponse};

const DAY: Duration = Duration::from_secs(86_400);
/// Default of `from`, before now.
const PAST_DEFAULT: Duration = DAY;
/// Default of `to`, after now. A job with a yearly schedule has an occurrence in it.
const FUTURE_DEFAULT: Duration = Duration::from_secs(366 * 86_400);
/// Ledger rows that start before a page and reach into it; more than one is rare.
const EARLIER_ROWS: usize = 16;
/// Ledger rows that are read for a page.
const LEDGER_ROWS_MAX: usize = 10_000;

/// The start of a page: after the first `skipped` of the rows that start at `at`.
#[derive(Clone, Copy)]
struct Position {
    at: Instant,
    skipped: usize,
}

impl Position {
    fn parse(text: &str) -> Option<Position> {
        let (ticks, skipped) = text.split_once(' ')?;
        let at = Instant::from_ticks(ticks.parse().ok()?)?;
        Some(Position { at, skipped: skipped.parse().ok()? })
    }
}

pub(super) async fn list(request: RequestContext, path: JobPath) -> HandlerResult {
    let version = request.new_version()?;
    let now = request.app.now();
    let from = request.query.time("from")?.unwrap_or_else(|| now.saturating_sub(PAST_DEFAULT));
    let to = request.query.time("to")?.unwrap_or_else(|| now.saturating_add(FUTURE_DEFAULT));
    if from > to {
        return Err(ApiError::from(invalid(
            "to",
            format!("must not lie before from, {from} (found {to})"),
        )));
    }
    let span = [("from", from.to_string()), ("to", to.to_string())];
    let page = PageRequest::read_with(&request, version, 0, &span, Position::parse)?;
    let (job, collection) = jobs::find(&request.app, &path).await?;
    let timeline = JobTimeline::load(&request.app, job, collection, now).await?;
    let position = page.page.after.unwrap_or(Position { at: from, skipped: 0 });
    let skip = usize::try_from(page.page.skip).unwrap_or(usize::MAX);
    let skipped = position.skipped.saturating_add(skip);
    let wanted = page.page.limit.saturating_add(skipped);
    let first = if page.page.after.is_some() { position.at } else { Instant::MIN };
    let mut rows = timeline.rows(&request.app, (position.at, to), first, wanted).await?;
    rows.drain(..skipped.min(rows.len()));
    let next = page.truncate_with(&mut rows, |shown| {
        let last = shown.last()?.from;
        let same = shown.iter().rev().take_while(|row| row.from == last).count();
        // Rows on earlier pages may start at the same time.
        let skipped = if last == position.at { position.skipped + same } else { same };
        Some(format!("{} {skipped}", last.ticks()))
    });
    let values = rows.iter().map(|row| timeline.write(row)).collect();
    Ok(ApiResponse::json(StatusCode::OK, &write_list(values, next.as_deref())))
}

/// The state of a job with this definition at `now`. `pause` is the pause of all jobs, if one holds.
pub(super) fn snapshot(
    definition: &JobDefinition,
    state: &JobState,
    collection: CollectionState,
    pause: Option<Pause>,
    now: Instant,
) -> JobSnapshot {
    let count = definition.recurrence.as_ref().and_then(|recurrence| recurrence.count);
    JobSnapshot {
        now,
        lifecycle: state.lifecycle,
        switch: definition.switch,
        collection: collection.switch(),
        due: state.due,
        left: count.map(|count| count.unsigned_abs().saturating_sub(state.used)),
        finished: state.finished,
        pause,
        skip_until: state.skip_until,
    }
}

/// The timeline of a job without the ledger: schedule, state and open runs.
pub(super) struct JobTimeline {
    pub(super) job: JobRecord,
    pub(super) rule: Rule,
    pub(super) snapshot: JobSnapshot,
    pub(super) runs: Vec<RunInFlight>,
    /// The pause of all jobs, if one holds.
    pub(super) pause: Option<PauseRecord>,
}

impl JobTimeline {
    pub(super) async fn load(
        app: &App,
        job: JobRecord,
        collection: CollectionStatus,
        now: Instant,
    ) -> Result<JobTimeline, ApiError> {
        let pause = match collection.is_paused {
            true => app.store.pause().await?,
            false => None,
        };
        let definition = &job.job.definition;
        let rule = stored_rule_of(definition, job.job.created, &app.settings.schedules);
        let rule = rule.map_err(|problems| ApiError::internal(problems.to_string()))?;
        let times = pause.as_ref().map(|record| record.pause);
        let snapshot = snapshot(definition, &job.state, collection.state, times, now);
        let mut runs = app.store.open_runs(job.key).await?;
        runs.sort_by_key(|run| (run.scheduled, run.id));
        let runs = runs.iter().map(open_run).collect();
        Ok(JobTimeline { rule: rule.without_count(), snapshot, runs, job, pause })
    }

    /// The first `wanted` rows of a time span that start at `first` or later.
    async fn rows(
        &self,
        app: &App,
        (from, to): (Instant, Instant),
        first: Instant,
        wanted: usize,
    ) -> Result<Vec<TimelineRow>, ApiError> {
        let mut limit = wanted.saturating_add(EARLIER_ROWS).min(LEDGER_ROWS_MAX);
        loop {
            let ledger = app.store.ledger(self.job.key, from, to, limit).await?;
            let is_complete = ledger.len() < limit;
            let mut rows = self.timeline((from, to), ledger, limit);
            rows.retain(|row| row.from >= first);
            if is_complete || rows.len() >= wanted || limit == LEDGER_ROWS_MAX {
                rows.truncate(wanted);
                return Ok(rows);
            }
            limit = LEDGER_ROWS_MAX;
        }
    }

    fn timeline(
        &self,
        (from, to): (Instant, Instant),
        ledger: Vec<LedgerRecord>,
        limit: usize,
    ) -> Vec<TimelineRow> {
        let is_truncated = ledger.len() >= limit;
        // If the ledger was truncated, the timeline ends at its last row.
        let to = ledger.last().filter(|_| is_truncated).map_or(to, |last| last.from.min(to));
        let (rule, job, runs) = (&self.rule, self.snapshot, self.runs.clone());
        Timeline { rule, job, from, to, ledger, runs }.rows(limit)
    }

    /// Serialises a row, with the idempotency key of a run.
    pub(super) fn write(&self, row: &TimelineRow) -> Json<'static> {
        let is_run = match row.state {
            OccurrenceState::InFlight(_) => true,
            OccurrenceState::Closed(disposition, _) => matches!(
                disposition,
                Disposition::Completed | Disposition::Failed | Disposition::Superseded
            ),
            _ => false,
        };
        let generation = row.generation.filter(|_| is_run && row.count == 1);
        let key = generation.map(|generation| {
            idempotency_key(RunIdentity {
                uid: self.job.job.uid.0,
                generation,
                scheduled: row.from,
                role: ActionRole::Main,
                cause: row.cause,
            })
        });
        write_occurrence(row, key)
    }

    /// The rows of one scheduled time.
    pub(super) fn rows_at(&self, ledger: &[LedgerRecord], at: Instant) -> Vec<TimelineRow> {
        self.timeline((at, at), ledger.to_vec(), EARLIER_ROWS)
    }
}

/// The state of an open run.
pub(super) fn open_run(run: &OpenRun) -> RunInFlight {
    RunInFlight {
        scheduled: run.scheduled,
        cause: run.cause,
        generation: run.generation,
        role: run.progress.role,
        retry: run.progress.retry,
        is_unattempted: run.progress.is_unattempted(),
        attempt_at: run.progress.next_at,
        is_claimed: run.claim.is_some(),
        waits_for: run.waits_for.map(|key| match key.is_collection() {
            true => SlotLimit::Collection,
            false => SlotLimit::Host,
        }),
    }
}
