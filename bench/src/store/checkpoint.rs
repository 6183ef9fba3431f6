//! WAL checkpoints beside the writer, by the rules of the store (`write_back/checkpoint.rs` of its
//! SQLite driver): a thread checkpoints the long WAL, then the writer checkpoints the few pages
//! that it added meanwhile, so that its next commit starts the WAL over.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

/// Pages in the WAL at which the writer waits for the thread: 128 MiB.
const WAL_PAGES_MAX: u32 = 32_768;

/// The writer's side of the checkpoint thread.
pub struct Checkpointer {
    /// Pages in the WAL after the last commit.
    pages: Arc<AtomicU32>,
    threshold_pages: u32,
    requests: Option<SyncSender<()>>,
    results: Receiver<rusqlite::Result<u32>>,
    is_running: bool,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread for the WAL of a file that `writer` writes. A checkpoint begins at
    /// `threshold_pages`.
    pub fn start(
        path: &Path,
        writer: &mut Connection,
        threshold_pages: u32,
    ) -> anyhow::Result<Checkpointer> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        let pages = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&pages);
        // Replaces SQLite's own hook, which would checkpoint within the commit.
        writer.wal_hook(Some(move |_: &mut _, pages| {
            counted.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        let (requests, requested) = sync_channel(1);
        let (send, results) = sync_channel(1);
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(move || {
            while requested.recv().is_ok() && send.send(checkpoint(&connection)).is_ok() {}
        })?;
        let (requests, thread) = (Some(requests), Some(thread));
        Ok(Checkpointer { pages, threshold_pages, requests, results, is_running: false, thread })
    }

    /// Called after each commit of the writer.
    pub fn after_commit(&mut self, writer: &Connection) -> anyhow::Result<()> {
        let pages = self.pages.load(Ordering::Relaxed);
        if self.is_running {
            let result = match pages >= WAL_PAGES_MAX {
                true => Some(self.results.recv()?),
                false => self.results.try_recv().ok(),
            };
            let Some(checkpointed) = result else { return Ok(()) };
            self.is_running = false;
            let rest = pages.saturating_sub(checkpointed?);
            if rest <= self.threshold_pages / 8 || pages >= WAL_PAGES_MAX {
                checkpoint(writer)?;
                return Ok(());
            }
        }
        if pages >= self.threshold_pages
            && let Some(requests) = &self.requests
        {
            requests.send(())?;
            self.is_running = true;
        }
        Ok(())
    }
}

impl Drop for Checkpointer {
    /// Closes the thread's connection, so that the file can be removed and its inode used again.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Copies pages of the WAL into the database without blocking other connections; returns how many
/// pages of the WAL are in the database now.
fn checkpoint(connection: &Connection) -> rusqlite::Result<u32> {
    connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?
        .query_row((), |row| row.get::<_, i64>(2))
        .map(|pages| u32::try_from(pages).unwrap_or(0))
}
