//! Plain tables in SQLite: the contender that the write-back cache of the store has to beat.
//!
//! Every commit updates the tables and their indexes directly (`plain.sql`). WAL,
//! `synchronous=FULL`, prepared statements, group commits of the same size as those of the store,
//! and a checkpoint thread that works by the same rules. GET uses a connection of its own and
//! decodes definitions with the store's codec, decryption included.
//!
//! It is a lower bound for plain tables, because it only leaves out work of the store:
//!
//! * queues and hand-over between threads: the caller's thread writes and reads;
//! * collections: their paths, states and job counts;
//! * on creation and edits: search text, tags, retention times and the facts for quotas;
//! * on runs: retention times, and all cases that the workload does not have, such as final states.
//!   Run ids and sequence numbers come from counters in memory, as in the store.
//!
//! Page cache and checkpoint threshold are tuned: see [`TUNINGS`].

use std::path::Path;

use anyhow::{Context as _, ensure};
use kalends_domain::{CollectionPath, JobName, JobPath, Lifecycle};
use kalends_recurrence::Instant;
use kalends_store::record::{Job, JobKey, JobRecord, JobState, JobUid};
use kalends_store::stored_form::{DefinitionCodec, read_definition, write_definition};
use kalends_store::{DueJob, JobPut};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Row};

use crate::store::checkpoint::Checkpointer;
use crate::store::workload::{
    codec, due_again_far_apart, due_again_together, first_due, job_path, job_put,
};
use crate::store::{
    BATCH, BATCHES, FAR_APART_BATCHES, JOBS_PER_COLLECTION, LOADING, MESSAGE, Measurement, PAGE,
    Rows, TIMED, bytes_in, row, scattered, time,
};

/// The settings that are measured, each with a new file; the report takes the best value of each
/// row.
pub const TUNINGS: [Tuning; 4] = [
    Tuning { cache_mib: 8, checkpoint_pages: 1_024 },
    Tuning { cache_mib: 64, checkpoint_pages: 1_024 },
    Tuning { cache_mib: 256, checkpoint_pages: 1_024 },
    // A longer WAL: pages that several commits change are checkpointed once.
    Tuning { cache_mib: 256, checkpoint_pages: 16_384 },
];

/// Settings of SQLite that depend on the workload.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Page cache of the writer, and of the reader.
    pub cache_mib: i64,
    /// Pages in the WAL at which a checkpoint begins; the store uses 1,024.
    pub checkpoint_pages: u32,
}

/// The fencing token of a first claim.
const TOKEN: i64 = 1;
/// The lease of a claim, 10 s, in ticks of 100 ns.
const LEASE_TICKS: i64 = 100_000_000;

/// Measures plain tables with `jobs` jobs in `folder`: the best of [`TUNINGS`] for each row, wall
/// time and CPU time separately.
pub fn measure(folder: &Path, jobs: usize, rows: Rows) -> anyhow::Result<Vec<Measurement>> {
    let mut best: Vec<Measurement> = Vec::new();
    for tuning in TUNINGS {
        eprintln!("plain tables, {jobs} jobs, {tuning:?}");
        let folder = folder.join("plain");
        std::fs::create_dir(&folder)?;
        let measured = measure_tuned(&folder, jobs, rows, tuning)?;
        std::fs::remove_dir_all(&folder)?;
        if best.is_empty() {
            best = measured;
        } else {
            for (best, other) in best.iter_mut().zip(measured) {
                best.value = best.value.min(other.value);
                best.cpu = best.cpu.zip(other.cpu).map(|(best, other)| best.min(other));
            }
        }
    }
    Ok(best)
}

