//! The PostgreSQL side of a copy between stores.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Object;
use kalends_recurrence::duration_to_ticks;
use serde_json::Value;
use tokio::time::timeout;

use crate::engine_store::HEARTBEAT_VALID;
use crate::error::StoreError;
use crate::postgres::code::without_nul;
use crate::postgres::edit_jobs::tag_keys;
use crate::postgres::error::{PostgresError, TransactionFailure};
use crate::postgres::{PostgresSettings, PostgresStore};
use crate::search::search_text;
use crate::store::Reply;
use crate::stored_form::DefinitionCodec;
use crate::transfer::{
    AllocatedNumbers, PAGE_ROWS, Row, Table, TransferStore, definition_of, normalize,
};

/// Name of the sessions of a tool that needs the database for itself. Sessions of servers have
/// another one.
const APPLICATION: &str = "kalends-tool";
/// Added to the time for which a heartbeat is valid.
const HEARTBEAT_MARGIN: Duration = Duration::from_secs(1);

/// A database that no server uses.
pub struct PostgresTransfer {
    client: Object,
    codec: Arc<DefinitionCodec>,
    // Its pool owns the connection.
    _store: PostgresStore,
}

impl PostgresTransfer {
    /// Connects to a database to copy it. [`StoreError::Busy`] if a server uses it.
    pub async fn source(url: &str, codec: DefinitionCodec) -> Result<PostgresTransfer, StoreError> {
        let store = PostgresTransfer::connect(url, codec).await?;
        let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        store.client.batch_execute(snapshot).await.map_err(failed)?;
        Ok(store)
    }

