//! Runs over all jobs.

use std::collections::HashMap;

use kalends_domain::{
    AccessScope, ClosedRun, Execution, JobName, JobPath, LastAttempts, RunOutcome,
};
use kalends_recurrence::Instant;
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::record::{HistoryRecord, JobKey};
use crate::run_reports::{
    ATTEMPT_SCAN_MAX, CLOSING_ORDER_TOLERANCE, ClosedRunsPage, ClosedRunsQuery, ListedClosedRun,
    ListedOpenRun, NewestRuns, OpenRunCount, OpenRunsPage, OpenRunsQuery, RunFilter, RunPosition,
    is_in_scopes,
};
use crate::sqlite::chain::ChainKind;
use crate::sqlite::code::{Coded, nth, nth_option, rows_max};
use crate::sqlite::collection_of_job::CollectionsOfJobs;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::groups::invalid_name;
use crate::sqlite::history::{ENTRY_BY_NUMBER, EXPECTED, read_entry, read_ledger, walk};
use crate::sqlite::jobs;
use crate::sqlite::state::ReadState as _;
use crate::sqlite::write_back::open_runs::RunRow;
use crate::sqlite::write_back::{SPAN, Snapshot};

/// The columns of `read_closed`, of table `l`.
macro_rules! closed_columns {
    () => {
        "l.previous, l.generation, l.from_at, l.to_at, l.count, l.cause, l.disposition, l.closed, \
         l.started, l.ended, l.attempts, l.id, l.job"
    };
}

/// Reads a ledger row from columns 1 to 10.
fn read_closed(row: &Row<'_>) -> SqliteResult<ClosedRun> {
    let started: Option<Instant> = nth_option(row, 8)?;
    let (ended, attempts) = (nth_option(row, 9)?, nth_option(row, 10)?);
    let execution = started.zip(ended).zip(attempts);
    let execution =
        execution.map(|((started, ended), attempts)| Execution { started, ended, attempts });
    Ok(ClosedRun { record: read_ledger(row)?, execution })
}

/// The newest runs of each job.
pub(crate) fn newest_runs(
    snapshot: &Snapshot,
    keys: &[JobKey],
    limit: usize,
) -> SqliteResult<Vec<NewestRuns>> {
    let sql = "SELECT l.previous, l.from_at, l.disposition, l.started, l.ended FROM ledger l WHERE l.id = ?";
    let mut statement = snapshot.connection().prepare_cached(sql)?;
    let mut found = Vec::with_capacity(keys.len());
    for job in keys {
        let state = match jobs::exists(snapshot.connection(), *job)? {
            true => snapshot.state(*job)?,
            false => None,
        };
        let Some(state) = state else {
            found.push(NewestRuns::default());
            continue;
        };
        let mut closed = Vec::new();
        if limit > 0 {
            walk(&mut statement, state.newest_ledger_row, |row| {
                let started: Option<Instant> = nth_option(row, 3)?;
                let executed = started.zip(nth_option::<Instant>(row, 4)?);
                closed.push(RunOutcome {
                    scheduled: nth(row, 1)?,
                    disposition: nth(row, 2)?,
                    duration: executed.map(|(started, ended)| ended.since(started)),
                });
                Ok(closed.len() < limit)
            })?;
        }
        let runs = snapshot.shared.runs();
        let is_running = runs.of_job(*job).any(|row| row.run.claim.is_some());
        found.push(NewestRuns { closed, is_running });
    }
    Ok(found)
}

/// Decides which jobs a list shows, and finds their paths. Many runs belong to few collections.
struct SelectedJobs<'a> {
    connection: &'a Connection,
    filter: &'a RunFilter,
    collections: CollectionsOfJobs,
    /// Whether the filter selects a collection.
    is_selected: HashMap<i64, bool>,
}

