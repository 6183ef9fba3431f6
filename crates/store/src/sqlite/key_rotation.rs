//! The SQLite side of a key rotation, and derived keys that survive one.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};
use zeroize::Zeroizing;

use crate::encryption::Cipher;
use crate::error::StoreError;
use crate::key_rotation::{
    DefinitionTable, KeyChecks, KeyRotation, PAGE_ROWS, RotatingStore, StoredDefinition,
    derived_key,
};
use crate::record::JobUid;
use crate::sqlite::code::collect;
use crate::sqlite::error::SqliteResult;
use crate::sqlite::lock::Lock;
use crate::sqlite::settings::SqliteSettings;
use crate::sqlite::{check, connection, key_check};
use crate::store::Reply;
use crate::stored_form::DefinitionCodec;

/// Prefix of the names of derived keys in `meta`; the purpose follows.
const DERIVED: &str = "derived:";

/// The key for `purpose` of an existing store, also while a process uses it: the stored one after a
/// rotation, otherwise derived from the master key.
pub fn sqlite_derived_key(
    path: &Path,
    codec: &DefinitionCodec,
    purpose: &str,
) -> Result<Zeroizing<[u8; 32]>, StoreError> {
    let connection = check::open_existing(path)?;
    key_check::check(&connection, codec.cipher())?;
    let sql = "SELECT value FROM meta WHERE name = ?";
    let name = format!("{DERIVED}{purpose}");
    let stored = connection.query_row(sql, [name], |row| row.get::<_, Vec<u8>>(0)).optional();
    let stored =
        stored.map_err(|error| StoreError::from(super::error::SqliteError::from(error)))?;
    derived_key(codec.cipher(), purpose, stored.as_deref())
}

/// A store in a file that no other process uses.
pub struct SqliteKeyRotation {
    connection: Connection,
    // Last, so that it is released when the connection is closed.
    _lock: Lock,
}

impl SqliteKeyRotation {
    /// Opens an existing store. [`StoreError::Busy`] if a process uses it.
    pub fn open(path: &Path, rotation: &KeyRotation) -> Result<SqliteKeyRotation, StoreError> {
        drop(check::open_existing(path)?);
        let lock = Lock::take(path)?;
        let connection = connection::for_writing(path, &SqliteSettings::default())?;
        // Overwrites ciphertexts of the old key in free pages.
        let secure = connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()));
        secure.map_err(super::error::SqliteError::from)?;
        key_check::check(&connection, &rotation.both())?;
        Ok(SqliteKeyRotation { connection, _lock: lock })
    }

    fn write(
        &mut self,
        write: impl FnOnce(&Connection) -> SqliteResult<()>,
    ) -> Result<(), StoreError> {
        let written = || -> SqliteResult<()> {
            let behavior = TransactionBehavior::Immediate;
            let transaction = self.connection.transaction_with_behavior(behavior)?;
            write(&transaction)?;
            transaction.commit()?;
            Ok(())
        };
        Ok(written()?)
    }

    fn read_definitions(
        &self,
        table: DefinitionTable,
        after: i64,
    ) -> SqliteResult<Vec<StoredDefinition>> {
        let mut statement = self.connection.prepare_cached(match table {
            DefinitionTable::Jobs => {
                "SELECT job AS number, job, uid, definition FROM jobs
                 WHERE job > ? ORDER BY job LIMIT ?"
            }
            DefinitionTable::Earlier => {
                "SELECT e.number, e.job, j.uid, e.definition
                 FROM earlier_definitions e CROSS JOIN jobs j ON j.job = e.job
                 WHERE e.number > ? ORDER BY e.number LIMIT ?"
            }
        })?;
        collect(statement.query((after, PAGE_ROWS))?, |row| {
            Ok(StoredDefinition {
                number: row.get(0)?,
                job: row.get(1)?,
                uid: JobUid(row.get(2)?),
                text: row.get(3)?,
            })
        })
    }

    fn read_derived(&self) -> SqliteResult<Vec<(String, Vec<u8>)>> {
        let sql = "SELECT substr(name, ?1), value FROM meta WHERE substr(name, 1, ?1 - 1) = ?2";
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query((DERIVED.len() as i64 + 1, DERIVED))?;
        collect(rows, |row| Ok((row.get(0)?, row.get(1)?)))
    }
}

impl RotatingStore for SqliteKeyRotation {
    fn encrypt_check(&self, cipher: &Cipher) -> Result<Vec<u8>, StoreError> {
        key_check::encrypt(cipher)
    }

    fn is_check_of(&self, cipher: &Cipher, check: &[u8]) -> bool {
        key_check::is_check_of(cipher, check)
    }

    fn key_checks(&mut self) -> Reply<'_, KeyChecks> {
        let unbound = || StoreError::Key("the store is bound to no key".into());
        let found = key_check::find(&self.connection).map_err(StoreError::from);
        let found = found.and_then(|found| found.ok_or_else(unbound));
        Box::pin(std::future::ready(found))
    }

    fn begin(&mut self, next: Vec<u8>) -> Reply<'_, ()> {
        let begun = self.write(|connection| key_check::write_next(connection, &next));
        Box::pin(std::future::ready(begun))
    }

    fn definitions(
        &mut self,
        table: DefinitionTable,
        after: i64,
    ) -> Reply<'_, Vec<StoredDefinition>> {
        let found = self.read_definitions(table, after).map_err(StoreError::from);
        Box::pin(std::future::ready(found))
    }

    fn replace(
        &mut self,
        table: DefinitionTable,
        definitions: Vec<StoredDefinition>,
    ) -> Reply<'_, ()> {
        let replaced = self.write(|connection| {
            let sql = match table {
                DefinitionTable::Jobs => "UPDATE jobs SET definition = ? WHERE job = ?",
                DefinitionTable::Earlier => {
                    "UPDATE earlier_definitions SET definition = ? WHERE number = ?"
                }
            };
            let mut statement = connection.prepare_cached(sql)?;
            for StoredDefinition { number, text, .. } in &definitions {
                statement.execute((text, number))?;
            }
            Ok(())
        });
        Box::pin(std::future::ready(replaced))
    }

    fn derived_keys(&mut self) -> Reply<'_, Vec<(String, Vec<u8>)>> {
        let found = self.read_derived().map_err(StoreError::from);
        Box::pin(std::future::ready(found))
    }

    fn finish(&mut self, check: Vec<u8>, derived: Vec<(String, Vec<u8>)>) -> Reply<'_, ()> {
        let finished = self.write(|connection| {
            for (purpose, ciphertext) in &derived {
                let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)";
                connection.execute(sql, (format!("{DERIVED}{purpose}"), ciphertext))?;
            }
            key_check::replace(connection, &check)
        });
        Box::pin(std::future::ready(finished))
    }
}
