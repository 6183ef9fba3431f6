//! What a batch has changed, one statement for each table.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use kalends_domain::{HistoryEntry, Micros};
use kalends_recurrence::Instant;

use crate::error::StoreError;
use crate::postgres::call::change;
use crate::postgres::code::Code;
use crate::postgres::commit::batch::{Changes, KeptRun};
use crate::postgres::fault::Fault;
use crate::record::{JobKey, JobState, LedgerRecord, RunId};

/// Writes all of it, without waiting for one statement before sending the next.
pub(super) async fn write(transaction: &Transaction<'_>, changes: Changes) -> Result<(), Fault> {
    let Changes { states, opened, changed, closed, history, ledger } = changes;
    tokio::try_join!(
        biased;
        write_states(transaction, &states, &history),
        open_runs(transaction, &opened),
        change_runs(transaction, &changed),
        close_runs(transaction, &closed),
        write_history(transaction, &history),
        write_ledger(transaction, &ledger),
    )?;
    Ok(())
}

fn column<T, C>(rows: &[T], value: impl Fn(&T) -> C) -> Vec<C> {
    rows.iter().map(value).collect()
}

/// The rows were locked or are new, so each of them must be there.
fn all_written(what: &str, expected: usize, written: u64) -> Result<(), Fault> {
    match u64::try_from(expected) == Ok(written) {
        true => Ok(()),
        false => {
            let message = format!("{written} of {expected} {what} were there to be written");
            Err(StoreError::Failed(message).into())
        }
    }
}

async fn write_states(
    transaction: &Transaction<'_>,
    states: &[(JobKey, JobState)],
    history: &[(JobKey, HistoryEntry)],
) -> Result<(), Fault> {
    if states.is_empty() {
        return Ok(());
    }
    let sql = "UPDATE states s SET lifecycle = n.lifecycle, due = n.due, used = n.used,
            last_execution = n.last_execution, executions = n.executions, failures = n.failures,
            faulted = n.faulted, finished = n.finished, entries = s.entries + n.entries
         FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[],
                     $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[])
           AS n (job, lifecycle, due, used, last_execution, executions, failures, faulted,
                 finished, entries)
         WHERE s.job = n.job";
    let mut entries: BTreeMap<JobKey, i64> = BTreeMap::new();
    history.iter().for_each(|(job, _)| *entries.entry(*job).or_default() += 1);
    let written = change(
        transaction,
        sql,
        &[
            &column(states, |(job, _)| job.0),
            &column(states, |(_, state)| state.lifecycle.code()),
            &column(states, |(_, state)| state.due.map(Instant::ticks)),
            &column(states, |(_, state)| state.used.cast_signed()),
            &column(states, |(_, state)| state.last_execution.map(Instant::ticks)),
            &column(states, |(_, state)| state.executions.cast_signed()),
            &column(states, |(_, state)| state.failures.cast_signed()),
            &column(states, |(_, state)| state.faulted.cast_signed()),
            &column(states, |(_, state)| state.finished.map(Instant::ticks)),
            &column(states, |(job, _)| entries.get(job).copied().unwrap_or_default()),
        ],
    )
    .await?;
    all_written("states", states.len(), written)
}

async fn open_runs(transaction: &Transaction<'_>, runs: &[KeptRun]) -> Result<(), Fault> {
    if runs.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO runs (id, job, generation, scheduled, cause, repeat, role, retry,
            redelivery, next_at, first_started, owner, token, lease_until, last_token)
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
            $5::smallint[], $6::bigint[], $7::smallint[], $8::bigint[], $9::bigint[],
            $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[],
            $15::bigint[])";
    let written = change(
        transaction,
        sql,
        &[
            &column(runs, |kept| kept.run.id.0),
            &column(runs, |kept| kept.run.job.0),
            &column(runs, |kept| kept.run.generation.cast_signed()),
            &column(runs, |kept| kept.run.scheduled.ticks()),
            &column(runs, |kept| kept.run.cause.code()),
            &column(runs, |kept| kept.run.repeat.cast_signed()),
            &column(runs, |kept| kept.run.progress.role.code()),
            &column(runs, |kept| i64::from(kept.run.progress.retry)),
            &column(runs, |kept| i64::from(kept.run.progress.redelivery)),
            &column(runs, |kept| kept.run.progress.next_at.ticks()),
            &column(runs, |kept| kept.run.progress.first_started.map(Instant::ticks)),
            &column(runs, |kept| kept.run.claim.map(|claim| claim.owner.0.cast_signed())),
            &column(runs, |kept| kept.run.claim.map(|claim| claim.token.0.cast_signed())),
            &column(runs, |kept| kept.run.claim.map(|claim| claim.lease_until.ticks())),
            &column(runs, |kept| kept.last_token.cast_signed()),
        ],
    )
    .await?;
    all_written("runs", runs.len(), written)
}

