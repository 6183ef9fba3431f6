//! Opens connections to the database file.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::settings::SqliteSettings;

/// Capacity of the statement cache: more than the number of statements.
const STATEMENTS_MAX: usize = 128;

/// Timeout for locks that a tool such as `sqlite3` may hold.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// WAL pages that start a checkpoint: 3 MiB. Commits are slower during a checkpoint; with 16 MiB instead of
/// 4, their 99th percentile was twice as high. A longer WAL also slows readers, which search it for
/// every page that is not in their cache, and is a large part of a small store.
pub(crate) const CHECKPOINT_PAGES: u32 = 768;

/// Size to which the WAL is truncated when it is reused: a burst or a long read may have made it much
/// longer. Larger than the WAL under a steady load, which grows a little while it is checkpointed, so
/// that its blocks are not allocated again and again.
pub(crate) const WAL_BYTES_MAX: u64 = 4 << 20;

/// Page cache of the checkpoint connection in KiB. It reads only the schema.
const CHECKPOINT_CACHE_KIB: u32 = 64;

/// Opens the connection of the writer thread; creates the file if it does not exist.
pub(crate) fn for_writing(path: &Path, settings: &SqliteSettings) -> SqliteResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection, settings.writer_cache_kib)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        let message =
            format!("the file system does not support a write-ahead log (journal mode {mode})");
        return Err(StoreError::Failed(message).into());
    }
    // Each commit is synced before it is acknowledged.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    let limit = i64::try_from(WAL_BYTES_MAX).unwrap_or(i64::MAX);
    connection.pragma_update_and_check(None, "journal_size_limit", limit, |_| Ok(()))?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    if let Some(size_max_kib) = settings.size_max_kib {
        let page_bytes: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = u64::from(size_max_kib) * 1024 / u64::from(page_bytes.max(1));
        let pages = i64::try_from(pages).unwrap_or(i64::MAX);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    Ok(connection)
}

/// Opens the connection that checkpoints the WAL.
pub(crate) fn for_checkpoints(path: &Path) -> SqliteResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection, CHECKPOINT_CACHE_KIB)?;
    // The database is synced before its pages in the WAL can be overwritten.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(connection)
}

/// Opens a read-only connection, for a reader thread or a tool.
pub(crate) fn for_reading(path: &Path, cache_kib: u32) -> SqliteResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection, cache_kib)?;
    Ok(connection)
}

fn configure(connection: &Connection, cache_kib: u32) -> SqliteResult<()> {
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Without QPSG, SQLite replans statements for each bound value, which took half of the time of
    // an edit.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "cache_size", -i64::from(cache_kib))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(())
}
