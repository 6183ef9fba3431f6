//! The store under the load of the API and the engine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use kalends_domain::{
    Action, ActionRole, AttemptStatus, Collection, CollectionName, CollectionPath, CollectionState,
    Extensions, GroupName, GroupPath, HistoryEntry, HttpRequest, JobDefinition, JobName, JobPath,
    Lifecycle, Location, MainAction, Method, Plan, SubscriptionId, Switch, Target, Timing, Uri,
};
use kalends_environment::{SeededEntropy, SystemClock};
use kalends_recurrence::{Frequency, Instant, Recurrence};
use kalends_store::encryption::{Cipher, MasterKey};
use kalends_store::record::{
    Cause, Disposition, JobFacts, JobRecord, JobState, JobUid, LedgerRecord, NodeId, Progress,
};
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use kalends_store::stored_form::DefinitionCodec;
use kalends_store::{
    AdminStore, Advance, ApiStore, AttemptCounts, CollectionContext, CollectionWrite, DueJob,
    EditedJob, EngineStore, HistoryFilter, JobContext, JobFilter, JobPut, JobWrite, JobsPage, Page,
    Reply, RunWrite, RunWriteResult, SCAN_MAX, WaitingRuns,
};

use crate::store::{
    BATCH, CONCURRENT, Figure, JOBS_PER_COLLECTION, MESSAGE, PAGE, bytes_in, in_flight, scattered,
    time, wait,
};

/// Requests in flight while jobs are loaded: enough for full commits.
const LOADING: usize = 1_000;
/// Number of timed operations of each kind.
const TIMED: usize = 2_000;
/// Number of jobs that are read repeatedly.
const OFTEN: usize = 1_000;
/// Number of timed commits of [`BATCH`] runs; each run takes two, to begin and to finish. Enough that
/// the store flushes its change log in the meantime.
const BATCHES: usize = 400;
/// Number of timed edits while runs are committed, and while a collection is being deleted.
const BESIDE: usize = 400;

