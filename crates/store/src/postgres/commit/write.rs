//! Saves the changes of a batch with one statement per table.

use std::collections::BTreeMap;

use kalends_domain::{ClosedRun, HistoryEntry, Micros};
use kalends_recurrence::Instant;

use crate::error::StoreError;
use crate::postgres::arrays::{Column, column, state_arrays, unnest_arrays, write_rows};
use crate::postgres::code::Code;
use crate::postgres::columns::{
    closed_run_columns, entry_columns, progress_columns, run_columns, state_columns,
};
use crate::postgres::commit::batch::Changes;
use crate::postgres::commit::row_cache::{RowVersion, VersionedRun};
use crate::postgres::due_floor::lower_due_floor;
use crate::postgres::error::PostgresError;
use crate::postgres::row::get;
use crate::postgres::transaction::{Transaction, query};
use crate::record::{JobKey, JobState, RunId};
use crate::run_reports::count_rows;
use crate::run_state::RunRow;

/// Saves all changes, and returns the version of the written rows. Pipelines the statements. Fails with
/// [`PostgresError::Changed`] if a row has another version than the one that was read.
pub(super) async fn write(
    transaction: &Transaction<'_>,
    changes: Changes,
) -> Result<Option<RowVersion>, PostgresError> {
    let Changes { states, opened, updated, closed, history, ledger, lowered } = changes;
    if states.is_empty() && opened.is_empty() && updated.is_empty() && closed.is_empty() {
        return Ok(None);
    }
    for (collection, due) in lowered {
        lower_due_floor(transaction, collection, Some(due)).await?;
    }
    // States first: a transaction that waits for their locks holds none of the others.
    let (.., version) = tokio::try_join!(
        biased;
        write_states(transaction, &states, &history),
        open_runs(transaction, &opened),
        update_runs(transaction, &updated),
        close_versioned_runs(transaction, &closed),
        write_history(transaction, &history),
        write_ledger(transaction, &ledger),
        written_version(transaction),
    )?;
    Ok(Some(version))
}

/// The version of the rows that the transaction writes.
async fn written_version(transaction: &Transaction<'_>) -> Result<RowVersion, PostgresError> {
    let rows = query(transaction, "SELECT txid_current() AS transaction", &[]).await?;
    let row = rows.first().ok_or_else(|| StoreError::Failed("no transaction".into()))?;
    Ok(RowVersion::written_by(get(row, "transaction")?))
}

async fn write_states(
    transaction: &Transaction<'_>,
    states: &[(JobKey, JobState, RowVersion)],
    history: &[(JobKey, HistoryEntry)],
) -> Result<(), PostgresError> {
    let sql = concat!(
        "UPDATE states s SET entries = s.entries + n.entries, (",
        state_columns!(""),
        ") = (",
        state_columns!("n."),
        ") FROM (",
        unnest_arrays!(1 bigint, 2 bigint, 3 smallint, 4 bigint, 5 bigint, 6 bigint, 7 bigint,
            8 bigint, 9 bigint, 10 bigint, 11 bigint, 12 bigint, 13 integer),
        ") AS n (job, entries, ",
        state_columns!(""),
        ", version) WHERE s.job BETWEEN n.job AND n.job AND s.xmin = n.version"
    );
    let mut entries: BTreeMap<JobKey, i64> = BTreeMap::new();
    history.iter().for_each(|(job, _)| *entries.entry(*job).or_default() += 1);
    let mut columns = vec![
        column(states, |(job, ..)| job.0),
        column(states, |(job, ..)| entries.get(job).copied().unwrap_or_default()),
    ];
    columns.extend(state_arrays(states, |(_, state, _)| state));
    columns.push(column(states, |(.., version)| version.number()));
    write_rows(transaction, (states.len(), "states"), sql, columns).await
}

pub(in crate::postgres) async fn open_runs(
    transaction: &Transaction<'_>,
    runs: &[RunRow],
) -> Result<(), PostgresError> {
    let sql = concat!(
        "INSERT INTO runs (",
        run_columns!(""),
        ", last_token, attempts, started) ",
        unnest_arrays!(1 bigint, 2 bigint, 3 bigint, 4 bigint, 5 smallint, 6 bigint, 7 smallint,
            8 bigint, 9 bigint, 10 bigint, 11 bigint, 12 bigint, 13 bigint, 14 bigint, 15 bigint,
            16 bigint, 17 integer, 18 bigint),
    );
    let mut columns = vec![
        column(runs, |row| row.run.id.0),
        column(runs, |row| row.run.job.0),
        column(runs, |row| row.run.generation.cast_signed()),
        column(runs, |row| row.run.scheduled.ticks()),
        column(runs, |row| row.run.cause.code()),
        column(runs, |row| row.run.repeat.cast_signed()),
    ];
    columns.extend(progress(runs, |row| row));
    write_rows(transaction, (runs.len(), "runs"), sql, columns).await
}

