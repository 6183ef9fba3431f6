//! The PostgreSQL side of a key rotation, and derived keys that survive one.

use deadpool_postgres::Object;
use kalends_domain::SecretHeaders;
use zeroize::Zeroizing;

use crate::encryption::Cipher;
use crate::error::StoreError;
use crate::key_rotation::{
    DefinitionTable, KeyChecks, KeyRotation, PAGE_ROWS, RotatingStore, StoredDefinition,
    derived_key,
};
use crate::postgres::PostgresStore;
use crate::postgres::migrate::{encrypt_check, is_check_of};
use crate::postgres::row::{get, uid};
use crate::postgres::transfer::{connect_exclusively, failed};
use crate::store::Reply;
use crate::stored_form::DefinitionCodec;

impl PostgresStore {
    /// The key for `purpose`: the stored one after a rotation, otherwise derived from the master key.
    pub async fn derived_key(&self, purpose: &str) -> Result<Zeroizing<[u8; 32]>, StoreError> {
        let sql = "SELECT sealed FROM key_material WHERE name = $1";
        let rows = self.query(sql, &[&purpose]).await?;
        let stored: Option<Vec<u8>> = rows.first().map(|row| get(row, "sealed")).transpose()?;
        derived_key(self.codec.cipher(), purpose, stored.as_deref())
    }
}

/// A database that no server uses.
pub struct PostgresKeyRotation {
    client: Object,
    // Its pool owns the connection.
    _store: PostgresStore,
}

impl PostgresKeyRotation {
    /// Connects to a database. [`StoreError::Busy`] if a server uses it.
    pub async fn connect(
        url: &str,
        rotation: &KeyRotation,
    ) -> Result<PostgresKeyRotation, StoreError> {
        let codec = DefinitionCodec::new(rotation.both(), SecretHeaders::default());
        let (store, client) = connect_exclusively(url, codec).await?;
        Ok(PostgresKeyRotation { client, _store: store })
    }

    async fn read_checks(&self) -> Result<KeyChecks, StoreError> {
        let sql = "SELECT sealed FROM key_check ORDER BY id";
        let rows = self.client.query(sql, &[]).await.map_err(failed)?;
        let check = |index: usize| {
            let row = rows.get(index);
            row.map(|row| row.try_get::<_, Vec<u8>>(0).map_err(failed)).transpose()
        };
        let current = check(0)?;
        let current =
            current.ok_or_else(|| StoreError::Key("the store is bound to no key".into()))?;
        Ok(KeyChecks { current, next: check(1)? })
    }

    async fn read_definitions(
        &self,
        table: DefinitionTable,
        after: i64,
    ) -> Result<Vec<StoredDefinition>, StoreError> {
        let sql = match table {
            DefinitionTable::Jobs => {
                "SELECT key AS number, key AS job, uid, definition FROM jobs
                 WHERE key > $1 ORDER BY key LIMIT $2"
            }
            DefinitionTable::Earlier => {
                "SELECT e.number, e.job, j.uid, e.definition
                 FROM earlier_definitions e JOIN jobs j ON j.key = e.job
                 WHERE e.number > $1 ORDER BY e.number LIMIT $2"
            }
        };
        let rows = self.client.query(sql, &[&after, &PAGE_ROWS]).await.map_err(failed)?;
        let definitions = rows.iter().map(|row| {
            Ok(StoredDefinition {
                number: get(row, "number")?,
                job: get(row, "job")?,
                uid: uid(row)?,
                text: get(row, "definition")?,
            })
        });
        definitions.collect()
    }

    async fn write_definitions(
        &mut self,
        table: DefinitionTable,
        definitions: Vec<StoredDefinition>,
    ) -> Result<(), StoreError> {
        let (numbers, texts): (Vec<_>, Vec<_>) =
            definitions.into_iter().map(|stored| (stored.number, stored.text)).unzip();
        let sql = match table {
            DefinitionTable::Jobs => {
                "UPDATE jobs j SET definition = n.definition
                 FROM unnest($1::bigint[], $2::text[]) AS n (key, definition) WHERE j.key = n.key"
            }
            DefinitionTable::Earlier => {
                "UPDATE earlier_definitions e SET definition = n.definition
                 FROM unnest($1::bigint[], $2::text[]) AS n (number, definition)
                 WHERE e.number = n.number"
            }
        };
        self.client.execute(sql, &[&numbers, &texts]).await.map_err(failed)?;
        Ok(())
    }

    async fn read_derived(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let rows = self.client.query("SELECT name, sealed FROM key_material", &[]).await;
        let rows = rows.map_err(failed)?;
        rows.iter().map(|row| Ok((get(row, "name")?, get(row, "sealed")?))).collect()
    }

    async fn complete(
        &mut self,
        check: Vec<u8>,
        derived: Vec<(String, Vec<u8>)>,
    ) -> Result<(), StoreError> {
        let transaction = self.client.transaction().await.map_err(failed)?;
        for (purpose, ciphertext) in &derived {
            let sql = "INSERT INTO key_material (name, sealed) VALUES ($1, $2)
                 ON CONFLICT (name) DO UPDATE SET sealed = EXCLUDED.sealed";
            transaction.execute(sql, &[purpose, ciphertext]).await.map_err(failed)?;
        }
        let replace = "UPDATE key_check SET sealed = $1 WHERE id = 1";
        transaction.execute(replace, &[&check]).await.map_err(failed)?;
        transaction.execute("DELETE FROM key_check WHERE id = 2", &[]).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)
    }
}

impl RotatingStore for PostgresKeyRotation {
    fn encrypt_check(&self, cipher: &Cipher) -> Result<Vec<u8>, StoreError> {
        encrypt_check(cipher)
    }

    fn is_check_of(&self, cipher: &Cipher, check: &[u8]) -> bool {
        is_check_of(cipher, check)
    }

    fn key_checks(&mut self) -> Reply<'_, KeyChecks> {
        Box::pin(self.read_checks())
    }

    fn begin(&mut self, next: Vec<u8>) -> Reply<'_, ()> {
        Box::pin(async move {
            let insert = "INSERT INTO key_check (id, sealed) VALUES (2, $1)";
            self.client.execute(insert, &[&next]).await.map_err(failed)?;
            Ok(())
        })
    }

    fn definitions(
        &mut self,
        table: DefinitionTable,
        after: i64,
    ) -> Reply<'_, Vec<StoredDefinition>> {
        Box::pin(self.read_definitions(table, after))
    }

    fn replace(
        &mut self,
        table: DefinitionTable,
        definitions: Vec<StoredDefinition>,
    ) -> Reply<'_, ()> {
        Box::pin(self.write_definitions(table, definitions))
    }

    fn derived_keys(&mut self) -> Reply<'_, Vec<(String, Vec<u8>)>> {
        Box::pin(self.read_derived())
    }

    fn finish(&mut self, check: Vec<u8>, derived: Vec<(String, Vec<u8>)>) -> Reply<'_, ()> {
        Box::pin(self.complete(check, derived))
    }
}
