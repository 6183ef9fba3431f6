//! What runs change of a job: a narrow row.

use kalends_domain::{Lifecycle, Switch};
use kalends_recurrence::Instant;
use rusqlite::{Connection, OptionalExtension as _, Row, Statement};

use crate::api_store::JobFilterState;
use crate::record::{JobKey, JobState};
use crate::sqlite::code::{Code as _, Coded, nth};
use crate::sqlite::error::SqliteResult;

/// The row of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateRow {
    pub(crate) collection: i64,
    pub(crate) generation: u64,
    pub(crate) switched_on: bool,
    pub(crate) state: JobState,
    /// How many entries of history it has.
    pub(crate) entries: u64,
    /// The newest of them; of no meaning where there is none.
    pub(crate) newest_entry: i64,
    /// The newest row of the ledger; it may be gone, and the older ones with it.
    pub(crate) newest_ledger_row: i64,
}

impl StateRow {
    /// When its schedule starts the next run, where it starts any.
    pub(crate) fn active_due(&self) -> Option<Instant> {
        let starts = self.switched_on && self.state.lifecycle == Lifecycle::Active;
        self.state.due.filter(|_| starts)
    }

    /// The state as users see it.
    pub(crate) fn filter_state(&self) -> JobFilterState {
        let switch = if self.switched_on { Switch::Enabled } else { Switch::Disabled };
        JobFilterState::of(switch, self.state.lifecycle)
    }
}

/// Where the rows of jobs are read: in memory if they were changed lately, or in the table.
pub(crate) trait ReadState {
    /// Where everything else is read.
    fn connection(&self) -> &Connection;

    /// What was changed lately: the row, or that it is gone.
    fn dirty_state(&self, job: JobKey) -> Option<Option<StateRow>>;

    /// The row of a job.
    fn state(&self, job: JobKey) -> SqliteResult<Option<StateRow>> {
        match self.dirty_state(job) {
            Some(changed) => Ok(changed),
            None => find(self.connection(), job),
        }
    }
}

/// The row that is in the table.
fn find(connection: &Connection, job: JobKey) -> SqliteResult<Option<StateRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT collection, generation, switched_on, lifecycle, due, used, last_execution,
             executions, failures, faulted, finished, entries, newest_entry, newest_closing
         FROM state WHERE job = ?",
    )?;
    Ok(statement.query_row([Coded(job)], |row| read_state(row, 0)).optional()?)
}

/// The row in an answer that has its columns in their order, from one on.
pub(crate) fn read_state(row: &Row<'_>, first: usize) -> rusqlite::Result<StateRow> {
    let instant = |column| {
        let coded = row.get::<_, Option<Coded<Instant>>>(first + column)?;
        Ok::<_, rusqlite::Error>(coded.map(|coded| coded.0))
    };
    let count = |column| nth(row, first + column);
    Ok(StateRow {
        collection: row.get(first)?,
        generation: count(1)?,
        switched_on: nth(row, first + 2)?,
        state: JobState {
            lifecycle: nth(row, first + 3)?,
            due: instant(4)?,
            used: count(5)?,
            last_execution: instant(6)?,
            executions: count(7)?,
            failures: count(8)?,
            faulted: count(9)?,
            finished: instant(10)?,
        },
        entries: count(11)?,
        newest_entry: row.get(first + 12)?,
        newest_ledger_row: row.get(first + 13)?,
    })
}

/// Writes rows of jobs, new or not.
pub(crate) const WRITE: &str =
    "INSERT OR REPLACE INTO state (job, collection, generation, switched_on, lifecycle, due, used,
         last_execution, executions, failures, faulted, finished, entries, newest_entry,
         newest_closing)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// Writes the row of a job with a statement that takes its columns in their order.
pub(crate) fn write(
    statement: &mut Statement<'_>,
    job: JobKey,
    row: &StateRow,
) -> SqliteResult<()> {
    let StateRow { collection, generation, switched_on, state, entries, .. } = *row;
    let JobState { lifecycle, due, used, last_execution, executions, failures, faulted, finished } =
        state;
    statement.execute((
        Coded(job),
        collection,
        Coded(generation),
        switched_on.code(),
        Coded(lifecycle),
        due.map(Coded),
        Coded(used),
        last_execution.map(Coded),
        Coded(executions),
        Coded(failures),
        Coded(faulted),
        finished.map(Coded),
        Coded(entries),
        row.newest_entry,
        row.newest_ledger_row,
    ))?;
    Ok(())
}