/// Measures a new store in `folder` with `jobs` jobs.
pub fn measure(folder: &Path, jobs: usize) -> anyhow::Result<Vec<Figure>> {
    let bench = Bench { store: open(folder)?, jobs };
    for collection in 0..jobs.div_ceil(JOBS_PER_COLLECTION) {
        let decide = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Put(standard())));
        wait(bench.store.edit_collection(collection_path(collection)?, decide))?;
    }
    let load = time("load, 1,000 under way", jobs, || {
        in_flight(LOADING, (0..jobs).map(|job| bench.put(job, 0)), drop)?;
        wait(bench.store.flush())
    })?;
    let mut figures = vec![load];
    let bytes = bytes_in(folder)? as f64 / jobs as f64;
    let chosen = || scattered(TIMED, jobs);
    // Jobs from all over the store, at most all of them.
    let apart = (jobs / OFTEN).max(1);
    let often = || scattered(TIMED, jobs.min(OFTEN)).map(move |job| job * apart);
    figures.push(time("PUT, one at a time", TIMED / 4, || {
        in_flight(1, chosen().take(TIMED / 4).map(|job| bench.put(job, 1)), drop)
    })?);
    figures.push(time("PUT, 64 under way", TIMED, || {
        in_flight(CONCURRENT, chosen().map(|job| bench.put(job, 2)), drop)
    })?);
    // Read other jobs first, so that the page caches of the readers are full.
    in_flight(1, scattered(4 * TIMED, jobs).skip(TIMED).map(|job| bench.get(job)), drop)?;
    figures.push(time("GET, one at a time", TIMED, || {
        in_flight(1, chosen().map(|job| bench.get(job)), drop)
    })?);
    figures.push(time("GET, 64 under way", TIMED, || {
        in_flight(CONCURRENT, chosen().map(|job| bench.get(job)), drop)
    })?);
    in_flight(1, often().map(|job| bench.get(job)), drop)?;
    figures.push(time("… one at a time, of the same 1,000 jobs", TIMED, || {
        in_flight(1, often().map(|job| bench.get(job)), drop)
    })?);
    figures.push(time("list, a page of 100", TIMED / 10, || {
        in_flight(1, chosen().take(TIMED / 10).map(|job| bench.list(job)), drop)
    })?);
    let (whole, pages) = (jobs / JOBS_PER_COLLECTION, jobs.min(JOBS_PER_COLLECTION) / PAGE);
    let walks = (TIMED / 10).div_ceil(pages.max(1));
    figures.push(time("… page after page of a collection", walks * pages, || {
        (0..walks).try_for_each(|walk| bench.walk(walk % whole.max(1)))
    })?);
    figures.push(time("due jobs, the first 1,000", TIMED / 10, || {
        in_flight(1, (0..TIMED / 10).map(|_| bench.store.due(Instant::MAX, 1_000)), drop)
    })?);
    let runs = jobs.min(BATCH) * BATCHES;
    figures.push(time("run with history, of the same 500 jobs", runs, || {
        for _ in 0..BATCHES {
            bench.run_batch(at_once)?;
        }
        wait(bench.store.flush()).map_err(anyhow::Error::from)
    })?);
    let mut commits = Vec::with_capacity(2 * BATCHES);
    figures.push(time("… of 500 others each time", runs, || {
        for _ in 0..BATCHES {
            commits.extend(bench.run_batch(together)?);
        }
        // The unflushed change log is part of the cost.
        wait(bench.store.flush()).map_err(anyhow::Error::from)
    })?);
    figures.push(worst("… the longest commit", &mut commits));
    figures.push(time("… due again at instants far apart", runs / 4, || {
        for _ in 0..BATCHES / 4 {
            bench.run_batch(scattered_next)?;
        }
        wait(bench.store.flush()).map_err(anyhow::Error::from)
    })?);
    figures.push(time("history, a page of 100", TIMED, || {
        in_flight(1, chosen().map(|job| bench.history(job)), drop)
    })?);
    figures.extend(beside(&bench)?);
    let copy = folder.join("copy");
    std::fs::create_dir(&copy)?;
    wait(bench.store.backup(copy.join("kalends.db")))?;
    figures.extend(removing(&bench)?);
    figures.push(Figure::new("bytes per job", bytes));
    figures.push(Figure::new("resident, MB", resident_mb()?));
    let wrong = wait(bench.store.check())?;
    if !wrong.is_empty() {
        bail!("the store is damaged: {wrong:?}");
    }
    drop(bench);
    let mut opened = None;
    figures.push(time("open, with a log of what came last", 1, || {
        opened = Some(open(&copy)?);
        anyhow::Ok(())
    })?);
    drop(opened);
    Ok(figures)
}

/// Edits jobs one at a time while the engine commits runs as fast as it can.
fn beside(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let is_over = AtomicBool::new(false);
    let mut puts = Vec::with_capacity(BESIDE);
    std::thread::scope(|scope| {
        let engine = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if bench.run_batch(together).is_err() {
                    break;
                }
            }
        });
        let put = |number: usize| {
            let path = job_path(bench.jobs + number)?;
            let decide =
                move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(some_put(number, 0, EPOCH))));
            let collection = collection_path(0)?;
            let path = JobPath { collection, ..path };
            time("put", 1, || wait(bench.store.edit_job(path, Box::new(decide))).map(drop))
                .map_err(anyhow::Error::from)
        };
        let put = (0..BESIDE).try_for_each(|number| {
            puts.push(put(number)?.value);
            anyhow::Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        drop(engine.join());
        put
    })?;
    let mean = puts.iter().sum::<f64>() / puts.len() as f64;
    let mean = Figure::new("PUT beside runs, one at a time", mean);
    Ok(vec![mean, worst("… the longest", &mut puts)])
}

