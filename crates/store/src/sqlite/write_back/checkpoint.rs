//! WAL checkpoints on a thread of their own, so that no commit waits for thousands of pages.
//!
//! The thread checkpoints with its own connection while the writer goes on. The writer then
//! checkpoints the few pages that it has added since, and its next commit restarts the WAL. Both
//! connections sync the pages before they count as checkpointed: after a power failure every page
//! is in the WAL or in the database file.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::connection::{self, CHECKPOINT_PAGES};
use crate::sqlite::error::{SqliteError, SqliteResult};

/// Maximum number of pages that the writer checkpoints itself: a few milliseconds. More pages go to
/// the thread again.
const WRITER_PAGES_MAX: u32 = CHECKPOINT_PAGES / 8;

/// WAL pages at which the writer waits for the thread: 96 MiB. A checkpoint is faster than the
/// commits, so the WAL grows this long only on a disk that is busy with other work.
const WAL_PAGES_MAX: u32 = 32 * CHECKPOINT_PAGES;

/// WAL pages to add before a retry. While a reader holds an old snapshot the WAL cannot restart,
/// and an attempt costs two syncs.
const RETRY_AFTER_PAGES: u32 = CHECKPOINT_PAGES / 4;

/// The writer's side of the checkpoint thread.
pub(crate) struct Checkpointer {
    /// WAL pages after the last commit.
    pages: Arc<AtomicU32>,
    handshake: Arc<Handshake>,
    /// `None` if checkpoints run on the calling thread.
    thread: Option<JoinHandle<()>>,
    /// WAL pages that start the next checkpoint.
    next_checkpoint_at: u32,
    /// Pages that the thread had copied when it was last started again.
    copied: u32,
}

/// The stage of a checkpoint, shared by the writer and the thread.
struct Handshake {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// No checkpoint is running.
    Idle,
    /// The thread is checkpointing, or about to.
    Running,
    /// The thread has copied this number of WAL pages.
    Copied(u32),
    /// The disk failed.
    Failed(StoreError),
    /// The thread ends.
    Closed,
}

