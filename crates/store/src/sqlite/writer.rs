//! The writer thread. Group commit: it carries out all waiting requests in one transaction and
//! replies after the commit, so that one sync serves many requests. With each group, and alone when
//! the queue is empty, it does maintenance: flushes dirty rows and removes the rows of deleted
//! jobs.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::StoreError;
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::queue::{Next, Priority, Queue};
use crate::sqlite::removal;
use crate::sqlite::state::ReadState as _;
use crate::sqlite::task::{Task, TaskOutcome, reply, task};
use crate::sqlite::write_back::Checkpointer;
use crate::sqlite::write_back::Flush;
use crate::sqlite::write_back::WriteTransaction;
use crate::store::Reply;

/// Rows, roughly, after which a group takes no more requests: a few milliseconds of work, so that
/// its first request does not wait long.
const GROUP_WEIGHT_MAX: usize = 2_000;

/// Rows of edits in a group after which the engine's next request goes first.
const EDITS_WEIGHT_MAX: usize = GROUP_WEIGHT_MAX / 2;

/// Rows that a transaction flushes for each row that it changes: more than one, so that the change
/// log shrinks under any load.
const FLUSHED_PER_CHANGE: usize = 2;

/// Logged changes of each dirty row that do not count towards the flush threshold. Jobs that run often
/// have many more; a flush writes few rows then and frees the pages of a long log. A burst has about as
/// many, and its rows are flushed when it has finished.
const CHANGES_PER_ROW: usize = 3;

/// Minimum rows that a transaction flushes: a tenth of a millisecond.
const FLUSHED_MIN: usize = 64;

/// Rows that a maintenance transaction flushes or removes: one or two milliseconds, for which a new
/// request has to wait.
const MAINTENANCE_ROWS: usize = 500;

/// Rows per transaction of the final flush, when no request can wait.
const FINAL_FLUSH_ROWS: usize = 10 * MAINTENANCE_ROWS;

/// Rows of deleted jobs that are removed with each group.
const REMOVED_PER_GROUP: usize = 32;

/// Time without requests after which dirty rows are flushed.
const IDLE: Duration = Duration::from_millis(500);

/// Timeout while there is no maintenance to do.
const NOTHING_TO_DO: Duration = Duration::from_secs(3_600);

/// Transactions without maintenance after a failed one, in case the maintenance made it fail.
const MAINTENANCE_PAUSE: u32 = 16;

/// The writer and its queue.
pub(crate) struct Writer {
    queue: Arc<Queue>,
    mode: Mode,
    stopped: Arc<OnceLock<StoreError>>,
}

/// The thread that carries out writes.
enum Mode {
    /// A thread of the writer's own.
    Thread(Option<JoinHandle<()>>),
    /// The calling thread: every write is a transaction of its own, carried out before the call
    /// returns.
    Inline(Box<Mutex<WriteLoop>>),
}

