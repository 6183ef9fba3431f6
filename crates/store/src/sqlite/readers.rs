//! The threads that read, each with its own connection. A read sees everything that was answered
//! before it was asked for.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::task::{Task, reply, task};
use crate::sqlite::write_back::Snapshot;
use crate::store::Reply;

/// The threads that read, and their queue.
pub(crate) struct Readers {
    queue: Option<SyncSender<Box<dyn Task<Snapshot>>>>,
    threads: Vec<JoinHandle<()>>,
    /// For what is read on the thread that asks.
    inline: Vec<Mutex<Snapshot>>,
}

impl Readers {
    /// Starts a thread for each snapshot but those at hand; `waiting_max` requests may wait for them.
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
                .map_err(|error| StoreError::Failed(format!("no thread for reading: {error}")))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Reads on the calling thread only.
    pub(crate) fn inline(snapshots: Vec<Snapshot>) -> Readers {
        let inline = snapshots.into_iter().map(Mutex::new).collect();
        Readers { queue: None, threads: Vec::new(), inline }
    }

    /// Has `work` done on one state of the store.
    pub(crate) fn read<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Snapshot) -> SqliteResult<T> + Send + 'static,
    ) -> Reply<'a, T> {
        self.submit(move |snapshot: &mut Snapshot| snapshot.read(work))
    }

    /// The same for statements that find a few rows and each see one state: at once and on the thread
    /// that asks, where a snapshot is free. Handing it to another thread and back would take longer than
    /// it takes itself.
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
            // Of one that has panicked.
            snapshot.leave();
            let read = snapshot.read_one(work).map_err(StoreError::from);
            snapshot.leave();
            return Box::pin(std::future::ready(read));
        }
        self.read(work)
    }

    /// The same for what takes long and looks at the file alone.
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
        let (mut task, answer) = task(1, work);
        if self.threads.is_empty()
            && let Some(snapshot) = self.inline.first()
        {
            let mut snapshot = snapshot.lock().unwrap_or_else(PoisonError::into_inner);
            task.work(&mut snapshot);
            snapshot.leave();
            task.answer(Ok(()));
            return reply(Ok(answer));
        }
        reply(self.send(task).map(|()| answer))
    }

    fn send(&self, task: Box<dyn Task<Snapshot>>) -> Result<(), StoreError> {
        let closed = || StoreError::Failed("the store is closed".into());
        let queue = self.queue.as_ref().ok_or_else(closed)?;
        queue.try_send(task).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy("too many reads are waiting".into()),
            TrySendError::Disconnected(_) => closed(),
        })
    }

    /// Does what waits and ends the threads.
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
        // One thread at a time waits for the next request, the others for their turn to wait.
        let next = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(mut task) = next else { return };
        task.work(snapshot);
        snapshot.leave();
        task.answer(Ok(()));
    }
}
