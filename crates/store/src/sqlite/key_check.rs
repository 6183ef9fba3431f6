//! Checks that the encryption key is the one that the store was written with.
//!
//! The store holds the ciphertext of a known text. If the key does not decrypt it, the store is not
//! opened, so that all its secrets stay readable with one key. While a rotation of the key is
//! unfinished there is a second one, of the new key, and the store opens for the holder of both only.

use rusqlite::{Connection, OptionalExtension as _};

use crate::encryption::Cipher;
use crate::error::StoreError;
use crate::key_rotation::KeyChecks;
use crate::sqlite::error::SqliteResult;

/// Names of the entries in `meta`. The first is also the encryption context of both.
const NAME: &str = "key-check";
pub(crate) const NEXT: &str = "next-key-check";
const TEXT: &str = "the key is the right one";

/// Checks the key; `None` if the store has not been bound to a key yet.
pub(crate) fn check(connection: &Connection, cipher: &Cipher) -> SqliteResult<Option<()>> {
    let Some(KeyChecks { current, next }) = find(connection)? else { return Ok(None) };
    if next.is_some_and(|next| !is_check_of(cipher, &next) || !is_check_of(cipher, &current)) {
        return Err(StoreError::unfinished_rotation().into());
    }
    let decrypted = cipher.decrypt(NAME, &current).map_err(|_| {
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
        write(connection, NAME, &encrypt(cipher)?)?;
    }
    Ok(())
}

/// The stored key checks; `None` if the store has not been bound to a key yet.
pub(crate) fn find(connection: &Connection) -> SqliteResult<Option<KeyChecks>> {
    let value = |name: &str| {
        let sql = "SELECT value FROM meta WHERE name = ?";
        connection.query_row(sql, [name], |row| row.get(0)).optional()
    };
    let Some(current) = value(NAME)? else { return Ok(None) };
    Ok(Some(KeyChecks { current, next: value(NEXT)? }))
}

/// Whether a cipher decrypts the known text.
pub(crate) fn is_check_of(cipher: &Cipher, check: &[u8]) -> bool {
    cipher.decrypt(NAME, check).is_ok_and(|text| text.reveal() == TEXT)
}

/// Encrypts the known text.
pub(crate) fn encrypt(cipher: &Cipher) -> Result<Vec<u8>, StoreError> {
    cipher.encrypt(NAME, TEXT)
}

/// Stores the check of the new key, which begins a rotation.
pub(crate) fn write_next(connection: &Connection, check: &[u8]) -> SqliteResult<()> {
    write(connection, NEXT, check)
}

/// Replaces the key check, which ends a rotation.
pub(crate) fn replace(connection: &Connection, check: &[u8]) -> SqliteResult<()> {
    write(connection, NAME, check)?;
    connection.execute("DELETE FROM meta WHERE name = ?", [NEXT])?;
    Ok(())
}

fn write(connection: &Connection, name: &str, value: &[u8]) -> SqliteResult<()> {
    let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)";
    connection.execute(sql, (name, value))?;
    Ok(())
}