impl Writer {
    /// Starts the thread. At most `waiting_max` requests of each priority wait for it; a flush
    /// begins when `flush_threshold_rows` rows are dirty.
    pub(crate) fn start(
        transaction: WriteTransaction,
        checkpointer: Checkpointer,
        waiting_max: usize,
        flush_threshold_rows: usize,
    ) -> Result<Writer, StoreError> {
        let queue = Arc::new(Queue::new(waiting_max));
        let stopped = Arc::new(OnceLock::new());
        let (of_thread, queued) = (Arc::clone(&stopped), Arc::clone(&queue));
        let mut write_loop = WriteLoop::new(transaction, checkpointer, flush_threshold_rows);
        let thread = thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || write_loop.run(&queued, &of_thread))
            .map_err(|error| {
                StoreError::Failed(format!("cannot start the writer thread: {error}"))
            })?;
        Ok(Writer { queue, mode: Mode::Thread(Some(thread)), stopped })
    }

    /// Writes on the calling thread.
    pub(crate) fn inline(
        transaction: WriteTransaction,
        checkpointer: Checkpointer,
        flush_threshold_rows: usize,
    ) -> Writer {
        let write_loop = WriteLoop::new(transaction, checkpointer, flush_threshold_rows);
        let mode = Mode::Inline(Box::new(Mutex::new(write_loop)));
        Writer { queue: Arc::new(Queue::new(0)), mode, stopped: Arc::default() }
    }

    /// Carries out `work` in a transaction. `weight` is the approximate number of rows it touches.
    pub(crate) fn write<'a, T: Send + 'static>(
        &self,
        priority: Priority,
        weight: usize,
        work: impl FnOnce(&mut WriteTransaction) -> SqliteResult<T> + Send + 'static,
    ) -> Reply<'a, T> {
        let (task, receiver) = task(weight, work);
        if let Some(why) = self.stopped.get() {
            return reply(Err(why.clone()));
        }
        match &self.mode {
            Mode::Thread(_) => reply(self.queue.push(priority, task).map(|()| receiver)),
            Mode::Inline(write_loop) => {
                let mut write_loop = write_loop.lock().unwrap_or_else(PoisonError::into_inner);
                write_loop.commit_group(task, &self.queue, &self.stopped);
                reply(Ok(receiver))
            }
        }
    }

    /// Whether writes are carried out on the calling thread.
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self.mode, Mode::Inline(_))
    }

    /// Why the store no longer writes, after the disk has failed.
    pub(crate) fn stopped(&self) -> Option<&StoreError> {
        self.stopped.get()
    }

    /// Carries out waiting writes, flushes, checkpoints, and ends the thread.
    pub(crate) fn close(&mut self) {
        self.queue.close();
        match &mut self.mode {
            Mode::Thread(thread) => {
                if let Some(thread) = thread.take() {
                    // If the thread panicked, its waiting callers have received an error.
                    drop(thread.join());
                }
            }
            Mode::Inline(write_loop) => {
                let write_loop = write_loop.get_mut().unwrap_or_else(PoisonError::into_inner);
                write_loop.close(&self.stopped);
            }
        }
    }
}

/// The state of the writer.
struct WriteLoop {
    transaction: WriteTransaction,
    checkpointer: Checkpointer,
    flush: Flush,
    flush_threshold_rows: usize,
    /// Remaining transactions without maintenance.
    maintenance_pause: u32,
}

/// Why a transaction was not committed.
enum TransactionError {
    /// A transient failure.
    Failed(StoreError),
    /// The disk or the file failed. The callers in the transaction receive `reply`.
    Stop { why: StoreError, reply: StoreError },
}

impl From<SqliteError> for TransactionError {
    fn from(error: SqliteError) -> TransactionError {
        let is_fatal = matches!(&error, SqliteError::Sql(error) if SqliteError::is_fatal(error));
        let why = StoreError::from(error);
        match is_fatal {
            true => TransactionError::Stop { reply: why.clone(), why },
            false => TransactionError::Failed(why),
        }
    }
}

impl From<rusqlite::Error> for TransactionError {
    fn from(error: rusqlite::Error) -> TransactionError {
        TransactionError::from(SqliteError::from(error))
    }
}

impl WriteLoop {
    fn new(
        transaction: WriteTransaction,
        checkpointer: Checkpointer,
        flush_threshold_rows: usize,
    ) -> WriteLoop {
        let flush = Flush::new();
        WriteLoop { transaction, checkpointer, flush, flush_threshold_rows, maintenance_pause: 0 }
    }

    fn run(&mut self, queue: &Queue, stopped: &OnceLock<StoreError>) {
        loop {
            match queue.wait(self.idle_timeout()) {
                Next::Task(first) if stopped.get().is_some() => {
                    first.complete(stopped.get().map_or(Ok(()), |why| Err(why.clone())));
                }
                Next::Task(first) => self.commit_group(first, queue, stopped),
                Next::Idle if stopped.get().is_some() => {}
                Next::Idle => self.maintain(stopped),
                Next::Closed => break,
            }
        }
        self.close(stopped);
    }

