//! Pages of jobs for the invariant scan.

use kalends_domain::{ActionRole, AttemptStatus};
use kalends_recurrence::Instant;
use rusqlite::OptionalExtension as _;

use crate::invariant_scan::{HistorySums, Orphan, ScanPage, ScannedJob};
use crate::record::{CollectionKey, JobKey};
use crate::sqlite::code::{Coded, collect, nth, nth_option, rows_max};
use crate::sqlite::collections::CollectionSwitch;
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::history::walk;
use crate::sqlite::jobs_for_run::gate_state_of;
use crate::sqlite::runs;
use crate::sqlite::state::{ReadState as _, StateRow};
use crate::sqlite::write_back::Snapshot;

/// A job to scan.
struct JobRow {
    job: JobKey,
    created: Instant,
    collection: i64,
    /// `None` if the collection is deleted: the job is not visible, and removal is pending.
    switch: Option<CollectionSwitch>,
}

/// A page of jobs after a key, in key order. Reads about `scan_max` rows.
pub(crate) fn scan_jobs(
    snapshot: &Snapshot,
    after: JobKey,
    scan_max: usize,
) -> SqliteResult<ScanPage> {
    let mut statement = snapshot.connection().prepare_cached(
        "SELECT j.job, j.created, j.collection, c.enabled, c.enabled_since FROM jobs j
         LEFT JOIN collections c ON c.id = j.collection
         WHERE j.job > ? ORDER BY j.job LIMIT ?",
    )?;
    let scan_max = scan_max.max(1);
    let found = statement.query((Coded(after), rows_max(scan_max as u64)))?;
    let found = collect(found, |row| {
        let (job, created, collection) = (nth(row, 0)?, nth(row, 1)?, row.get(2)?);
        let switch = match (row.get(3)?, nth_option(row, 4)?) {
            (Some(is_enabled), Some(enabled_since)) => {
                Some(CollectionSwitch { is_enabled, enabled_since })
            }
            _ => None,
        };
        Ok(JobRow { job, created, collection, switch })
    })?;
    let is_last_page = found.len() < scan_max;
    let mut page = ScanPage::default();
    let (mut scanned, mut last) = (0, None);
    for row in &found {
        last = Some(row.job);
        scanned += scan_job(snapshot, row, &mut page)?;
        if scanned >= scan_max as u64 {
            break;
        }
    }
    let ended = is_last_page && last == found.last().map(|row| row.job);
    page.next = last.filter(|_| !ended);
    let until = if ended { newest_key(snapshot)? } else { last.unwrap_or(after) };
    find_orphans(snapshot, (after, until), scan_max, &mut page)?;
    Ok(page)
}

/// The largest key that a job has had. Runs are read after the jobs, and may belong to newer ones.
fn newest_key(snapshot: &Snapshot) -> SqliteResult<JobKey> {
    const SQL: &str = "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'";
    let mut statement = snapshot.connection().prepare_cached(SQL)?;
    let newest: Option<i64> = statement.query_row((), |row| row.get(0)).optional()?;
    Ok(JobKey(newest.unwrap_or(0)))
}

/// Adds a job to the page and returns the number of rows read.
fn scan_job(snapshot: &Snapshot, row: &JobRow, page: &mut ScanPage) -> SqliteResult<u64> {
    let Some(switch) = row.switch else { return Ok(1) };
    let state = match snapshot.state(row.job) {
        Ok(Some(state)) => state,
        Ok(None) => {
            page.orphans.push(Orphan::Job(row.job));
            return Ok(1);
        }
        // Reported when it is due.
        Err(error) if error.is_unreadable() => return Ok(1),
        Err(error) => return Err(error),
    };
    let history = count_history(snapshot, &state)?;
    let open = runs::of_job(snapshot, row.job);
    let scanned = 1 + history.entries + open.len() as u64;
    page.jobs.push(ScannedJob {
        job: row.job,
        collection: CollectionKey(row.collection),
        created: row.created,
        gate_state: gate_state_of(&state, switch, snapshot.shared.pause()),
        open,
        history,
    });
    Ok(scanned)
}

fn count_history(snapshot: &Snapshot, state: &StateRow) -> SqliteResult<HistorySums> {
    let mut statement = snapshot
        .connection()
        .prepare_cached("SELECT previous, status, role FROM history WHERE sequence = ?")?;
    let mut sums = HistorySums::default();
    walk(&mut statement, state.newest_entry, |row| {
        let (status, role): (AttemptStatus, ActionRole) = (nth(row, 1)?, nth(row, 2)?);
        let is_main = role == ActionRole::Main && status != AttemptStatus::Postponed;
        sums.entries += 1;
        sums.attempts += u64::from(is_main);
        sums.failures += u64::from(is_main && status == AttemptStatus::Failed);
        Ok(true)
    })?;
    Ok(sums)
}

fn find_orphans(
    snapshot: &Snapshot,
    (after, until): (JobKey, JobKey),
    limit: usize,
    page: &mut ScanPage,
) -> SqliteResult<()> {
    let mut statement = snapshot.connection().prepare_cached(
        "SELECT s.job FROM state s LEFT JOIN jobs j ON j.job = s.job
         WHERE s.job > ? AND s.job <= ? AND j.job IS NULL LIMIT ?",
    )?;
    let found = statement.query((Coded(after), Coded(until), rows_max(limit as u64)))?;
    for job in collect(found, |row| Ok(nth(row, 0)?))? {
        let state = snapshot.state(job);
        if state.as_ref().is_err_and(SqliteError::is_unreadable) || state?.is_some() {
            page.orphans.push(Orphan::State(job));
        }
    }
    let mut job_exists =
        snapshot.connection().prepare_cached("SELECT 1 FROM jobs WHERE job = ?")?;
    let runs = snapshot.shared.runs().of_jobs(after, until, limit);
    for run in runs {
        if !job_exists.exists([Coded(run.job)])? {
            page.orphans.push(Orphan::Run(run.id));
        }
    }
    Ok(())
}
