//! The table `due`: jobs with an active schedule, by their next scheduled time.
//!
//! A row includes the whole state of its job, so that jobs due at the same time are read together,
//! however far apart they lie in `state`. For a job with a dirty row the table does not count: a
//! change deletes the job's old row at once, and a flush inserts the new one.

use std::collections::{HashMap, VecDeque};

use kalends_recurrence::Instant;
use rusqlite::{Connection, OptionalExtension as _, Rows, Statement};

use crate::engine_store::{Due, DueJob};
use crate::error::StoreError;
use crate::record::{CollectionKey, JobKey};
use crate::sqlite::code::{Coded, nth};
use crate::sqlite::collections;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::state::{ReadState as _, StateRow};
use crate::sqlite::write_back::Snapshot;
use crate::sqlite::write_back::change_log;
use crate::sqlite::write_back::dirty_rows::DuePosition;

/// Dirty positions scanned under one lock, for which a commit may have to wait: some ten
/// microseconds.
const SCAN_BATCH: usize = 256;

/// Inserts or replaces a row of `due`. Parameters: see [`write()`].
pub(crate) const WRITE: &str = "INSERT OR REPLACE INTO due (due, job, packed) VALUES (?, ?, ?)";

/// Executes a statement with the columns of `due` as parameters, if the job has an active schedule.
pub(crate) fn write(
    statement: &mut Statement<'_>,
    job: JobKey,
    row: &StateRow,
) -> SqliteResult<()> {
    if let Some(due) = row.active_due() {
        statement.execute((Coded(due), Coded(job), change_log::pack(row)))?;
    }
    Ok(())
}

/// Deletes the row of a job, if the table has it.
pub(crate) fn remove(connection: &Connection, due: Instant, job: JobKey) -> SqliteResult<()> {
    connection
        .prepare_cached("DELETE FROM due WHERE due = ? AND job = ?")?
        .execute((Coded(due), Coded(job)))?;
    Ok(())
}

/// The state in a job's row of `due`. Valid only if the job has no dirty row.
pub(crate) fn find(
    connection: &Connection,
    due: Instant,
    job: JobKey,
) -> SqliteResult<Option<StateRow>> {
    let mut statement =
        connection.prepare_cached("SELECT packed FROM due WHERE due = ? AND job = ?")?;
    let packed = |row: &rusqlite::Row<'_>| Ok(change_log::unpack(row.get_ref(0)?.as_blob()?));
    let found = statement.query_row((Coded(due), Coded(job)), packed).optional()?;
    found.map(|row| row.ok_or_else(|| unreadable(job))).transpose()
}

fn unreadable(job: JobKey) -> crate::sqlite::error::SqliteError {
    StoreError::Damaged(format!("what is due of job {} cannot be read", job.0)).into()
}

/// Due jobs of enabled collections, by time and key: merges the table and the dirty rows. None during a
/// pause.
pub(crate) fn due(
    snapshot: &Snapshot,
    (from, until): (Instant, Instant),
    now: Instant,
    limit: usize,
) -> SqliteResult<Vec<Due>> {
    if snapshot.shared.is_paused(now) {
        return Ok(vec![]);
    }
    let mut statement = snapshot.connection().prepare_cached(
        "SELECT due, job, packed FROM due WHERE due BETWEEN ? AND ? ORDER BY due, job",
    )?;
    let mut rows = statement.query([Coded(from), Coded(until)])?;
    let mut dirty =
        DirtyDue { snapshot, until, ready: VecDeque::new(), after: Some((from, JobKey(i64::MIN))) };
    let mut enabled = HashMap::new();
    let (mut stored, mut last) = (next_stored(snapshot, &mut rows)?, None);
    let mut found = Vec::new();
    while found.len() < limit {
        let in_memory = dirty.first();
        let next = match (stored, in_memory) {
            (Some(stored), Some(dirty)) => stored.min(dirty),
            (one, other) => match one.or(other) {
                Some(next) => next,
                None => break,
            },
        };
        if stored == Some(next) {
            stored = next_stored(snapshot, &mut rows)?;
        } else {
            dirty.ready.pop_front();
        }
        let DueRow { position: (due, job), generation, collection } = next;
        // A dirty job may have the same row in the table.
        if last.replace((due, job)) == Some((due, job)) {
            continue;
        }
        let is_enabled = match enabled.get(&collection) {
            Some(cached) => *cached,
            None => {
                let is_enabled = collections::is_enabled(snapshot.connection(), collection)?;
                enabled.insert(collection, is_enabled);
                is_enabled
            }
        };
        if is_enabled == Some(true) {
            let on = DueJob { job, generation, due };
            found.push(Due { on, collection: CollectionKey(collection) });
        }
    }
    Ok(found)
}

/// A due job. Sorts by position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DueRow {
    position: DuePosition,
    generation: u64,
    collection: i64,
}

impl DueRow {
    fn new(position: DuePosition, row: &StateRow) -> DueRow {
        DueRow { position, generation: row.generation, collection: row.collection }
    }
}

/// The next row of the table that is up to date.
fn next_stored(snapshot: &Snapshot, rows: &mut Rows<'_>) -> SqliteResult<Option<DueRow>> {
    while let Some(row) = rows.next()? {
        let (due, job): DuePosition = (nth(row, 0)?, nth(row, 1)?);
        let current = match snapshot.dirty_state(job) {
            Some(dirty) => dirty.filter(|row| row.active_due() == Some(due)),
            None => {
                let packed = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
                Some(change_log::unpack(packed).ok_or_else(|| unreadable(job))?)
            }
        };
        if let Some(current) = current {
            return Ok(Some(DueRow::new((due, job), &current)));
        }
    }
    Ok(None)
}

/// Cursor over the due dirty rows.
struct DirtyDue<'a> {
    snapshot: &'a Snapshot,
    until: Instant,
    ready: VecDeque<DueRow>,
    /// Position after which to continue; `None` at the end.
    after: Option<DuePosition>,
}

impl DirtyDue<'_> {
    /// The current row; fetches the next batch if needed.
    fn first(&mut self) -> Option<DueRow> {
        while self.ready.is_empty()
            && let Some(after) = self.after
        {
            let (rows, last) = self.snapshot.dirty_due(after, self.until, SCAN_BATCH);
            self.ready.extend(rows.iter().map(|(position, row)| DueRow::new(*position, row)));
            self.after = last;
        }
        self.ready.front().copied()
    }
}