    /// Flushes everything and checkpoints.
    fn close(&mut self, stopped: &OnceLock<StoreError>) {
        if stopped.get().is_none() {
            self.flush_all(FINAL_FLUSH_ROWS, stopped);
        }
        self.checkpointer.close();
        if stopped.get().is_none() {
            // If this fails, the next start recovers from the WAL.
            let connection = self.transaction.connection();
            drop(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())));
        }
    }

    /// How long to wait for requests before maintenance.
    fn idle_timeout(&self) -> Duration {
        let has_work = self.flush.is_running() || self.transaction.has_removals;
        match (has_work, self.flush.is_clean(&self.transaction)) {
            (true, _) if self.maintenance_pause == 0 => Duration::ZERO,
            (false, true) => NOTHING_TO_DO,
            _ => IDLE,
        }
    }

    /// Carries out waiting requests in one transaction and replies.
    fn commit_group(
        &mut self,
        first: Box<dyn Task<WriteTransaction>>,
        queue: &Queue,
        stopped: &OnceLock<StoreError>,
    ) {
        let mut group = Vec::new();
        let done = self.run_group(first, queue, &mut group);
        let outcome = self.finish(done, stopped);
        group.into_iter().for_each(|task| task.complete(outcome.clone()));
        self.flush.drop_unpinned_rows(&self.transaction);
        self.checkpoint_if_long(stopped);
        // A later request must find the flush complete.
        if self.transaction.wants_flush && outcome.is_ok() {
            self.transaction.wants_flush = false;
            self.flush_all(MAINTENANCE_ROWS, stopped);
        }
    }

    /// Begins or continues maintenance in a transaction of its own.
    fn maintain(&mut self, stopped: &OnceLock<StoreError>) {
        self.maintenance_pause = 0;
        if !self.flush.is_running()
            && !self.transaction.has_removals
            && self.flush.is_clean(&self.transaction)
        {
            return;
        }
        if !self.flush.is_running() && !self.flush.is_clean(&self.transaction) {
            self.flush.begin(&mut self.transaction);
        }
        let done = self.maintenance_transaction();
        // No caller waits. After a failure the change log still has everything.
        drop(self.finish(done, stopped));
        self.flush.drop_unpinned_rows(&self.transaction);
        self.checkpoint_if_long(stopped);
    }

    /// Between transactions: limits the length of the WAL.
    fn checkpoint_if_long(&mut self, stopped: &OnceLock<StoreError>) {
        if stopped.get().is_none()
            && let Err(why) = self.checkpointer.checkpoint_if_long(self.transaction.connection())
        {
            stop(stopped, &why);
        }
    }

    /// Removes and flushes rows in one transaction.
    fn maintenance_transaction(&mut self) -> Result<(), TransactionError> {
        self.execute("BEGIN IMMEDIATE")?;
        if self.transaction.has_removals {
            self.transaction.begin_request();
            removal::remove_some(&mut self.transaction, MAINTENANCE_ROWS / 4)?;
        }
        self.flush.write_slice(&mut self.transaction, MAINTENANCE_ROWS)?;
        self.commit()
    }

    /// Flushes all dirty rows.
    fn flush_all(&mut self, rows: usize, stopped: &OnceLock<StoreError>) {
        while stopped.get().is_none() {
            // A running pass lacks the changes since it began.
            if !self.flush.is_running() {
                if self.flush.is_clean(&self.transaction) {
                    break;
                }
                self.flush.begin(&mut self.transaction);
            }
            let done =
                self.execute("BEGIN IMMEDIATE").map_err(TransactionError::from).and_then(|()| {
                    self.flush.write_slice(&mut self.transaction, rows)?;
                    self.commit()
                });
            if self.finish(done, stopped).is_err() {
                break;
            }
            self.flush.drop_unpinned_rows(&self.transaction);
            self.checkpoint_if_long(stopped);
        }
    }

    fn execute(&self, sql: &str) -> SqliteResult<()> {
        self.transaction.connection().prepare_cached(sql)?.execute(())?;
        Ok(())
    }

    /// Runs the tasks of a group, each in a savepoint, and commits.
    fn run_group(
        &mut self,
        first: Box<dyn Task<WriteTransaction>>,
        queue: &Queue,
        group: &mut Vec<Box<dyn Task<WriteTransaction>>>,
    ) -> Result<(), TransactionError> {
        let (mut weight, mut engine_served) = (0, false);
        let mut next = Some(first);
        let begun = self.execute("BEGIN IMMEDIATE");
        while let Some(mut task) = next.take() {
            if begun.is_err() {
                group.push(task);
                break;
            }
            self.execute("SAVEPOINT request")?;
            self.transaction.begin_request();
            let outcome = task.run(&mut self.transaction);
            weight += task.weight();
            group.push(task);
            match outcome {
                TaskOutcome::Keep => self.execute("RELEASE request")?,
                // SQLite has rolled back the whole transaction, as it does when the disk is full.
                TaskOutcome::RollBack(error) if self.transaction.connection().is_autocommit() => {
                    return Err(TransactionError::Failed(error));
                }
                TaskOutcome::RollBack(_) => {
                    self.transaction.roll_back_request();
                    self.execute("ROLLBACK TO request")?;
                    self.execute("RELEASE request")?;
                }
                TaskOutcome::Stop(why) => {
                    return Err(TransactionError::Stop { reply: why.clone(), why });
                }
            }
            if weight < GROUP_WEIGHT_MAX {
                let engine_first = weight >= EDITS_WEIGHT_MAX && !engine_served;
                let priority = if engine_first { Priority::Engine } else { Priority::Edit };
                next = queue.take(priority).map(|(priority, task)| {
                    engine_served |= priority == Priority::Engine;
                    task
                });
            }
        }
        begun?;
        if self.maintenance_pause == 0 {
            self.maintain_with_group()?;
        }
        self.commit()
    }

    /// Maintenance within a group commit, in proportion to its changes.
    fn maintain_with_group(&mut self) -> Result<(), TransactionError> {
        if self.transaction.has_removals {
            self.transaction.begin_request();
            removal::remove_some(&mut self.transaction, REMOVED_PER_GROUP)?;
        }
        if !self.flush.is_running() && self.is_flush_needed() {
            self.flush.begin(&mut self.transaction);
        }
        if self.flush.is_running() {
            let rows = (self.transaction.changes() * FLUSHED_PER_CHANGE).max(FLUSHED_MIN);
            self.flush.write_slice(&mut self.transaction, rows)?;
        }
        Ok(())
    }

    fn is_flush_needed(&self) -> bool {
        let dirty = self.transaction.shared.dirty_rows.len();
        let repeated = self.transaction.logged_changes.saturating_sub(CHANGES_PER_ROW * dirty);
        dirty >= self.flush_threshold_rows || repeated >= self.flush_threshold_rows
    }

    fn commit(&mut self) -> Result<(), TransactionError> {
        self.transaction.append_to_change_log()?;
        let committed = self.transaction.connection().prepare_cached("COMMIT")?.execute(());
        committed.map(drop).map_err(|error| match SqliteError::from(error) {
            // The transaction may be in the WAL all the same, and the next start may recover it.
            SqliteError::Sql(error) if SqliteError::is_fatal(&error) => {
                let why = StoreError::from(SqliteError::Sql(error));
                TransactionError::Stop { reply: StoreError::Unknown(why.to_string()), why }
            }
            error => TransactionError::from(error),
        })
    }

    /// After a transaction: publishes its changes or rolls them back in memory.
    fn finish(
        &mut self,
        done: Result<(), TransactionError>,
        stopped: &OnceLock<StoreError>,
    ) -> Result<(), StoreError> {
        let Err(error) = done else {
            self.maintenance_pause = self.maintenance_pause.saturating_sub(1);
            self.flush.on_commit(&self.transaction, self.transaction.transaction());
            self.transaction.publish();
            return Ok(());
        };
        if !self.transaction.connection().is_autocommit() {
            // If this fails, all later transactions fail too.
            drop(self.transaction.connection().execute_batch("ROLLBACK"));
        }
        self.flush.abort();
        self.transaction.roll_back();
        self.maintenance_pause = MAINTENANCE_PAUSE;
        Err(match error {
            TransactionError::Failed(error) => error,
            TransactionError::Stop { why, reply } => {
                stop(stopped, &why);
                reply
            }
        })
    }
}

/// Refuses all further writes.
fn stop(stopped: &OnceLock<StoreError>, why: &StoreError) {
    let why = format!("nothing is written since the disk failed: {why}");
    // The first failure is the cause; later ones are ignored.
    drop(stopped.set(StoreError::Unavailable(why)));
}
