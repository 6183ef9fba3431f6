//! Rows of `due` that a commit of the engine reads and deletes. Jobs that are due together are adjacent
//! there, so that they are read by one statement and deleted by few.

use rusqlite::Connection;

use crate::sqlite::code::{Coded, nth};
use crate::sqlite::due;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::state::StateRow;
use crate::sqlite::write_back::change_log;
use crate::sqlite::write_back::dirty_rows::DuePosition;

/// Rows of a commit that are read together; fewer are read one by one.
const BATCH_MIN: usize = 4;

/// Rows of other jobs that such a read may pass, in addition to one for each row it finds.
const SKIPPED_MAX: usize = 8;

/// Rows that were read, and those to delete.
#[derive(Default)]
pub(crate) struct DueBatch {
    /// All rows of the table from the first to the last one that was read, by position; `None` for
    /// those that were not asked for or cannot be read.
    rows: Vec<(DuePosition, Option<StateRow>)>,
    /// Index of the row that is probably taken next.
    next: usize,
    removed: Vec<DuePosition>,
}

impl DueBatch {
    /// Reads the rows at `expected` positions. Those that are far from the others are left out.
    pub(crate) fn read(
        connection: &Connection,
        mut expected: Vec<DuePosition>,
    ) -> SqliteResult<DueBatch> {
        let mut batch = DueBatch::default();
        if expected.len() < BATCH_MIN {
            return Ok(batch);
        }
        expected.sort_unstable();
        let mut expected = expected.into_iter().peekable();
        let Some(&(due, job)) = expected.peek() else { return Ok(batch) };
        let mut statement = connection.prepare_cached(
            "SELECT due, job, packed FROM due WHERE (due, job) >= (?, ?) ORDER BY due, job",
        )?;
        let mut rows = statement.query((Coded(due), Coded(job)))?;
        let mut skipped_max = SKIPPED_MAX;
        while let Some(row) = rows.next()? {
            // A damaged row of another job must not fail the commit.
            let (Ok(due), Ok(job)) = (nth(row, 0), nth(row, 1)) else { break };
            let position: DuePosition = (due, job);
            while expected.next_if(|next| *next < position).is_some() {}
            let Some(next) = expected.peek() else { break };
            let found = match *next == position {
                true => row.get_ref(2)?.as_blob().ok().and_then(change_log::unpack),
                false => None,
            };
            match found {
                Some(_) => skipped_max += 1,
                None if skipped_max == 0 => break,
                None => skipped_max -= 1,
            }
            batch.rows.push((position, found));
        }
        Ok(batch)
    }

    /// The state in a row that was read.
    pub(crate) fn take(&mut self, position: DuePosition) -> Option<StateRow> {
        let is_next = self.rows.get(self.next).is_some_and(|row| row.0 == position);
        let index = match is_next {
            true => self.next,
            false => self.rows.binary_search_by_key(&position, |row| row.0).ok()?,
        };
        self.next = index + 1;
        self.rows.get(index)?.1
    }

    /// Marks a row for deletion by [`DueBatch::write`].
    pub(crate) fn remove(&mut self, position: DuePosition) {
        self.removed.push(position);
    }

    /// Deletes the marked rows: those without another one in between by one statement.
    pub(crate) fn write(&mut self, connection: &Connection) -> SqliteResult<()> {
        self.removed.sort_unstable();
        let mut removed = std::mem::take(&mut self.removed).into_iter().peekable();
        let mut rows = self.rows.iter().map(|row| row.0).peekable();
        while let Some(first) = removed.next() {
            while rows.next_if(|row| *row < first).is_some() {}
            let mut last = first;
            if rows.next_if_eq(&first).is_some() {
                while let Some(row) = rows.next_if(|row| removed.peek() == Some(row)) {
                    removed.next();
                    last = row;
                }
            }
            match first == last {
                true => due::remove(connection, first.0, first.1)?,
                false => remove_between(connection, first, last)?,
            }
        }
        Ok(())
    }
}

/// Deletes the rows from one position to another, both inclusive.
fn remove_between(
    connection: &Connection,
    (first_due, first_job): DuePosition,
    (last_due, last_job): DuePosition,
) -> SqliteResult<()> {
    connection
        .prepare_cached("DELETE FROM due WHERE (due, job) >= (?, ?) AND (due, job) <= (?, ?)")?
        .execute((Coded(first_due), Coded(first_job), Coded(last_due), Coded(last_job)))?;
    Ok(())
}
