//! The one thread that writes. What waits is done in one transaction and answered after its commit:
//! one sync of the disk serves many requests. Beside them, and alone when nobody waits, it brings
//! the log into the tables and removes what was deleted.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::StoreError;
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::queue::{Next, Priority, Queue};
use crate::sqlite::removal;
use crate::sqlite::state::ReadState as _;
use crate::sqlite::task::{After, Task, reply, task};
use crate::sqlite::write_back::Checkpointer;
use crate::sqlite::write_back::Flush;
use crate::sqlite::write_back::WriteTransaction;
use crate::store::Reply;

/// Rows, roughly, after which a transaction takes in no more requests: a few milliseconds of work,
/// so that the first in it does not wait long for the last.
const GROUP_WEIGHT_MAX: usize = 2_000;

/// Rows of edits after which it is the engine's turn in a transaction.
const EDITS_WEIGHT_MAX: usize = GROUP_WEIGHT_MAX / 2;

/// Rows that a transaction brings into the tables for each row that it changes: more than one, so
/// that the log gets shorter whatever is going on.
const FLUSHED_PER_CHANGE: usize = 2;

/// Changes in the log, for each row that may be changed, at which they are brought into the tables
/// though they are of few rows: some ten megabytes, which a start reads in a fraction of a second.
const LOGGED_PER_ROW: usize = 4;

/// Rows that a transaction brings into the tables at least: a tenth of a millisecond.
const FLUSHED_MIN: usize = 64;

/// Rows that a transaction of its own brings into the tables or removes: a millisecond or two, for
/// which a request that arrives meanwhile has to wait.
const UPKEEP_ROWS: usize = 500;

/// Rows that a transaction brings into the tables when nobody can wait any more.
const CLOSING_ROWS: usize = 10 * UPKEEP_ROWS;

/// Rows that are removed beside a transaction of others.
const REMOVED_BESIDE: usize = 32;

/// Without requests for so long, what is in the log is brought into the tables.
const IDLE: Duration = Duration::from_millis(500);

/// Nothing happens without requests.
const NOTHING_TO_DO: Duration = Duration::from_secs(3_600);

/// Transactions that go without upkeep after one has failed, so that it is not upkeep which makes
/// them fail.
const UPKEEP_PAUSE: u32 = 16;

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
    Inline(Mutex<Working>),
}

impl Writer {
    /// Starts the thread. At most `waiting_max` requests of each priority wait for it; a flush begins
    /// when `flush_threshold_rows` rows are dirty.
    pub(crate) fn start(
        transaction: WriteTransaction,
        checkpointer: Checkpointer,
        waiting_max: usize,
        flush_threshold_rows: usize,
    ) -> Result<Writer, StoreError> {
        let queue = Arc::new(Queue::new(waiting_max));
        let stopped = Arc::new(OnceLock::new());
        let (of_thread, queued) = (Arc::clone(&stopped), Arc::clone(&queue));
        let mut working = Working::new(transaction, checkpointer, flush_threshold_rows);
        let thread = thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || working.run(&queued, &of_thread))
            .map_err(|error| StoreError::Failed(format!("no thread for writing: {error}")))?;
        Ok(Writer { queue, mode: Mode::Thread(Some(thread)), stopped })
    }

    /// Writes on the calling thread.
    pub(crate) fn inline(
        transaction: WriteTransaction,
        checkpointer: Checkpointer,
        flush_threshold_rows: usize,
    ) -> Writer {
        let working = Working::new(transaction, checkpointer, flush_threshold_rows);
        let mode = Mode::Inline(Mutex::new(working));
        Writer { queue: Arc::new(Queue::new(0)), mode, stopped: Arc::default() }
    }

    /// Carries out `work` in a transaction. `weight` is the approximate number of rows it touches.
    pub(crate) fn write<'a, T: Send + 'static>(
        &self,
        priority: Priority,
        weight: usize,
        work: impl FnOnce(&mut WriteTransaction) -> SqliteResult<T> + Send + 'static,
    ) -> Reply<'a, T> {
        let (task, answer) = task(weight, work);
        if let Some(why) = self.stopped.get() {
            return reply(Err(why.clone()));
        }
        match &self.mode {
            Mode::Thread(_) => reply(self.queue.push(priority, task).map(|()| answer)),
            Mode::Inline(working) => {
                let mut working = working.lock().unwrap_or_else(PoisonError::into_inner);
                working.serve(task, &self.queue, &self.stopped);
                reply(Ok(answer))
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
                    // Those who waited for a thread that panicked have received the error.
                    drop(thread.join());
                }
            }
            Mode::Inline(working) => {
                let working = working.get_mut().unwrap_or_else(PoisonError::into_inner);
                working.close(&self.stopped);
            }
        }
    }
}