/// Deletes a collection, and edits jobs while its jobs are being removed.
fn removing(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let decide = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Delete));
    let deleted = time("delete of a collection of 10,000", 1, || {
        wait(bench.store.edit_collection(collection_path(0)?, decide))
            .map_err(anyhow::Error::from)?;
        anyhow::Ok(())
    })?;
    let decide = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Put(standard())));
    wait(bench.store.edit_collection(collection_path(0)?, decide))?;
    let mut puts = Vec::with_capacity(BESIDE);
    for job in 0..BESIDE.min(bench.jobs) {
        puts.push(time("put", 1, || wait(bench.put(job, 3)).map(drop))?.value);
    }
    Ok(vec![deleted, worst("… the longest PUT beside the removal", &mut puts)])
}

fn worst(name: &'static str, times: &mut [f64]) -> Figure {
    times.sort_by(f64::total_cmp);
    Figure::new(name, times.last().copied().unwrap_or_default())
}

fn resident_mb() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024.0)
}

struct Bench {
    store: SqliteStore,
    jobs: usize,
}

impl Bench {
    fn put(&self, job: usize, edit: usize) -> Reply<'_, EditedJob> {
        let decide = move |context: JobContext<'_>| {
            let first = || Some(start().ok()?.saturating_add(phase(job)));
            let due = context.existing.map_or_else(first, |job| job.state.due);
            let put = some_put(job, edit, due.unwrap_or(EPOCH));
            Ok(JobWrite::Put(Box::new(put)))
        };
        match job_path(job) {
            Ok(path) => self.store.edit_job(path, Box::new(decide)),
            Err(error) => refused(error),
        }
    }

    fn get(&self, job: usize) -> Reply<'_, Option<(JobRecord, CollectionState)>> {
        match job_path(job) {
            Ok(path) => self.store.job(path),
            Err(error) => refused(error),
        }
    }

    fn list(&self, job: usize) -> Reply<'_, JobsPage> {
        match job_path(job) {
            Ok(JobPath { collection, job }) => {
                let page = Page { after: Some(job), skip: 0, limit: PAGE };
                self.store.jobs(collection, JobFilter::default(), page, SCAN_MAX)
            }
            Err(error) => refused(error),
        }
    }

    /// Reads all jobs of a collection page by page.
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

    fn history(&self, job: usize) -> Reply<'_, Option<Vec<kalends_store::record::HistoryRecord>>> {
        match job_path(job) {
            Ok(path) => self.store.history(path, HistoryFilter::default(), Page::first(PAGE)),
            Err(error) => refused(error),
        }
    }

    /// Begins and finishes a run of the jobs that are due first, in two commits, and returns the
    /// duration of each. `next` returns the next due time of a job.
    fn run_batch(&self, next: fn(DueJob) -> Instant) -> anyhow::Result<[f64; 2]> {
        let due = wait(self.store.due(Instant::MAX, BATCH))?;
        let begins = due.iter().map(|due| begin(due.on, next(due.on))).collect();
        let mut begun = Vec::new();
        let begin = time("begin", 1, || {
            begun = wait(self.store.commit(begins))?;
            anyhow::Ok(())
        })?;
        let finishes = begun.iter().zip(&due).map(|(answer, due)| match *answer {
            RunWriteResult::Begun { run, claim: Some(claim) } => {
                Ok(finish(run, claim.token, due.on.due))
            }
            answer => bail!("job {:?} was not begun: {answer:?}", due.on.job),
        });
        let finishes = finishes.collect::<anyhow::Result<Vec<_>>>()?;
        let mut finished = Vec::new();
        let finish = time("finish", 1, || {
            finished = wait(self.store.commit(finishes))?;
            anyhow::Ok(())
        })?;
        match finished.iter().all(|answer| *answer == RunWriteResult::Done) {
            true => Ok([begin.value, finish.value]),
            false => bail!("a run was not finished"),
        }
    }
}

const EPOCH: Instant = Instant::MIN;
/// Interval of every job.
const PERIOD: Duration = Duration::from_secs(900);