    /// Connects to an empty database to write a copy to it. `None` if the store is not empty.
    pub async fn target(
        url: &str,
        codec: DefinitionCodec,
    ) -> Result<Option<PostgresTransfer>, StoreError> {
        let store = PostgresTransfer::connect(url, codec).await?;
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM groups) AND NOT EXISTS (SELECT 1 FROM jobs)
             AND NOT EXISTS (SELECT 1 FROM history) AND NOT EXISTS (SELECT 1 FROM ledger)
             AND NOT EXISTS (SELECT 1 FROM tokens) AS is_empty";
        let row = store.client.query_one(sql, &[]).await.map_err(failed)?;
        let is_empty: bool = row.try_get(0).map_err(failed)?;
        Ok(is_empty.then_some(store))
    }

    async fn connect(url: &str, codec: DefinitionCodec) -> Result<PostgresTransfer, StoreError> {
        let (store, client) = connect_exclusively(url, codec.clone()).await?;
        Ok(PostgresTransfer { client, codec: Arc::new(codec), _store: store })
    }

    async fn read_page(&self, table: Table, after: Option<&Row>) -> Result<Vec<Row>, StoreError> {
        let start = table.start();
        let after = after.and_then(|row| row.first()).unwrap_or(&start);
        let sql = read_statement(table);
        let found = match (after.as_i64(), after.as_str()) {
            (Some(number), _) => self.client.query(sql, &[&number, &PAGE_ROWS]).await,
            (None, text) => self.client.query(sql, &[&text.unwrap_or(""), &PAGE_ROWS]).await,
        };
        let mut page = Vec::new();
        for row in found.map_err(failed)? {
            let text: &str = row.try_get(0).map_err(failed)?;
            let mut row: Row = serde_json::from_str(text).map_err(invalid_json)?;
            if table == Table::History {
                // The database has messages as JSON strings.
                let message = row.get_mut(MESSAGE).filter(|message| message.is_string());
                if let Some(message) = message {
                    *message = serde_json::from_str(message.as_str().unwrap_or_default())
                        .map_err(invalid_json)?;
                }
            }
            normalize(table, &mut row)?;
            page.push(row);
        }
        Ok(page)
    }

    async fn write_page(&self, table: Table, mut rows: Vec<Row>) -> Result<(), StoreError> {
        for row in &mut rows {
            match table {
                Table::Jobs => {
                    let definition = definition_of(row, &self.codec)?;
                    row.push(without_nul(&search_text(&definition)).into());
                    row.push(tag_keys(&definition)?.into());
                }
                Table::History => {
                    let message = row.get_mut(MESSAGE);
                    message.into_iter().for_each(|message| *message = message.to_string().into());
                }
                _ => {}
            }
        }
        let rows = Value::from(rows.into_iter().map(Value::from).collect::<Vec<_>>()).to_string();
        for sql in write_statements(table) {
            self.client.execute(*sql, &[&rows]).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn allocated_numbers(&self) -> Result<AllocatedNumbers, StoreError> {
        let mut numbers = AllocatedNumbers::default();
        for (sequence, number) in sequences(&mut numbers) {
            let sql =
                format!("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}");
            let row = self.client.query_one(&sql, &[]).await.map_err(failed)?;
            *number = row.try_get(0).map_err(failed)?;
        }
        Ok(numbers)
    }

    /// Writes the data that the store derives from the copied rows.
    async fn complete(&self, mut numbers: AllocatedNumbers) -> Result<(), StoreError> {
        let count = "UPDATE collections c
             SET jobs = (SELECT count(*) FROM jobs j WHERE j.collection_id = c.id);
             INSERT INTO run_counts
                (bucket, collection_id, session, succeeded, failed, skipped, missed)
             SELECT closed / 6000000000, collection_id, 0,
                coalesce(sum(count) FILTER (WHERE disposition = 0), 0),
                coalesce(sum(count) FILTER (WHERE disposition = 1), 0),
                coalesce(sum(count) FILTER (WHERE disposition NOT IN (0, 1, 5)), 0),
                coalesce(sum(count) FILTER (WHERE disposition = 5), 0)
             FROM (SELECT closed, count, disposition, collection_id
                   FROM ledger JOIN states USING (job)
                   UNION ALL SELECT closed, count, disposition, 0 FROM ledger) rows
             WHERE closed > (SELECT max(closed) FROM ledger) - 6912000000000
             GROUP BY closed / 6000000000, collection_id;
             SELECT setval('groups_id_seq', max(id)) FROM groups;
             SELECT setval('notes_number_seq', max(number)) FROM notes;
             SELECT setval('earlier_definitions_number_seq', max(number)) FROM earlier_definitions";
        self.client.batch_execute(count).await.map_err(failed)?;
        for (sequence, number) in sequences(&mut numbers) {
            if *number > 0 {
                let sql = format!("SELECT setval('{sequence}', {number})");
                self.client.batch_execute(&sql).await.map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// Connects to a database that no server uses; otherwise fails with [`StoreError::Busy`]. The statements
/// of the connection have no time limits.
pub(super) async fn connect_exclusively(
    url: &str,
    codec: DefinitionCodec,
) -> Result<(PostgresStore, Object), StoreError> {
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}application_name={APPLICATION}");
    let settings = PostgresSettings { connections_max: 1, ..PostgresSettings::default() };
    let store = PostgresStore::connect(&url, settings, codec).await?;
    let client = store.database.pool.get().await.map_err(|error| store_error(error.into()))?;
    let no_timeouts = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0";
    client.batch_execute(no_timeouts).await.map_err(failed)?;
    let mut users = users(&client).await?;
    if users.sessions == 0 && users.nodes > 0 {
        // The last heartbeat of a node that has stopped is valid for a while.
        let _ = timeout(HEARTBEAT_VALID + HEARTBEAT_MARGIN, std::future::pending::<()>()).await;
        users = self::users(&client).await?;
    }
    match users {
        Users { sessions: 0, nodes: 0 } => Ok((store, client)),
        _ => Err(StoreError::Busy("a server uses the database".into())),
    }
}

/// Servers that use a database. Nodes send heartbeats; servers on hold have sessions only.
struct Users {
    sessions: i64,
    nodes: i64,
}

async fn users(client: &Object) -> Result<Users, StoreError> {
    let sql = "SELECT
             (SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = 'kalends'),
             (SELECT count(*) FROM nodes WHERE abs(heartbeat
                 - (extract(epoch FROM clock_timestamp()) * 10000000)::bigint) <= $1)";
    let row = client.query_one(sql, &[&duration_to_ticks(HEARTBEAT_VALID)]).await;
    let row = row.map_err(failed)?;
    let count = |column: usize| row.try_get(column).map_err(failed);
    Ok(Users { sessions: count(0)?, nodes: count(1)? })
}

impl TransferStore for PostgresTransfer {
    fn read<'a>(&'a mut self, table: Table, after: Option<&'a Row>) -> Reply<'a, Vec<Row>> {
        Box::pin(self.read_page(table, after))
    }

    fn write<'a>(&'a mut self, table: Table, rows: Vec<Row>) -> Reply<'a, ()> {
        Box::pin(self.write_page(table, rows))
    }

    fn numbers(&mut self) -> Reply<'_, AllocatedNumbers> {
        Box::pin(self.allocated_numbers())
    }

    fn finish(&mut self, numbers: AllocatedNumbers) -> Reply<'_, ()> {
        Box::pin(self.complete(numbers))
    }
}

