//! The store, asked as the API and the engine ask it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kalends_domain::{
    Action, ActionRole, AttemptStatus, Collection, CollectionName, CollectionPath, CollectionState,
    Extensions, GroupName, GroupPath, HistoryEntry, HttpRequest, JobDefinition, JobName, JobPath,
    Lifecycle, Location, MainAction, Method, Plan, SubscriptionId, Switch, Target, Uri,
};
use kalends_environment::{SeededEntropy, SystemClock};
use kalends_recurrence::{Frequency, Instant, Recurrence};
use kalends_store::form::Keeper;
use kalends_store::record::{
    Cause, Disposition, JobFacts, JobKey, JobRecord, JobState, JobUid, LedgerRecord, NodeId,
    Progress,
};
use kalends_store::seal::{MasterKey, Sealer};
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use kalends_store::{
    Advance, CollectionContext, CollectionWrite, DueJob, Edited, HistoryFilter, JobContext,
    JobFilter, JobPut, JobWrite, Page, Reply, RunAnswer, RunWrite, Store, Tally, Waiting,
};

use crate::store::{
    BATCH, CONCURRENT, Figure, JOBS_PER_COLLECTION, MESSAGE, PAGE, bytes_in, in_flight, scattered,
    time, wait,
};

/// Requests under way while jobs are loaded: enough for full commits.
const LOADING: usize = 1_000;
/// Operations of a kind that are timed.
const TIMED: usize = 2_000;
/// Commits of [`BATCH`] runs that are timed; each run takes two, to begin and to finish.
const BATCHES: usize = 40;

/// Everything measured with `jobs` jobs in a new store in `folder`.
pub fn measure(folder: &Path, jobs: usize) -> anyhow::Result<Vec<Figure>> {
    let bench = Bench { store: open(folder)?, jobs };
    for collection in 0..jobs.div_ceil(JOBS_PER_COLLECTION) {
        let decide = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Put(standard())));
        wait(bench.store.edit_collection(collection_path(collection)?, decide))?;
    }
    let mut keys = Vec::with_capacity(jobs);
    let load = time("load, 1,000 under way", jobs, || {
        in_flight(LOADING, (0..jobs).map(|job| bench.put(job, 0)), |edited| {
            keys.extend(edited.after.map(|job| job.key));
        })
    })?;
    let mut figures = vec![load];
    // What is still in the log only is counted as well.
    let bytes = bytes_in(folder)? as f64 / jobs as f64;
    let chosen = || scattered(TIMED, jobs);
    figures.push(time("PUT, one at a time", TIMED / 4, || {
        in_flight(1, chosen().take(TIMED / 4).map(|job| bench.put(job, 1)), drop)
    })?);
    figures.push(time("PUT, 64 under way", TIMED, || {
        in_flight(CONCURRENT, chosen().map(|job| bench.put(job, 2)), drop)
    })?);
    figures.push(time("GET, one at a time", TIMED, || {
        in_flight(1, chosen().map(|job| bench.get(job)), drop)
    })?);
    figures.push(time("GET, 64 under way", TIMED, || {
        in_flight(CONCURRENT, chosen().map(|job| bench.get(job)), drop)
    })?);
    figures.push(time("list, a page of 100", TIMED / 10, || {
        in_flight(1, chosen().take(TIMED / 10).map(|job| bench.list(job)), drop)
    })?);
    figures.push(time("due jobs, the first 1,000", TIMED / 10, || {
        in_flight(1, (0..TIMED / 10).map(|_| bench.store.due(Instant::MAX, 1_000)), drop)
    })?);
    let mut places = vec![(1, start()?); jobs];
    for job in scattered(TIMED / 4, jobs).chain(scattered(TIMED, jobs)) {
        places.get_mut(job).context("a job")?.0 += 1;
    }
    let runs = jobs.min(BATCH) * BATCHES;
    figures.push(time("run with history, commits of 500", runs, || {
        scattered(BATCHES, jobs).try_for_each(|first| bench.run_batch(&keys, &mut places, first))
    })?);
    figures.push(time("history, a page of 100", TIMED, || {
        in_flight(1, chosen().map(|job| bench.history(job)), drop)
    })?);
    figures.push(Figure { name: "bytes per job", value: bytes });
    let wrong = wait(bench.store.check())?;
    if !wrong.is_empty() {
        bail!("the store is damaged: {wrong:?}");
    }
    Ok(figures)
}

struct Bench {
    store: SqliteStore,
    jobs: usize,
}

