//! The reader threads, each with its own connection. A read sees every commit that was acknowledged
//! before the read was requested.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::task::{Task, reply, task};
use crate::sqlite::write_back::Snapshot;
use crate::store::Reply;

/// The reader threads and their queue.
pub(crate) struct Readers {
    queue: Option<SyncSender<Box<dyn Task<Snapshot>>>>,
    threads: Vec<JoinHandle<()>>,
    /// Snapshots for reads on the calling thread.
    inline: Vec<Mutex<Snapshot>>,
}

impl Readers {
    /// Starts a thread for each of `snapshots`; `inline` ones serve calling threads. At most
    /// `waiting_max` requests wait for the threads.
    pub(crate) fn start(
        snapshots: Vec<Snapshot>,
        inline: Vec<Snapshot>,
        waiting_max: usize,
    ) -> Result<Readers, StoreError> {
        let (queue, requests) = sync_channel(waiting_max);
        let requests = Arc::new(Mutex::new(requests));
        let inline = inline.into_iter().map(Mutex::new).collect();
        let mut readers = Readers { queue: Some(queue), threads: Vec::new(), inline };
        for mut snapshot in snapshots {
            let requests = Arc::clone(&requests);
            let thread = thread::Builder::new()
                .name("store-reader".into())
                .spawn(move || run(&mut snapshot, &requests))
                .map_err(|error| {
                    StoreError::Failed(format!("cannot start a reader thread: {error}"))
                })?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Reads on the calling thread only.
    pub(crate) fn inline(snapshots: Vec<Snapshot>) -> Readers {
        let inline = snapshots.into_iter().map(Mutex::new).collect();
        Readers { queue: None, threads: Vec::new(), inline }
    }

    /// Runs `work` on one state of the store.
    pub(crate) fn read<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Snapshot) -> SqliteResult<T> + Send + 'static,
    ) -> Reply<'a, T> {
        self.submit(move |snapshot: &mut Snapshot| snapshot.read(work))
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
        self.submit(move |snapshot: &mut Snapshot| snapshot.read_file(work))
    }

    fn submit<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Snapshot) -> SqliteResult<T> + Send + 'static,
    ) -> Reply<'a, T> {
        let (mut task, receiver) = task(1, work);
        if self.threads.is_empty()
            && let Some(snapshot) = self.inline.first()
        {
            let mut snapshot = snapshot.lock().unwrap_or_else(PoisonError::into_inner);
            task.run(&mut snapshot);
            snapshot.release();
            task.complete(Ok(()));
            return reply(Ok(receiver));
        }
        reply(self.send(task).map(|()| receiver))
    }

    fn send(&self, task: Box<dyn Task<Snapshot>>) -> Result<(), StoreError> {
        let closed = || StoreError::Failed("the store is closed".into());
        let queue = self.queue.as_ref().ok_or_else(closed)?;
        queue.try_send(task).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy("too many reads are waiting".into()),
            TrySendError::Disconnected(_) => closed(),
        })
    }

    /// Completes queued reads and ends the threads.
    pub(crate) fn close(&mut self) {
        self.queue = None;
        self.inline.clear();
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
