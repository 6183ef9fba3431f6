//! The threads that read, each with its own connection. A read sees everything that was answered
//! before it was asked for.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::task::{Task, reply, task};
use crate::sqlite::trouble::Worked;
use crate::sqlite::view::View;
use crate::store::Reply;

/// The threads that read, and their queue.
pub(crate) struct Readers {
    queue: Option<SyncSender<Box<dyn Task<View>>>>,
    threads: Vec<JoinHandle<()>>,
    /// For what is read on the thread that asks.
    at_hand: Vec<Mutex<View>>,
}

impl Readers {
    /// Starts a thread for each view but those at hand; `waiting_max` requests may wait for them.
    pub(crate) fn start(
        views: Vec<View>,
        at_hand: Vec<View>,
        waiting_max: usize,
    ) -> Result<Readers, StoreError> {
        let (queue, requests) = sync_channel(waiting_max);
        let requests = Arc::new(Mutex::new(requests));
        let at_hand = at_hand.into_iter().map(Mutex::new).collect();
        let mut readers = Readers { queue: Some(queue), threads: Vec::new(), at_hand };
        for mut view in views {
            let requests = Arc::clone(&requests);
            let thread = thread::Builder::new()
                .name("store-reader".into())
                .spawn(move || run(&mut view, &requests))
                .map_err(|error| StoreError::Failed(format!("no thread for reading: {error}")))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Has `work` done on one state of the store.
    pub(crate) fn read<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&View) -> Worked<T> + Send + 'static,
    ) -> Reply<'a, T> {
        let (task, answer) = task(1, move |view: &mut View| view.read(work));
        reply(self.send(task).map(|()| answer))
    }

    /// The same for statements that find a few rows and each see one state: at once and on the thread
    /// that asks, where a view is free. Handing it to another thread and back would take longer than
    /// it takes itself.
    pub(crate) fn read_one<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&View) -> Worked<T> + Send + 'static,
    ) -> Reply<'a, T> {
        for view in &self.at_hand {
            let view = match view.try_lock() {
                Ok(view) => view,
                Err(TryLockError::Poisoned(view)) => view.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            // Of one that has panicked.
            view.leave();
            let read = view.read_one(work).map_err(StoreError::from);
            view.leave();
            return Box::pin(std::future::ready(read));
        }
        self.read(work)
    }

    /// The same for what takes long and looks at the file alone.
    pub(crate) fn read_file<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Worked<T> + Send + 'static,
    ) -> Reply<'a, T> {
        let (task, answer) = task(1, move |view: &mut View| view.read_file(work));
        reply(self.send(task).map(|()| answer))
    }

    fn send(&self, task: Box<dyn Task<View>>) -> Result<(), StoreError> {
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
        self.at_hand.clear();
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

fn run(view: &mut View, requests: &Mutex<Receiver<Box<dyn Task<View>>>>) {
    loop {
        // One thread at a time waits for the next request, the others for their turn to wait.
        let next = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(mut task) = next else { return };
        task.work(view);
        view.leave();
        task.answer(Ok(()));
    }
}