fn measure_tuned(
    folder: &Path,
    jobs: usize,
    rows: Rows,
    tuning: Tuning,
) -> anyhow::Result<Vec<Measurement>> {
    let mut plain = Plain::open(&folder.join("plain.db"), tuning)?;
    let mut measured = vec![time(row::LOAD, jobs, || plain.load(jobs))?];
    let bytes = bytes_in(folder)? as f64 / jobs as f64;
    measured.push(Measurement::new(row::BYTES, bytes));
    if rows == Rows::All {
        measured.push(time(row::PUT, TIMED / 4, || {
            scattered(TIMED / 4, jobs).try_for_each(|job| plain.put(job, 1))
        })?);
    }
    // Other jobs first, to fill the page cache of the reader.
    scattered(4 * TIMED, jobs).skip(TIMED).try_for_each(|job| plain.get(job).map(drop))?;
    measured.push(time(row::GET, TIMED, || {
        scattered(TIMED, jobs).try_for_each(|job| plain.get(job).map(drop))
    })?);
    if rows == Rows::All {
        measured.push(time(row::LIST, TIMED / 10, || {
            scattered(TIMED / 10, jobs).try_for_each(|job| plain.list(job).map(drop))
        })?);
    }
    let batch = jobs.min(BATCH);
    measured.push(time(row::OTHER_JOBS, batch * BATCHES, || {
        (0..BATCHES).try_for_each(|_| plain.run_batch(due_again_together))
    })?);
    measured.push(time(row::FAR_APART, batch * FAR_APART_BATCHES, || {
        (0..FAR_APART_BATCHES).try_for_each(|_| plain.run_batch(due_again_far_apart))
    })?);
    plain.check(batch * (BATCHES + FAR_APART_BATCHES))?;
    Ok(measured)
}

struct Plain {
    writer: Connection,
    reader: Connection,
    checkpointer: Checkpointer,
    codec: DefinitionCodec,
    /// The id of the next run, and of its rows of history and ledger.
    next_run: i64,
}

/// A job that is due, and its collection.
type Due = (DueJob, i64);

macro_rules! select_job {
    ($rest:literal) => {
        concat!(
            "SELECT j.job, j.name, j.uid, j.created, j.version, j.definition, s.generation,
                 s.lifecycle, s.due, s.used, s.last_execution, s.executions, s.failures, s.faulted,
                 s.finished
             FROM jobs j JOIN state s ON s.job = j.job ",
            $rest
        )
    };
}

const SELECT_NAMED: &str = select_job!("WHERE j.collection = ? AND j.name_key = ?");
const SELECT_PAGE: &str =
    select_job!("WHERE j.collection = ? AND j.name_key > ? ORDER BY j.name_key LIMIT ?");

impl Plain {
    fn open(path: &Path, tuning: Tuning) -> anyhow::Result<Plain> {
        let mut writer = connect(path, tuning)?;
        writer.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        writer.pragma_update(None, "synchronous", "FULL")?;
        writer.execute_batch(include_str!("plain.sql"))?;
        let checkpointer = Checkpointer::start(path, &mut writer, tuning.checkpoint_pages)?;
        let reader = connect(path, tuning)?;
        Ok(Plain { writer, reader, checkpointer, codec: codec()?, next_run: 1 })
    }

    /// Carries out one transaction. A checkpoint may follow.
    fn commit(
        &mut self,
        work: impl FnOnce(&Connection, &DefinitionCodec) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.writer.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
        work(&self.writer, &self.codec)?;
        self.writer.prepare_cached("COMMIT")?.execute(())?;
        self.checkpointer.after_commit(&self.writer)
    }

    fn load(&mut self, jobs: usize) -> anyhow::Result<()> {
        (0..jobs).step_by(LOADING).try_for_each(|first| {
            self.commit(|connection, codec| {
                (first..(first + LOADING).min(jobs))
                    .try_for_each(|job| insert(connection, codec, job))
            })
        })
    }

    fn put(&mut self, job: usize, edit: usize) -> anyhow::Result<()> {
        self.commit(|connection, codec| {
            let existing = find(connection, codec, job)?;
            let due = existing.state.due.unwrap_or(Instant::MIN);
            let JobPut { uid, definition, .. } = job_put(job, edit, due);
            connection
                .prepare_cached(
                    "UPDATE jobs SET version = version + 1, definition = ? WHERE job = ?",
                )?
                .execute((write_definition(&definition, uid, codec)?, existing.key.0))?;
            connection
                .prepare_cached("UPDATE state SET generation = generation + 1 WHERE job = ?")?
                .execute([existing.key.0])?;
            Ok(())
        })
    }

    fn get(&self, job: usize) -> anyhow::Result<JobRecord> {
        find(&self.reader, &self.codec, job)
    }

    fn list(&self, job: usize) -> anyhow::Result<Vec<JobRecord>> {
        let JobPath { collection, job: name } = job_path(job)?;
        let mut select = self.reader.prepare_cached(SELECT_PAGE)?;
        let mut rows = select.query((collection_id(job), name.key(), PAGE as i64))?;
        let mut page = Vec::with_capacity(PAGE);
        while let Some(row) = rows.next()? {
            page.push(read_job(row, &self.codec, collection.clone())?);
        }
        Ok(page)
    }

