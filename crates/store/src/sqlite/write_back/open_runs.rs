//! The open runs, all of them in memory, as of the newest commit. The table has them as of the last
//! flush, the log what came later.

use std::collections::{BTreeSet, HashMap, HashSet};

use kalends_recurrence::Instant;
use rusqlite::{Connection, Row};

use crate::record::{Claim, JobKey, OpenRun, Progress, RunId};
use crate::run_state;
use crate::sqlite::code::{Coded, collect, read, read_option};
use crate::sqlite::error::SqliteResult;

/// An open run as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunRow {
    pub(crate) run: OpenRun,
    pub(crate) collection: i64,
    /// Grows with every claim, also after the claim was given up.
    pub(crate) last_token: u64,
}

impl RunRow {
    /// The part that the state machine of runs decides.
    pub(crate) fn without_collection(self) -> run_state::RunRow {
        run_state::RunRow { run: self.run, last_token: self.last_token }
    }

    /// The row as the state machine of runs changed it.
    pub(crate) fn with(self, row: run_state::RunRow) -> RunRow {
        RunRow { run: row.run, last_token: row.last_token, ..self }
    }
}

struct Kept {
    row: RunRow,
    /// The transaction that changed it last.
    changed: u64,
    /// The transaction as of which the table has it.
    saved: Option<u64>,
}

/// All open runs.
#[derive(Default)]
pub(crate) struct Runs {
    open: HashMap<RunId, Kept>,
    by_job: BTreeSet<(JobKey, RunId)>,
    /// Nobody works on these, by the instant of their next attempt.
    waiting: BTreeSet<(Instant, RunId)>,
    /// By the instant at which their claim expires.
    claimed: BTreeSet<(Instant, RunId)>,
    /// Over, but in the table.
    gone: Vec<RunId>,
}

impl Runs {
    /// A run.
    pub(crate) fn get(&self, run: RunId) -> Option<&RunRow> {
        self.open.get(&run).map(|kept| &kept.row)
    }

    /// The runs of a job, in their order.
    pub(crate) fn of_job(&self, job: JobKey) -> impl Iterator<Item = &RunRow> {
        let range = (job, RunId(i64::MIN))..=(job, RunId(i64::MAX));
        self.by_job.range(range).filter_map(|(_, run)| self.get(*run))
    }

    /// The runs of jobs whose numbers come after one and up to another, so many at most.
    pub(crate) fn of_jobs(&self, after: JobKey, until: JobKey, limit: usize) -> Vec<OpenRun> {
        // An empty range from a larger number to a smaller one would be no range.
        let range = (after, RunId(i64::MAX))..=(until.max(after), RunId(i64::MAX));
        let runs = self.by_job.range(range).filter_map(|(_, run)| self.get(*run));
        runs.map(|row| row.run).filter(|run| run.job > after).take(limit).collect()
    }

    /// The runs of a collection.
    pub(crate) fn of_collection(&self, collection: i64) -> impl Iterator<Item = &RunRow> {
        let rows = self.open.values().map(|kept| &kept.row);
        rows.filter(move |row| row.collection == collection)
    }

    /// The runs that somebody works on.
    pub(crate) fn claimed(&self) -> impl Iterator<Item = &RunRow> {
        self.claimed.iter().filter_map(|(_, run)| self.get(*run))
    }

    /// Changes or removes a run, as a transaction did.
    pub(crate) fn apply(&mut self, run: RunId, row: Option<RunRow>, transaction: u64) {
        let saved = self.remove(run);
        match row {
            Some(row) => {
                self.insert(run, Kept { row, changed: transaction, saved });
            }
            None if saved.is_some() => self.gone.push(run),
            None => {}
        }
    }

    fn insert(&mut self, run: RunId, kept: Kept) {
        let OpenRun { job, progress, claim, .. } = kept.row.run;
        self.by_job.insert((job, run));
        match claim {
            Some(claim) => self.claimed.insert((claim.lease_until, run)),
            None => self.waiting.insert((progress.next_at, run)),
        };
        self.open.insert(run, kept);
    }