impl Handshake {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, stage: Stage) {
        *self.stage() = stage;
        self.changed.notify_all();
    }

    /// Waits while the stage is `stage`; returns the next one.
    fn wait_while(&self, stage: &Stage) -> Stage {
        let wait = self.changed.wait_while(self.stage(), |now| now == stage);
        wait.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Checkpointer {
    /// Starts the thread for the file that `writer` writes.
    pub(crate) fn start(path: &Path, writer: &mut Connection) -> SqliteResult<Checkpointer> {
        let own_connection = connection::for_checkpoints(path)?;
        let mut checkpointer = Checkpointer::inline(writer)?;
        let handshake = Arc::clone(&checkpointer.handshake);
        let thread = thread::Builder::new()
            .name("store-checkpointer".into())
            .spawn(move || run(&own_connection, &handshake))
            .map_err(|error| {
                StoreError::Failed(format!("cannot start the checkpoint thread: {error}"))
            })?;
        checkpointer.thread = Some(thread);
        Ok(checkpointer)
    }

    /// Checkpoints on the calling thread, without a thread of its own.
    pub(crate) fn inline(writer: &mut Connection) -> SqliteResult<Checkpointer> {
        let handshake = Handshake { stage: Mutex::new(Stage::Idle), changed: Condvar::new() };
        Ok(Checkpointer {
            pages: count_pages(writer)?,
            handshake: Arc::new(handshake),
            thread: None,
            next_checkpoint_at: CHECKPOINT_PAGES,
            copied: 0,
        })
    }

    /// After a commit: starts or completes a checkpoint if the WAL is long. An error means that the
    /// disk failed.
    pub(crate) fn checkpoint_if_long(&mut self, writer: &Connection) -> Result<(), StoreError> {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < CHECKPOINT_PAGES {
            self.next_checkpoint_at = CHECKPOINT_PAGES;
        }
        if self.thread.is_none() {
            return if pages < CHECKPOINT_PAGES { Ok(()) } else { checkpoint(writer).map(drop) };
        }
        let mut stage = self.handshake.stage().clone();
        if stage == Stage::Running && pages >= WAL_PAGES_MAX {
            stage = self.handshake.wait_while(&Stage::Running);
        }
        match stage {
            Stage::Failed(why) => Err(why),
            Stage::Copied(copied)
                if pages.saturating_sub(copied) <= WRITER_PAGES_MAX || pages >= WAL_PAGES_MAX =>
            {
                self.handshake.set(Stage::Idle);
                self.next_checkpoint_at =
                    pages.saturating_add(RETRY_AFTER_PAGES).max(CHECKPOINT_PAGES);
                checkpoint(writer).map(drop)
            }
            // The writer added pages as fast as the thread copied them, but the thread made
            // progress.
            Stage::Copied(copied) if copied > self.copied => {
                self.copied = copied;
                self.handshake.set(Stage::Running);
                Ok(())
            }
            // A reader holds an old snapshot.
            Stage::Copied(_) => {
                self.handshake.set(Stage::Idle);
                self.next_checkpoint_at = pages.saturating_add(RETRY_AFTER_PAGES);
                Ok(())
            }
            Stage::Idle if pages >= self.next_checkpoint_at => {
                self.copied = 0;
                self.handshake.set(Stage::Running);
                Ok(())
            }
            Stage::Idle | Stage::Running | Stage::Closed => Ok(()),
        }
    }

    /// Ends the thread.
    pub(crate) fn close(&mut self) {
        self.handshake.set(Stage::Closed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Counts the pages of the WAL after each commit. The hook replaces SQLite's own, which checkpoints
/// within the commit.
fn count_pages(writer: &mut Connection) -> SqliteResult<Arc<AtomicU32>> {
    let pages = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&pages);
    writer.wal_hook(Some(move |_: &mut _, pages| {
        counted.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(pages)
}

fn run(connection: &Connection, handshake: &Handshake) {
    loop {
        let stage = handshake.wait_while(&Stage::Idle);
        match stage {
            Stage::Running => {
                let next = checkpoint(connection).map_or_else(Stage::Failed, Stage::Copied);
                let mut stage = handshake.stage();
                if *stage == Stage::Running {
                    *stage = next;
                    handshake.changed.notify_all();
                }
            }
            Stage::Idle => {}
            Stage::Copied(_) => drop(handshake.wait_while(&stage)),
            Stage::Failed(_) | Stage::Closed => return,
        }
    }
}

/// Runs a passive checkpoint, which blocks neither readers nor the writer, and returns the number
/// of copied WAL pages. A transient failure returns 0; an error means that the disk failed.
fn checkpoint(connection: &Connection) -> Result<u32, StoreError> {
    let copied = connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")
        .and_then(|mut statement| statement.query_row((), |row| row.get::<_, i64>(2)));
    match copied.map_err(SqliteError::from) {
        Ok(copied) => Ok(u32::try_from(copied).unwrap_or(0)),
        Err(SqliteError::Sql(error)) if SqliteError::is_fatal(&error) => {
            Err(SqliteError::Sql(error).into())
        }
        Err(_) => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::settings::SqliteSettings;

    struct Fixture {
        folder: tempfile::TempDir,
        writer: Connection,
        checkpointer: Checkpointer,
    }

    impl Fixture {
        fn new() -> Fixture {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("kalends.db");
            let mut writer = connection::for_writing(&path, &SqliteSettings::default()).unwrap();
            writer.execute_batch("CREATE TABLE t (x)").unwrap();
            let checkpointer = Checkpointer::start(&path, &mut writer).unwrap();
            Fixture { folder, writer, checkpointer }
        }

        /// Writes a number of pages; returns the length of the WAL in pages.
        fn write(&self, pages: u32) -> u32 {
            let bytes = i64::from(pages) * 4_096;
            self.writer.execute("INSERT INTO t VALUES (zeroblob(?))", [bytes]).unwrap();
            self.checkpointer.pages.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn the_wal_restarts_after_thread_and_writer_have_checkpointed() {
        let mut fixture = Fixture::new();
        assert!(fixture.write(CHECKPOINT_PAGES) >= CHECKPOINT_PAGES);
        fixture.checkpointer.checkpoint_if_long(&fixture.writer).unwrap();
        let stage = fixture.checkpointer.handshake.wait_while(&Stage::Running);
        assert!(matches!(stage, Stage::Copied(copied) if copied >= CHECKPOINT_PAGES), "{stage:?}");
        // Not meanwhile: a transaction that begins may hold the lock that the thread tries once.
        fixture.write(1);
        fixture.checkpointer.checkpoint_if_long(&fixture.writer).unwrap();
        assert!(fixture.write(1) < 16);
    }

    #[test]
    fn a_checkpoint_blocked_by_a_reader_is_retried_after_more_pages() {
        let mut fixture = Fixture::new();
        let path = fixture.folder.path().join("kalends.db");
        let reader = connection::for_reading(&path, 1024).unwrap();
        reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        let mut pages = fixture.write(CHECKPOINT_PAGES);
        while *fixture.checkpointer.handshake.stage() != Stage::Idle
            || fixture.checkpointer.next_checkpoint_at == CHECKPOINT_PAGES
        {
            fixture.checkpointer.checkpoint_if_long(&fixture.writer).unwrap();
            fixture.checkpointer.handshake.wait_while(&Stage::Running);
        }
        assert_eq!(fixture.checkpointer.next_checkpoint_at, pages + RETRY_AFTER_PAGES);
        fixture.checkpointer.checkpoint_if_long(&fixture.writer).unwrap();
        assert_eq!(*fixture.checkpointer.handshake.stage(), Stage::Idle);

        reader.execute_batch("COMMIT").unwrap();
        pages = fixture.write(RETRY_AFTER_PAGES);
        assert!(pages > CHECKPOINT_PAGES + RETRY_AFTER_PAGES);
        fixture.checkpointer.checkpoint_if_long(&fixture.writer).unwrap();
        assert_eq!(
            fixture.checkpointer.handshake.wait_while(&Stage::Running),
            Stage::Copied(pages)
        );
        fixture.checkpointer.checkpoint_if_long(&fixture.writer).unwrap();
        assert!(fixture.write(1) < 16);
    }
}
