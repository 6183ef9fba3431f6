//! Whether the key is the one that the store was written with.
//!
//! A known text, sealed, lies in the store. With another key it cannot be opened, and nothing is
//! written that could not be read together with the rest.

use rusqlite::{Connection, OptionalExtension as _};

use crate::encryption::Cipher;
use crate::error::StoreError;
use crate::sqlite::trouble::Worked;

const NAME: &str = "key-check";
const TEXT: &str = "the key is the right one";

/// Checks the key; `None` where the store knows none yet.
pub(crate) fn check(connection: &Connection, cipher: &Cipher) -> Worked<Option<()>> {
    let sealed: Option<Vec<u8>> = connection
        .query_row("SELECT value FROM meta WHERE name = ?", [NAME], |row| row.get(0))
        .optional()?;
    let Some(sealed) = sealed else { return Ok(None) };
    let opened = cipher.open(NAME, &sealed).map_err(|_| {
        let id = cipher.current().id();
        StoreError::Damaged(format!("it was written with another key than {id}"))
    })?;
    match opened.reveal() == TEXT {
        true => Ok(Some(())),
        false => Err(StoreError::Damaged("its key check holds another text".into()).into()),
    }
}

/// Checks the key, or binds a new store to it.
pub(crate) fn check_or_write(connection: &Connection, cipher: &Cipher) -> Worked<()> {
    if check(connection, cipher)?.is_none() {
        let sealed = cipher.seal(NAME, TEXT)?;
        connection.execute("INSERT INTO meta (name, value) VALUES (?, ?)", (NAME, sealed))?;
    }
    Ok(())
}