/// The state of the writer.
struct Working {
    transaction: WriteTransaction,
    checkpointer: Checkpointer,
    flush: Flush,
    flush_threshold_rows: usize,
    /// Transactions that still go without upkeep.
    pause: u32,
}

/// Why a transaction was not committed.
enum End {
    /// For a reason that may pass.
    Failed(StoreError),
    /// The disk or the file has failed; those in the transaction are told `fate`.
    Stop { why: StoreError, fate: StoreError },
}

impl From<SqliteError> for End {
    fn from(error: SqliteError) -> End {
        let is_fatal = matches!(&error, SqliteError::Sql(error) if SqliteError::is_fatal(error));
        let why = StoreError::from(error);
        match is_fatal {
            true => End::Stop { fate: why.clone(), why },
            false => End::Failed(why),
        }
    }
}

impl From<rusqlite::Error> for End {
    fn from(error: rusqlite::Error) -> End {
        End::from(SqliteError::Sql(error))
    }
}

impl Working {
    fn new(
        transaction: WriteTransaction,
        checkpointer: Checkpointer,
        flush_threshold_rows: usize,
    ) -> Working {
        let flush = Flush::new();
        Working { transaction, checkpointer, flush, flush_threshold_rows, pause: 0 }
    }

    fn run(&mut self, queue: &Queue, stopped: &OnceLock<StoreError>) {
        loop {
            let patience = self.patience();
            match queue.wait(patience) {
                Next::Task(first) if stopped.get().is_some() => {
                    first.answer(stopped.get().map_or(Ok(()), |why| Err(why.clone())));
                }
                Next::Task(first) => self.serve(first, queue, stopped),
                Next::Idle if stopped.get().is_some() => {}
                Next::Idle => self.keep_up(stopped),
                Next::Closed => break,
            }
        }
        self.close(stopped);
    }

