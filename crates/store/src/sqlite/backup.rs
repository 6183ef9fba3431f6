//! A copy of a store while it is written to.

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

/// Copies a store to a file that is not there yet. What is committed when it begins is in the copy,
/// what comes later is not; a process may work with the store meanwhile. The key is not copied.
pub fn back_up(path: &Path, codec: &DefinitionCodec, to: &Path) -> Result<(), StoreError> {
    let connection = open_existing(path)?;
    key_check::check(&connection, codec.cipher())?;
    Ok(back_up_with(&connection, to)?)
}

/// Copies an open store.
pub(crate) fn back_up_with(connection: &Connection, to: &Path) -> SqliteResult<()> {
    let failed = |error: std::io::Error| {
        StoreError::Failed(format!("cannot write {}: {error}", to.display()))
    };
    if to.exists() {
        return Err(StoreError::Failed(format!("{} exists already", to.display())).into());
    }
    // Under its own name it is a whole copy or not there.
    let part = beside(to, "part");
    create_private(&part).map_err(failed)?;
    let copied = copy(connection, &part);
    let moved = copied.and_then(|()| {
        fs::rename(&part, to).and_then(|()| sync_folder(to)).map_err(failed)?;
        Ok(())
    });
    if moved.is_err() {
        // What went wrong is told; a leftover part is not the worst of it.
        drop(fs::remove_file(&part));
    }
    moved
}

fn copy(connection: &Connection, part: &Path) -> SqliteResult<()> {
    let mut target = Connection::open(part)?;
    let backup = Backup::new(connection, &mut target)?;
    // All pages in one step: a step is one state of the store, and writers do not wait for readers.
    match backup.step(-1)? {
        StepResult::Done => Ok(()),
        _ => Err(StoreError::Busy("the store cannot be read now".into()).into()),
    }
}

/// Makes an empty file that nobody else can read.
pub(crate) fn create_private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes the name of a file as durable as the file.
pub(crate) fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}
