//! Online backup.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::StoreError;
use crate::sqlite::check::open_existing;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::key_check;
use crate::sqlite::lock::beside;
use crate::stored_form::DefinitionCodec;

/// Backs up a store to a new file. The backup is a snapshot taken at the start; a process may use the
/// store meanwhile. The key file is not copied.
pub fn back_up(path: &Path, codec: &DefinitionCodec, to: &Path) -> Result<(), StoreError> {
    let connection = open_existing(path)?;
    key_check::check(&connection, codec.cipher())?;
    Ok(back_up_with(&connection, to)?)
}

/// Backs up an open store.
pub(crate) fn back_up_with(connection: &Connection, to: &Path) -> SqliteResult<()> {
    let failed = |error: std::io::Error| {
        StoreError::Failed(format!("cannot write {}: {error}", to.display()))
    };
    if to.exists() {
        return Err(StoreError::Failed(format!("{} exists already", to.display())).into());
    }
    // Written under a temporary name and renamed, so that the target is complete or absent.
    let part = beside(to, "part");
    create_private(&part).map_err(failed)?;
    let copied = copy(connection, &part);
    let renamed = copied.and_then(|()| {
        fs::rename(&part, to).and_then(|()| sync_directory(to)).map_err(failed)?;
        Ok(())
    });
    if renamed.is_err() {
        // The original error matters more than a leftover temporary file.
        drop(fs::remove_file(&part));
    }
    renamed
}

fn copy(connection: &Connection, part: &Path) -> SqliteResult<()> {
    let mut target = Connection::open(part)?;
    let backup = Backup::new(connection, &mut target)?;
    // All pages in one step, hence one snapshot. In WAL mode a reader does not block writers.
    match backup.step(-1)? {
        StepResult::Done => Ok(()),
        _ => Err(StoreError::Busy("the store cannot be read now".into()).into()),
    }
}

/// Creates an empty file that only its owner can read.
pub(crate) fn create_private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Syncs the directory of a file, so that its name is durable.
pub(crate) fn sync_directory(path: &Path) -> std::io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}
