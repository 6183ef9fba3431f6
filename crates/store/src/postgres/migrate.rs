//! The schema: numbered steps, each in a transaction of its own, one node at a time; and whether
//! the key is the one that the store was written with.

use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, Socket};

use crate::error::StoreError;
use crate::postgres::PostgresSettings;
use crate::postgres::fault::{Before, Fault, unconnected};
use crate::stored_form::DefinitionCodec;

/// Every step there ever was; the number of a step is its place, from 1.
const STEPS: [(&str, &str); 4] = [
    ("first", include_str!("../../migrations/postgres/0001_first.sql")),
    ("tokens", include_str!("../../migrations/postgres/0002_tokens.sql")),
    ("timing", include_str!("../../migrations/postgres/0003_timing.sql")),
    ("ledger numbers", include_str!("../../migrations/postgres/0004_ledger_numbers.sql")),
];

/// Any number that no other program on the same server uses: "kalends" in ASCII.
const LOCK: i64 = 0x006b_616c_656e_6473;

const KEY_PLACE: &str = "key check";
const KEY_TEXT: &str = "the key fits";

/// Brings the schema up to date and checks the key, on a connection of its own.
pub(super) async fn bring_up_to_date<T>(
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
    let late = |_| StoreError::Busy("no connection to the database in time".into());
    let connected = timeout(settings.connect_deadline, config.connect(tls)).await.map_err(late)?;
    let (mut client, connection) = connected.map_err(|error| unconnected(&error))?;
    let pump = tokio::spawn(connection);
    let done = timeout(settings.long_deadline, async {
        apply(&mut client).await?;
        check_key(&client, codec).await
    })
    .await;
    drop(client);
    // With the connection goes the lock.
    pump.abort();
    let late =
        |_| StoreError::Busy("another node has been migrating the store for too long".into());
    done.map_err(late)?.map_err(|fault| match fault.before_commit() {
        Before::Again => StoreError::Busy("another node migrates the store".into()),
        Before::Lost(error) | Before::Over(error) => error,
    })
}

async fn apply(client: &mut Client) -> Result<(), Fault> {
    // Steps take as long as they take; who waits for another node waits.
    client.batch_execute("SET statement_timeout = 0; SET lock_timeout = 0").await?;
    client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await?;
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
    let known = STEPS.len();
    let found = usize::try_from(found).unwrap_or_default();
    if found > known {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        return Err(StoreError::TooNew { found: number(found), known: number(known) }.into());
    }
    for (number, (name, sql)) in (1_i32..).zip(STEPS).skip(found) {
        let transaction = client.transaction().await?;
        transaction.batch_execute(sql).await?;
        let noted = "INSERT INTO schema_steps (number, name) VALUES ($1, $2)";
        transaction.execute(noted, &[&number, &name]).await?;
        transaction.commit().await?;
    }
    Ok(())
}

async fn check_key(client: &Client, codec: &DefinitionCodec) -> Result<(), Fault> {
    let Some(row) = client.query_opt("SELECT sealed FROM key_check", &[]).await? else {
        let sealed = codec.cipher().seal(KEY_PLACE, KEY_TEXT)?;
        client.execute("INSERT INTO key_check (id, sealed) VALUES (1, $1)", &[&sealed]).await?;
        return Ok(());
    };
    let sealed: Vec<u8> = row.try_get(0)?;
    match codec.cipher().open(KEY_PLACE, &sealed) {
        Ok(text) if text.reveal() == KEY_TEXT => Ok(()),
        _ => {
            let key = codec.cipher().current().id();
            let message = format!(
                "its secrets were sealed with another key than {key}; start with the key file that \
                 belongs to this database"
            );
            Err(StoreError::Damaged(message).into())
        }
    }
}
