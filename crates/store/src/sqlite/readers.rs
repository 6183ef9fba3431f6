//! The reader threads, each with its own connection. A read sees every commit that was acknowledged
//! before the read was requested.
//!
//! Reads that runs wait for have threads of their own: however many and long the reads of clients
//! are, they cannot occupy these.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::task::{Task, reply, task};
use crate::sqlite::write_back::Snapshot;
use crate::store::Reply;

/// The reader threads and their queues.
pub(crate) struct Readers {
    /// For clients, retention and the invariant scan.
    general: Pool,
    /// For reads that runs wait for.
    engine: Pool,
    /// Snapshots for reads on the calling thread.
    inline: Vec<Mutex<Snapshot>>,
}

/// The snapshots of the readers.
pub(crate) struct ReaderSnapshots {
    /// One for each general thread.
    pub(crate) general: Vec<Snapshot>,
    /// One for each thread of the engine.
    pub(crate) engine: Vec<Snapshot>,
    /// For reads on the calling thread.
    pub(crate) inline: Vec<Snapshot>,
}

impl Readers {
    /// Starts a thread for each general snapshot and each of the engine. At most `waiting_max` requests
    /// wait for either.
    pub(crate) fn start(
        snapshots: ReaderSnapshots,
        waiting_max: usize,
    ) -> Result<Readers, StoreError> {
        let ReaderSnapshots { general, engine, inline } = snapshots;
        Ok(Readers {
            general: Pool::start("store-reader", general, waiting_max)?,
            engine: Pool::start("engine-reader", engine, waiting_max)?,
            inline: inline.into_iter().map(Mutex::new).collect(),
        })
    }

    /// Reads on the calling thread only.
    pub(crate) fn inline(snapshots: Vec<Snapshot>) -> Readers {
        let inline = snapshots.into_iter().map(Mutex::new).collect();
        Readers { general: Pool::default(), engine: Pool::default(), inline }
    }

    /// Runs `work` on one state of the store.
    pub(crate) fn read<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Snapshot) -> SqliteResult<T> + Send + 'static,
    ) -> Reply<'a, T> {
        self.submit(&self.general, move |snapshot: &mut Snapshot| snapshot.read(work))
    }

    /// The same for a read that runs wait for.
    pub(crate) fn read_for_engine<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Snapshot) -> SqliteResult<T> + Send + 'static,
    ) -> Reply<'a, T> {
        self.submit(&self.engine, move |snapshot: &mut Snapshot| snapshot.read(work))
    }

    /// Runs short statements that each see one state: at once on the calling thread if an inline
    /// snapshot is free. Switching threads would take longer than the read.
    pub(crate) fn read_one<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Snapshot) -> SqliteResult<T> + Send + 'static,
    ) -> Reply<'a, T> {
        for snapshot in &self.inline {
            let snapshot = match snapshot.try_lock() {
                Ok(snapshot) => snapshot,
                Err(TryLockError::Poisoned(snapshot)) => snapshot.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            // An earlier read may have panicked and left its snapshot open.
            snapshot.release();
            let read = snapshot.read_one(work).map_err(StoreError::from);
            snapshot.release();
            return Box::pin(std::future::ready(read));
        }
        self.read(work)
    }

    /// Runs long `work` that reads only the file.
    pub(crate) fn read_file<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
    ) -> Reply<'a, T> {
        self.submit(&self.general, move |snapshot: &mut Snapshot| snapshot.read_file(work))
    }

    fn submit<'a, T: Send + 'static>(
        &self,
        pool: &Pool,
        work: impl FnOnce(&mut Snapshot) -> SqliteResult<T> + Send + 'static,
    ) -> Reply<'a, T> {
        let (mut task, receiver) = task(1, work);
        if pool.threads.is_empty()
            && let Some(snapshot) = self.inline.first()
        {
            let mut snapshot = snapshot.lock().unwrap_or_else(PoisonError::into_inner);
            task.run(&mut snapshot);
            snapshot.release();
            task.complete(Ok(()));
            return reply(Ok(receiver));
        }
        reply(pool.send(task).map(|()| receiver))
    }

    /// Completes queued reads and ends the threads.
    pub(crate) fn close(&mut self) {
        self.inline.clear();
        self.general.close();
        self.engine.close();
    }
}

/// Threads with a common queue.
#[derive(Default)]
struct Pool {
    queue: Option<SyncSender<Box<dyn Task<Snapshot>>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    fn start(name: &str, snapshots: Vec<Snapshot>, waiting_max: usize) -> Result<Pool, StoreError> {
        let (queue, requests) = sync_channel(waiting_max);
        let requests = Arc::new(Mutex::new(requests));
        let mut pool = Pool { queue: Some(queue), threads: Vec::new() };
        for mut snapshot in snapshots {
            let requests = Arc::clone(&requests);
            let thread = thread::Builder::new()
                .name(name.into())
                .spawn(move || run(&mut snapshot, &requests))
                .map_err(|error| {
                    StoreError::Failed(format!("cannot start a reader thread: {error}"))
                })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    fn send(&self, task: Box<dyn Task<Snapshot>>) -> Result<(), StoreError> {
        let closed = || StoreError::Failed("the store is closed".into());
        let queue = self.queue.as_ref().ok_or_else(closed)?;
        queue.try_send(task).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy("too many reads are waiting".into()),
            TrySendError::Disconnected(_) => closed(),
        })
    }

    fn close(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

fn run(snapshot: &mut Snapshot, requests: &Mutex<Receiver<Box<dyn Task<Snapshot>>>>) {
    loop {
        // One thread waits for the next request; the others wait for the lock.
        let next = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(mut task) = next else { return };
        task.run(snapshot);
        snapshot.release();
        task.complete(Ok(()));
    }
}
