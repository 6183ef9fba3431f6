//! A reader's view: one state of the tables and the dirty rows.

use std::sync::Arc;

use kalends_recurrence::Instant;
use rusqlite::Connection;

use crate::record::JobKey;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::state::{ReadState, StateRow};
use crate::sqlite::write_back::SharedState;
use crate::sqlite::write_back::change_log;
use crate::sqlite::write_back::dirty_rows::DuePosition;

/// A reader's connection and the newest transaction that it sees.
pub(crate) struct Snapshot {
    connection: Connection,
    pub(crate) shared: Arc<SharedState>,
    /// Slot of the reader in [`DirtyRows`](super::dirty_rows::DirtyRows).
    reader: usize,
    /// Newest transaction in the SQLite snapshot.
    seen: u64,
}

impl Snapshot {
    /// Creates a reader with its own slot.
    pub(crate) fn new(connection: Connection, shared: Arc<SharedState>, reader: usize) -> Snapshot {
        Snapshot { connection, shared, reader, seen: 0 }
    }

    /// Runs `work` in a read transaction.
    pub(crate) fn read<T>(
        &mut self,
        work: impl FnOnce(&Snapshot) -> SqliteResult<T>,
    ) -> SqliteResult<T> {
        self.shared.dirty_rows.begin_read(self.reader);
        self.in_transaction(work)
    }

    /// Runs a single statement, which sees one state without a transaction. The statement itself
    /// must read the newest transaction number, for [`Snapshot::as_of`].
    pub(crate) fn read_one<T>(
        &self,
        work: impl FnOnce(&Snapshot) -> SqliteResult<T>,
    ) -> SqliteResult<T> {
        self.shared.dirty_rows.begin_read(self.reader);
        work(self)
    }

    /// A job's state as of a transaction; `None` if the table has it.
    pub(crate) fn as_of(&self, job: JobKey, transaction: u64) -> Option<Option<StateRow>> {
        self.shared.dirty_rows.as_of(job, transaction)
    }

    /// Runs long `work` that reads only the file. It pins no dirty rows.
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
        // The first read takes the SQLite snapshot.
        self.seen = change_log::newest(&self.connection)?;
        let result = work(self)?;
        self.connection.prepare_cached("COMMIT")?.execute(())?;
        Ok(result)
    }

    /// Dirty jobs due after a position, among the next `scan_max`; and the last scanned position if
    /// there may be more.
    pub(crate) fn dirty_due(
        &self,
        after: DuePosition,
        until: Instant,
        scan_max: usize,
    ) -> (Vec<(DuePosition, StateRow)>, Option<DuePosition>) {
        self.shared.dirty_rows.due(after, until, self.seen, scan_max)
    }

    /// Ends the read transaction, also after an error, and releases the snapshot.
    pub(crate) fn release(&self) {
        if !self.connection.is_autocommit() {
            drop(self.connection.execute_batch("ROLLBACK"));
        }
        self.shared.dirty_rows.end_read(self.reader);
    }
}

impl ReadState for Snapshot {
    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn dirty_state(&self, job: JobKey) -> Option<Option<StateRow>> {
        self.as_of(job, self.seen)
    }
}