impl SelectedJobs<'_> {
    fn new<'a>(connection: &'a Connection, filter: &'a RunFilter) -> SelectedJobs<'a> {
        let (collections, is_selected) = (CollectionsOfJobs::default(), HashMap::new());
        SelectedJobs { connection, filter, collections, is_selected }
    }

    /// The path of a job; `None` if it was deleted or is not selected.
    fn path(&mut self, job: JobKey) -> SqliteResult<Option<JobPath>> {
        let mut statement =
            self.connection.prepare_cached("SELECT collection, name FROM jobs WHERE job = ?")?;
        let row = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
        let Some((id, name)) = statement.query_row([Coded(job)], row).optional()? else {
            return Ok(None);
        };
        if self.is_selected.get(&id) == Some(&false) {
            return Ok(None);
        }
        let Some(collection) = self.collections.get(self.connection, id)? else { return Ok(None) };
        let filter = self.filter;
        let is_selected =
            self.is_selected.entry(id).or_insert_with(|| filter.has_collection(&collection.path));
        let job = JobName::new(&name).map_err(invalid_name)?;
        Ok(is_selected.then_some(JobPath { collection: collection.path, job }))
    }
}

/// A page of open runs.
pub(crate) fn open_runs(snapshot: &Snapshot, query: &OpenRunsQuery) -> SqliteResult<OpenRunsPage> {
    let OpenRunsQuery { filter, before, scan_max, limit } = query;
    let rows: Vec<RunRow> = match filter.job {
        Some(job) => {
            let runs = snapshot.shared.runs();
            let is_earlier = |row: &&RunRow| before.is_none_or(|before| row.run.id < before);
            let mut rows: Vec<_> = runs.of_job(job).filter(is_earlier).copied().collect();
            rows.reverse();
            rows.truncate(*scan_max);
            rows
        }
        None => snapshot.shared.runs().newest_before(*before, *scan_max),
    };
    let mut jobs = SelectedJobs::new(snapshot.connection(), filter);
    let mut page = OpenRunsPage::default();
    for (index, row) in rows.iter().enumerate() {
        if let Some(path) = jobs.path(row.run.job)? {
            page.runs.push(ListedOpenRun { path, run: row.run, attempts: row.attempts });
        }
        if page.runs.len() >= *limit || index + 1 >= *scan_max {
            page.end = Some(row.run.id);
            break;
        }
    }
    Ok(page)
}

/// The number of open runs of jobs in any of the scopes.
pub(crate) fn open_run_count(
    snapshot: &Snapshot,
    scopes: &[AccessScope],
    scan_max: usize,
) -> SqliteResult<OpenRunCount> {
    let (by_collection, more) = snapshot.shared.runs().newest_by_collection(scan_max);
    let (mut collections, mut count) = (CollectionsOfJobs::default(), 0);
    for (id, runs) in by_collection {
        let collection = collections.get(snapshot.connection(), id)?;
        if collection.is_some_and(|collection| is_in_scopes(scopes, &collection.path)) {
            count += runs;
        }
    }
    Ok(OpenRunCount { count, more })
}

