//! API tokens: statements, and access for tools while a server uses the store.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kalends_domain::{AccessScope, Grant, Role};
use kalends_recurrence::Instant;
use rusqlite::{Connection, Row};

use crate::error::StoreError;
use crate::sqlite::code::{Code, Coded, collect, read, read_option};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::settings::SqliteSettings;
use crate::sqlite::{check, connection, key_check};
use crate::store::Reply;
use crate::stored_form::DefinitionCodec;
use crate::tokens::{TOKENS_MAX, TokenHash, TokenId, TokenRecord, Tokens};

impl Code for Role {
    fn code(self) -> i64 {
        match self {
            Role::Reader => 0,
            Role::Operator => 1,
            Role::Contributor => 2,
            Role::Owner => 3,
        }
    }

    fn from_code(code: i64) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.code() == code)
    }
}

fn read_token(row: &Row<'_>) -> SqliteResult<TokenRecord> {
    let damaged = |what: &str| StoreError::Damaged(format!("a token has no readable {what}"));
    let text = |column: &str| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    let id = TokenId::new(text("id")?).ok_or_else(|| damaged("id"))?;
    let place = AccessScope::parse(text("place")?).map_err(|_| damaged("place"))?;
    Ok(TokenRecord {
        id,
        name: row.get("name")?,
        hash: TokenHash::from_bytes(row.get("hash")?),
        grant: Grant { role: read(row, "role")?, scope: place },
        created: read(row, "created")?,
        expires: read_option(row, "expires")?,
        revoked: read_option(row, "revoked")?,
        last_used: read_option(row, "last_used")?,
    })
}

pub(crate) fn put(connection: &Connection, token: &TokenRecord) -> SqliteResult<bool> {
    let inserted = connection
        .prepare_cached(
            "INSERT INTO tokens (id, name, hash, role, place, created, expires, revoked, last_used)
             SELECT ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE (SELECT count(*) FROM tokens) < ?
             ON CONFLICT DO NOTHING",
        )?
        .execute((
            token.id.as_str(),
            &token.name,
            token.hash.as_bytes(),
            Coded(token.grant.role),
            token.grant.scope.to_string(),
            Coded(token.created),
            token.expires.map(Coded),
            token.revoked.map(Coded),
            token.last_used.map(Coded),
            TOKENS_MAX as i64,
        ))?;
    Ok(inserted > 0)
}

pub(crate) fn find(connection: &Connection, id: &TokenId) -> SqliteResult<Option<TokenRecord>> {
    let mut statement = connection.prepare_cached("SELECT * FROM tokens WHERE id = ?")?;
    let rows = statement.query([id.as_str()])?;
    Ok(collect(rows, read_token)?.pop())
}

pub(crate) fn list(connection: &Connection) -> SqliteResult<Vec<TokenRecord>> {
    let mut statement = connection.prepare_cached("SELECT * FROM tokens ORDER BY created, id")?;
    collect(statement.query(())?, read_token)
}

pub(crate) fn revoke(connection: &Connection, id: &TokenId, at: Instant) -> SqliteResult<bool> {
    let changed = connection
        .prepare_cached("UPDATE tokens SET revoked = coalesce(revoked, ?) WHERE id = ?")?
        .execute((Coded(at), id.as_str()))?;
    Ok(changed > 0)
}

pub(crate) fn delete(connection: &Connection, id: &TokenId) -> SqliteResult<bool> {
    let deleted =
        connection.prepare_cached("DELETE FROM tokens WHERE id = ?")?.execute([id.as_str()])?;
    Ok(deleted > 0)
}

pub(crate) fn note_use(connection: &Connection, id: &TokenId, at: Instant) -> SqliteResult<()> {
    connection
        .prepare_cached(
            "UPDATE tokens SET last_used = ?1 WHERE id = ?2 AND coalesce(last_used, ?1 - 1) < ?1",
        )?
        .execute((Coded(at), id.as_str()))?;
    Ok(())
}

/// The tokens of an existing store, for tools. A server may use the store at the same time. Calls
/// block the current thread.
pub struct SqliteTokens(Mutex<Connection>);

impl SqliteTokens {
    /// Opens the tokens of an existing store and checks the key.
    pub fn open(path: &Path, codec: &DefinitionCodec) -> Result<SqliteTokens, StoreError> {
        // Fails unless the store exists: a tool must not create or migrate it.
        drop(check::open_existing(path)?);
        let settings = SqliteSettings { writer_cache_kib: 1024, ..SqliteSettings::default() };
        let connection = connection::for_writing(path, &settings)?;
        key_check::check(&connection, codec.cipher())?;
        Ok(SqliteTokens(Mutex::new(connection)))
    }

    fn execute<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> SqliteResult<T>,
    ) -> Reply<'_, T> {
        let connection: MutexGuard<'_, Connection> =
            self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = operation(&connection).map_err(StoreError::from);
        drop(connection);
        Box::pin(std::future::ready(result))
    }
}

impl Tokens for SqliteTokens {
    fn put_token(&self, token: TokenRecord) -> Reply<'_, bool> {
        self.execute(|connection| put(connection, &token))
    }

    fn token(&self, id: TokenId) -> Reply<'_, Option<TokenRecord>> {
        self.execute(|connection| find(connection, &id))
    }

    fn tokens(&self) -> Reply<'_, Vec<TokenRecord>> {
        self.execute(list)
    }

    fn revoke_token(&self, id: TokenId, at: Instant) -> Reply<'_, bool> {
        self.execute(|connection| revoke(connection, &id, at))
    }

    fn delete_token(&self, id: TokenId) -> Reply<'_, bool> {
        self.execute(|connection| delete(connection, &id))
    }

    fn note_token_use(&self, id: TokenId, at: Instant) -> Reply<'_, ()> {
        self.execute(|connection| note_use(connection, &id, at))
    }
}
