//! All open runs in memory, as of the newest commit. The table `runs` has them as of the last
//! flush; the change log has the later changes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use foldhash::HashMap;
use kalends_recurrence::Instant;
use rusqlite::{Connection, Row, params};

use crate::engine_store::ParkedRuns;
use crate::record::{Claim, JobKey, OpenRun, Progress, RunId, SlotKey};
use crate::run_reports::RecordedAttempts;
use crate::run_state;
use crate::sqlite::code::{Coded, collect, read, read_option};
use crate::sqlite::error::SqliteResult;

/// A row of `runs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunRow {
    pub(crate) run: OpenRun,
    pub(crate) collection: i64,
    /// Increases with every claim; kept when a claim is released.
    pub(crate) last_token: u64,
    /// The run waits until its job is enabled.
    pub(crate) is_held: bool,
    /// The finished attempts.
    pub(crate) attempts: RecordedAttempts,
}

impl RunRow {
    /// The part of the row that the run state machine works on.
    pub(crate) fn without_collection(self) -> run_state::RunRow {
        let RunRow { run, last_token, attempts, .. } = self;
        run_state::RunRow { run, last_token, attempts }
    }

    /// The row after a change by the run state machine.
    pub(crate) fn with(self, row: run_state::RunRow) -> RunRow {
        let run_state::RunRow { run, last_token, attempts } = row;
        RunRow { run, last_token, attempts, ..self }
    }
}

/// An open run and the state of its row in the table.
struct CachedRun {
    row: RunRow,
    /// Number of the last transaction that changed it.
    changed: u64,
    /// Value of `changed` when it was last written to the table; `None` if the table does not have
    /// it.
    flushed: Option<u64>,
}

/// The open runs with their indexes.
#[derive(Default)]
pub(crate) struct OpenRuns {
    open: HashMap<RunId, CachedRun>,
    by_job: BTreeSet<(JobKey, RunId)>,
    /// Runs without a claim that are not parked, by the time of their next attempt.
    waiting: BTreeSet<(Instant, RunId)>,
    /// Parked runs of each host and collection, by the time of their next attempt.
    parked: BTreeMap<SlotKey, BTreeSet<(Instant, RunId)>>,
    /// Claimed runs, by the expiry of their lease.
    claimed: BTreeSet<(Instant, RunId)>,
    /// Closed runs that are still in the table.
    closed: Vec<RunId>,
}

impl OpenRuns {
    /// An open run.
    pub(crate) fn get(&self, run: RunId) -> Option<&RunRow> {
        self.open.get(&run).map(|cached| &cached.row)
    }

    /// The open runs of a job, by id.
    pub(crate) fn of_job(&self, job: JobKey) -> impl Iterator<Item = &RunRow> {
        let range = (job, RunId(i64::MIN))..=(job, RunId(i64::MAX));
        self.by_job.range(range).filter_map(|(_, run)| self.get(*run))
    }

    /// At most `limit` open runs of jobs after `after` up to `until`, by job.
    pub(crate) fn of_jobs(&self, after: JobKey, until: JobKey, limit: usize) -> Vec<OpenRun> {
        // `max`: a range whose start is greater than its end panics.
        let range = (after, RunId(i64::MAX))..=(until.max(after), RunId(i64::MAX));
        let runs = self.by_job.range(range).filter_map(|(_, run)| self.get(*run));
        runs.map(|row| row.run).filter(|run| run.job > after).take(limit).collect()
    }

    /// The open runs of a collection.
    pub(crate) fn of_collection(&self, collection: i64) -> impl Iterator<Item = &RunRow> {
        let rows = self.open.values().map(|cached| &cached.row);
        rows.filter(move |row| row.collection == collection)
    }

    /// At most `limit` open runs that were opened before `before`, those opened last first.
    pub(crate) fn newest_before(&self, before: Option<RunId>, limit: usize) -> Vec<RunRow> {
        let ids = self.open.keys().copied();
        let is_earlier = |id: &RunId| before.is_none_or(|before| *id < before);
        let mut ids: Vec<_> = ids.filter(is_earlier).map(Reverse).collect();
        // Few of many: no more are sorted than returned.
        if limit < ids.len() {
            ids.select_nth_unstable(limit);
            ids.truncate(limit);
        }
        ids.sort_unstable();
        ids.iter().filter_map(|Reverse(id)| self.get(*id)).copied().collect()
    }