impl Bench {
    fn put(&self, job: usize, edit: usize) -> Reply<'_, Edited<JobRecord>> {
        let decide = move |context: JobContext<'_>| {
            let due = context.existing.map_or(start(), |job| Ok(job.state.due.unwrap_or(EPOCH)));
            let put = some_put(job, edit, due.unwrap_or(EPOCH));
            Ok(JobWrite::Put(Box::new(put)))
        };
        match job_path(job) {
            Ok(path) => self.store.edit_job(path, Box::new(decide)),
            Err(error) => refused(error),
        }
    }

    fn get(&self, job: usize) -> Reply<'_, Option<JobRecord>> {
        match job_path(job) {
            Ok(path) => self.store.job(path),
            Err(error) => refused(error),
        }
    }

    fn list(&self, job: usize) -> Reply<'_, Vec<JobRecord>> {
        match job_path(job) {
            Ok(JobPath { collection, job }) => {
                let page = Page { after: Some(job), skip: 0, limit: PAGE };
                self.store.jobs(collection, JobFilter::default(), page)
            }
            Err(error) => refused(error),
        }
    }

    fn history(&self, job: usize) -> Reply<'_, Option<Vec<kalends_store::record::HistoryRecord>>> {
        match job_path(job) {
            Ok(path) => self.store.history(path, HistoryFilter::default(), Page::first(PAGE)),
            Err(error) => refused(error),
        }
    }

    /// Begins and finishes a run of many jobs, far apart, in two commits. Of each job its
    /// generation and its due instant are known.
    fn run_batch(
        &self,
        keys: &[JobKey],
        places: &mut [(u64, Instant)],
        first: usize,
    ) -> anyhow::Result<()> {
        let count = self.jobs.min(BATCH);
        let stride = (self.jobs / count).max(1);
        let chosen: Vec<_> = (0..count).map(|n| (first + n * stride) % self.jobs).collect();
        let mut begins = Vec::with_capacity(count);
        for &job in &chosen {
            let (generation, due) = places.get_mut(job).context("a job")?;
            begins.push(begin(*keys.get(job).context("a job")?, *due, *generation));
            *due = due.saturating_add(Duration::from_secs(60));
        }
        let begun = wait(self.store.commit(begins))?;
        let finishes = begun.iter().zip(&chosen).map(|(answer, &job)| match *answer {
            RunAnswer::Begun { run, claim: Some(claim) } => {
                Ok(finish(run, claim.token, places.get(job).map_or(EPOCH, |place| place.1)))
            }
            answer => bail!("job {job} was not begun: {answer:?}"),
        });
        let finishes = finishes.collect::<anyhow::Result<Vec<_>>>()?;
        let finished = wait(self.store.commit(finishes))?;
        match finished.iter().all(|answer| *answer == RunAnswer::Done) {
            true => Ok(()),
            false => bail!("a run was not finished"),
        }
    }
}

const EPOCH: Instant = Instant::MIN;

fn start() -> anyhow::Result<Instant> {
    "2026-01-01T00:00:00Z".parse().map_err(|error| anyhow::anyhow!("{error:?}"))
}

fn refused<'a, T: Send + 'a>(error: kalends_domain::NameError) -> Reply<'a, T> {
    let error = kalends_store::StoreError::Failed(error.to_string());
    Box::pin(std::future::ready(Err(error)))
}

fn open(folder: &Path) -> anyhow::Result<SqliteStore> {
    let entropy = Arc::new(SeededEntropy::new(1));
    let (key, _) = MasterKey::generate(&*entropy)?;
    let keeper = Keeper::new(Sealer::new(key, vec![], entropy), &[]);
    let path = folder.join("kalends.db");
    Ok(SqliteStore::open(&path, SqliteSettings::default(), keeper, Arc::new(SystemClock))?)
}

fn collection_path(number: usize) -> Result<CollectionPath, kalends_domain::NameError> {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40")?;
    let group = GroupPath { subscription, group: GroupName::new("group")? };
    Ok(CollectionPath { group, collection: CollectionName::new(&format!("collection-{number}"))? })
}

fn job_path(job: usize) -> Result<JobPath, kalends_domain::NameError> {
    // Jobs come in no order of their names.
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
        waiting: Waiting::Keep,
        passed: None,
    }
}

fn begin(job: JobKey, due: Instant, generation: u64) -> RunWrite {
    let next = due.saturating_add(Duration::from_secs(60));
    RunWrite::Begin {
        on: DueJob { job, generation, due },
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
    token: kalends_store::record::Token,
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
    let tally = Tally { executed: Some(at), failed: false, faulted: false };
    RunWrite::Finish { run, token, entry: Some(entry), tally, closed, lifecycle: None }
}