/// Column of the message of a history entry.
const MESSAGE: usize = 6;

/// The sequence of each number.
fn sequences(numbers: &mut AllocatedNumbers) -> [(&'static str, &mut i64); 5] {
    let AllocatedNumbers { collection, job, run, history, ledger } = numbers;
    [
        ("collections_id_seq", collection),
        ("jobs_key_seq", job),
        ("run_ids", run),
        ("history_sequence_seq", history),
        ("ledger_number_seq", ledger),
    ]
}

pub(super) fn failed(error: tokio_postgres::Error) -> StoreError {
    store_error(error.into())
}

pub(super) fn store_error(error: PostgresError) -> StoreError {
    match error.before_commit() {
        TransactionFailure::Conflict => StoreError::Busy("the call conflicted with others".into()),
        TransactionFailure::ConnectionLost(error) | TransactionFailure::Permanent(error) => error,
    }
}

fn invalid_json(error: serde_json::Error) -> StoreError {
    StoreError::Damaged(format!("a row cannot be read: {error}"))
}

/// Selects the columns of [`Table::columns`] as a JSON array, from the first column `$1` on, at most
/// `$2` rows.
fn read_statement(table: Table) -> &'static str {
    match table {
        Table::Groups => {
            "SELECT json_build_array(id, subscription_key, group_key, subscription, name,
                 definition)::text
             FROM groups WHERE id > $1 ORDER BY id LIMIT $2"
        }
        Table::Collections => {
            "SELECT json_build_array(id, group_id, collection_key, name, definition, plan,
                 enabled::int, created, enabled_since, version)::text
             FROM collections WHERE id > $1 ORDER BY id LIMIT $2"
        }
        Table::Jobs => {
            "SELECT json_build_array(key, collection_id, job_key, name, encode(uid, 'hex'), created,
                 version, definition, shortest_gap, shortest_retry, authenticated::int)::text
             FROM jobs WHERE key > $1 AND collection_id IN (SELECT id FROM collections)
             ORDER BY key LIMIT $2"
        }
        Table::EarlierDefinitions => {
            "SELECT json_build_array(e.number, e.job, e.generation, e.replaced, e.definition)::text
             FROM earlier_definitions e JOIN jobs j ON j.key = e.job
             WHERE e.number > $1 AND j.collection_id IN (SELECT id FROM collections)
             ORDER BY e.number LIMIT $2"
        }
        Table::States => {
            "SELECT json_build_array(job, collection_id, generation, enabled::int, lifecycle, due,
                 used, last_execution, executions, failures, faulted, finished, entries,
                 coalesce(schedule_generation, generation), enabled_since, consecutive_failures,
                 skip_until)::text
             FROM states WHERE job > $1 AND collection_id IN (SELECT id FROM collections)
             ORDER BY job LIMIT $2"
        }
        Table::Runs => {
            "SELECT json_build_array(r.id, r.job, r.generation, r.scheduled, r.cause, r.repeat,
                 r.role, r.retry, r.redelivery, r.next_at, r.first_started, r.owner, r.token,
                 r.lease_until, r.last_token, r.waits_for, r.attempts, r.started)::text
             FROM runs r JOIN states s ON s.job = r.job
             WHERE r.id > $1 AND s.collection_id IN (SELECT id FROM collections)
             ORDER BY r.id LIMIT $2"
        }
        Table::History => {
            "SELECT json_build_array(h.sequence, h.job, h.started, h.ended, h.expected, h.status,
                 h.message, h.retry, h.repeat, h.role, h.dns, h.connect, h.tls, h.first_byte, h.total,
                 h.generation)::text
             FROM history h JOIN states s ON s.job = h.job
             WHERE h.sequence > $1 AND s.collection_id IN (SELECT id FROM collections)
             ORDER BY h.sequence LIMIT $2"
        }
        Table::Ledger => {
            "SELECT json_build_array(l.number, l.job, l.generation, l.first_at, l.last_at, l.count,
                 l.cause, l.disposition, l.closed, l.started, l.ended, l.attempts)::text
             FROM ledger l JOIN states s ON s.job = l.job
             WHERE l.number > $1 AND s.collection_id IN (SELECT id FROM collections)
             ORDER BY l.number LIMIT $2"
        }
        Table::Tokens => {
            "SELECT json_build_array(id, name, encode(hash, 'hex'), role, place, created, expires,
                 revoked, last_used)::text
             FROM tokens WHERE id > $1 ORDER BY id LIMIT $2"
        }
        Table::Notes => {
            "SELECT json_build_array(number, time, action, collection_id, job, author, author_name,
                 text)::text
             FROM notes
             WHERE number > $1
                 AND (collection_id = 0 OR collection_id IN (SELECT id FROM collections))
             ORDER BY number LIMIT $2"
        }
        Table::KeyMaterial => {
            "SELECT json_build_array(name, encode(sealed, 'hex'))::text
             FROM key_material WHERE name > $1 ORDER BY name LIMIT $2"
        }
        Table::Pause => {
            "SELECT json_build_array(id, since, until, resumed, reason, author)::text
             FROM pause WHERE id::bigint > $1 ORDER BY id LIMIT $2"
        }
    }
}