async fn change_runs(transaction: &Transaction<'_>, runs: &[KeptRun]) -> Result<(), Fault> {
    if runs.is_empty() {
        return Ok(());
    }
    let sql = "UPDATE runs r SET role = n.role, retry = n.retry, redelivery = n.redelivery,
            next_at = n.next_at, first_started = n.first_started, owner = n.owner,
            token = n.token, lease_until = n.lease_until, last_token = n.last_token
         FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[],
                     $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[])
           AS n (id, role, retry, redelivery, next_at, first_started, owner, token, lease_until,
                 last_token)
         WHERE r.id = n.id";
    let written = change(
        transaction,
        sql,
        &[
            &column(runs, |kept| kept.run.id.0),
            &column(runs, |kept| kept.run.progress.role.code()),
            &column(runs, |kept| i64::from(kept.run.progress.retry)),
            &column(runs, |kept| i64::from(kept.run.progress.redelivery)),
            &column(runs, |kept| kept.run.progress.next_at.ticks()),
            &column(runs, |kept| kept.run.progress.first_started.map(Instant::ticks)),
            &column(runs, |kept| kept.run.claim.map(|claim| claim.owner.0.cast_signed())),
            &column(runs, |kept| kept.run.claim.map(|claim| claim.token.0.cast_signed())),
            &column(runs, |kept| kept.run.claim.map(|claim| claim.lease_until.ticks())),
            &column(runs, |kept| kept.last_token.cast_signed()),
        ],
    )
    .await?;
    all_written("runs", runs.len(), written)
}

async fn close_runs(transaction: &Transaction<'_>, runs: &[RunId]) -> Result<(), Fault> {
    if runs.is_empty() {
        return Ok(());
    }
    let sql = "DELETE FROM runs WHERE id = ANY ($1::bigint[])";
    let written = change(transaction, sql, &[&column(runs, |run| run.0)]).await?;
    all_written("runs", runs.len(), written)
}

async fn write_history(
    transaction: &Transaction<'_>,
    history: &[(JobKey, HistoryEntry)],
) -> Result<(), Fault> {
    if history.is_empty() {
        return Ok(());
    }
    // The order of the rows is the order of their numbers.
    let sql = "INSERT INTO history (job, started, ended, expected, status, message, retry, repeat,
            role, dns, connect, tls, first_byte, total)
         SELECT n.job, n.started, n.ended, n.expected, n.status, n.message, n.retry, n.repeat,
            n.role, n.dns, n.connect, n.tls, n.first_byte, n.total
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[],
                     $6::text[], $7::bigint[], $8::bigint[], $9::smallint[], $10::integer[],
                     $11::integer[], $12::integer[], $13::integer[], $14::integer[])
           WITH ORDINALITY
           AS n (job, started, ended, expected, status, message, retry, repeat, role, dns, connect,
                 tls, first_byte, total, place)
         ORDER BY n.place";
    let message = |entry: &HistoryEntry| serde_json::to_string(&entry.message);
    let messages = history.iter().map(|(_, entry)| message(entry)).collect::<Result<Vec<_>, _>>();
    let messages = messages.map_err(|error| StoreError::Failed(error.to_string()))?;
    let written = change(
        transaction,
        sql,
        &[
            &column(history, |(job, _)| job.0),
            &column(history, |(_, entry)| entry.started.ticks()),
            &column(history, |(_, entry)| entry.ended.ticks()),
            &column(history, |(_, entry)| entry.expected.ticks()),
            &column(history, |(_, entry)| entry.status.code()),
            &messages,
            &column(history, |(_, entry)| i64::from(entry.retry)),
            &column(history, |(_, entry)| entry.repeat.cast_signed()),
            &column(history, |(_, entry)| entry.role.code()),
            &column(history, |(_, entry)| micros(entry.timing.dns)),
            &column(history, |(_, entry)| micros(entry.timing.connect)),
            &column(history, |(_, entry)| micros(entry.timing.tls)),
            &column(history, |(_, entry)| micros(entry.timing.first_byte)),
            &column(history, |(_, entry)| micros(entry.timing.total)),
        ],
    )
    .await?;
    all_written("entries", history.len(), written)
}

fn micros(time: Option<Micros>) -> Option<i32> {
    time.map(|time| time.get().cast_signed())
}

async fn write_ledger(
    transaction: &Transaction<'_>,
    ledger: &[(JobKey, LedgerRecord)],
) -> Result<(), Fault> {
    if ledger.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO ledger (job, first_at, last_at, generation, count, cause, disposition,
            closed)
         SELECT n.job, n.first_at, n.last_at, n.generation, n.count, n.cause, n.disposition,
            n.closed
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
                     $6::smallint[], $7::smallint[], $8::bigint[]) WITH ORDINALITY
           AS n (job, first_at, last_at, generation, count, cause, disposition, closed, place)
         ORDER BY n.place";
    let written = change(
        transaction,
        sql,
        &[
            &column(ledger, |(job, _)| job.0),
            &column(ledger, |(_, record)| record.from.ticks()),
            &column(ledger, |(_, record)| record.to.ticks()),
            &column(ledger, |(_, record)| record.generation.cast_signed()),
            &column(ledger, |(_, record)| record.count.cast_signed()),
            &column(ledger, |(_, record)| record.cause.code()),
            &column(ledger, |(_, record)| record.disposition.code()),
            &column(ledger, |(_, record)| record.closed.ticks()),
        ],
    )
    .await?;
    all_written("rows of the ledger", ledger.len(), written)
}