async fn update_runs(
    transaction: &Transaction<'_>,
    runs: &[VersionedRun],
) -> Result<(), PostgresError> {
    let sql = concat!(
        "UPDATE runs r SET last_token = n.last_token, attempts = n.attempts, started = n.started, (",
        progress_columns!(""),
        ") = (",
        progress_columns!("n."),
        ") FROM (",
        unnest_arrays!(1 bigint, 2 smallint, 3 bigint, 4 bigint, 5 bigint, 6 bigint, 7 bigint,
            8 bigint, 9 bigint, 10 bigint, 11 bigint, 12 integer, 13 bigint, 14 integer),
        ") AS n (id, ",
        progress_columns!(""),
        ", last_token, attempts, started, version)
         WHERE r.id BETWEEN n.id AND n.id AND r.xmin = n.version"
    );
    let mut columns = vec![column(runs, |run| run.row.run.id.0)];
    columns.extend(progress(runs, |run| &run.row));
    columns.push(column(runs, |run| run.version.number()));
    write_rows(transaction, (runs.len(), "runs"), sql, columns).await
}

/// The columns that change while a run is open, the last token and the attempts.
fn progress<'a, T>(runs: &'a [T], row: impl Fn(&'a T) -> &'a RunRow) -> [Column<'a>; 12] {
    [
        column(runs, |run| row(run).run.progress.role.code()),
        column(runs, |run| i64::from(row(run).run.progress.retry)),
        column(runs, |run| i64::from(row(run).run.progress.redelivery)),
        column(runs, |run| row(run).run.progress.next_at.ticks()),
        column(runs, |run| row(run).run.progress.first_started.map(Instant::ticks)),
        column(runs, |run| row(run).run.claim.map(|claim| claim.owner.0.cast_signed())),
        column(runs, |run| row(run).run.claim.map(|claim| claim.token.0.cast_signed())),
        column(runs, |run| row(run).run.claim.map(|claim| claim.lease_until.ticks())),
        column(runs, |run| row(run).run.waits_for.map(|key| key.0.cast_signed())),
        column(runs, |run| row(run).last_token.cast_signed()),
        column(runs, |run| row(run).attempts.count.cast_signed()),
        column(runs, |run| row(run).attempts.first_started.map(Instant::ticks)),
    ]
}

pub(in crate::postgres) async fn close_runs(
    transaction: &Transaction<'_>,
    runs: &[RunId],
) -> Result<(), PostgresError> {
    let sql = "DELETE FROM runs WHERE id = ANY ($1::bigint[])";
    let columns = vec![column(runs, |run| run.0)];
    write_rows(transaction, (runs.len(), "runs"), sql, columns).await
}

/// Closes runs, each in the version that was read.
async fn close_versioned_runs(
    transaction: &Transaction<'_>,
    runs: &[(RunId, RowVersion)],
) -> Result<(), PostgresError> {
    let sql = concat!(
        "DELETE FROM runs r USING (",
        unnest_arrays!(1 bigint, 2 integer),
        ") AS n (id, version) WHERE r.id BETWEEN n.id AND n.id AND r.xmin = n.version"
    );
    let columns =
        vec![column(runs, |(run, _)| run.0), column(runs, |(_, version)| version.number())];
    write_rows(transaction, (runs.len(), "runs"), sql, columns).await
}

