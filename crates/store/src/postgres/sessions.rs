//! Sessions of the web console.

use tokio_postgres::Row;

use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::code::rows_max;
use crate::postgres::error::PostgresError;
use crate::postgres::row::{at, get};
use crate::postgres::transaction::{Operation, Transaction, execute};
use crate::sessions::columns::IdentityColumns;
use crate::sessions::{SESSIONS_PER_IDENTITY_MAX, SessionHash, SessionRecord, Sessions};
use crate::store::Reply;

fn session(row: &Row) -> Result<SessionRecord, StoreError> {
    let damaged = |what: &str| StoreError::Damaged(format!("a session has no readable {what}"));
    let hash: &[u8] = get(row, "hash")?;
    let proof: Option<&[u8]> = get(row, "proof")?;
    let proof = proof.map(<[u8; 32]>::try_from).transpose().map_err(|_| damaged("proof"))?;
    let identity = IdentityColumns {
        identity: get(row, "identity")?,
        proof,
        name: get(row, "name")?,
        grants: get(row, "grants")?,
    };
    Ok(SessionRecord {
        hash: SessionHash::from_bytes(hash.try_into().map_err(|_| damaged("hash"))?),
        identity: identity.read().ok_or_else(|| damaged("identity"))?,
        created: at(row, "created")?,
        expires: at(row, "expires")?,
    })
}

struct PutSession(SessionRecord);

impl Operation for PutSession {
    type Output = ();

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<(), PostgresError> {
        let session = &self.0;
        let IdentityColumns { identity, proof, name, grants } = (&session.identity).into();
        let proof = proof.as_ref().map(<[u8; 32]>::as_slice);
        let (created, expires) = (session.created.ticks(), session.expires.ticks());
        let insert = "INSERT INTO sessions (hash, identity, proof, name, grants, created, expires)
             VALUES ($1, $2, $3, $4, $5, $6, $7)";
        execute(
            transaction,
            insert,
            &[
                &session.hash.as_bytes().as_slice(),
                &identity,
                &proof,
                &name,
                &grants,
                &created,
                &expires,
            ],
        )
        .await?;
        let end_oldest = "DELETE FROM sessions WHERE hash IN (
                 SELECT hash FROM sessions WHERE identity = $1
                 ORDER BY created DESC, hash DESC OFFSET $2)";
        execute(transaction, end_oldest, &[&identity, &rows_max(SESSIONS_PER_IDENTITY_MAX)])
            .await?;
        Ok(())
    }
}

struct DeleteSession(SessionHash);

impl Operation for DeleteSession {
    type Output = bool;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<bool, PostgresError> {
        let delete = "DELETE FROM sessions WHERE hash = $1";
        Ok(execute(transaction, delete, &[&self.0.as_bytes().as_slice()]).await? > 0)
    }
}

/// Deletes sessions that expired before `cutoff`, in ticks.
pub(super) struct PruneSessions {
    pub(super) cutoff: i64,
    pub(super) batch_max: usize,
}

impl Operation for PruneSessions {
    type Output = usize;

    async fn perform(&mut self, transaction: &Transaction<'_>) -> Result<usize, PostgresError> {
        let delete = "DELETE FROM sessions WHERE hash IN (
                SELECT hash FROM sessions WHERE expires < $1 ORDER BY expires LIMIT $2)";
        let deleted =
            execute(transaction, delete, &[&self.cutoff, &rows_max(self.batch_max)]).await?;
        Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
    }
}

impl Sessions for PostgresStore {
    fn put_session(&self, session: SessionRecord) -> Reply<'_, ()> {
        Box::pin(self.transact(PutSession(session)))
    }

    fn session(&self, hash: SessionHash) -> Reply<'_, Option<SessionRecord>> {
        Box::pin(async move {
            let hash = hash.as_bytes().as_slice();
            let rows = self.query("SELECT * FROM sessions WHERE hash = $1", &[&hash]).await?;
            rows.first().map(session).transpose()
        })
    }

    fn delete_session(&self, hash: SessionHash) -> Reply<'_, bool> {
        Box::pin(self.transact(DeleteSession(hash)))
    }
}
