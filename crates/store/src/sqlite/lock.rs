//! A lock that keeps a second process from opening the database.
//!
//! It locks a separate file. POSIX drops all locks of a process on a file when the process closes any
//! handle of it, so a lock on the database itself would break the locks of SQLite.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// An exclusive lock, released on drop or when the process dies.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks the database, which must exist. The lock file lies beside the file itself: all symbolic
    /// links to it share one lock.
    pub(crate) fn take(database: &Path) -> Result<Lock, StoreError> {
        let canonical = database.canonicalize();
        let canonical = canonical
            .map_err(|error| StoreError::Failed(format!("{}: {error}", database.display())))?;
        let path = beside(&canonical, "lock");
        let failed =
            |error: std::io::Error| StoreError::Failed(format!("{}: {error}", path.display()));
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => {
                let name = database.display();
                Err(StoreError::Busy(format!("another process has {name} open")))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// The path of a database with `.` and an extension appended.
pub(crate) fn beside(database: &Path, extension: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}