    /// The numbers of open runs of each collection, of the `limit` runs that were opened last, and
    /// whether there may be more.
    pub(crate) fn newest_by_collection(&self, limit: usize) -> (BTreeMap<i64, u64>, bool) {
        let mut counts = BTreeMap::new();
        let mut add = |row: &RunRow| *counts.entry(row.collection).or_default() += 1;
        let more = self.open.len() >= limit;
        match more {
            true => self.newest_before(None, limit).iter().for_each(add),
            false => self.open.values().for_each(|cached| add(&cached.row)),
        }
        (counts, more)
    }

    /// The claimed runs, by the expiry of their lease.
    pub(crate) fn claimed(&self) -> impl Iterator<Item = &RunRow> {
        self.claimed.iter().filter_map(|(_, run)| self.get(*run))
    }

    /// Applies the change of a committed transaction; `None` closes the run.
    pub(crate) fn apply(&mut self, run: RunId, row: Option<RunRow>, transaction: u64) {
        let flushed = self.remove(run);
        match row {
            Some(row) => self.insert(run, CachedRun { row, changed: transaction, flushed }),
            None if flushed.is_some() => self.closed.push(run),
            None => {}
        }
    }

    fn insert(&mut self, run: RunId, cached: CachedRun) {
        let OpenRun { job, progress, claim, waits_for, .. } = cached.row.run;
        self.by_job.insert((job, run));
        match (claim, waits_for) {
            (Some(claim), _) => self.claimed.insert((claim.lease_until, run)),
            (None, Some(key)) => {
                self.parked.entry(key).or_default().insert((progress.next_at, run))
            }
            (None, None) => self.waiting.insert((progress.next_at, run)),
        };
        self.open.insert(run, cached);
    }

    fn remove(&mut self, run: RunId) -> Option<u64> {
        let cached = self.open.remove(&run)?;
        let OpenRun { job, progress, claim, waits_for, .. } = cached.row.run;
        self.by_job.remove(&(job, run));
        match (claim, waits_for) {
            (Some(claim), _) => drop(self.claimed.remove(&(claim.lease_until, run))),
            (None, Some(key)) => self.remove_parked(key, (progress.next_at, run)),
            (None, None) => drop(self.waiting.remove(&(progress.next_at, run))),
        };
        cached.flushed
    }

    fn remove_parked(&mut self, key: SlotKey, position: (Instant, RunId)) {
        if let Some(runs) = self.parked.get_mut(&key) {
            runs.remove(&position);
            if runs.is_empty() {
                self.parked.remove(&key);
            }
        }
    }

    /// The runs that are parked for a host or collection, by the time of their next attempt. Skips held
    /// runs and those of `excluded` collections.
    pub(crate) fn parked(
        &self,
        key: SlotKey,
        excluded: &HashSet<i64>,
        limit: usize,
    ) -> Vec<OpenRun> {
        let runs = self.parked.get(&key).into_iter().flatten();
        let rows = runs.filter_map(|(_, run)| self.get(*run));
        let allowed = rows.filter(|row| !row.is_held && !excluded.contains(&row.collection));
        allowed.map(|row| row.run).take(limit).collect()
    }

    /// The hosts and collections that runs are parked for, by key.
    pub(crate) fn parked_keys(&self, limit: usize) -> Vec<ParkedRuns> {
        let keys = self.parked.iter();
        let keys = keys.map(|(key, runs)| ParkedRuns { key: *key, count: runs.len() as u64 });
        keys.take(limit).collect()
    }

    /// Runs that may be claimed, by the time of their next attempt: waiting ones up to `until`, and
    /// claimed ones whose lease has expired. Skips held runs and those of `excluded` collections.
    pub(crate) fn claimable(
        &self,
        until: Instant,
        now: Instant,
        excluded: &HashSet<i64>,
        limit: usize,
    ) -> Vec<OpenRun> {
        let is_allowed = |row: &&RunRow| !row.is_held && !excluded.contains(&row.collection);
        let allowed = |run: &RunId| self.get(*run).filter(is_allowed);
        let waiting = self.waiting.range(..=(until, RunId(i64::MAX)));
        let waiting = waiting.filter_map(|(_, run)| allowed(run)).take(limit);
        let expired = self.claimed.range(..(now, RunId(i64::MIN)));
        let expired = expired.filter_map(|(_, run)| allowed(run));
        let mut runs: Vec<_> = waiting.chain(expired).map(|row| row.run).collect();
        runs.sort_by_key(|run| (run.progress.next_at, run.id));
        runs.truncate(limit);
        runs
    }

