//! Sessions of the web console.

use kalends_recurrence::Instant;
use rusqlite::{Connection, Row};

use crate::error::StoreError;
use crate::sessions::columns::IdentityColumns;
use crate::sessions::{SESSIONS_PER_IDENTITY_MAX, SessionHash, SessionRecord};
use crate::sqlite::code::{Coded, collect, read, rows_max};
use crate::sqlite::error::SqliteResult;

fn read_session(row: &Row<'_>) -> SqliteResult<SessionRecord> {
    let identity = IdentityColumns {
        identity: row.get("identity")?,
        proof: row.get("proof")?,
        name: row.get("name")?,
        grants: row.get("grants")?,
    };
    let damaged = || StoreError::Damaged("a session has no readable identity".into());
    Ok(SessionRecord {
        hash: SessionHash::from_bytes(row.get("hash")?),
        identity: identity.read().ok_or_else(damaged)?,
        created: read(row, "created")?,
        expires: read(row, "expires")?,
    })
}

pub(crate) fn put(connection: &Connection, session: &SessionRecord) -> SqliteResult<()> {
    let IdentityColumns { identity, proof, name, grants } = (&session.identity).into();
    connection
        .prepare_cached(
            "INSERT INTO sessions (hash, identity, proof, name, grants, created, expires)
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute((
            session.hash.as_bytes(),
            &identity,
            proof,
            name,
            grants,
            Coded(session.created),
            Coded(session.expires),
        ))?;
    connection
        .prepare_cached(
            "DELETE FROM sessions WHERE hash IN (
                 SELECT hash FROM sessions WHERE identity = ?
                 ORDER BY created DESC, hash DESC LIMIT -1 OFFSET ?)",
        )?
        .execute((&identity, rows_max(SESSIONS_PER_IDENTITY_MAX as u64)))?;
    Ok(())
}

pub(crate) fn find(
    connection: &Connection,
    hash: SessionHash,
) -> SqliteResult<Option<SessionRecord>> {
    let mut statement = connection.prepare_cached("SELECT * FROM sessions WHERE hash = ?")?;
    let rows = statement.query([hash.as_bytes()])?;
    Ok(collect(rows, read_session)?.pop())
}

pub(crate) fn delete(connection: &Connection, hash: SessionHash) -> SqliteResult<bool> {
    let mut statement = connection.prepare_cached("DELETE FROM sessions WHERE hash = ?")?;
    Ok(statement.execute([hash.as_bytes()])? > 0)
}

/// Deletes at most `limit` sessions that expired before `cutoff`. Returns their number.
pub(crate) fn prune(connection: &Connection, cutoff: Instant, limit: usize) -> SqliteResult<usize> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM sessions WHERE hash IN (
             SELECT hash FROM sessions WHERE expires < ? ORDER BY expires LIMIT ?)",
    )?;
    Ok(statement.execute((Coded(cutoff), rows_max(limit as u64)))?)
}
