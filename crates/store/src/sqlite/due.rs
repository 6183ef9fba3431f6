//! The jobs whose schedule starts runs, in the order of their instants.
//!
//! The table has the whole row of a job beside its instant: who begins the runs of jobs that are due
//! together finds their rows together, however far apart they lie in `state`. A job that was dirty
//! lately is in memory, and what the table says of it does not count: it leaves its position there at
//! once, and a flush brings it to the next one.

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

/// Jobs in memory that are looked at in one go, for which a commit may have to wait: some ten
/// microseconds.
const SCAN_BATCH: usize = 256;

/// Writes due_positions, new or not.
pub(crate) const WRITE: &str = "INSERT OR REPLACE INTO due (due, job, packed) VALUES (?, ?, ?)";

/// Writes the position of a job that has one, with a statement that takes its columns in their order.
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

/// Removes the position of a job, where the table has it.
pub(crate) fn remove(connection: &Connection, due: Instant, job: JobKey) -> SqliteResult<()> {
    connection
        .prepare_cached("DELETE FROM due WHERE due = ? AND job = ?")?
        .execute((Coded(due), Coded(job)))?;
    Ok(())
}

/// The row of a job that has a position and was not dirty lately.
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

/// The jobs that are due, the earliest first: those of the table, and between them those in memory.
pub(crate) fn due(snapshot: &Snapshot, until: Instant, limit: usize) -> SqliteResult<Vec<Due>> {
    let mut statement = snapshot
        .connection()
        .prepare_cached("SELECT due, job, packed FROM due WHERE due <= ? ORDER BY due, job")?;
    let mut rows = statement.query([Coded(until)])?;
    let mut dirty = DirtyDue { snapshot, until, ready: VecDeque::new(), after: Some(None) };
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
        // A job in memory may have its position in the table as well.
        if last.replace((due, job)) == Some((due, job)) {
            continue;
        }
        let is_enabled = match enabled.get(&collection) {
            Some(known) => *known,
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

/// A job that is due, in the order in which they are told.
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

/// The next job of the table that is still at its position.
fn next_stored(snapshot: &Snapshot, rows: &mut Rows<'_>) -> SqliteResult<Option<DueRow>> {
    while let Some(row) = rows.next()? {
        let (due, job): DuePosition = (nth(row, 0)?, nth(row, 1)?);
        let now = match snapshot.dirty_state(job) {
            Some(dirty) => dirty.filter(|row| row.active_due() == Some(due)),
            None => {
                let packed = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
                Some(change_log::unpack(packed).ok_or_else(|| unreadable(job))?)
            }
        };
        if let Some(now) = now {
            return Ok(Some(DueRow::new((due, job), &now)));
        }
    }
    Ok(None)
}

/// Jobs in memory that are due.
struct DirtyDue<'a> {
    snapshot: &'a Snapshot,
    until: Instant,
    ready: VecDeque<DueRow>,
    /// Behind which position there are more; none where there are no more.
    after: Option<Option<DuePosition>>,
}

impl DirtyDue<'_> {
    fn first(&mut self) -> Option<DueRow> {
        while self.ready.is_empty()
            && let Some(after) = self.after
        {
            let (rows, last) = self.snapshot.dirty_due(after, self.until, SCAN_BATCH);
            self.ready.extend(rows.iter().map(|(position, row)| DueRow::new(*position, row)));
            self.after = last.map(Some);
        }
        self.ready.front().copied()
    }
}
