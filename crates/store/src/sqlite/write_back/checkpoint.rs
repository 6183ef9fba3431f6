//! Moves SQLite's log into the database beside the writer, so that no commit waits for thousands of
//! pages.
//!
//! A thread with a connection of its own moves what is there; the writer goes on meanwhile and
//! moves the few pages that it has added, so that its next commit begins the log anew. The disk is
//! asked to keep the pages before they count as moved, on either connection: a cut of the power finds
//! them in the log or in the database.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::error::StoreError;
use crate::sqlite::connection::{self, CHECKPOINT_PAGES};
use crate::sqlite::error::{SqliteError, SqliteResult};

/// Pages that the writer moves itself when the thread is done: a few milliseconds. What is more goes
/// to the thread again.
const REST_MAX: u32 = CHECKPOINT_PAGES / 8;

/// Pages in the log at which the writer waits for the thread: 128 MiB. Moving is faster than
/// committing, so that only a disk that others keep busy brings it there.
const WAL_PAGES_MAX: u32 = 32 * CHECKPOINT_PAGES;

/// Pages that are added, at least, before it is tried again: where somebody reads an old state for
/// long, the log cannot begin anew, and trying costs two syncs.
const AGAIN_AFTER: u32 = CHECKPOINT_PAGES / 4;

/// The writer's side: how long the log is, and the thread.
pub(crate) struct Checkpointer {
    /// Pages in the log after the last commit.
    pages: Arc<AtomicU32>,
    handshake: Arc<Handshake>,
    thread: Option<JoinHandle<()>>,
    /// How long the log may be before something is done.
    patient_until: u32,
    /// How many pages the thread had moved when it was asked to move more.
    moved: u32,
}

/// The stage of a checkpoint, shared by the writer and the thread.
struct Handshake {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    /// The thread is to move the log, or does so.
    Moving,
    /// It has moved so many pages.
    Moved(u32),
    /// The disk has failed.
    Failed(StoreError),
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

