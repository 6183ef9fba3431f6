//! API tokens.

use kalends_domain::{AccessScope, Grant, Role};
use kalends_recurrence::Instant;
use tokio_postgres::Row;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::{Code, rows_max};
use crate::postgres::error::PostgresError;
use crate::postgres::row::{at, coded, get, optional_at};
use crate::postgres::transaction::{Operation, Transaction, execute};
use crate::store::Reply;
use crate::tokens::{TOKENS_MAX, TokenHash, TokenId, TokenRecord, Tokens};

impl Code for Role {
    const CODES: &'static [(Role, i16)] =
        &[(Role::Reader, 0), (Role::Operator, 1), (Role::Contributor, 2), (Role::Owner, 3)];
}

fn token(row: &Row) -> Result<TokenRecord, StoreError> {
    let damaged = |what: &str| StoreError::Damaged(format!("a token has no readable {what}"));
    let hash: &[u8] = get(row, "hash")?;
    Ok(TokenRecord {
        id: TokenId::new(get(row, "id")?).ok_or_else(|| damaged("id"))?,
        name: get(row, "name")?,
        hash: TokenHash::from_bytes(hash.try_into().map_err(|_| damaged("hash"))?),
        grant: Grant {
            role: coded(row, "role")?,
            scope: AccessScope::parse(get(row, "place")?).map_err(|_| damaged("place"))?,
        },
        created: at(row, "created")?,
        expires: optional_at(row, "expires")?,
        revoked: optional_at(row, "revoked")?,
        last_used: optional_at(row, "last_used")?,
    })
}

struct PutToken(TokenRecord);

impl Operation for PutToken {
    type Output = bool;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<bool, PostgresError> {
        let token = &self.0;
        let insert = "INSERT INTO tokens
                (id, name, hash, role, place, created, expires, revoked, last_used)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
             WHERE (SELECT count(*) FROM tokens) < $10
             ON CONFLICT DO NOTHING";
        let ticks = |at: Option<Instant>| at.map(Instant::ticks);
        let inserted = execute(
            transaction,
            insert,
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
        Ok(inserted > 0)
    }
}

/// Executes `sql` with a token id and, if present, a time. Returns whether it affected a row.
struct UpdateToken {
    sql: &'static str,
    id: TokenId,
    at: Option<Instant>,
}

impl Operation for UpdateToken {
    type Output = bool;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<bool, PostgresError> {
        let id = self.id.as_str();
        let affected = match self.at {
            Some(at) => execute(transaction, self.sql, &[&id, &at.ticks()]).await?,
            None => execute(transaction, self.sql, &[&id]).await?,
        };
        Ok(affected > 0)
    }
}

impl Tokens for PostgresStore {
    fn put_token(&self, token: TokenRecord) -> Reply<'_, bool> {
        Box::pin(self.transact(PutToken(token)))
    }

    fn token(&self, id: TokenId) -> Reply<'_, Option<TokenRecord>> {
        Box::pin(async move {
            let rows = self.query("SELECT * FROM tokens WHERE id = $1", &[&id.as_str()]).await?;
            rows.first().map(token).transpose()
        })
    }

    fn tokens(&self) -> Reply<'_, Vec<TokenRecord>> {
        Box::pin(async move {
            let rows = self.query("SELECT * FROM tokens ORDER BY created, id", &[]).await?;
            rows.iter().map(token).collect()
        })
    }

    fn revoke_token(&self, id: TokenId, at: Instant) -> Reply<'_, bool> {
        let sql = "UPDATE tokens SET revoked = coalesce(revoked, $2) WHERE id = $1";
        Box::pin(self.transact(UpdateToken { sql, id, at: Some(at) }))
    }

    fn delete_token(&self, id: TokenId) -> Reply<'_, bool> {
        let sql = "DELETE FROM tokens WHERE id = $1";
        Box::pin(self.transact(UpdateToken { sql, id, at: None }))
    }

    fn note_token_use(&self, id: TokenId, at: Instant) -> Reply<'_, ()> {
        let sql = "UPDATE tokens SET last_used = $2
             WHERE id = $1 AND (last_used IS NULL OR last_used < $2)";
        Box::pin(async move {
            self.transact(UpdateToken { sql, id, at: Some(at) }).await?;
            Ok(())
        })
    }
}
