//! The SQLite side of a copy between stores.

use std::path::Path;
use std::sync::Arc;

use kalends_domain::JobName;
use kalends_environment::SystemClock;
use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, Statement, TransactionBehavior, params_from_iter};
use serde_json::Value;

use crate::error::StoreError;
use crate::record::JobKey;
use crate::search::search_text;
use crate::sqlite::code::Coded;
use crate::sqlite::edit_job::{insert_tags, tag_rows};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::groups::invalid_name;
use crate::sqlite::lock::Lock;
use crate::sqlite::settings::SqliteSettings;
use crate::sqlite::store::{SqliteStore, create_if_missing};
use crate::sqlite::write_back::change_log::{self, LastNumbers};
use crate::sqlite::{check, connection, due, key_check, migrate, state};
use crate::store::Reply;
use crate::stored_form::DefinitionCodec;
use crate::transfer::{
    AllocatedNumbers, PAGE_ROWS, Row, Table, TransferStore, definition_of, normalize,
};

/// A store in a file that no other process uses.
pub struct SqliteTransfer {
    connection: Connection,
    codec: Arc<DefinitionCodec>,
    // Last, so that it is released when the connection is closed.
    _lock: Lock,
}

impl SqliteTransfer {
    /// Opens an existing store to copy it. [`StoreError::Busy`] if a process uses it.
    pub fn source(path: &Path, codec: DefinitionCodec) -> Result<SqliteTransfer, StoreError> {
        drop(check::open_existing(path)?);
        // Opening a store replays the change log, closing it flushes the changes to the tables.
        let settings = SqliteSettings::default();
        drop(SqliteStore::open(path, settings, codec.clone(), Arc::new(SystemClock))?);
        let lock = Lock::take(path)?;
        let connection = check::open_existing(path)?;
        let unflushed = change_log::replay(&connection)?;
        if !unflushed.jobs.is_empty() || !unflushed.runs.is_empty() {
            return Err(StoreError::Failed("the change log could not be flushed".into()));
        }
        Ok(SqliteTransfer { connection, codec: Arc::new(codec), _lock: lock })
    }

    /// Opens an empty store to write a copy to it; creates the file if it does not exist. `None` if the
    /// store is not empty.
    pub fn target(
        path: &Path,
        codec: DefinitionCodec,
    ) -> Result<Option<SqliteTransfer>, StoreError> {
        create_if_missing(path)
            .map_err(|error| StoreError::Failed(format!("{}: {error}", path.display())))?;
        let lock = Lock::take(path)?;
        let mut connection = connection::for_writing(path, &SqliteSettings::default())?;
        migrate::migrate(&mut connection)?;
        key_check::check_or_write(&connection, codec.cipher())?;
        let is_empty = is_empty(&connection)?;
        let store = SqliteTransfer { connection, codec: Arc::new(codec), _lock: lock };
        Ok(is_empty.then_some(store))
    }

