//! How the file is opened.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::settings::SqliteSettings;

/// Statements that a connection keeps compiled: more than there are.
const STATEMENTS_MAX: usize = 128;

/// How long a connection waits for a lock that a tool such as `sqlite3` or a backup may hold.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Pages in SQLite's log before they are moved to the database: 4 MiB. While they are, commits wait
/// longer for the disk; four times as many made one in a hundred wait twice as long. And readers search
/// the log for every page that they do not have.
pub(crate) const LOG_PAGES: u32 = 1_024;

/// Pages that the connection for moving the log keeps in memory, in KiB: it reads the schema.
const MOVER_CACHE_KIB: u32 = 64;

/// For the one thread that writes. Makes the file where there is none.
pub(crate) fn for_writing(path: &Path, settings: &SqliteSettings) -> SqliteResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    prepare(&connection, settings.writer_cache_kib)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        let message = format!("this file system allows no write-ahead log (mode {mode})");
        return Err(StoreError::Failed(message).into());
    }
    // Each commit is on the disk before it is answered.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    if let Some(size_max_kib) = settings.size_max_kib {
        let page_bytes: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = u64::from(size_max_kib) * 1024 / u64::from(page_bytes.max(1));
        let pages = i64::try_from(pages).unwrap_or(i64::MAX);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    Ok(connection)
}

/// For the thread that moves SQLite's log; it needs no pages in memory.
pub(crate) fn for_moving(path: &Path) -> SqliteResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    prepare(&connection, MOVER_CACHE_KIB)?;
    // The database is on the disk before its pages in the log may be written over.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(connection)
}

/// For a thread that reads, or a tool.
pub(crate) fn for_reading(path: &Path, cache_kib: u32) -> SqliteResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    prepare(&connection, cache_kib)?;
    Ok(connection)
}

fn prepare(connection: &Connection, cache_kib: u32) -> SqliteResult<()> {
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // A plan that rests on bound values is made again for each: half of the time of an edit.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "cache_size", -i64::from(cache_kib))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(())
}