fn start() -> anyhow::Result<Instant> {
    "2026-01-01T00:00:00Z".parse().map_err(|error| anyhow::anyhow!("{error:?}"))
}

/// Due time of a job within the interval: jobs with the same due time have distant keys.
fn phase(job: usize) -> Duration {
    let spread = (job as u32).wrapping_mul(0x85eb_ca6b);
    Duration::from_millis(u64::from(spread) % (PERIOD.as_millis() as u64))
}

fn refused<'a, T: Send + 'a>(error: kalends_domain::NameError) -> Reply<'a, T> {
    let error = kalends_store::StoreError::Failed(error.to_string());
    Box::pin(std::future::ready(Err(error)))
}

fn open(folder: &Path) -> anyhow::Result<SqliteStore> {
    let entropy = Arc::new(SeededEntropy::new(1));
    let (key, _) = MasterKey::generate(&*entropy)?;
    let codec = DefinitionCodec::new(Cipher::new(key, vec![], entropy), &[]);
    let path = folder.join("kalends.db");
    Ok(SqliteStore::open(&path, SqliteSettings::default(), codec, Arc::new(SystemClock))?)
}

fn collection_path(number: usize) -> Result<CollectionPath, kalends_domain::NameError> {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40")?;
    let group = GroupPath { subscription, group: GroupName::new("group")? };
    Ok(CollectionPath { group, collection: CollectionName::new(&format!("collection-{number}"))? })
}

fn job_path(job: usize) -> Result<JobPath, kalends_domain::NameError> {
    // The order of creation is not the order of names.
    let name = format!("job-{:08x}", (job as u32).wrapping_mul(0x9e37_79b1));
    let collection = collection_path(job / JOBS_PER_COLLECTION)?;
    Ok(JobPath { collection, job: JobName::new(&name)? })
}

fn standard() -> Collection {
    Collection {
        location: Location::restore("West US".into()),
        tags: None,
        plan: Plan::P20Premium,
        state: CollectionState::Enabled,
        quota: None,
    }
}

fn some_put(job: usize, edit: usize, due: Instant) -> JobPut {
    let target = Target::Http(HttpRequest {
        uri: Uri::restore(format!("https://example.com/orders/{job}?sig=signature-{job}")),
        method: Method::restore("POST".into()),
        headers: None,
        body: Some(format!("{{\"order\": {job}, \"edit\": {edit}}}")),
        authentication: None,
    });
    let action = Action { type_as_written: "Https".into(), target };
    let definition = JobDefinition {
        start: None,
        action: MainAction { action, retry: None, error_action: None },
        recurrence: Some(Recurrence::every(15, Frequency::Minute)),
        switch: Switch::Enabled,
        extensions: Extensions::default(),
    };
    JobPut {
        uid: JobUid((job as u128).to_be_bytes()),
        created: due,
        definition,
        facts: JobFacts { shortest_gap: Some(Duration::from_secs(900)), ..JobFacts::default() },
        state: JobState { due: Some(due), ..JobState::default() },
        waiting: WaitingRuns::Keep,
        closed_by_edit: None,
    }
}

/// Due again at the earliest possible time.
fn at_once(on: DueJob) -> Instant {
    on.due.saturating_add(Duration::from_nanos(100))
}

/// Jobs with the same due time are due together again.
fn together(on: DueJob) -> Instant {
    on.due.saturating_add(PERIOD)
}

/// Jobs with the same due time are next due at random times of a day: the worst case.
fn scattered_next(on: DueJob) -> Instant {
    let spread = (on.job.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    together(on).saturating_add(Duration::from_millis(spread % 86_400_000))
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
    }
}

fn finish(
    run: kalends_store::record::RunId,
    token: kalends_store::record::FencingToken,
    at: Instant,
) -> RunWrite {
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
    RunWrite::Finish { run, token, entry: Some(entry), counts, closed, lifecycle: None }
}
