//! The table `state`: the columns of a job that runs change, in a narrow row.

use std::sync::LazyLock;

use kalends_domain::{Lifecycle, Switch};
use kalends_recurrence::Instant;
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::api_store::JobFilterState;
use crate::record::{JobKey, JobState};
use crate::sqlite::code::{Code, Coded, nth, nth_option};
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::new_rows::{Insert, Integers};

/// A row of `state` without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateRow {
    pub(crate) collection: i64,
    pub(crate) generation: u64,
    pub(crate) switched_on: bool,
    pub(crate) state: JobState,
    /// Number of history entries.
    pub(crate) entries: u64,
    /// Number of the newest history entry; meaningless if there is none.
    pub(crate) newest_entry: i64,
    /// Number of the newest ledger row, in column `newest_closing`. The row and all older ones may
    /// have been pruned.
    pub(crate) newest_ledger_row: i64,
    /// Generation of the last edit that changed the schedule.
    pub(crate) schedule_generation: u64,
    /// When the job was last enabled; `None` if it was never disabled.
    pub(crate) enabled_since: Option<Instant>,
}

impl StateRow {
    /// The next scheduled time; `None` if the job is disabled, finished, or has no further
    /// occurrence.
    pub(crate) fn active_due(&self) -> Option<Instant> {
        let is_active = self.switched_on && self.state.lifecycle == Lifecycle::Active;
        self.state.due.filter(|_| is_active)
    }

    /// The state that the API shows.
    pub(crate) fn filter_state(&self) -> JobFilterState {
        let switch = if self.switched_on { Switch::Enabled } else { Switch::Disabled };
        JobFilterState::of(switch, self.state.lifecycle)
    }
}

/// Reads of job states: dirty rows first, then the table.
pub(crate) trait ReadState {
    /// The connection for all other tables.
    fn connection(&self) -> &Connection;

    /// The dirty row of a job: `None` if the table has it, `Some(None)` if the job was deleted.
    fn dirty_state(&self, job: JobKey) -> Option<Option<StateRow>>;

    /// The state of a job. Fails with [`Unreadable`] if the row cannot be decoded.
    ///
    /// [`Unreadable`]: crate::StoreError::Unreadable
    fn state(&self, job: JobKey) -> SqliteResult<Option<StateRow>> {
        match self.dirty_state(job) {
            Some(dirty) => Ok(dirty),
            None => find(self.connection(), job),
        }
    }
}

/// The state of a job in the table.
fn find(connection: &Connection, job: JobKey) -> SqliteResult<Option<StateRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT collection, generation, switched_on, lifecycle, due, used, last_execution,
             executions, failures, faulted, finished, entries, newest_entry, newest_closing,
             schedule_generation, enabled_since, consecutive_failures, skip_until
         FROM state WHERE job = ?",
    )?;
    let found = statement.query_row([Coded(job)], |row| read_state(row, 0)).optional();
    found.map_err(|error| SqliteError::from(error).of_job(job))
}

/// Number of columns that [`read_state`] reads.
pub(crate) const COLUMNS: usize = 18;

/// Reads the columns of a state in table order, beginning with column `first`.
pub(crate) fn read_state(row: &Row<'_>, first: usize) -> rusqlite::Result<StateRow> {
    let instant = |column| {
        let coded = row.get::<_, Option<Coded<Instant>>>(first + column)?;
        Ok::<_, rusqlite::Error>(coded.map(|coded| coded.0))
    };
    let count = |column| nth(row, first + column);
    let generation = count(1)?;
    Ok(StateRow {
        collection: row.get(first)?,
        generation,
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
            consecutive_failures: count(16)?,
            skip_until: instant(17)?,
        },
        entries: count(11)?,
        newest_entry: row.get(first + 12)?,
        newest_ledger_row: row.get(first + 13)?,
        schedule_generation: nth_option(row, first + 14)?.unwrap_or(generation),
        enabled_since: instant(15)?,
    })
}

/// Number of columns of a row with its key.
pub(crate) const COLUMNS_WITH_KEY: usize = COLUMNS + 1;

/// Inserts or replaces rows of `state`, with the values of [`integers`].
pub(crate) static WRITE: LazyLock<Insert> = LazyLock::new(|| {
    Insert::new(
        "INSERT OR REPLACE INTO state (job, collection, generation, switched_on, lifecycle, due,
             used, last_execution, executions, failures, faulted, finished, entries, newest_entry,
             newest_closing, schedule_generation, enabled_since, consecutive_failures, skip_until)",
        COLUMNS_WITH_KEY,
    )
});

/// The columns of a row, in the order of [`WRITE`].
pub(crate) fn integers(job: JobKey, row: &StateRow) -> Integers<COLUMNS_WITH_KEY> {
    let StateRow { collection, generation, switched_on, state, entries, .. } = *row;
    let JobState { lifecycle, due, used, last_execution, executions, failures, faulted, .. } =
        state;
    [
        Some(job.code()),
        Some(collection),
        Some(generation.code()),
        Some(switched_on.code()),
        Some(lifecycle.code()),
        due.map(Code::code),
        Some(used.code()),
        last_execution.map(Code::code),
        Some(executions.code()),
        Some(failures.code()),
        Some(faulted.code()),
        state.finished.map(Code::code),
        Some(entries.code()),
        Some(row.newest_entry),
        Some(row.newest_ledger_row),
        Some(row.schedule_generation.code()),
        row.enabled_since.map(Code::code),
        Some(state.consecutive_failures.code()),
        state.skip_until.map(Code::code),
    ]
}
