//! Lower bound with plain SQL: a table with a key, rows of the same size and the same commits, on one
//! connection and one thread.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::store::{BATCH, Figure, MESSAGE, PAGE, bytes_in, scattered, time};

/// Rows per transaction while jobs are loaded.
const LOADING: usize = 1_000;
/// Number of timed operations of each kind.
const TIMED: usize = 2_000;
/// Number of timed transactions of [`BATCH`] runs; each run takes two, to begin and to finish.
const BATCHES: usize = 400;

/// Measures plain SQL with `jobs` rows in a new file in `folder`.
pub fn measure(folder: &Path, jobs: usize) -> anyhow::Result<Vec<Figure>> {
    let mut connection = Connection::open(folder.join("floor.db"))?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 16_384)?;
    connection.pragma_update(None, "cache_size", -65_536)?;
    connection.execute_batch(
        "CREATE TABLE jobs (job INTEGER PRIMARY KEY, name TEXT UNIQUE, definition TEXT);
         CREATE TABLE state (job INTEGER PRIMARY KEY, due INTEGER, executions INTEGER);
         CREATE TABLE history (sequence INTEGER PRIMARY KEY, job INTEGER, started INTEGER,
             message TEXT);
         CREATE INDEX history_by_job ON history (job);",
    )?;
    let load = time("load, 1,000 under way", jobs, || {
        (0..jobs).step_by(LOADING).try_for_each(|first| {
            let range = first..(first + LOADING).min(jobs);
            transaction(&mut connection, |transaction| {
                range.clone().try_for_each(|job| insert(transaction, job))
            })
        })
    })?;
    let bytes = bytes_in(folder)? as f64 / jobs as f64;
    let put = time("PUT, one at a time", TIMED / 4, || {
        scattered(TIMED / 4, jobs).try_for_each(|job| {
            transaction(&mut connection, |transaction| update(transaction, job))
        })
    })?;
    let get = time("GET, one at a time", TIMED, || {
        scattered(TIMED, jobs).try_for_each(|job| {
            let mut select =
                connection.prepare_cached("SELECT definition FROM jobs WHERE name = ?")?;
            select.query_row([name(job)], |row| row.get::<_, String>(0)).map(drop)
        })
    })?;
    let list = time("list, a page of 100", TIMED / 10, || {
        scattered(TIMED / 10, jobs).try_for_each(|job| {
            let mut select = connection.prepare_cached(
                "SELECT name, definition FROM jobs WHERE name > ? ORDER BY name LIMIT ?",
            )?;
            let rows = select.query_map((name(job), PAGE as i64), |row| row.get::<_, String>(1))?;
            rows.collect::<Result<Vec<_>, _>>().map(drop)
        })
    })?;
    let count = jobs.min(BATCH);
    let run = time("… of 500 others each time", count * BATCHES, || {
        scattered(BATCHES, jobs).try_for_each(|first| {
            let chosen = (0..count).map(|n| (first + n * (jobs / count).max(1)) % jobs);
            let chosen: Vec<_> = chosen.collect();
            transaction(&mut connection, |transaction| {
                chosen.iter().try_for_each(|&job| advance(transaction, job))
            })?;
            transaction(&mut connection, |transaction| {
                chosen.iter().try_for_each(|&job| append(transaction, job))
            })
        })
    })?;
    Ok(vec![load, put, get, list, run, Figure::new("bytes per job", bytes)])
}

fn transaction(
    connection: &mut Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    work(&transaction)?;
    transaction.commit()
}

fn name(job: usize) -> String {
    format!("JOB-{:08X}", (job as u32).wrapping_mul(0x9e37_79b1))
}

/// Has the length of the stored form of a benchmark job.
fn definition(job: usize, edit: usize) -> String {
    format!("{{\"job\": {job}, \"edit\": {edit}, \"rest\": \"{}\"}}", "x".repeat(300))
}

fn insert(connection: &Connection, job: usize) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO jobs (job, name, definition) VALUES (?, ?, ?)")?
        .execute((job as i64, name(job), definition(job, 0)))?;
    connection
        .prepare_cached("INSERT INTO state (job, due, executions) VALUES (?, 0, 0)")?
        .execute([job as i64])
        .map(drop)
}

fn update(connection: &Connection, job: usize) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE jobs SET definition = ? WHERE name = ?")?
        .execute((definition(job, 1), name(job)))
        .map(drop)
}

fn advance(connection: &Connection, job: usize) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE state SET due = due + 1 WHERE job = ?")?
        .execute([job as i64])
        .map(drop)
}

fn append(connection: &Connection, job: usize) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE state SET executions = executions + 1 WHERE job = ?")?
        .execute([job as i64])?;
    connection
        .prepare_cached("INSERT INTO history (job, started, message) VALUES (?, 0, ?)")?
        .execute((job as i64, MESSAGE))
        .map(drop)
}
