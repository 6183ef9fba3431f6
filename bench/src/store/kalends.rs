//! The store, called as the API and the engine call it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use kalends_domain::{
    ActionRole, AttemptStatus, HistoryEntry, JobPath, Lifecycle, NameError, Timing,
};
use kalends_environment::SystemClock;
use kalends_recurrence::Instant;
use kalends_store::record::{
    Cause, CollectionStatus, Disposition, FencingToken, HistoryRecord, JobRecord, LedgerRecord,
    NodeId, Progress, RunId,
};
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use kalends_store::{
    AdminStore, Advance, ApiStore, AttemptCounts, CollectionContext, CollectionWrite, DueJob,
    EditedJob, EngineStore, HistoryFilter, JobContext, JobFilter, JobWrite, JobsPage, Page, Reply,
    RunWrite, RunWriteResult, SCAN_MAX, StoreError,
};

use crate::store::workload::{
    codec, collection, collection_path, due_again_at_once, due_again_far_apart, due_again_together,
    first_due, job_path, job_put,
};
use crate::store::{
    BATCH, BATCHES, CONCURRENT, FAR_APART_BATCHES, JOBS_PER_COLLECTION, LOADING, MESSAGE,
    Measurement, PAGE, Rows, TIMED, bytes_in, in_flight, row, scattered, time, wait, wall_micros,
};

/// Jobs of the row that reads the same jobs again.
const SAME_JOBS: usize = 1_000;
/// Edits that are timed while runs are committed, and while a collection is being removed.
const EDITS: usize = 400;

/// Measures the store with `jobs` jobs in a new file in `folder`.
pub fn measure(folder: &Path, jobs: usize, rows: Rows) -> anyhow::Result<Vec<Measurement>> {
    eprintln!("kalends, {jobs} jobs");
    let bench = Bench { store: open(folder)?, jobs };
    (0..jobs.div_ceil(JOBS_PER_COLLECTION)).try_for_each(|number| bench.put_collection(number))?;
    let mut measured = vec![time(row::LOAD, jobs, || {
        in_flight(LOADING, (0..jobs).map(|job| bench.put(job, 0)), drop)?;
        bench.flush()
    })?];
    let bytes = bytes_in(folder)? as f64 / jobs as f64;
    if rows == Rows::All {
        measured.extend(edits(&bench)?);
    }
    // Other jobs first, to fill the page caches of the readers.
    in_flight(1, scattered(4 * TIMED, jobs).skip(TIMED).map(|job| bench.get(job)), drop)?;
    measured.push(time(row::GET, TIMED, || {
        in_flight(1, scattered(TIMED, jobs).map(|job| bench.get(job)), drop)
    })?);
    if rows == Rows::All {
        measured.extend(reads(&bench)?);
    }
    let batch = jobs.min(BATCH);
    let mut commits = Vec::with_capacity(2 * BATCHES);
    // The flush is part of the cost.
    measured.push(time(row::OTHER_JOBS, batch * BATCHES, || {
        for _ in 0..BATCHES {
            commits.extend(bench.run_batch(due_again_together)?);
        }
        bench.flush()
    })?);
    measured.push(longest("run with history, 500 other jobs: longest commit", &commits));
    measured.push(time(row::FAR_APART, batch * FAR_APART_BATCHES, || {
        for _ in 0..FAR_APART_BATCHES {
            bench.run_batch(due_again_far_apart)?;
        }
        bench.flush()
    })?);
    measured.push(Measurement::new(row::BYTES, bytes));
    if rows == Rows::All {
        measured.extend(under_load(&bench)?);
        measured.extend(restart(bench, folder)?);
    } else {
        bench.check()?;
    }
    Ok(measured)
}

fn edits(bench: &Bench) -> anyhow::Result<Vec<Measurement>> {
    let jobs = bench.jobs;
    let sequential = time(row::PUT, TIMED / 4, || {
        in_flight(1, scattered(TIMED / 4, jobs).map(|job| bench.put(job, 1)), drop)
    })?;
    let concurrent = time("PUT, 64 concurrent", TIMED, || {
        in_flight(CONCURRENT, scattered(TIMED, jobs).map(|job| bench.put(job, 2)), drop)
    })?;
    Ok(vec![sequential, concurrent])
}