    /// Flushes everything and checkpoints.
    fn close(&mut self, stopped: &OnceLock<StoreError>) {
        if stopped.get().is_none() {
            self.flush_all(CLOSING_ROWS, stopped);
        }
        self.checkpointer.close();
        if stopped.get().is_none() {
            // Where this fails, the next start reads the log instead.
            let connection = self.transaction.connection();
            drop(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())));
        }
    }

    /// How long to wait for requests before upkeep.
    fn patience(&self) -> Duration {
        let is_under_way = self.flush.is_under_way() || self.transaction.has_removals;
        match (is_under_way, self.flush.is_settled(&self.transaction)) {
            (true, _) if self.pause == 0 => Duration::ZERO,
            (false, true) => NOTHING_TO_DO,
            _ => IDLE,
        }
    }

    /// Does what waits in one transaction and answers.
    fn serve(
        &mut self,
        first: Box<dyn Task<WriteTransaction>>,
        queue: &Queue,
        stopped: &OnceLock<StoreError>,
    ) {
        let mut group = Vec::new();
        let done = self.work_together(first, queue, &mut group);
        let fate = self.end(done, stopped);
        group.into_iter().for_each(|task| task.answer(fate.clone()));
        self.flush.tidy(&self.transaction);
        self.checkpoint_if_long(stopped);
        // What the transaction could not take, and what asked for a flush, comes next.
        if self.transaction.wants_flush && fate.is_ok() {
            self.transaction.wants_flush = false;
            self.flush_all(UPKEEP_ROWS, stopped);
        }
    }

    /// Carries on with upkeep, or begins it, in a transaction of its own.
    fn keep_up(&mut self, stopped: &OnceLock<StoreError>) {
        self.pause = 0;
        if !self.flush.is_under_way()
            && !self.transaction.has_removals
            && self.flush.is_settled(&self.transaction)
        {
            return;
        }
        if !self.flush.is_under_way() && !self.flush.is_settled(&self.transaction) {
            self.flush.begin(&mut self.transaction);
        }
        let done = self.upkeep_alone();
        // Nobody waits for it; where it failed, the log still has everything.
        drop(self.end(done, stopped));
        self.flush.tidy(&self.transaction);
        self.checkpoint_if_long(stopped);
    }

    /// Between transactions: SQLite's log is not to grow without end.
    fn checkpoint_if_long(&mut self, stopped: &OnceLock<StoreError>) {
        if stopped.get().is_none()
            && let Err(why) = self.checkpointer.checkpoint_if_long(self.transaction.connection())
        {
            stop(stopped, &why);
        }
    }

    fn upkeep_alone(&mut self) -> Result<(), End> {
        self.execute("BEGIN IMMEDIATE")?;
        if self.transaction.has_removals {
            self.transaction.begin_request();
            removal::remove_some(&mut self.transaction, UPKEEP_ROWS / 4)?;
        }
        self.flush.write_some(&mut self.transaction, UPKEEP_ROWS)?;
        self.commit()
    }

    /// Brings all of the log into the tables.
    fn flush_all(&mut self, rows: usize, stopped: &OnceLock<StoreError>) {
        while stopped.get().is_none() {
            // A round that was under way does not have what was changed since it began.
            if !self.flush.is_under_way() {
                if self.flush.is_settled(&self.transaction) {
                    break;
                }
                self.flush.begin(&mut self.transaction);
            }
            let done = self.execute("BEGIN IMMEDIATE").map_err(End::from).and_then(|()| {
                self.flush.write_some(&mut self.transaction, rows)?;
                self.commit()
            });
            if self.end(done, stopped).is_err() {
                break;
            }
            self.flush.tidy(&self.transaction);
            self.checkpoint_if_long(stopped);
        }
    }

    fn execute(&self, sql: &str) -> SqliteResult<()> {
        self.transaction.connection().prepare_cached(sql)?.execute(())?;
        Ok(())
    }

    fn work_together(
        &mut self,
        first: Box<dyn Task<WriteTransaction>>,
        queue: &Queue,
        group: &mut Vec<Box<dyn Task<WriteTransaction>>>,
    ) -> Result<(), End> {
        let (mut weight, mut engine_had_its_turn) = (0, false);
        let mut next = Some(first);
        let begun = self.execute("BEGIN IMMEDIATE");
        while let Some(mut task) = next.take() {
            if begun.is_err() {
                group.push(task);
                break;
            }
            self.execute("SAVEPOINT request")?;
            self.transaction.begin_request();
            let after = task.work(&mut self.transaction);
            weight += task.weight();
            group.push(task);
            match after {
                After::Keep => self.execute("RELEASE request")?,
                // SQLite has undone the whole transaction, as it does when the disk is full.
                After::Undo(error) if self.transaction.connection().is_autocommit() => {
                    return Err(End::Failed(error));
                }
                After::Undo(_) => {
                    self.transaction.undo_request();
                    self.execute("ROLLBACK TO request")?;
                    self.execute("RELEASE request")?;
                }
                After::Stop(why) => return Err(End::Stop { fate: why.clone(), why }),
            }
            if weight < GROUP_WEIGHT_MAX {
                let engine_first = weight >= EDITS_WEIGHT_MAX && !engine_had_its_turn;
                let turn = if engine_first { Priority::Engine } else { Priority::Edit };
                next = queue.take(turn).map(|(turn, task)| {
                    engine_had_its_turn |= turn == Priority::Engine;
                    task
                });
            }
        }
        begun?;
        if self.pause == 0 {
            self.upkeep_beside()?;
        }
        self.commit()
    }

    /// A little upkeep in a transaction of others, as much as they make necessary.
    fn upkeep_beside(&mut self) -> Result<(), End> {
        if self.transaction.has_removals {
            self.transaction.begin_request();
            removal::remove_some(&mut self.transaction, REMOVED_BESIDE)?;
        }
        let is_much = self.transaction.shared.dirty_rows.len() >= self.flush_threshold_rows
            || self.transaction.logged >= self.flush_threshold_rows.saturating_mul(LOGGED_PER_ROW);
        if !self.flush.is_under_way() && is_much {
            self.flush.begin(&mut self.transaction);
        }
        if self.flush.is_under_way() {
            let rows = (self.transaction.changes() * FLUSHED_PER_CHANGE).max(FLUSHED_MIN);
            self.flush.write_some(&mut self.transaction, rows)?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), End> {
        self.transaction.seal()?;
        let committed = self.transaction.connection().prepare_cached("COMMIT")?.execute(());
        committed.map(drop).map_err(|error| match SqliteError::is_fatal(&error) {
            // What was written may be in the log all the same, and be found there at the next start.
            true => {
                let why = StoreError::from(SqliteError::Sql(error));
                End::Stop { fate: StoreError::Unknown(why.to_string()), why }
            }
            false => End::from(error),
        })
    }

    /// After a transaction: memory is made to say what the database says.
    fn end(
        &mut self,
        done: Result<(), End>,
        stopped: &OnceLock<StoreError>,
    ) -> Result<(), StoreError> {
        let Err(end) = done else {
            self.pause = self.pause.saturating_sub(1);
            self.flush.committed(&self.transaction, self.transaction.transaction());
            self.transaction.publish();
            return Ok(());
        };
        if !self.transaction.connection().is_autocommit() {
            // Where this fails, so does everything later.
            drop(self.transaction.connection().execute_batch("ROLLBACK"));
        }
        self.flush.failed();
        self.transaction.undo_all();
        self.pause = UPKEEP_PAUSE;
        Err(match end {
            End::Failed(error) => error,
            End::Stop { why, fate } => {
                stop(stopped, &why);
                fate
            }
        })
    }
}

/// Nothing is written any more.
fn stop(stopped: &OnceLock<StoreError>, why: &StoreError) {
    let why = format!("nothing is written since the disk failed: {why}");
    // Where something failed before, that was the reason.
    drop(stopped.set(StoreError::Failed(why)));
}
