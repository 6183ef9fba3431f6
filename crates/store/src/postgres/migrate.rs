//! Schema migrations, and the check of the encryption key.
//!
//! Each migration is one transaction. An advisory lock lets one node at a time migrate.

use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, Socket};

use crate::encryption::Cipher;
use crate::error::StoreError;
use crate::postgres::PostgresSettings;
use crate::postgres::error::{PostgresError, TransactionFailure, connection_error};
use crate::stored_form::DefinitionCodec;

/// All migrations; the number of a migration is its position, from 1. Never change a published one.
const MIGRATIONS: [(&str, &str); 20] = [
    ("first", include_str!("../../migrations/postgres/0001_first.sql")),
    ("tokens", include_str!("../../migrations/postgres/0002_tokens.sql")),
    ("timing", include_str!("../../migrations/postgres/0003_timing.sql")),
    ("ledger numbers", include_str!("../../migrations/postgres/0004_ledger_numbers.sql")),
    ("views", include_str!("../../migrations/postgres/0005_views.sql")),
    ("edits", include_str!("../../migrations/postgres/0006_edits.sql")),
    ("contention", include_str!("../../migrations/postgres/0007_contention.sql")),
    ("nodes", include_str!("../../migrations/postgres/0008_nodes.sql")),
    ("parked runs", include_str!("../../migrations/postgres/0009_parked_runs.sql")),
    ("plan names", include_str!("../../migrations/postgres/0010_plan_names.sql")),
    ("key rotation", include_str!("../../migrations/postgres/0011_key_rotation.sql")),
    (
        "consecutive failures",
        include_str!("../../migrations/postgres/0012_consecutive_failures.sql"),
    ),
    ("sessions", include_str!("../../migrations/postgres/0013_sessions.sql")),
    ("pause", include_str!("../../migrations/postgres/0014_pause.sql")),
    ("skip", include_str!("../../migrations/postgres/0015_skip.sql")),
    ("run reports", include_str!("../../migrations/postgres/0016_run_reports.sql")),
    ("notes", include_str!("../../migrations/postgres/0017_notes.sql")),
    ("foreign keys", include_str!("../../migrations/postgres/0018_foreign_keys.sql")),
    ("job sets", include_str!("../../migrations/postgres/0019_job_sets.sql")),
    ("earlier definitions", include_str!("../../migrations/postgres/0020_earlier_definitions.sql")),
];

/// The key of the advisory lock: "kalends" in ASCII, unlikely to collide with other programs.
const ADVISORY_LOCK: i64 = 0x006b_616c_656e_6473;

const KEY_CHECK_CONTEXT: &str = "key check";
const KEY_CHECK_TEXT: &str = "the key fits";

/// Applies missing migrations and checks the key, on a connection outside the pool.
pub(super) async fn migrate<T>(
    config: &Config,
    settings: &PostgresSettings,
    tls: T,
    codec: &DefinitionCodec,
) -> Result<(), StoreError>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let timed_out = |_| StoreError::Unavailable("timeout while connecting to the database".into());
    let connected =
        timeout(settings.connect_deadline, config.connect(tls)).await.map_err(timed_out)?;
    let (mut client, connection) = connected.map_err(|error| connection_error(&error))?;
    let driver = tokio::spawn(connection);
    let done = async {
        let waited = timeout(settings.long_deadline, lock(&client)).await;
        let timed_out = |_| {
            StoreError::Busy("timeout while waiting for another node to migrate the store".into())
        };
        waited.map_err(timed_out)??;
        // Without a time limit: a migration that is rolled back would begin again at every start.
        apply(&mut client).await?;
        check_key(&client, codec).await
    };
    let done: Result<(), PostgresError> = done.await;
    drop(client);
    // Closing the connection releases the advisory lock.
    driver.abort();
    done.map_err(|error| match error.before_commit() {
        TransactionFailure::Conflict => {
            StoreError::Busy("another node is migrating the store".into())
        }
        TransactionFailure::ConnectionLost(error) | TransactionFailure::Permanent(error) => error,
    })
}

/// Waits until no other node migrates. The database sets no time limits from here on: migrations may
/// be slow, and so may the node that holds the lock.
async fn lock(client: &Client) -> Result<(), PostgresError> {
    client.batch_execute("SET statement_timeout = 0; SET lock_timeout = 0").await?;
    client.execute("SELECT pg_advisory_lock($1)", &[&ADVISORY_LOCK]).await?;
    Ok(())
}

async fn apply(client: &mut Client) -> Result<(), PostgresError> {
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS schema_steps (
                number INTEGER PRIMARY KEY,
                name TEXT NOT NULL
            )",
        )
        .await?;
    let row = client.query_one("SELECT coalesce(max(number), 0) FROM schema_steps", &[]).await?;
    let found: i32 = row.try_get(0)?;
    let known = MIGRATIONS.len();
    let found = usize::try_from(found).unwrap_or_default();
    if found > known {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        return Err(StoreError::TooNew { found: number(found), known: number(known) }.into());
    }
    for (number, (name, sql)) in (1_i32..).zip(MIGRATIONS).skip(found) {
        let transaction = client.transaction().await?;
        transaction.batch_execute(sql).await?;
        let record = "INSERT INTO schema_steps (number, name) VALUES ($1, $2)";
        transaction.execute(record, &[&number, &name]).await?;
        transaction.commit().await?;
    }
    Ok(())
}

/// Checks the key, or binds a new store to it. While a rotation of the key is unfinished, the second row
/// is of the new key, and the store opens for the holder of both only.
async fn check_key(client: &Client, codec: &DefinitionCodec) -> Result<(), PostgresError> {
    let cipher = codec.cipher();
    let rows = client.query("SELECT sealed FROM key_check ORDER BY id", &[]).await?;
    let mut fits = Vec::new();
    for row in &rows {
        fits.push(is_check_of(cipher, &row.try_get::<_, Vec<u8>>(0)?));
    }
    match fits.as_slice() {
        [] => {
            let encrypted = encrypt_check(cipher)?;
            let insert = "INSERT INTO key_check (id, sealed) VALUES (1, $1)";
            client.execute(insert, &[&encrypted]).await?;
            Ok(())
        }
        fits if fits.iter().all(|fits| *fits) => Ok(()),
        [_] => {
            let key = cipher.current().id();
            let message = format!(
                "the store was written with another key than {key}; start with the key file of this \
                 database"
            );
            Err(StoreError::Key(message).into())
        }
        _ => Err(StoreError::unfinished_rotation().into()),
    }
}

/// Whether a cipher decrypts the known text.
pub(super) fn is_check_of(cipher: &Cipher, check: &[u8]) -> bool {
    cipher.decrypt(KEY_CHECK_CONTEXT, check).is_ok_and(|text| text.reveal() == KEY_CHECK_TEXT)
}

/// Encrypts the known text.
pub(super) fn encrypt_check(cipher: &Cipher) -> Result<Vec<u8>, StoreError> {
    cipher.encrypt(KEY_CHECK_CONTEXT, KEY_CHECK_TEXT)
}