/// Everything that is read but sequential GET, and runs of the same jobs.
fn reads(bench: &Bench) -> anyhow::Result<Vec<Measurement>> {
    let jobs = bench.jobs;
    let random = || scattered(TIMED, jobs);
    let mut measured = vec![time("GET, 64 concurrent", TIMED, || {
        in_flight(CONCURRENT, random().map(|job| bench.get(job)), drop)
    })?];
    // Spread over the store.
    let apart = (jobs / SAME_JOBS).max(1);
    let same = || scattered(TIMED, jobs.min(SAME_JOBS)).map(move |job| job * apart);
    in_flight(1, same().map(|job| bench.get(job)), drop)?;
    measured.push(time("GET, sequential, same 1,000 jobs", TIMED, || {
        in_flight(1, same().map(|job| bench.get(job)), drop)
    })?);
    measured.push(time(row::LIST, TIMED / 10, || {
        in_flight(1, random().take(TIMED / 10).map(|job| bench.list(job)), drop)
    })?);
    let (whole, pages) = (jobs / JOBS_PER_COLLECTION, jobs.min(JOBS_PER_COLLECTION) / PAGE);
    let walks = (TIMED / 10).div_ceil(pages.max(1));
    measured.push(time("list, consecutive pages of a collection", walks * pages, || {
        (0..walks).try_for_each(|walk| bench.walk(walk % whole.max(1)))
    })?);
    measured.push(time("due jobs, first 1,000", TIMED / 10, || {
        in_flight(1, (0..TIMED / 10).map(|_| bench.store.due(Instant::MAX, 1_000)), drop)
    })?);
    let runs = jobs.min(BATCH) * BATCHES;
    measured.push(time("run with history, same 500 jobs", runs, || {
        for _ in 0..BATCHES {
            bench.run_batch(due_again_at_once)?;
        }
        bench.flush()
    })?);
    Ok(measured)
}

/// Pages of history, then edits while runs are committed at full rate.
fn under_load(bench: &Bench) -> anyhow::Result<Vec<Measurement>> {
    let history = time("history, page of 100", TIMED, || {
        in_flight(1, scattered(TIMED, bench.jobs).map(|job| bench.history(job)), drop)
    })?;
    let is_finished = AtomicBool::new(false);
    let mut puts = Vec::with_capacity(EDITS);
    std::thread::scope(|scope| {
        let engine = scope.spawn(|| {
            while !is_finished.load(Ordering::Relaxed) {
                if bench.run_batch(due_again_together).is_err() {
                    break;
                }
            }
        });
        let put = |number: usize| {
            let path =
                JobPath { collection: collection_path(0)?, ..job_path(bench.jobs + number)? };
            let put = job_put(number, 0, Instant::MIN);
            let decide = move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
            let (_, micros) = wall_micros(|| wait(bench.store.edit_job(path, Box::new(decide))))?;
            puts.push(micros);
            anyhow::Ok(())
        };
        let put = (0..EDITS).try_for_each(put);
        is_finished.store(true, Ordering::Relaxed);
        drop(engine.join());
        put
    })?;
    let mean = puts.iter().sum::<f64>() / puts.len() as f64;
    let mean = Measurement::new("PUT during runs, sequential", mean);
    Ok(vec![history, mean, longest("PUT during runs: longest", &puts)])
}

/// Copies the store, deletes a collection and edits while its jobs are being removed, then opens the
/// copy, which has an unflushed change log.
fn restart(bench: Bench, folder: &Path) -> anyhow::Result<Vec<Measurement>> {
    let copy = folder.join("copy");
    std::fs::create_dir(&copy)?;
    wait(bench.store.backup(copy.join("kalends.db")))?;
    let decide = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Delete));
    let path = collection_path(0)?;
    let (_, deleted) = wall_micros(|| wait(bench.store.edit_collection(path, decide)))?;
    bench.put_collection(0)?;
    let mut puts = Vec::with_capacity(EDITS);
    for job in 0..EDITS.min(bench.jobs) {
        puts.push(wall_micros(|| wait(bench.put(job, 3)))?.1);
    }
    let resident = Measurement::new("resident memory, MB", resident_mb()?);
    bench.check()?;
    drop(bench);
    let (_, opened) = wall_micros(|| open(&copy))?;
    Ok(vec![
        Measurement::new("delete collection of 10,000 jobs", deleted),
        longest("longest PUT during that deletion", &puts),
        resident,
        Measurement::new("open, with an unflushed change log", opened),
    ])
}

fn longest(name: &'static str, times: &[f64]) -> Measurement {
    Measurement::new(name, times.iter().copied().fold(0.0, f64::max))
}

fn resident_mb() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024.0)
}

fn open(folder: &Path) -> anyhow::Result<SqliteStore> {
    let (path, settings) = (folder.join("kalends.db"), SqliteSettings::default());
    Ok(SqliteStore::open(&path, settings, codec()?, Arc::new(SystemClock))?)
}

struct Bench {
    store: SqliteStore,
    jobs: usize,
}

