//! One process for one file.
//!
//! The lock is on a file beside the database. It cannot be on the database itself: when a process
//! closes any handle of a file, the system drops the locks that SQLite holds on it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// Held as long as it lives; the system gives it up when the process dies.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn take(database: &Path) -> Result<Lock, StoreError> {
        let path = beside(database, "lock");
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

/// The path of a file that belongs to a database.
pub(crate) fn beside(database: &Path, extension: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}
