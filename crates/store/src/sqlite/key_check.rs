//! Checks that the encryption key is the one that the store was written with.
//!
//! The store holds the ciphertext of a known text. If the key does not decrypt it, the store is not
//! opened, so that all its secrets stay readable with one key.

use rusqlite::{Connection, OptionalExtension as _};

use crate::encryption::Cipher;
use crate::error::StoreError;
use crate::sqlite::error::SqliteResult;

const NAME: &str = "key-check";
const TEXT: &str = "the key is the right one";

/// Checks the key; `None` if the store has not been bound to a key yet.
pub(crate) fn check(connection: &Connection, cipher: &Cipher) -> SqliteResult<Option<()>> {
    let encrypted: Option<Vec<u8>> = connection
        .query_row("SELECT value FROM meta WHERE name = ?", [NAME], |row| row.get(0))
        .optional()?;
    let Some(encrypted) = encrypted else { return Ok(None) };
    let decrypted = cipher.decrypt(NAME, &encrypted).map_err(|_| {
        let id = cipher.current().id();
        StoreError::Key(format!(
            "the store was written with another key than {id}; start with the key file of this store"
        ))
    })?;
    match decrypted.reveal() == TEXT {
        true => Ok(Some(())),
        false => Err(StoreError::Damaged("the key check does not match".into()).into()),
    }
}

/// Checks the key, or binds a new store to it.
pub(crate) fn check_or_write(connection: &Connection, cipher: &Cipher) -> SqliteResult<()> {
    if check(connection, cipher)?.is_none() {
        let encrypted = cipher.encrypt(NAME, TEXT)?;
        connection.execute("INSERT INTO meta (name, value) VALUES (?, ?)", (NAME, encrypted))?;
    }
    Ok(())
}