impl Bench {
    fn put_collection(&self, number: usize) -> anyhow::Result<()> {
        let decide = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection())));
        wait(self.store.edit_collection(collection_path(number)?, decide))?;
        Ok(())
    }

    fn put(&self, job: usize, edit: usize) -> Reply<'_, EditedJob> {
        let decide = move |context: JobContext<'_>| {
            let due = context.existing.map_or_else(|| Some(first_due(job)), |job| job.state.due);
            Ok(JobWrite::Put(Box::new(job_put(job, edit, due.unwrap_or(Instant::MIN)))))
        };
        match job_path(job) {
            Ok(path) => self.store.edit_job(path, Box::new(decide)),
            Err(error) => name_error(error),
        }
    }

    fn get(&self, job: usize) -> Reply<'_, Option<(JobRecord, CollectionStatus)>> {
        match job_path(job) {
            Ok(path) => self.store.job(path),
            Err(error) => name_error(error),
        }
    }

    fn list(&self, job: usize) -> Reply<'_, JobsPage> {
        match job_path(job) {
            Ok(JobPath { collection, job }) => {
                let page = Page { after: Some(job), skip: 0, limit: PAGE };
                self.store.jobs(collection, JobFilter::default(), page, SCAN_MAX)
            }
            Err(error) => name_error(error),
        }
    }

    /// Reads all jobs of a collection, page by page.
    fn walk(&self, collection: usize) -> anyhow::Result<()> {
        let mut after = None;
        loop {
            let page = Page { after: after.take(), skip: 0, limit: PAGE };
            let path = collection_path(collection)?;
            let found = wait(self.store.jobs(path, JobFilter::default(), page, SCAN_MAX))?;
            match found.jobs.last() {
                Some(last) => after = Some(last.path.job.clone()),
                None => return Ok(()),
            }
        }
    }

    fn history(&self, job: usize) -> Reply<'_, Option<Vec<HistoryRecord>>> {
        match job_path(job) {
            Ok(path) => self.store.history(path, HistoryFilter::default(), Page::first(PAGE)),
            Err(error) => name_error(error),
        }
    }

    /// Begins and finishes a run of each of the jobs that are due first, in two commits, and returns
    /// the duration of each commit. `next` is the next due time of a job.
    fn run_batch(&self, next: fn(DueJob) -> Instant) -> anyhow::Result<[f64; 2]> {
        let due = wait(self.store.due(Instant::MAX, BATCH))?;
        let begins = due.iter().map(|due| begin(due.on, next(due.on))).collect();
        let (begun, begin_micros) = wall_micros(|| wait(self.store.commit(begins)))?;
        let finishes = begun.iter().zip(&due).map(|(result, due)| match *result {
            RunWriteResult::Begun { run, claim: Some(claim) } => {
                Ok(finish(run, claim.token, due.on.due))
            }
            result => bail!("job {:?} was not begun: {result:?}", due.on.job),
        });
        let finishes = finishes.collect::<anyhow::Result<Vec<_>>>()?;
        let (finished, finish_micros) = wall_micros(|| wait(self.store.commit(finishes)))?;
        match finished.iter().all(|result| *result == RunWriteResult::Done) {
            true => Ok([begin_micros, finish_micros]),
            false => bail!("a run was not finished"),
        }
    }

    /// Writes all dirty rows into their tables.
    fn flush(&self) -> anyhow::Result<()> {
        Ok(wait(self.store.flush())?)
    }

    /// Fails if the store is damaged.
    fn check(&self) -> anyhow::Result<()> {
        match wait(self.store.check())? {
            damage if damage.is_empty() => Ok(()),
            damage => bail!("the store is damaged: {damage:?}"),
        }
    }
}

fn name_error<'a, T: Send + 'a>(error: NameError) -> Reply<'a, T> {
    Box::pin(std::future::ready(Err(StoreError::Failed(error.to_string()))))
}

fn begin(on: DueJob, next: Instant) -> RunWrite {
    let due = on.due;
    RunWrite::Begin {
        on,
        scheduled: due,
        progress: Progress::first(due),
        owner: Some(NodeId(1)),
        lease: Duration::from_secs(10),
        advance: Advance { due: Some(next), used: 1, lifecycle: Lifecycle::Active },
        closed: vec![],
        postponed: vec![],
        waits_for: None,
    }
}

fn finish(run: RunId, token: FencingToken, at: Instant) -> RunWrite {
    let entry = HistoryEntry {
        started: at,
        ended: at,
        expected: at,
        status: AttemptStatus::Completed,
        message: MESSAGE.into(),
        retry: 0,
        repeat: 1,
        role: ActionRole::Main,
        timing: Timing::default(),
        generation: Some(1),
    };
    let closed = LedgerRecord {
        generation: 1,
        from: at,
        to: at,
        count: 1,
        cause: Cause::Scheduled,
        disposition: Disposition::Completed,
        closed: at,
    };
    let counts = AttemptCounts { executed: Some(at), failed: false, faulted: false };
    RunWrite::Finish {
        run,
        token,
        entry: Some(entry),
        counts,
        closed,
        lifecycle: None,
        unused: None,
    }
}
