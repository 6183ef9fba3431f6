//! The one thread that writes. What waits is done in one transaction and answered after its commit:
//! one sync of the disk serves many requests.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::task::{After, Task, reply, task};
use crate::sqlite::trouble::{Trouble, Worked};
use crate::store::Reply;

/// Rows, roughly, after which a transaction takes in no more requests: a few milliseconds of work,
/// so that the first in it does not wait long for the last.
const GROUP_WEIGHT_MAX: usize = 2_000;

/// The thread that writes, and its queue.
pub(crate) struct Writer {
    queue: Option<SyncSender<Box<dyn Task>>>,
    thread: Option<JoinHandle<()>>,
    stopped: Arc<OnceLock<StoreError>>,
}

impl Writer {
    /// Starts the thread; `waiting_max` requests may wait for it.
    pub(crate) fn start(connection: Connection, waiting_max: usize) -> Result<Writer, StoreError> {
        let (queue, requests) = sync_channel(waiting_max);
        let stopped = Arc::new(OnceLock::new());
        let stopped_too = Arc::clone(&stopped);
        let thread = thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || run(&connection, &requests, &stopped_too))
            .map_err(|error| StoreError::Failed(format!("no thread for writing: {error}")))?;
        Ok(Writer { queue: Some(queue), thread: Some(thread), stopped })
    }

    /// Has `work` done in a transaction. `weight` is how many rows it touches, roughly.
    pub(crate) fn write<'a, T: Send + 'static>(
        &self,
        weight: usize,
        work: impl FnOnce(&Connection) -> Worked<T> + Send + 'static,
    ) -> Reply<'a, T> {
        let (task, answer) = task(weight, work);
        reply(self.send(task).map(|()| answer))
    }

    fn send(&self, task: Box<dyn Task>) -> Result<(), StoreError> {
        if let Some(why) = self.stopped.get() {
            return Err(why.clone());
        }
        let closed = || StoreError::Failed("the store is closed".into());
        let queue = self.queue.as_ref().ok_or_else(closed)?;
        queue.try_send(task).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy("too many writes are waiting".into()),
            TrySendError::Disconnected(_) => closed(),
        })
    }

    /// Why nothing is written any more, where that is so.
    pub(crate) fn stopped(&self) -> Option<&StoreError> {
        self.stopped.get()
    }

    /// Does what waits, moves the log into the database and ends the thread.
    pub(crate) fn close(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was answered to those who waited for it.
            drop(thread.join());
        }
    }
}

fn run(
    connection: &Connection,
    requests: &Receiver<Box<dyn Task>>,
    stopped: &OnceLock<StoreError>,
) {
    while let Ok(first) = requests.recv() {
        if let Some(why) = stopped.get() {
            first.answer(Err(why.clone()));
            continue;
        }
        let mut group = Vec::new();
        let committed = commit_together(connection, first, requests, &mut group);
        if committed.is_err() {
            // Where SQLite has rolled back already, there is nothing to do.
            drop(connection.execute_batch("ROLLBACK"));
        }
        let fate = committed.map_err(|end| match end {
            End::Failed(error) => error,
            End::Stop { why, fate } => {
                let why = format!("nothing is written since the disk failed: {why}");
                drop(stopped.set(StoreError::Failed(why)));
                fate
            }
        });
        group.into_iter().for_each(|task| task.answer(fate.clone()));
    }
    if stopped.get().is_none() {
        // Where this fails, the next start reads the log instead.
        drop(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())));
    }
}

/// Why a transaction was not committed.
enum End {
    /// For a reason that may pass.
    Failed(StoreError),
    /// The disk or the file has failed; those in the transaction are told `fate`.
    Stop { why: StoreError, fate: StoreError },
}

impl From<rusqlite::Error> for End {
    fn from(error: rusqlite::Error) -> End {
        let why = StoreError::from(Trouble::Sql(error));
        End::Failed(why)
    }
}

fn commit_together(
    connection: &Connection,
    first: Box<dyn Task>,
    requests: &Receiver<Box<dyn Task>>,
    group: &mut Vec<Box<dyn Task>>,
) -> Result<(), End> {
    let execute = |sql: &str| connection.prepare_cached(sql)?.execute(()).map(drop);
    let mut weight = 0;
    let mut next = Some(first);
    let begun = execute("BEGIN IMMEDIATE");
    while let Some(mut task) = next.take() {
        if begun.is_err() {
            group.push(task);
            break;
        }
        execute("SAVEPOINT request")?;
        let after = task.work(connection);
        weight += task.weight();
        group.push(task);
        match after {
            After::Keep => execute("RELEASE request")?,
            // SQLite has undone the whole transaction, as it does when the disk is full.
            After::Undo(error) if connection.is_autocommit() => return Err(End::Failed(error)),
            After::Undo(_) => {
                execute("ROLLBACK TO request")?;
                execute("RELEASE request")?;
            }
            After::Stop(why) => return Err(End::Stop { fate: why.clone(), why }),
        }
        if weight < GROUP_WEIGHT_MAX {
            next = requests.try_recv().ok();
        }
    }
    begun?;
    execute("COMMIT").map_err(|error| match Trouble::is_fatal(&error) {
        // What was written may be in the log all the same, and be found there at the next start.
        true => {
            let why = StoreError::from(Trouble::Sql(error));
            End::Stop { fate: StoreError::Unknown(why.to_string()), why }
        }
        false => End::from(error),
    })
}
