//! `GET …/occurrences`: what a job did and will do, one row for each scheduled instant, the oldest
//! first.

use std::time::Duration;

use axum::http::StatusCode;
use kalends_domain::{
    CollectionState, JobPath, JobSnapshot, LedgerRecord, RunInFlight, Timeline, TimelineRow,
    stored_rule_of,
};
use kalends_recurrence::{Instant, Rule};
use kalends_store::record::{JobRecord, OpenRun};
use kalends_wire::{write_list, write_occurrence};

use super::{Asked, Done, jobs};
use crate::answer::{Answer, Refused};
use crate::app::App;
use crate::paging::AskedPage;
use crate::request::invalid;

const DAY: Duration = Duration::from_secs(86_400);
/// Where `from` is not given, the list begins so long ago.
const PAST_SHOWN: Duration = DAY;
/// Where `to` is not given, it ends so far ahead; the rarest schedule fires once a year.
const COMING_SHOWN: Duration = Duration::from_secs(366 * 86_400);
/// Stretches of the ledger that began before a page and reach into it; more than one is rare.
const EARLIER_STRETCHES: usize = 16;
/// As many rows of the ledger are read for a page at most.
const LEDGER_ROWS_MAX: usize = 10_000;

/// Where a page begins: after the first so many rows that begin at an instant.
#[derive(Clone, Copy)]
struct Position {
    at: Instant,
    passed: usize,
}

impl Position {
    fn read(text: &str) -> Option<Position> {
        let (ticks, passed) = text.split_once(' ')?;
        let at = Instant::from_ticks(ticks.parse().ok()?)?;
        Some(Position { at, passed: passed.parse().ok()? })
    }
}

pub(super) async fn list(asked: Asked, path: JobPath) -> Done {
    let version = asked.new_version()?;
    let now = asked.app.now();
    let from = asked.query.instant("from")?.unwrap_or_else(|| now.saturating_sub(PAST_SHOWN));
    let to = asked.query.instant("to")?.unwrap_or_else(|| now.saturating_add(COMING_SHOWN));
    if from > to {
        return Err(Refused::from(invalid("to", "it lies before from")));
    }
    let span = [("from", from.to_string()), ("to", to.to_string())];
    let page = AskedPage::read_with(&asked, version, 0, &span, Position::read)?;
    let (job, collection) = jobs::find(&asked.app, &path).await?;
    let known = Known::of(&asked.app, job, collection, now).await?;
    let position = page.page.after.unwrap_or(Position { at: from, passed: 0 });
    let skip = usize::try_from(page.page.skip).unwrap_or(usize::MAX);
    let passed = position.passed.saturating_add(skip);
    let wanted = page.page.limit.saturating_add(passed);
    let first = if page.page.after.is_some() { position.at } else { Instant::MIN };
    let mut rows = known.rows(&asked.app, (position.at, to), first, wanted).await?;
    rows.drain(..passed.min(rows.len()));
    let next = page.cut_at(&mut rows, |shown| {
        let last = shown.last()?.from;
        let same = shown.iter().rev().take_while(|row| row.from == last).count();
        // Those that begin where the page does follow others that do.
        let passed = if last == position.at { position.passed + same } else { same };
        Some(format!("{} {passed}", last.ticks()))
    });
    let values = rows.iter().map(write_occurrence).collect();
    Ok(Answer::json(StatusCode::OK, &write_list(values, next.as_deref())))
}

/// What is known of a job beside its ledger.
pub(super) struct Known {
    pub(super) job: JobRecord,
    pub(super) rule: Rule,
    pub(super) snapshot: JobSnapshot,
    pub(super) runs: Vec<RunInFlight>,
}

impl Known {
    pub(super) async fn of(
        app: &App,
        job: JobRecord,
        collection: CollectionState,
        now: Instant,
    ) -> Result<Known, Refused> {
        let definition = &job.job.definition;
        let rule = stored_rule_of(definition, job.job.created, &app.settings.schedules);
        let rule = rule.map_err(|problems| Refused::internal(problems.to_string()))?;
        let count = definition.recurrence.as_ref().and_then(|recurrence| recurrence.count);
        let snapshot = JobSnapshot {
            now,
            lifecycle: job.state.lifecycle,
            switch: definition.switch,
            collection: collection.switch(),
            due: job.state.due,
            left: count.map(|count| count.unsigned_abs().saturating_sub(job.state.used)),
            finished: job.state.finished,
        };
        let mut runs = app.store.open_runs(job.key).await?;
        runs.sort_by_key(|run| (run.scheduled, run.id));
        let runs = runs.iter().map(under_way).collect();
        Ok(Known { rule: rule.without_count(), snapshot, runs, job })
    }

    /// The first `wanted` rows in a span that begin at `first` or later.
    async fn rows(
        &self,
        app: &App,
        (from, to): (Instant, Instant),
        first: Instant,
        wanted: usize,
    ) -> Result<Vec<TimelineRow>, Refused> {
        let mut limit = wanted.saturating_add(EARLIER_STRETCHES).min(LEDGER_ROWS_MAX);
        loop {
            let ledger = app.store.ledger(self.job.key, from, to, limit).await?;
            let is_whole = ledger.len() < limit;
            let mut rows = self.timeline((from, to), ledger, limit);
            rows.retain(|row| row.from >= first);
            if is_whole || rows.len() >= wanted || limit == LEDGER_ROWS_MAX {
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
        let is_cut = ledger.len() >= limit;
        // Beyond the last row that was read nothing is known.
        let to = ledger.last().filter(|_| is_cut).map_or(to, |last| last.from.min(to));
        let (rule, job, runs) = (&self.rule, self.snapshot, self.runs.clone());
        Timeline { rule, job, from, to, ledger, runs }.rows(limit)
    }

    /// What is recorded or to come in a span, as it is shown.
    pub(super) fn shown(&self, ledger: &[LedgerRecord], at: Instant) -> Vec<TimelineRow> {
        self.timeline((at, at), ledger.to_vec(), EARLIER_STRETCHES)
    }
}

fn under_way(run: &OpenRun) -> RunInFlight {
    RunInFlight {
        scheduled: run.scheduled,
        cause: run.cause,
        generation: run.generation,
        role: run.progress.role,
        retry: run.progress.retry,
        attempt_at: run.progress.next_at,
        is_claimed: run.claim.is_some(),
    }
}