/// Inserts rows from `$1`, a JSON array of arrays with the columns of [`Table::columns`], and the search
/// text and the tags after those of a job.
fn write_statements(table: Table) -> &'static [&'static str] {
    match table {
        Table::Groups => &[
            "INSERT INTO subscriptions (subscription_key)
             SELECT DISTINCT r->>1 FROM json_array_elements($1::text::json) r
             ON CONFLICT DO NOTHING",
            "INSERT INTO groups (id, subscription_key, group_key, subscription, name, definition)
             SELECT (r->>0)::bigint, r->>1, r->>2, r->>3, r->>4, r->>5
             FROM json_array_elements($1::text::json) r",
        ],
        Table::Collections => &[
            "INSERT INTO collections (id, group_id, collection_key, name, definition, plan, enabled,
                 created, enabled_since, version, jobs)
             SELECT (r->>0)::bigint, (r->>1)::bigint, r->>2, r->>3, r->>4, (r->>5)::smallint,
                 (r->>6)::int::boolean, (r->>7)::bigint, (r->>8)::bigint, (r->>9)::bigint, 0
             FROM json_array_elements($1::text::json) r",
        ],
        Table::Jobs => &[
            "INSERT INTO jobs (key, collection_id, job_key, name, uid, created, version, definition,
                 shortest_gap, shortest_retry, authenticated, search, tags)
             SELECT (r->>0)::bigint, (r->>1)::bigint, r->>2, r->>3, decode(r->>4, 'hex'),
                 (r->>5)::bigint, (r->>6)::bigint, r->>7, (r->>8)::bigint, (r->>9)::bigint,
                 (r->>10)::int::boolean, r->>11, ARRAY(SELECT json_array_elements_text(r->12))
             FROM json_array_elements($1::text::json) r",
        ],
        Table::EarlierDefinitions => &[
            "INSERT INTO earlier_definitions (number, job, generation, replaced, definition)
             SELECT (r->>0)::bigint, (r->>1)::bigint, (r->>2)::bigint, (r->>3)::bigint, r->>4
             FROM json_array_elements($1::text::json) r",
        ],
        Table::States => &[
            "INSERT INTO states (job, collection_id, generation, enabled, lifecycle, due, used,
                 last_execution, executions, failures, faulted, finished, entries,
                 schedule_generation, enabled_since, consecutive_failures, skip_until)
             SELECT (r->>0)::bigint, (r->>1)::bigint, (r->>2)::bigint, (r->>3)::int::boolean,
                 (r->>4)::smallint, (r->>5)::bigint, (r->>6)::bigint, (r->>7)::bigint,
                 (r->>8)::bigint, (r->>9)::bigint, (r->>10)::bigint, (r->>11)::bigint,
                 (r->>12)::bigint, (r->>13)::bigint, (r->>14)::bigint, (r->>15)::bigint,
                 (r->>16)::bigint
             FROM json_array_elements($1::text::json) r",
        ],
        Table::Runs => &[
            "INSERT INTO runs (id, job, generation, scheduled, cause, repeat, role, retry, redelivery,
                 next_at, first_started, owner, token, lease_until, last_token, waits_for, attempts,
                 started)
             SELECT (r->>0)::bigint, (r->>1)::bigint, (r->>2)::bigint, (r->>3)::bigint,
                 (r->>4)::smallint, (r->>5)::bigint, (r->>6)::smallint, (r->>7)::bigint,
                 (r->>8)::bigint, (r->>9)::bigint, (r->>10)::bigint, (r->>11)::bigint,
                 (r->>12)::bigint, (r->>13)::bigint, (r->>14)::bigint, (r->>15)::bigint,
                 (r->>16)::integer, (r->>17)::bigint
             FROM json_array_elements($1::text::json) r",
        ],
        Table::History => &[
            "INSERT INTO history (sequence, job, started, ended, expected, status, message, retry,
                 repeat, role, dns, connect, tls, first_byte, total, generation)
             SELECT (r->>0)::bigint, (r->>1)::bigint, (r->>2)::bigint, (r->>3)::bigint,
                 (r->>4)::bigint, (r->>5)::smallint, r->>6, (r->>7)::bigint, (r->>8)::bigint,
                 (r->>9)::smallint, (r->>10)::integer, (r->>11)::integer, (r->>12)::integer,
                 (r->>13)::integer, (r->>14)::integer, (r->>15)::bigint
             FROM json_array_elements($1::text::json) r",
        ],
        Table::Ledger => &[
            "INSERT INTO ledger (number, job, generation, first_at, last_at, count, cause,
                 disposition, closed, started, ended, attempts)
             SELECT (r->>0)::bigint, (r->>1)::bigint, (r->>2)::bigint, (r->>3)::bigint,
                 (r->>4)::bigint, (r->>5)::bigint, (r->>6)::smallint, (r->>7)::smallint,
                 (r->>8)::bigint, (r->>9)::bigint, (r->>10)::bigint, (r->>11)::integer
             FROM json_array_elements($1::text::json) r",
        ],
        Table::Tokens => &[
            "INSERT INTO tokens (id, name, hash, role, place, created, expires, revoked, last_used)
             SELECT r->>0, r->>1, decode(r->>2, 'hex'), (r->>3)::smallint, r->>4, (r->>5)::bigint,
                 (r->>6)::bigint, (r->>7)::bigint, (r->>8)::bigint
             FROM json_array_elements($1::text::json) r",
        ],
        Table::Notes => &[
            "INSERT INTO notes (number, time, action, collection_id, job, author, author_name, text)
             SELECT (r->>0)::bigint, (r->>1)::bigint, (r->>2)::smallint, (r->>3)::bigint,
                 (r->>4)::bigint, r->>5, r->>6, r->>7
             FROM json_array_elements($1::text::json) r",
        ],
        Table::KeyMaterial => &[
            "INSERT INTO key_material (name, sealed) SELECT r->>0, decode(r->>1, 'hex')
             FROM json_array_elements($1::text::json) r",
        ],
        Table::Pause => &[
            "INSERT INTO pause (id, since, until, resumed, reason, author)
             SELECT (r->>0)::smallint, (r->>1)::bigint, (r->>2)::bigint, (r->>3)::bigint, r->>4,
                 r->>5
             FROM json_array_elements($1::text::json) r",
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schema after all migrations; a test compares it with a database.
    const SCHEMA: &str = include_str!("../../migrations/postgres/schema.txt");
    /// Tables whose rows are copied.
    const COPIED: [(&str, Table); 13] = [
        ("subscriptions", Table::Groups),
        ("groups", Table::Groups),
        ("collections", Table::Collections),
        ("jobs", Table::Jobs),
        ("earlier_definitions", Table::EarlierDefinitions),
        ("states", Table::States),
        ("runs", Table::Runs),
        ("history", Table::History),
        ("ledger", Table::Ledger),
        ("tokens", Table::Tokens),
        ("notes", Table::Notes),
        ("key_material", Table::KeyMaterial),
        ("pause", Table::Pause),
    ];
    /// Tables that are empty in a copy, or that connecting to it fills. Users sign in again.
    const DERIVED_TABLES: [&str; 8] = [
        "doomed",
        "due_floors",
        "key_check",
        "leftovers",
        "nodes",
        "run_counts",
        "schema_steps",
        "sessions",
    ];

    /// Fails when a migration adds a table or a column that a copy would lose.
    #[test]
    fn a_copy_has_every_table_and_column() {
        let columns = SCHEMA.lines().filter_map(|line| {
            let (name, _) = line.split_once(' ')?;
            name.split_once('.').filter(|(table, _)| !table.starts_with("v_"))
        });
        let mut checked = 0;
        for (table, column) in columns {
            let copied = COPIED.iter().find(|(name, _)| *name == table);
            let Some((_, copied)) = copied else {
                assert!(DERIVED_TABLES.contains(&table), "{table} is not copied");
                continue;
            };
            let statements = write_statements(*copied).concat();
            let mut words = statements.split(|c: char| !c.is_alphanumeric() && c != '_');
            assert!(words.any(|word| word == column), "{table}.{column} is not copied");
            checked += 1;
        }
        assert!(checked > 80, "{checked}");
    }
}
