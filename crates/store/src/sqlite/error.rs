//! Errors of the SQLite store.

use std::io;

use rusqlite::{Error, ErrorCode, ffi};

use crate::error::{StoreError, UnreadableJob};
use crate::record::JobKey;

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum SqliteError {
    /// An error of the store, returned to the caller unchanged.
    Store(StoreError),
    /// SQLite failed.
    Sql(Error),
}

/// Result of a request before its commit.
pub(crate) type SqliteResult<T> = Result<T, SqliteError>;

impl From<StoreError> for SqliteError {
    fn from(error: StoreError) -> SqliteError {
        SqliteError::Store(error)
    }
}

impl From<Error> for SqliteError {
    fn from(error: Error) -> SqliteError {
        match has_exceeded_quota(&error) {
            true => SqliteError::Store(StoreError::Full),
            false => SqliteError::Sql(error),
        }
    }
}

impl From<SqliteError> for StoreError {
    fn from(error: SqliteError) -> StoreError {
        match error {
            SqliteError::Store(error) => error,
            SqliteError::Sql(error) => to_store_error(&error),
        }
    }
}

impl SqliteError {
    /// The job that cannot be read, if the contents of its row caused this error.
    pub(crate) fn into_unreadable(self, key: JobKey) -> SqliteResult<UnreadableJob> {
        let reason = match self {
            SqliteError::Store(StoreError::Unreadable(jobs)) => match <[_; 1]>::try_from(jobs) {
                Ok([job]) => return Ok(job),
                Err(jobs) => return Err(StoreError::Unreadable(jobs).into()),
            },
            SqliteError::Store(StoreError::Damaged(reason)) => reason,
            // A value of an unexpected type.
            SqliteError::Sql(error) if error.sqlite_error_code().is_none() => error.to_string(),
            other => return Err(other),
        };
        Ok(UnreadableJob { key, path: None, reason })
    }

    /// The same error, as [`StoreError::Unreadable`] if the contents of the job's row caused it.
    pub(crate) fn of_job(self, key: JobKey) -> SqliteError {
        match self.into_unreadable(key) {
            Ok(job) => StoreError::Unreadable(vec![job]).into(),
            Err(other) => other,
        }
    }

    /// Whether the contents of a job's row caused this error.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self, SqliteError::Store(StoreError::Unreadable(_)))
    }

    /// Whether the disk or the file failed, so that the store must stop writing.
    pub(crate) fn is_fatal(error: &Error) -> bool {
        let fatal = [
            ErrorCode::SystemIoFailure,
            ErrorCode::DatabaseCorrupt,
            ErrorCode::NotADatabase,
            ErrorCode::ReadOnly,
            ErrorCode::FileLockingProtocolFailed,
        ];
        error.sqlite_error_code().is_some_and(|code| fatal.contains(&code))
    }
}

/// Whether a write failed because a disk quota is exceeded. SQLite reports `ENOSPC` as a full disk, but
/// `EDQUOT` as an I/O error, and treats both alike: it rolls the transaction back.
///
/// Must be called on the thread of the write, before another system call can fail: the reason is only
/// in `errno`.
fn has_exceeded_quota(error: &Error) -> bool {
    matches!(error, Error::SqliteFailure(failure, _) if failure.extended_code == ffi::SQLITE_IOERR_WRITE)
        && io::Error::last_os_error().kind() == io::ErrorKind::QuotaExceeded
}

fn to_store_error(error: &Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Busy("another process holds the database".into())
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged(error.to_string())
        }
        Some(ErrorCode::SystemIoFailure | ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
            StoreError::Unavailable(error.to_string())
        }
        // A value of an unexpected type, or a missing row.
        None => StoreError::Damaged(format!("an unexpected row: {error}")),
        Some(_) => StoreError::Failed(error.to_string()),
    }
}