    /// Begins and finishes a run of each of the jobs that are due first, in two commits. `next` is
    /// the next due time of a job.
    fn run_batch(&mut self, next: fn(DueJob) -> Instant) -> anyhow::Result<()> {
        let (due, first) = (self.due()?, self.next_run);
        self.next_run += due.len() as i64;
        self.commit(|connection, _| begin(connection, &due, first, next))?;
        self.commit(|connection, _| finish(connection, &due, first))
    }

    /// The first jobs that are due. Read by the writer, which needs the same pages next.
    fn due(&self) -> anyhow::Result<Vec<Due>> {
        let mut select = self.writer.prepare_cached(
            "SELECT job, generation, due, collection FROM state INDEXED BY state_by_due
             WHERE switched_on = 1 AND lifecycle = 0 AND due <= ? ORDER BY due, job LIMIT ?",
        )?;
        let mut rows = select.query((Instant::MAX.ticks(), BATCH as i64))?;
        let mut due = Vec::with_capacity(BATCH);
        while let Some(row) = rows.next()? {
            let job = JobKey(row.get(0)?);
            let at = instant(row, 2)?.context("a due time")?;
            due.push((DueJob { job, generation: count(row, 1)?, due: at }, row.get(3)?));
        }
        Ok(due)
    }

    /// Fails unless every run was finished and recorded.
    fn check(&self, runs: usize) -> anyhow::Result<()> {
        let counts: (i64, i64, i64, i64) = self.reader.query_row(
            "SELECT (SELECT count(*) FROM runs), (SELECT sum(executions) FROM state),
                 (SELECT count(*) FROM history), (SELECT count(*) FROM ledger)",
            (),
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )?;
        let runs = runs as i64;
        ensure!(counts == (0, runs, runs, runs), "{runs} runs left {counts:?}");
        Ok(())
    }
}

fn connect(path: &Path, tuning: Tuning) -> anyhow::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.set_prepared_statement_cache_capacity(128);
    // As in the store: otherwise SQLite prepares some statements again for each bound value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "cache_size", -1_024 * tuning.cache_mib)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(connection)
}

fn collection_id(job: usize) -> i64 {
    (job / JOBS_PER_COLLECTION) as i64
}

fn insert(connection: &Connection, codec: &DefinitionCodec, job: usize) -> anyhow::Result<()> {
    let JobPut { uid, created, definition, state, .. } = job_put(job, 0, first_due(job));
    let JobPath { job: name, .. } = job_path(job)?;
    let collection = collection_id(job);
    connection
        .prepare_cached(
            "INSERT INTO jobs (collection, name_key, name, uid, created, version, definition)
             VALUES (?, ?, ?, ?, ?, 1, ?)",
        )?
        .execute((
            collection,
            name.key(),
            name.as_str(),
            uid.0,
            created.ticks(),
            write_definition(&definition, uid, codec)?,
        ))?;
    let key = connection.last_insert_rowid();
    connection
        .prepare_cached(
            "INSERT INTO state (job, collection, generation, switched_on, lifecycle, due, used,
                 executions, failures, faulted, entries, newest_entry, newest_closing)
             VALUES (?, ?, 1, 1, 0, ?, 0, 0, 0, 0, 0, 0, 0)",
        )?
        .execute((key, collection, state.due.map(Instant::ticks)))?;
    Ok(())
}

fn find(connection: &Connection, codec: &DefinitionCodec, job: usize) -> anyhow::Result<JobRecord> {
    let JobPath { collection, job: name } = job_path(job)?;
    let mut select = connection.prepare_cached(SELECT_NAMED)?;
    let mut rows = select.query((collection_id(job), name.key()))?;
    read_job(rows.next()?.context("no such job")?, codec, collection)
}