    fn read_page(&self, table: Table, after: Option<&Row>) -> SqliteResult<Vec<Row>> {
        let mut statement = self.connection.prepare_cached(read_statement(table))?;
        let start = table.start();
        let after = after.and_then(|row| row.first()).unwrap_or(&start);
        let mut rows = statement.query((sql_value(after), PAGE_ROWS))?;
        let mut page = Vec::new();
        while let Some(row) = rows.next()? {
            let values = (0..table.columns().len()).map(|column| {
                Ok(match row.get_ref(column)? {
                    ValueRef::Integer(number) => Value::from(number),
                    ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text)),
                    ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Value::Null,
                })
            });
            let mut row = values.collect::<rusqlite::Result<Row>>()?;
            normalize(table, &mut row)?;
            page.push(row);
        }
        Ok(page)
    }

    fn write_page(&mut self, table: Table, rows: &[Row]) -> SqliteResult<()> {
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        for row in rows {
            let mut values: Vec<_> = row.iter().map(sql_value).collect();
            let mut statement = transaction.prepare_cached(write_statement(table))?;
            match table {
                Table::Jobs => {
                    let definition = definition_of(row, &self.codec)?;
                    values.push(search_text(&definition).into());
                    statement.execute(params_from_iter(values))?;
                    let number = |column| integer(table, row, column);
                    let name = text(table, row, "name")?;
                    let name = JobName::new(name).map_err(invalid_name)?;
                    let (job, collection) = (JobKey(number("job")?), number("collection")?);
                    let tags = tag_rows(&definition);
                    insert_tags(&transaction, (collection, &name), job, &tags)?;
                }
                Table::History | Table::Ledger => {
                    let (number, job) = (values.first().cloned(), values.get(1).cloned());
                    statement.execute(params_from_iter(values))?;
                    // The next row of the job refers to this one.
                    let mut newest = transaction.prepare_cached(newest_statement(table))?;
                    newest.execute((number, job))?;
                }
                _ => drop(statement.execute(params_from_iter(values))?),
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn allocated_numbers(&self) -> SqliteResult<AllocatedNumbers> {
        let LastNumbers { run, history, ledger } = change_log::replay(&self.connection)?.numbers;
        let last = |table: &str| {
            let sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?";
            self.connection.query_row(sql, [table], |row| row.get(0))
        };
        let (collection, job) = (last("collections")?, last("jobs")?);
        Ok(AllocatedNumbers { collection, job, run, history, ledger })
    }

    /// Writes the data that the store derives from the copied rows.
    fn complete(&mut self, numbers: AllocatedNumbers) -> SqliteResult<()> {
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        transaction.execute_batch(DERIVED)?;
        write_due(&transaction)?;
        for (table, last) in [("collections", numbers.collection), ("jobs", numbers.job)] {
            let update = "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1";
            if transaction.execute(update, (table, last))? == 0 {
                let insert = "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)";
                transaction.execute(insert, (table, last))?;
            }
        }
        let AllocatedNumbers { run, history, ledger, .. } = numbers;
        let changes = change_log::encode(LastNumbers { run, history, ledger }, &[], &[]);
        change_log::append(&transaction, change_log::newest(&transaction)? + 1, &changes)?;
        transaction.commit()?;
        Ok(())
    }
}

impl TransferStore for SqliteTransfer {
    fn read<'a>(&'a mut self, table: Table, after: Option<&'a Row>) -> Reply<'a, Vec<Row>> {
        let page = self.read_page(table, after).map_err(StoreError::from);
        Box::pin(std::future::ready(page))
    }

    fn write<'a>(&'a mut self, table: Table, rows: Vec<Row>) -> Reply<'a, ()> {
        let written = self.write_page(table, &rows).map_err(StoreError::from);
        Box::pin(std::future::ready(written))
    }

    fn numbers(&mut self) -> Reply<'_, AllocatedNumbers> {
        let numbers = self.allocated_numbers().map_err(StoreError::from);
        Box::pin(std::future::ready(numbers))
    }

    fn finish(&mut self, numbers: AllocatedNumbers) -> Reply<'_, ()> {
        let finished = self.complete(numbers).map_err(StoreError::from);
        Box::pin(std::future::ready(finished))
    }
}

fn is_empty(connection: &Connection) -> SqliteResult<bool> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM groups) AND NOT EXISTS (SELECT 1 FROM jobs)
         AND NOT EXISTS (SELECT 1 FROM history) AND NOT EXISTS (SELECT 1 FROM ledger)
         AND NOT EXISTS (SELECT 1 FROM tokens)";
    Ok(connection.query_row(sql, (), |row| row.get(0))?)
}

/// Writes `due` from `state`.
fn write_due(connection: &Connection) -> SqliteResult<()> {
    let mut read = connection.prepare(
        "SELECT job, collection, generation, switched_on, lifecycle, due, used, last_execution,
             executions, failures, faulted, finished, entries, newest_entry, newest_closing,
             schedule_generation, enabled_since, consecutive_failures, skip_until
         FROM state WHERE due IS NOT NULL",
    )?;
    let mut write: Statement<'_> = connection.prepare(due::WRITE)?;
    let mut rows = read.query(())?;
    while let Some(row) = rows.next()? {
        let job = row.get::<_, Coded<JobKey>>(0)?.0;
        due::write(&mut write, job, &state::read_state(row, 1)?)?;
    }
    Ok(())
}

fn sql_value(value: &Value) -> SqlValue {
    match value {
        Value::String(text) => SqlValue::Text(text.clone()),
        value => value.as_i64().map_or(SqlValue::Null, SqlValue::Integer),
    }
}

fn integer(table: Table, row: &Row, column: &str) -> Result<i64, StoreError> {
    let value = table.index(column).and_then(|index| row.get(index)).and_then(Value::as_i64);
    value.ok_or_else(|| StoreError::Damaged(format!("a row has no {column}")))
}

fn text<'a>(table: Table, row: &'a Row, column: &str) -> Result<&'a str, StoreError> {
    let value = table.index(column).and_then(|index| row.get(index)).and_then(Value::as_str);
    value.ok_or_else(|| StoreError::Damaged(format!("a row has no {column}")))
}

