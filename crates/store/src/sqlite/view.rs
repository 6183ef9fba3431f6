//! What a reader reads: one state of the database and what belongs to it in memory.

use std::sync::Arc;

use kalends_recurrence::Instant;
use rusqlite::Connection;

use crate::record::JobKey;
use crate::sqlite::log;
use crate::sqlite::memory::Memory;
use crate::sqlite::overlay::Place;
use crate::sqlite::state::{StateRow, States};
use crate::sqlite::trouble::Worked;

/// A reader's connection, and how far it sees.
pub(crate) struct View {
    connection: Connection,
    pub(crate) memory: Arc<Memory>,
    reader: usize,
    seen: u64,
}

impl View {
    /// For a reader with a number of its own.
    pub(crate) fn new(connection: Connection, memory: Arc<Memory>, reader: usize) -> View {
        View { connection, memory, reader, seen: 0 }
    }

    /// Has `work` done on one state of the store.
    pub(crate) fn read<T>(&mut self, work: impl FnOnce(&View) -> Worked<T>) -> Worked<T> {
        self.memory.overlay.enter(self.reader);
        self.in_transaction(work)
    }

    /// The same for what is one statement, which sees one state by itself. How far that is it has to
    /// ask for along with the rest, for [`View::as_of`].
    pub(crate) fn read_one<T>(&self, work: impl FnOnce(&View) -> Worked<T>) -> Worked<T> {
        self.memory.overlay.enter(self.reader);
        work(self)
    }

    /// The row of a job as of a transaction; `None` where the table has it.
    pub(crate) fn as_of(&self, job: JobKey, transaction: u64) -> Option<Option<StateRow>> {
        self.memory.overlay.as_of(job, transaction)
    }

    /// The same for what takes long and reads nothing in memory, so that nothing stays there for
    /// it.
    pub(crate) fn read_file<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> Worked<T>,
    ) -> Worked<T> {
        self.in_transaction(|view| work(&view.connection))
    }

    fn in_transaction<T>(&mut self, work: impl FnOnce(&View) -> Worked<T>) -> Worked<T> {
        self.connection.prepare_cached("BEGIN")?.execute(())?;
        // The first read takes the snapshot.
        self.seen = log::newest(&self.connection)?;
        let worked = work(self)?;
        self.connection.prepare_cached("COMMIT")?.execute(())?;
        Ok(worked)
    }

    /// Jobs that were changed lately and are due behind a place; of the next `scan_max`, and
    /// the last of them, where there may be more.
    pub(crate) fn due_changed(
        &self,
        after: Option<Place>,
        until: Instant,
        scan_max: usize,
    ) -> (Vec<(Place, StateRow)>, Option<Place>) {
        self.memory.overlay.due(after, until, self.seen, scan_max)
    }

    /// Gives up the snapshot, whatever became of the work.
    pub(crate) fn leave(&self) {
        if !self.connection.is_autocommit() {
            drop(self.connection.execute_batch("ROLLBACK"));
        }
        self.memory.overlay.leave(self.reader);
    }
}

impl States for View {
    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn changed(&self, job: JobKey) -> Option<Option<StateRow>> {
        self.as_of(job, self.seen)
    }
}
