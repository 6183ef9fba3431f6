//! Dump of a store, also while a process uses it.
//!
//! The views show the tables as of the last flush. A dump therefore takes a snapshot of the file, opens
//! it as a store, which replays the change log, and flushes it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kalends_environment::SystemClock;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

use crate::dump::{DumpError, VIEWS, WriteLine};
use crate::error::StoreError;
use crate::sqlite::backup::{back_up, sync_directory};
use crate::sqlite::connection;
use crate::sqlite::error::{SqliteError, SqliteResult};
use crate::sqlite::lock::beside;
use crate::sqlite::settings::SqliteSettings;
use crate::sqlite::store::SqliteStore;
use crate::sqlite::write_back::change_log;
use crate::stored_form::DefinitionCodec;

/// Names that are tried for a temporary directory.
const NAMES_MAX: u32 = 1_000;

/// Page cache of the connection that reads the views, in KiB.
const CACHE_KIB: u32 = 16 * 1024;

/// Writes a snapshot of a store to a new file in which all changes are flushed to the tables: the views
/// are exact. The key file is not copied.
pub fn dump_to(path: &Path, codec: DefinitionCodec, to: &Path) -> Result<(), StoreError> {
    if to.exists() {
        return Err(StoreError::Failed(format!("{} exists already", to.display())));
    }
    // In a directory beside the target and renamed, so that the target is complete or absent.
    let work = WorkDirectory::create(beside(to, "part"))?;
    let copy = work.flushed_copy(path, codec)?;
    let renamed = fs::rename(&copy, to).and_then(|()| sync_directory(to));
    renamed.map_err(|error| StoreError::Failed(format!("cannot write {}: {error}", to.display())))
}

/// Writes the contents of a store as JSON lines: one object for each row of the views. The snapshot is
/// a file in the temporary directory of the system until the last line is written.
pub fn dump(path: &Path, codec: DefinitionCodec, write: WriteLine<'_>) -> Result<(), DumpError> {
    let work = WorkDirectory::create_temporary()?;
    let copy = work.flushed_copy(path, codec)?;
    let connection = connection::for_reading(&copy, CACHE_KIB).map_err(StoreError::from)?;
    for (kind, view, order) in VIEWS {
        let sql = format!("SELECT * FROM {view} ORDER BY {order}");
        let mut statement = connection.prepare(&sql).map_err(store_error)?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows = statement.query(()).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            let line = line(kind, &columns, row).map_err(StoreError::from)?;
            write(&line).map_err(DumpError::Output)?;
        }
    }
    Ok(())
}

fn store_error(error: rusqlite::Error) -> StoreError {
    SqliteError::from(error).into()
}

fn line(kind: &str, columns: &[String], row: &Row<'_>) -> SqliteResult<String> {
    let mut line = format!("{{\"kind\":\"{kind}\"");
    for (index, name) in columns.iter().enumerate() {
        line.push_str(&format!(",\"{name}\":"));
        match row.get_ref(index)? {
            ValueRef::Integer(number) => line.push_str(&number.to_string()),
            ValueRef::Text(text) => {
                let text = String::from_utf8_lossy(text);
                let quoted = serde_json::to_string(&text)
                    .map_err(|error| StoreError::Failed(error.to_string()))?;
                line.push_str(&quoted);
            }
            // The views have columns of integers and text only.
            ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => line.push_str("null"),
        }
    }
    line.push('}');
    Ok(line)
}

/// A directory that only its owner can read, removed on drop.
struct WorkDirectory(PathBuf);

impl WorkDirectory {
    fn create(path: PathBuf) -> Result<WorkDirectory, StoreError> {
        match create_private_directory(&path) {
            Ok(()) => Ok(WorkDirectory(path)),
            Err(error) => {
                Err(StoreError::Failed(format!("cannot create {}: {error}", path.display())))
            }
        }
    }

    /// Creates one in the temporary directory of the system. Skips names that an interrupted process
    /// with the same id left behind.
    fn create_temporary() -> Result<WorkDirectory, StoreError> {
        let path = |number: u32| {
            let name = format!("kalends-dump-{}-{number}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let mut number = 0;
        while path(number).exists() && number < NAMES_MAX {
            number += 1;
        }
        WorkDirectory::create(path(number))
    }

    /// Copies a store into the directory and flushes the change log of the copy.
    fn flushed_copy(&self, path: &Path, codec: DefinitionCodec) -> Result<PathBuf, StoreError> {
        let copy = self.0.join("kalends.db");
        back_up(path, &codec, &copy)?;
        let settings = SqliteSettings::default();
        // Closing the store flushes it.
        drop(SqliteStore::open(&copy, settings, codec, Arc::new(SystemClock))?);
        leave_wal_mode(&copy)?;
        Ok(copy)
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        // A leftover directory does no harm.
        drop(fs::remove_dir_all(&self.0));
    }
}

fn create_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Checks that a closed store is flushed, and makes it a single file that opens without a WAL, also on
/// read-only media.
fn leave_wal_mode(path: &Path) -> SqliteResult<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    let unflushed = change_log::replay(&connection)?;
    if !unflushed.jobs.is_empty() || !unflushed.runs.is_empty() {
        return Err(StoreError::Failed("the change log could not be flushed".into()).into());
    }
    connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    Ok(())
}