/// Selects the columns of [`Table::columns`], from the first column `?1` on, at most `?2` rows.
fn read_statement(table: Table) -> &'static str {
    match table {
        Table::Groups => {
            "SELECT id, subscription_key, name_key, subscription, name,
                 json_array(location, json(tags))
             FROM groups WHERE id > ?1 ORDER BY id LIMIT ?2"
        }
        Table::Collections => {
            "SELECT id, group_id, name_key, name, definition, plan, enabled, created, enabled_since,
                 version
             FROM collections WHERE id > ?1 ORDER BY id LIMIT ?2"
        }
        Table::Jobs => {
            "SELECT job, collection, name_key, name, lower(hex(uid)), created, version, definition,
                 shortest_gap, shortest_retry, authenticated
             FROM jobs WHERE job > ?1 AND collection IN (SELECT id FROM collections)
             ORDER BY job LIMIT ?2"
        }
        Table::EarlierDefinitions => {
            "SELECT e.number, e.job, e.generation, e.replaced, e.definition
             FROM earlier_definitions e CROSS JOIN jobs j ON j.job = e.job
             WHERE e.number > ?1 AND j.collection IN (SELECT id FROM collections)
             ORDER BY e.number LIMIT ?2"
        }
        Table::States => {
            "SELECT job, collection, generation, switched_on, lifecycle, due, used, last_execution,
                 executions, failures, faulted, finished, entries,
                 coalesce(schedule_generation, generation), enabled_since, consecutive_failures,
                 skip_until
             FROM state WHERE job > ?1 AND collection IN (SELECT id FROM collections)
             ORDER BY job LIMIT ?2"
        }
        Table::Runs => {
            "SELECT run, job, generation, scheduled, cause, repeat, role, retry, redelivery, next_at,
                 first_started, owner, token, lease_until, last_token, waits_for, attempts, started
             FROM runs WHERE run > ?1 AND collection IN (SELECT id FROM collections)
             ORDER BY run LIMIT ?2"
        }
        Table::History => {
            "SELECT h.sequence, h.job, h.started, h.ended, h.expected, h.status, h.message, h.retry,
                 h.repeat, h.role, h.dns, h.connect, h.tls, h.first_byte, h.total, h.generation
             FROM history h CROSS JOIN state s ON s.job = h.job
             WHERE h.sequence > ?1 AND s.collection IN (SELECT id FROM collections)
             ORDER BY h.sequence LIMIT ?2"
        }
        Table::Ledger => {
            "SELECT l.id, l.job, l.generation, l.from_at, l.to_at, l.count, l.cause, l.disposition,
                 l.closed, l.started, l.ended, l.attempts
             FROM ledger l CROSS JOIN state s ON s.job = l.job
             WHERE l.id > ?1 AND s.collection IN (SELECT id FROM collections)
             ORDER BY l.id LIMIT ?2"
        }
        Table::Tokens => {
            "SELECT id, name, lower(hex(hash)), role, place, created, expires, revoked, last_used
             FROM tokens WHERE id > ?1 ORDER BY id LIMIT ?2"
        }
        Table::Notes => {
            "SELECT number, time, action, collection, job, author, author_name, text FROM notes
             WHERE number > ?1 AND (collection = 0 OR collection IN (SELECT id FROM collections))
             ORDER BY number LIMIT ?2"
        }
        Table::KeyMaterial => {
            "SELECT substr(name, 9), lower(hex(value)) FROM meta
             WHERE substr(name, 1, 8) = 'derived:' AND substr(name, 9) > ?1
             ORDER BY name LIMIT ?2"
        }
        Table::Pause => {
            "SELECT id, since, until, resumed, reason, author FROM pause
             WHERE id > ?1 ORDER BY id LIMIT ?2"
        }
    }
}

