//! Tokens.

use deadpool_postgres::Transaction;
use kalends_domain::{AccessScope, Grant, Role};
use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::call::{Work, change};
use crate::postgres::code::{Code, rows_max};
use crate::postgres::fault::Fault;
use crate::postgres::row::{at, at_if_any, get, word};
use crate::store::Reply;
use crate::tokens::{TOKENS_MAX, TokenHash, TokenId, TokenRecord, Tokens};

impl Code for Role {
    const CODES: &'static [(Role, i16)] =
        &[(Role::Reader, 0), (Role::Operator, 1), (Role::Contributor, 2), (Role::Owner, 3)];
}

fn read(row: &Row) -> Result<TokenRecord, StoreError> {
    let damaged = |what: &str| StoreError::Damaged(format!("a token has no readable {what}"));
    let hash: &[u8] = get(row, "hash")?;
    Ok(TokenRecord {
        id: TokenId::new(get(row, "id")?).ok_or_else(|| damaged("id"))?,
        name: get(row, "name")?,
        hash: TokenHash::from_bytes(hash.try_into().map_err(|_| damaged("hash"))?),
        grant: Grant {
            role: word(row, "role")?,
            scope: AccessScope::parse(get(row, "place")?).map_err(|_| damaged("place"))?,
        },
        created: at(row, "created")?,
        expires: at_if_any(row, "expires")?,
        revoked: at_if_any(row, "revoked")?,
        last_used: at_if_any(row, "last_used")?,
    })
}

struct Put(TokenRecord);

impl Work for Put {
    type Answer = bool;

    async fn carry_out(&mut self, transaction: &Transaction<'_>) -> Result<bool, Fault> {
        let token = &self.0;
        let put = "INSERT INTO tokens
                (id, name, hash, role, place, created, expires, revoked, last_used)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
             WHERE (SELECT count(*) FROM tokens) < $10
             ON CONFLICT DO NOTHING";
        let ticks = |at: Option<Instant>| at.map(Instant::ticks);
        let added = change(
            transaction,
            put,
            &[
                &token.id.as_str(),
                &token.name,
                &token.hash.as_bytes().as_slice(),
                &token.grant.role.code(),
                &token.grant.scope.to_string(),
                &token.created.ticks(),
                &ticks(token.expires),
                &ticks(token.revoked),
                &ticks(token.last_used),
                &rows_max(TOKENS_MAX),
            ],
        )
        .await?;
        Ok(added > 0)
    }
}

/// A statement about one token, and perhaps an instant.
struct Change {
    sql: &'static str,
    id: TokenId,
    at: Option<Instant>,
}

impl Work for Change {
    type Answer = bool;

    async fn carry_out(&mut self, transaction: &Transaction<'_>) -> Result<bool, Fault> {
        let id = self.id.as_str();
        let changed = match self.at {
            Some(at) => change(transaction, self.sql, &[&id, &at.ticks()]).await?,
            None => change(transaction, self.sql, &[&id]).await?,
        };
        Ok(changed > 0)
    }
}

impl Tokens for PostgresStore {
    fn put_token(&self, token: TokenRecord) -> Reply<'_, bool> {
        Box::pin(self.transact(Put(token)))
    }

    fn token(&self, id: TokenId) -> Reply<'_, Option<TokenRecord>> {
        Box::pin(async move {
            let rows = self.ask("SELECT * FROM tokens WHERE id = $1", &[&id.as_str()]).await?;
            rows.first().map(read).transpose()
        })
    }

    fn tokens(&self) -> Reply<'_, Vec<TokenRecord>> {
        Box::pin(async move {
            let rows = self.ask("SELECT * FROM tokens ORDER BY created, id", &[]).await?;
            rows.iter().map(read).collect()
        })
    }

    fn revoke_token(&self, id: TokenId, at: Instant) -> Reply<'_, bool> {
        let sql = "UPDATE tokens SET revoked = coalesce(revoked, $2) WHERE id = $1";
        Box::pin(self.transact(Change { sql, id, at: Some(at) }))
    }

    fn delete_token(&self, id: TokenId) -> Reply<'_, bool> {
        let sql = "DELETE FROM tokens WHERE id = $1";
        Box::pin(self.transact(Change { sql, id, at: None }))
    }

    fn note_token_use(&self, id: TokenId, at: Instant) -> Reply<'_, ()> {
        let sql = "UPDATE tokens SET last_used = $2
             WHERE id = $1 AND (last_used IS NULL OR last_used < $2)";
        Box::pin(async move {
            self.transact(Change { sql, id, at: Some(at) }).await?;
            Ok(())
        })
    }
}