    /// Runs whose current row is not in the table, by id.
    pub(crate) fn unflushed(&self) -> Vec<RunId> {
        let is_unflushed =
            |cached: &CachedRun| cached.flushed.is_none_or(|flushed| flushed < cached.changed);
        let unflushed = self.open.iter().filter(|(_, cached)| is_unflushed(cached));
        let mut runs: Vec<_> = unflushed.map(|(run, _)| *run).collect();
        runs.sort_unstable();
        runs
    }

    /// Records that the table has the current row of a run.
    pub(crate) fn mark_flushed(&mut self, run: RunId) {
        if let Some(cached) = self.open.get_mut(&run) {
            cached.flushed = Some(cached.changed);
        }
    }

    /// Closed runs that are still in the table.
    pub(crate) fn closed(&self) -> &[RunId] {
        &self.closed
    }

    /// Forgets the first `count` closed runs after their rows were deleted.
    pub(crate) fn drop_closed(&mut self, count: usize) {
        self.closed.drain(..count.min(self.closed.len()));
    }

    /// Reads the table.
    pub(crate) fn load(connection: &Connection) -> SqliteResult<OpenRuns> {
        let mut runs = OpenRuns::default();
        let mut statement = connection.prepare("SELECT * FROM runs")?;
        for row in collect(statement.query(())?, |row| Ok(read_run(row)?))? {
            runs.insert(row.run.id, CachedRun { row, changed: 0, flushed: Some(0) });
        }
        Ok(runs)
    }
}

/// Reads a row of `runs`, by column names.
pub(crate) fn read_run(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let claim = match read_option(row, "token")? {
        Some(token) => {
            let (owner, lease_until) = (read(row, "owner")?, read(row, "lease_until")?);
            Some(Claim { owner, token, lease_until })
        }
        None => None,
    };
    let run = OpenRun {
        id: read(row, "run")?,
        job: read(row, "job")?,
        generation: read(row, "generation")?,
        scheduled: read(row, "scheduled")?,
        cause: read(row, "cause")?,
        repeat: read(row, "repeat")?,
        progress: Progress {
            role: read(row, "role")?,
            retry: read(row, "retry")?,
            redelivery: read(row, "redelivery")?,
            next_at: read(row, "next_at")?,
            first_started: read_option(row, "first_started")?,
        },
        claim,
        waits_for: read_option(row, "waits_for")?,
    };
    let (collection, last_token) = (row.get("collection")?, read(row, "last_token")?);
    let attempts = RecordedAttempts {
        count: read(row, "attempts")?,
        first_started: read_option(row, "started")?,
    };
    Ok(RunRow { run, collection, last_token, is_held: row.get("held")?, attempts })
}

/// Inserts or replaces a row of `runs`.
pub(crate) fn write(connection: &Connection, row: &RunRow) -> SqliteResult<()> {
    const SQL: &str =
        "INSERT OR REPLACE INTO runs (run, job, collection, generation, scheduled, cause, repeat,
             role, retry, redelivery, next_at, first_started, owner, token, lease_until, last_token,
             held, waits_for, attempts, started)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    write_with(connection, SQL, row)
}

/// Executes a statement with the columns of `runs` as parameters.
pub(crate) fn write_with(connection: &Connection, sql: &str, row: &RunRow) -> SqliteResult<()> {
    let RunRow { run, collection, last_token, is_held, attempts } = *row;
    let OpenRun { progress, claim, waits_for, .. } = run;
    connection.prepare_cached(sql)?.execute(params![
        Coded(run.id),
        Coded(run.job),
        collection,
        Coded(run.generation),
        Coded(run.scheduled),
        Coded(run.cause),
        Coded(run.repeat),
        Coded(progress.role),
        Coded(progress.retry),
        Coded(progress.redelivery),
        Coded(progress.next_at),
        progress.first_started.map(Coded),
        claim.map(|claim| Coded(claim.owner)),
        claim.map(|claim| Coded(claim.token)),
        claim.map(|claim| Coded(claim.lease_until)),
        Coded(last_token),
        is_held,
        waits_for.map(Coded),
        Coded(attempts.count),
        attempts.first_started.map(Coded),
    ])?;
    Ok(())
}

/// Deletes a row of `runs`.
pub(crate) fn delete(connection: &Connection, run: RunId) -> SqliteResult<()> {
    connection.prepare_cached("DELETE FROM runs WHERE run = ?")?.execute([Coded(run)])?;
    Ok(())
}