/// Inserts the columns of [`Table::columns`] as parameters, and the search text after those of a job.
fn write_statement(table: Table) -> &'static str {
    match table {
        Table::Groups => {
            "INSERT INTO groups (id, subscription_key, name_key, subscription, name, location, tags)
             VALUES (?1, ?2, ?3, ?4, ?5, json_extract(?6, '$[0]'), json_extract(?6, '$[1]'))"
        }
        Table::Collections => {
            "INSERT INTO collections (id, group_id, name_key, name, definition, plan, enabled,
                 created, enabled_since, version, jobs, authenticated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, 0)"
        }
        Table::Jobs => {
            "INSERT INTO jobs (job, collection, name_key, name, uid, created, version, definition,
                 shortest_gap, shortest_retry, authenticated, search)
             VALUES (?1, ?2, ?3, ?4, unhex(?5), ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
        }
        Table::EarlierDefinitions => {
            "INSERT INTO earlier_definitions (number, job, generation, replaced, definition)
             VALUES (?1, ?2, ?3, ?4, ?5)"
        }
        Table::States => {
            "INSERT INTO state (job, collection, generation, switched_on, lifecycle, due, used,
                 last_execution, executions, failures, faulted, finished, entries,
                 schedule_generation, enabled_since, consecutive_failures, skip_until, newest_entry,
                 newest_closing)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, 0,
                 0)"
        }
        // A scheduled run of a disabled job is held.
        Table::Runs => {
            "INSERT INTO runs (run, job, generation, scheduled, cause, repeat, role, retry,
                 redelivery, next_at, first_started, owner, token, lease_until, last_token,
                 waits_for, attempts, started, collection, held)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
                 collection, ?5 = 0 AND switched_on = 0
             FROM state WHERE job = ?2"
        }
        Table::History => {
            "INSERT INTO history (sequence, job, started, ended, expected, status, message, retry,
                 repeat, role, dns, connect, tls, first_byte, total, generation, previous)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                 newest_entry
             FROM state WHERE job = ?2"
        }
        Table::Ledger => {
            "INSERT INTO ledger (id, job, generation, from_at, to_at, count, cause, disposition,
                 closed, started, ended, attempts, previous)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, newest_closing
             FROM state WHERE job = ?2"
        }
        Table::Tokens => {
            "INSERT INTO tokens (id, name, hash, role, place, created, expires, revoked, last_used)
             VALUES (?1, ?2, unhex(?3), ?4, ?5, ?6, ?7, ?8, ?9)"
        }
        Table::Notes => {
            "INSERT INTO notes (number, time, action, collection, job, author, author_name, text)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
        }
        Table::KeyMaterial => "INSERT INTO meta (name, value) VALUES ('derived:' || ?1, unhex(?2))",
        Table::Pause => {
            "INSERT INTO pause (id, since, until, resumed, reason, author)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        }
    }
}

/// Records the newest row of a job in a chain.
fn newest_statement(table: Table) -> &'static str {
    match table {
        Table::History => "UPDATE state SET newest_entry = ?1 WHERE job = ?2",
        _ => "UPDATE state SET newest_closing = ?1 WHERE job = ?2",
    }
}

/// Counters of collections, finished jobs, the times of spans of rows, and counts of runs.
const DERIVED: &str = "
    UPDATE collections SET (jobs, authenticated) = (
        SELECT count(*), coalesce(sum(authenticated), 0) FROM jobs WHERE collection = collections.id);
    INSERT INTO finished (finished, job) SELECT finished, job FROM state WHERE finished IS NOT NULL;
    INSERT INTO spans (kind, span, oldest)
        SELECT 0, sequence / 512, min(started) FROM history GROUP BY sequence / 512;
    INSERT INTO spans (kind, span, oldest, latest)
        SELECT 1, id / 512, min(closed), max(to_at) FROM ledger GROUP BY id / 512;
    INSERT INTO run_counts (bucket, collection, succeeded, failed, skipped, missed)
        SELECT closed / 6000000000, collection, sum(count * (disposition = 0)),
            sum(count * (disposition = 1)), sum(count * (disposition NOT IN (0, 1, 5))),
            sum(count * (disposition = 5))
        FROM (SELECT closed, count, disposition, collection
              FROM ledger CROSS JOIN state USING (job)
              UNION ALL SELECT closed, count, disposition, 0 FROM ledger)
        WHERE closed > (SELECT max(closed) FROM ledger) - 6912000000000
        GROUP BY closed / 6000000000, collection;
";

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// Tables whose rows are copied.
    const COPIED: [(&str, Table); 12] = [
        ("groups", Table::Groups),
        ("collections", Table::Collections),
        ("jobs", Table::Jobs),
        ("earlier_definitions", Table::EarlierDefinitions),
        ("state", Table::States),
        ("runs", Table::Runs),
        ("history", Table::History),
        ("ledger", Table::Ledger),
        ("tokens", Table::Tokens),
        ("notes", Table::Notes),
        ("meta", Table::KeyMaterial),
        ("pause", Table::Pause),
    ];
    /// Tables that are derived from others or empty in a copy. Users sign in again.
    const DERIVED_TABLES: [&str; 10] = [
        "doomed",
        "due",
        "finished",
        "leftovers",
        "log",
        "sessions",
        "run_counts",
        "spans",
        "sqlite_sequence",
        "tags",
    ];

    /// Fails when a migration adds a table or a column that a copy would lose.
    #[test]
    fn a_copy_has_every_table_and_column() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut connection).unwrap();
        let sql = "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
             WHERE m.type = 'table'";
        let mut statement = connection.prepare(sql).unwrap();
        let columns = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        for column in columns {
            let (table, column): (String, String) = column.unwrap();
            let copied = COPIED.iter().find(|(name, _)| *name == table);
            let Some((_, copied)) = copied else {
                assert!(DERIVED_TABLES.contains(&table.as_str()), "{table} is not copied");
                continue;
            };
            let words = write_statement(*copied);
            let mut words = words.split(|c: char| !c.is_alphanumeric() && c != '_');
            assert!(words.any(|word| word == column), "{table}.{column} is not copied");
        }
    }
}