async fn write_history(
    transaction: &Transaction<'_>,
    history: &[(JobKey, HistoryEntry)],
) -> Result<(), PostgresError> {
    // Sequence numbers follow the order of the entries.
    let sql = concat!(
        "INSERT INTO history (job, ",
        entry_columns!(""),
        ") ",
        unnest_arrays!(1 bigint, 2 bigint, 3 bigint, 4 bigint, 5 smallint, 6 text, 7 bigint,
            8 bigint, 9 smallint, 10 integer, 11 integer, 12 integer, 13 integer, 14 integer,
            15 bigint),
    );
    let message = |entry: &HistoryEntry| serde_json::to_string(&entry.message);
    let messages = history.iter().map(|(_, entry)| message(entry)).collect::<Result<Vec<_>, _>>();
    let messages = messages.map_err(|error| StoreError::Failed(error.to_string()))?;
    let columns = vec![
        column(history, |(job, _)| job.0),
        column(history, |(_, entry)| entry.started.ticks()),
        column(history, |(_, entry)| entry.ended.ticks()),
        column(history, |(_, entry)| entry.expected.ticks()),
        column(history, |(_, entry)| entry.status.code()),
        Box::new(messages),
        column(history, |(_, entry)| i64::from(entry.retry)),
        column(history, |(_, entry)| entry.repeat.cast_signed()),
        column(history, |(_, entry)| entry.role.code()),
        column(history, |(_, entry)| micros(entry.timing.dns)),
        column(history, |(_, entry)| micros(entry.timing.connect)),
        column(history, |(_, entry)| micros(entry.timing.tls)),
        column(history, |(_, entry)| micros(entry.timing.first_byte)),
        column(history, |(_, entry)| micros(entry.timing.total)),
        column(history, |(_, entry)| entry.generation.map(u64::cast_signed)),
    ];
    write_rows(transaction, (history.len(), "entries"), sql, columns).await
}

fn micros(time: Option<Micros>) -> Option<i32> {
    time.map(|time| time.get().cast_signed())
}

/// A ledger row to append.
pub(in crate::postgres) struct ClosedRow {
    pub(in crate::postgres) job: JobKey,
    /// Number of its collection.
    pub(in crate::postgres) collection: Option<i64>,
    pub(in crate::postgres) run: ClosedRun,
}

/// Appends ledger rows in this order, and counts them.
pub(in crate::postgres) async fn write_ledger(
    transaction: &Transaction<'_>,
    ledger: &[ClosedRow],
) -> Result<(), PostgresError> {
    let sql = concat!(
        "INSERT INTO ledger (job, ",
        closed_run_columns!(""),
        ") ",
        unnest_arrays!(1 bigint, 2 bigint, 3 bigint, 4 bigint, 5 bigint, 6 smallint, 7 smallint,
            8 bigint, 9 bigint, 10 bigint, 11 integer),
    );
    let columns = vec![
        column(ledger, |row| row.job.0),
        column(ledger, |row| row.run.record.from.ticks()),
        column(ledger, |row| row.run.record.to.ticks()),
        column(ledger, |row| row.run.record.generation.cast_signed()),
        column(ledger, |row| row.run.record.count.cast_signed()),
        column(ledger, |row| row.run.record.cause.code()),
        column(ledger, |row| row.run.record.disposition.code()),
        column(ledger, |row| row.run.record.closed.ticks()),
        column(ledger, |row| row.run.execution.map(|run| run.started.ticks())),
        column(ledger, |row| row.run.execution.map(|run| run.ended.ticks())),
        column(ledger, |row| row.run.execution.map(|run| run.attempts.cast_signed())),
    ];
    tokio::try_join!(
        biased;
        write_rows(transaction, (ledger.len(), "rows of the ledger"), sql, columns),
        add_run_counts(transaction, ledger),
    )?;
    Ok(())
}

/// Adds the counts of ledger rows. Sessions write different rows, so that their commits do not wait for
/// each other.
async fn add_run_counts(
    transaction: &Transaction<'_>,
    ledger: &[ClosedRow],
) -> Result<(), PostgresError> {
    let rows = ledger.iter().filter_map(|row| Some((row.collection?, &row.run.record)));
    let counts: Vec<_> = count_rows(rows).into_iter().collect();
    let sql = "INSERT INTO run_counts
            (bucket, collection_id, session, succeeded, failed, skipped, missed)
         SELECT bucket, collection_id, pg_backend_pid() % 16, succeeded, failed, skipped, missed
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
                     $6::bigint[])
           AS n (bucket, collection_id, succeeded, failed, skipped, missed)
         ORDER BY bucket, collection_id
         ON CONFLICT (bucket, collection_id, session) DO UPDATE SET
            succeeded = run_counts.succeeded + excluded.succeeded,
            failed = run_counts.failed + excluded.failed,
            skipped = run_counts.skipped + excluded.skipped,
            missed = run_counts.missed + excluded.missed";
    let columns = vec![
        column(&counts, |((bucket, _), _)| *bucket),
        column(&counts, |((_, collection), _)| *collection),
        column(&counts, |(_, counts)| counts.succeeded.cast_signed()),
        column(&counts, |(_, counts)| counts.failed.cast_signed()),
        column(&counts, |(_, counts)| counts.skipped.cast_signed()),
        column(&counts, |(_, counts)| counts.missed.cast_signed()),
    ];
    write_rows(transaction, (counts.len(), "counts of runs"), sql, columns).await
}