    fn remove(&mut self, run: RunId) -> Option<u64> {
        let kept = self.open.remove(&run)?;
        let OpenRun { job, progress, claim, .. } = kept.row.run;
        self.by_job.remove(&(job, run));
        match claim {
            Some(claim) => self.claimed.remove(&(claim.lease_until, run)),
            None => self.waiting.remove(&(progress.next_at, run)),
        };
        kept.saved
    }

    /// Runs that may be claimed, the earliest first, without those of some collections.
    pub(crate) fn claimable(
        &self,
        until: Instant,
        now: Instant,
        without: &HashSet<i64>,
        limit: usize,
    ) -> Vec<OpenRun> {
        let allowed = |run: &RunId| self.get(*run).filter(|row| !without.contains(&row.collection));
        let waiting = self.waiting.range(..=(until, RunId(i64::MAX)));
        let waiting = waiting.filter_map(|(_, run)| allowed(run)).take(limit);
        let expired = self.claimed.range(..(now, RunId(i64::MIN)));
        let expired = expired.filter_map(|(_, run)| allowed(run));
        let mut runs: Vec<_> = waiting.chain(expired).map(|row| row.run).collect();
        runs.sort_by_key(|run| (run.progress.next_at, run.id));
        runs.truncate(limit);
        runs
    }

    /// Runs of which the table has an older form or none, in their order.
    pub(crate) fn unsaved(&self) -> Vec<RunId> {
        let is_unsaved = |kept: &Kept| kept.saved.is_none_or(|saved| saved < kept.changed);
        let unsaved = self.open.iter().filter(|(_, kept)| is_unsaved(kept));
        let mut runs: Vec<_> = unsaved.map(|(run, _)| *run).collect();
        runs.sort_unstable();
        runs
    }

    /// The table has a run as it is now.
    pub(crate) fn mark_saved(&mut self, run: RunId) {
        if let Some(kept) = self.open.get_mut(&run) {
            kept.saved = Some(kept.changed);
        }
    }

    /// Runs that are over but in the table; how many there are.
    pub(crate) fn gone(&self) -> &[RunId] {
        &self.gone
    }

    /// The table has the first so many of them no more.
    pub(crate) fn forget_gone(&mut self, count: usize) {
        self.gone.drain(..count.min(self.gone.len()));
    }

    /// Reads the table.
    pub(crate) fn load(connection: &Connection) -> SqliteResult<Runs> {
        let mut runs = Runs::default();
        let mut statement = connection.prepare("SELECT * FROM runs")?;
        for row in collect(statement.query(())?, |row| Ok(read_run(row)?))? {
            runs.insert(row.run.id, Kept { row, changed: 0, saved: Some(0) });
        }
        Ok(runs)
    }
}

/// A run in a row with its columns.
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
    };
    Ok(RunRow { run, collection: row.get("collection")?, last_token: read(row, "last_token")? })
}

/// Writes a run into the table, new or not.
pub(crate) fn write(connection: &Connection, row: &RunRow) -> SqliteResult<()> {
    const SQL: &str =
        "INSERT OR REPLACE INTO runs (run, job, collection, generation, scheduled, cause, repeat,
             role, retry, redelivery, next_at, first_started, owner, token, lease_until, last_token)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    write_with(connection, SQL, row)
}

/// Writes a run with a statement that takes its columns in their order.
pub(crate) fn write_with(connection: &Connection, sql: &str, row: &RunRow) -> SqliteResult<()> {
    let RunRow { run, collection, last_token } = *row;
    let OpenRun { progress, claim, .. } = run;
    connection.prepare_cached(sql)?.execute((
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
    ))?;
    Ok(())
}

/// Removes a run from the table.
pub(crate) fn delete(connection: &Connection, run: RunId) -> SqliteResult<()> {
    connection.prepare_cached("DELETE FROM runs WHERE run = ?")?.execute([Coded(run)])?;
    Ok(())
}
