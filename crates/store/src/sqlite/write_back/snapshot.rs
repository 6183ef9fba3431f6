//! What a reader reads: one state of the database and what belongs to it in memory.

use std::sync::Arc;

use kalends_recurrence::Instant;
use rusqlite::Connection;

use crate::record::JobKey;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::state::{ReadState, StateRow};
use crate::sqlite::write_back::SharedState;
use crate::sqlite::write_back::change_log;
use crate::sqlite::write_back::dirty_rows::DuePosition;

/// A reader's connection, and how far it sees.
pub(crate) struct Snapshot {
    connection: Connection,
    pub(crate) shared: Arc<SharedState>,
    reader: usize,
    seen: u64,
}

impl Snapshot {
    /// For a reader with a number of its own.
    pub(crate) fn new(connection: Connection, shared: Arc<SharedState>, reader: usize) -> Snapshot {
        Snapshot { connection, shared, reader, seen: 0 }
    }

    /// Has `work` done on one state of the store.
    pub(crate) fn read<T>(
        &mut self,
        work: impl FnOnce(&Snapshot) -> SqliteResult<T>,
    ) -> SqliteResult<T> {
        self.shared.dirty_rows.enter(self.reader);
        self.in_transaction(work)
    }

    /// The same for what is one statement, which sees one state by itself. How far that is it has to
    /// ask for along with the rest, for [`Snapshot::as_of`].
    pub(crate) fn read_one<T>(
        &self,
        work: impl FnOnce(&Snapshot) -> SqliteResult<T>,
    ) -> SqliteResult<T> {
        self.shared.dirty_rows.enter(self.reader);
        work(self)
    }

    /// The row of a job as of a transaction; `None` where the table has it.
    pub(crate) fn as_of(&self, job: JobKey, transaction: u64) -> Option<Option<StateRow>> {
        self.shared.dirty_rows.as_of(job, transaction)
    }

    /// The same for what takes long and reads nothing in shared, so that nothing stays there for
    /// it.
    pub(crate) fn read_file<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> SqliteResult<T>,
    ) -> SqliteResult<T> {
        self.in_transaction(|snapshot| work(&snapshot.connection))
    }

    fn in_transaction<T>(
        &mut self,
        work: impl FnOnce(&Snapshot) -> SqliteResult<T>,
    ) -> SqliteResult<T> {
        self.connection.prepare_cached("BEGIN")?.execute(())?;
        // The first read takes the snapshot.
        self.seen = change_log::newest(&self.connection)?;
        let worked = work(self)?;
        self.connection.prepare_cached("COMMIT")?.execute(())?;
        Ok(worked)
    }

    /// Jobs that were changed lately and are due behind a place; of the next `scan_max`, and
    /// the last of them, where there may be more.
    pub(crate) fn due_changed(
        &self,
        after: Option<DuePosition>,
        until: Instant,
        scan_max: usize,
    ) -> (Vec<(DuePosition, StateRow)>, Option<DuePosition>) {
        self.shared.dirty_rows.due(after, until, self.seen, scan_max)
    }

    /// Gives up the snapshot, whatever became of the work.
    pub(crate) fn leave(&self) {
        if !self.connection.is_autocommit() {
            drop(self.connection.execute_batch("ROLLBACK"));
        }
        self.shared.dirty_rows.leave(self.reader);
    }
}

impl ReadState for Snapshot {
    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn changed(&self, job: JobKey) -> Option<Option<StateRow>> {
        self.as_of(job, self.seen)
    }
}