    /// The stage, as soon as it is another one than this.
    fn after(&self, stage: &Stage) -> Stage {
        let wait = self.changed.wait_while(self.stage(), |now| now == stage);
        wait.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Checkpointer {
    /// Starts the thread for the log of a file that `writing` writes.
    pub(crate) fn start(path: &Path, writing: &mut Connection) -> SqliteResult<Checkpointer> {
        let moving = connection::for_checkpoints(path)?;
        let pages = count_pages(writing)?;
        let handshake =
            Arc::new(Handshake { stage: Mutex::new(Stage::Idle), changed: Condvar::new() });
        let of_thread = Arc::clone(&handshake);
        let thread = thread::Builder::new()
            .name("store-checkpointer".into())
            .spawn(move || run(&moving, &of_thread))
            .map_err(|error| StoreError::Failed(format!("no thread for the log: {error}")))?;
        Ok(Checkpointer {
            pages,
            handshake,
            thread: Some(thread),
            patient_until: CHECKPOINT_PAGES,
            moved: 0,
        })
    }

    /// Checkpoints on the calling thread, without a thread of its own.
    pub(crate) fn inline(writing: &mut Connection) -> SqliteResult<Checkpointer> {
        let pages = count_pages(writing)?;
        let handshake = Handshake { stage: Mutex::new(Stage::Idle), changed: Condvar::new() };
        let handshake = Arc::new(handshake);
        Ok(Checkpointer {
            pages,
            handshake,
            thread: None,
            patient_until: CHECKPOINT_PAGES,
            moved: 0,
        })
    }

    /// After a commit: has the log moved where it is long. An error means that the disk has failed.
    pub(crate) fn checkpoint_if_long(&mut self, writing: &Connection) -> Result<(), StoreError> {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < CHECKPOINT_PAGES {
            self.patient_until = CHECKPOINT_PAGES;
        }
        if self.thread.is_none() {
            return if pages < CHECKPOINT_PAGES { Ok(()) } else { checkpoint(writing).map(drop) };
        }
        let mut stage = self.handshake.stage().clone();
        if stage == Stage::Moving && pages >= WAL_PAGES_MAX {
            stage = self.handshake.after(&Stage::Moving);
        }
        match stage {
            Stage::Failed(why) => Err(why),
            Stage::Moved(moved)
                if pages.saturating_sub(moved) <= REST_MAX || pages >= WAL_PAGES_MAX =>
            {
                self.handshake.set(Stage::Idle);
                self.patient_until = pages.saturating_add(AGAIN_AFTER).max(CHECKPOINT_PAGES);
                checkpoint(writing).map(drop)
            }
            // The writer was as fast as the thread, which can get further now.
            Stage::Moved(moved) if moved > self.moved => {
                self.moved = moved;
                self.handshake.set(Stage::Moving);
                Ok(())
            }
            // Somebody reads an old state.
            Stage::Moved(_) => {
                self.handshake.set(Stage::Idle);
                self.patient_until = pages.saturating_add(AGAIN_AFTER);
                Ok(())
            }
            Stage::Idle if pages >= self.patient_until => {
                self.moved = 0;
                self.handshake.set(Stage::Moving);
                Ok(())
            }
            Stage::Idle | Stage::Moving | Stage::Closed => Ok(()),
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
fn count_pages(writing: &mut Connection) -> SqliteResult<Arc<AtomicU32>> {
    let pages = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&pages);
    writing.wal_hook(Some(move |_: &mut _, pages| {
        counted.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(pages)
}

fn run(moving: &Connection, handshake: &Handshake) {
    loop {
        let stage = handshake.after(&Stage::Idle);
        match stage {
            Stage::Moving => {
                let next = checkpoint(moving).map_or_else(Stage::Failed, Stage::Moved);
                let mut stage = handshake.stage();
                if *stage == Stage::Moving {
                    *stage = next;
                    handshake.changed.notify_all();
                }
            }
            Stage::Idle => {}
            Stage::Moved(_) => drop(handshake.after(&stage)),
            Stage::Failed(_) | Stage::Closed => return,
        }
    }
}

/// Moves what can be moved while others read and write; how many pages of the log are moved. What
/// may pass is tried again another time; an error means that the disk has failed.
fn checkpoint(connection: &Connection) -> Result<u32, StoreError> {
    let moved = connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")
        .and_then(|mut statement| statement.query_row((), |row| row.get::<_, i64>(2)));
    match moved {
        Ok(moved) => Ok(u32::try_from(moved).unwrap_or(0)),
        Err(error) if SqliteError::is_fatal(&error) => Err(SqliteError::Sql(error).into()),
        Err(_) => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::settings::SqliteSettings;

    struct Bench {
        folder: tempfile::TempDir,
        writing: Connection,
        checkpointer: Checkpointer,
    }

    impl Bench {
        fn new() -> Bench {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("kalends.db");
            let mut writing = connection::for_writing(&path, &SqliteSettings::default()).unwrap();
            writing.execute_batch("CREATE TABLE t (x)").unwrap();
            let checkpointer = Checkpointer::start(&path, &mut writing).unwrap();
            Bench { folder, writing, checkpointer }
        }

        /// Writes so many pages; how many the log has then.
        fn write(&self, pages: u32) -> u32 {
            let bytes = i64::from(pages) * 4_096;
            self.writing.execute("INSERT INTO t VALUES (zeroblob(?))", [bytes]).unwrap();
            self.checkpointer.pages.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn the_log_begins_anew_after_thread_and_writer_have_moved_it() {
        let mut bench = Bench::new();
        assert!(bench.write(CHECKPOINT_PAGES) >= CHECKPOINT_PAGES);
        bench.checkpointer.checkpoint_if_long(&bench.writing).unwrap();
        bench.write(1);
        let stage = bench.checkpointer.handshake.after(&Stage::Moving);
        assert!(matches!(stage, Stage::Moved(moved) if moved >= CHECKPOINT_PAGES), "{stage:?}");
        bench.checkpointer.checkpoint_if_long(&bench.writing).unwrap();
        assert!(bench.write(1) < 16);
    }

    #[test]
    fn a_log_that_somebody_reads_is_left_alone_until_it_is_longer() {
        let mut bench = Bench::new();
        let path = bench.folder.path().join("kalends.db");
        let reading = connection::for_reading(&path, 1024).unwrap();
        reading.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        let mut pages = bench.write(CHECKPOINT_PAGES);
        while *bench.checkpointer.handshake.stage() != Stage::Idle
            || bench.checkpointer.patient_until == CHECKPOINT_PAGES
        {
            bench.checkpointer.checkpoint_if_long(&bench.writing).unwrap();
            bench.checkpointer.handshake.after(&Stage::Moving);
        }
        assert_eq!(bench.checkpointer.patient_until, pages + AGAIN_AFTER);
        bench.checkpointer.checkpoint_if_long(&bench.writing).unwrap();
        assert_eq!(*bench.checkpointer.handshake.stage(), Stage::Idle);

        reading.execute_batch("COMMIT").unwrap();
        pages = bench.write(AGAIN_AFTER);
        assert!(pages > CHECKPOINT_PAGES + AGAIN_AFTER);
        bench.checkpointer.checkpoint_if_long(&bench.writing).unwrap();
        assert_eq!(bench.checkpointer.handshake.after(&Stage::Moving), Stage::Moved(pages));
        bench.checkpointer.checkpoint_if_long(&bench.writing).unwrap();
        assert!(bench.write(1) < 16);
    }
}