/// A page of closed runs.
pub(crate) fn closed_runs(
    snapshot: &Snapshot,
    query: &ClosedRunsQuery,
) -> SqliteResult<ClosedRunsPage> {
    let connection = snapshot.connection();
    let ClosedRunsQuery { filter, after, scan_max, limit } = query;
    let mut jobs = SelectedJobs::new(connection, filter);
    let mut runs: Vec<(JobKey, ListedClosedRun)> = Vec::new();
    let (mut end, mut examined) = (None, 0);
    // Closing times may be slightly out of order.
    let oldest = filter.from.saturating_sub(CLOSING_ORDER_TOLERANCE);
    let mut visit = |row: &Row<'_>| -> SqliteResult<bool> {
        let run = read_closed(row)?;
        if run.record.closed < oldest {
            end = None;
            return Ok(false);
        }
        examined += 1;
        let (number, job) = (nth(row, 11)?, nth(row, 12)?);
        let position = RunPosition::of(number, &run.record);
        end = Some(position);
        if filter.has_record(&run.record)
            && let Some(path) = jobs.path(job)?
        {
            let last = LastAttempts::default();
            runs.push((job, ListedClosedRun { path, run, last, position }));
        }
        Ok(runs.len() < *limit && examined < *scan_max)
    };
    let is_stopped = match filter.job {
        Some(job) => {
            let newest = match after {
                None => snapshot.state(job)?.map(|state| state.newest_ledger_row),
                Some(after) => {
                    let link = ChainKind::Ledger.link(connection, after.number.cast_signed())?;
                    link.filter(|link| link.job == job).map(|link| link.previous)
                }
            };
            let mut statement = connection.prepare_cached(concat!(
                "SELECT ",
                closed_columns!(),
                " FROM ledger l WHERE l.id = ?"
            ))?;
            let mut is_stopped = false;
            if let Some(newest) = newest {
                walk(&mut statement, newest, |row| {
                    let goes_on = visit(row)?;
                    is_stopped = !goes_on;
                    Ok(goes_on)
                })?;
            }
            is_stopped
        }
        None => {
            let before = match after {
                Some(after) => after.number.cast_signed(),
                None => number_after(connection, filter.to)?,
            };
            let mut statement = connection.prepare_cached(concat!(
                "SELECT ",
                closed_columns!(),
                " FROM ledger l WHERE l.id < ? ORDER BY l.id DESC LIMIT ?"
            ))?;
            let scan_max = rows_max(*scan_max as u64);
            let mut rows = statement.query((before, scan_max))?;
            let mut is_stopped = false;
            while let Some(row) = rows.next()? {
                if !visit(row)? {
                    is_stopped = true;
                    break;
                }
            }
            is_stopped
        }
    };
    let end = end.filter(|_| is_stopped);
    add_last_attempts(snapshot, &mut runs)?;
    Ok(ClosedRunsPage { runs: runs.into_iter().map(|(_, run)| run).collect(), end })
}

/// A number after those of all ledger rows that closed before `to`.
fn number_after(connection: &Connection, to: Instant) -> SqliteResult<i64> {
    let latest = to.saturating_add(CLOSING_ORDER_TOLERANCE);
    let span: Option<i64> = connection
        .prepare_cached(
            "SELECT span FROM spans WHERE kind = ? AND oldest <= ? ORDER BY span DESC LIMIT 1",
        )?
        .query_row((ChainKind::Ledger as i64, Coded(latest)), |row| row.get(0))
        .optional()?;
    Ok(span.map_or(i64::MIN, |span| (span + 1) * SPAN))
}

/// Adds the last attempts, which are among the newest history entries of their jobs. Follows the chain of
/// each job once.
fn add_last_attempts(
    snapshot: &Snapshot,
    runs: &mut [(JobKey, ListedClosedRun)],
) -> SqliteResult<()> {
    // Of each job the runs by their scheduled time.
    let mut wanted: HashMap<JobKey, HashMap<Instant, Vec<usize>>> = HashMap::new();
    for (index, (job, run)) in runs.iter().enumerate() {
        if run.run.execution.is_some() {
            let runs = wanted.entry(*job).or_default();
            runs.entry(run.run.record.from).or_default().push(index);
        }
    }
    let mut statement = snapshot.connection().prepare_cached(ENTRY_BY_NUMBER)?;
    for (job, mut wanted) in wanted {
        let Some(state) = snapshot.state(job)? else { continue };
        let mut examined = 0;
        walk(&mut statement, state.newest_entry, |row| {
            examined += 1;
            let scheduled = nth(row, EXPECTED)?;
            if let Some(indices) = wanted.get_mut(&scheduled) {
                let HistoryRecord { entry, .. } = read_entry(row)?;
                indices.retain(|index| {
                    let Some((_, listed)) = runs.get_mut(*index) else { return false };
                    listed.last.add(&listed.run, &entry);
                    !listed.last.is_complete()
                });
                if indices.is_empty() {
                    wanted.remove(&scheduled);
                }
            }
            Ok(!wanted.is_empty() && examined < ATTEMPT_SCAN_MAX)
        })?;
    }
    Ok(())
}