fn read_job(
    row: &Row<'_>,
    codec: &DefinitionCodec,
    collection: CollectionPath,
) -> anyhow::Result<JobRecord> {
    let uid = JobUid(row.get(2)?);
    let lifecycle = match row.get(7)? {
        0 => Lifecycle::Active,
        1 => Lifecycle::Completed,
        _ => Lifecycle::Faulted,
    };
    Ok(JobRecord {
        key: JobKey(row.get(0)?),
        path: JobPath { collection, job: JobName::new(row.get_ref(1)?.as_str()?)? },
        job: Job {
            uid,
            created: instant(row, 3)?.context("a creation time")?,
            definition: read_definition(row.get_ref(5)?.as_str()?, uid, codec)?,
            generation: count(row, 6)?,
            schedule_generation: count(row, 6)?,
            enabled_since: None,
        },
        state: JobState {
            lifecycle,
            due: instant(row, 8)?,
            used: count(row, 9)?,
            last_execution: instant(row, 10)?,
            executions: count(row, 11)?,
            failures: count(row, 12)?,
            faulted: count(row, 13)?,
            consecutive_failures: 0,
            finished: instant(row, 14)?,
            skip_until: None,
        },
        version: count(row, 4)?,
    })
}

fn instant(row: &Row<'_>, column: usize) -> anyhow::Result<Option<Instant>> {
    let ticks: Option<i64> = row.get(column)?;
    ticks.map(|ticks| Instant::from_ticks(ticks).context("time out of range")).transpose()
}

fn count(row: &Row<'_>, column: usize) -> anyhow::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?)?)
}

/// Begins a run of each job: advances the job if it still is as it was read, and inserts a claimed
/// run.
fn begin(
    connection: &Connection,
    due: &[Due],
    first_run: i64,
    next: fn(DueJob) -> Instant,
) -> anyhow::Result<()> {
    // The unary plus keeps SQLite from searching the index, of which the job would be only a part.
    let mut advance = connection.prepare_cached(
        "UPDATE state SET due = ?, used = ? WHERE job = ? AND generation = ? AND +due = ?
             AND switched_on = 1 AND lifecycle = 0",
    )?;
    let mut open = connection.prepare_cached(
        "INSERT INTO runs (run, job, collection, generation, scheduled, cause, repeat, role, retry,
             redelivery, next_at, first_started, owner, token, lease_until, last_token)
         VALUES (?, ?, ?, ?, ?, 0, ?, 0, 0, 0, ?, NULL, 1, ?, ?, ?)",
    )?;
    for ((on, collection), run) in due.iter().zip(first_run..) {
        let DueJob { job, generation, due } = *on;
        let (used, generation, at) = (1, generation as i64, due.ticks());
        let advanced = advance.execute((next(*on).ticks(), used, job.0, generation, at))?;
        ensure!(advanced == 1, "job {} has changed", job.0);
        let lease_until = at + LEASE_TICKS;
        open.execute((
            run,
            job.0,
            collection,
            generation,
            at,
            used,
            at,
            TOKEN,
            lease_until,
            TOKEN,
        ))?;
    }
    Ok(())
}

/// Finishes the runs: removes each if its claim is still held, counts the attempt, and appends a
/// history entry and an occurrence record. The indexes by job replace the links between the records
/// of a job, which stay 0.
fn finish(connection: &Connection, due: &[Due], first_run: i64) -> anyhow::Result<()> {
    let mut close = connection
        .prepare_cached("DELETE FROM runs WHERE run = ? AND token = ? RETURNING job, generation")?;
    let mut count = connection.prepare_cached(
        "UPDATE state SET last_execution = ?, executions = executions + 1, failures = failures + ?,
             faulted = faulted + ?, entries = entries + 1
         WHERE job = ?",
    )?;
    let mut append = connection.prepare_cached(
        "INSERT INTO history (sequence, job, previous, started, ended, expected, status, retry,
             repeat, role, message, dns, connect, tls, first_byte, total)
         VALUES (?, ?, 0, ?, ?, ?, 0, 0, 1, 0, ?, NULL, NULL, NULL, NULL, NULL)",
    )?;
    let mut record = connection.prepare_cached(
        "INSERT INTO ledger (id, job, previous, generation, from_at, to_at, count, cause,
             disposition, closed)
         VALUES (?, ?, 0, ?, ?, ?, 1, 0, 0, ?)",
    )?;
    for ((on, _), run) in due.iter().zip(first_run..) {
        let at = on.due.ticks();
        // No row means that the claim was lost, and fails.
        let (job, generation): (i64, i64) =
            close.query_row((run, TOKEN), |row| Ok((row.get(0)?, row.get(1)?)))?;
        ensure!(count.execute((at, 0, 0, job))? == 1, "job {job} is gone");
        append.execute((run, job, at, at, at, MESSAGE))?;
        record.execute((run, job, generation, at, at, at))?;
    }
    Ok(())
}
