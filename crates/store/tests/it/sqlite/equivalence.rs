//! Property test: for random sequences of calls, SQLite and the in-memory store return the same.

use std::path::Path;
use std::time::Duration;

use jiff::SignedDuration;
use kalends_domain::{
    AccessScope, ActionRole, AttemptStatus, CollectionState, HistoryEntry, JobName, Lifecycle,
    Plan, Switch, Target, Timing,
};
use kalends_environment::{Clock as _, ManualClock};
use kalends_recurrence::Instant;
use kalends_store::memory::MemoryStore;
use kalends_store::record::{
    Cause, Disposition, FencingToken, GroupRecord, JobFacts, JobKey, LedgerRecord, NodeId,
    Progress, RunId,
};
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use kalends_store::{
    Advance, AttemptCounts, ClaimAfter, ClosedRunsQuery, CollectionContext, CollectionWrite,
    DueJob, HistoryFilter, JobAt, JobContext, JobFilter, JobFilterState, JobWrite, OpenRunsQuery,
    Page, Rejection, Retention, RunFilter, RunWrite, Scope, Store, StoreError, WaitingRuns,
};
use proptest::prelude::*;

use super::{at, clock, codec};
use crate::block_on;
use crate::sample::{collection, collection_path, definition, group_path, job_path, put, request};

const COLLECTIONS: [&str; 3] = ["c", "D", "d2"];
const JOBS: [&str; 4] = ["a", "B", "b", "long-name_1"];

/// A call. The ranges of its parameters are small, so that calls affect the same objects.
#[derive(Clone, Debug)]
enum Call {
    PutGroup(u8),
    DeleteGroup,
    Collection {
        which: u8,
        write: u8,
    },
    Job {
        collection: u8,
        job: u8,
        write: u8,
        due: u8,
        seed: u8,
    },
    Runs(Vec<(u8, u8, u8)>),
    Prune {
        age: u8,
        count: u8,
        finished: u8,
    },
    AdvanceClock(u8),
    /// Flushes the change log of SQLite to its tables.
    Flush,
    /// Closes and reopens SQLite.
    Reopen,
    /// Continues with a backup of SQLite, whose change log is not flushed.
    Restore,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let job = (0u8..3, 0u8..4, 0u8..16, 0u8..5, any::<u8>());
    let call = prop_oneof![
        1 => any::<u8>().prop_map(Call::PutGroup),
        1 => Just(Call::DeleteGroup),
        3 => (0u8..3, 0u8..24).prop_map(|(which, write)| Call::Collection { which, write }),
        10 => job.prop_map(|(collection, job, write, due, seed)| Call::Job {
            collection, job, write, due, seed
        }),
        12 => prop::collection::vec((0u8..7, 0u8..4, any::<u8>()), 1..5).prop_map(Call::Runs),
        1 => (0u8..4, 0u8..4, 0u8..4).prop_map(|(age, count, finished)| Call::Prune {
            age, count, finished
        }),
        2 => (0u8..6).prop_map(|fives| Call::AdvanceClock(5 * fives)),
        3 => Just(Call::Flush),
        1 => Just(Call::Reopen),
        1 => Just(Call::Restore),
    ];
    // Most calls need a collection and a job.
    let setup = [
        Call::Collection { which: 0, write: 8 },
        Call::Job { collection: 0, job: 0, write: 8, due: 0, seed: 1 },
        Call::Collection { which: 1, write: 9 },
    ];
    prop::collection::vec(call, 1..60)
        .prop_map(move |calls| setup.iter().cloned().chain(calls).collect())
}

async fn perform(store: &dyn Store, call: &Call, writes: &[RunWrite]) -> String {
    let group = group_path("g").unwrap();
    match call.clone() {
        Call::PutGroup(seed) => {
            let name = if seed.is_multiple_of(2) { "g" } else { "G" };
            let location = (seed.is_multiple_of(3)).then(|| "West US".to_owned());
            let tags = vec![("tag".to_owned(), seed.to_string())];
            let path = group_path(name).unwrap();
            format!("{:?}", store.put_group(GroupRecord { path, location, tags }).await)
        }
        Call::DeleteGroup => format!("{:?}", store.delete_group(group).await),
        Call::Collection { which, write } => {
            let path = collection_path(COLLECTIONS[usize::from(which)]).unwrap();
            let decide = move |context: CollectionContext<'_>| {
                let others = (context.others)(Plan::Free) + 10 * (context.others)(Plan::Standard);
                let mut put = collection();
                put.plan = if write.is_multiple_of(2) { Plan::Standard } else { Plan::Free };
                put.tags = Some(vec![(format!("{:?}", context.facts), others.to_string())]);
                match write {
                    0 => Ok(CollectionWrite::Delete),
                    1 => Ok(CollectionWrite::Keep),
                    2 => Err(rejection()),
                    3 | 4 => {
                        put.state = CollectionState::Disabled;
                        Ok(CollectionWrite::Put(put))
                    }
                    _ => Ok(CollectionWrite::Put(put)),
                }
            };
            format!("{:?}", store.edit_collection(path, Box::new(decide)).await)
        }
        Call::Job { collection, job, write, due, seed } => {
            let path =
                job_path(COLLECTIONS[usize::from(collection)], JOBS[usize::from(job)]).unwrap();
            let decide = move |context: JobContext<'_>| {
                let jobs = context.jobs;
                match write {
                    0 => Ok(JobWrite::Delete),
                    1 => Ok(JobWrite::Keep),
                    2 => Err(rejection()),
                    3 => Ok(JobWrite::Run { at: at(u64::from(due)) }),
                    _ => Ok(JobWrite::Put(Box::new(some_job(due, seed, jobs)))),
                }
            };
            format!("{:?}", store.edit_job(path, Box::new(decide)).await)
        }
        Call::Runs(_) => format!("{:?}", store.commit(writes.to_vec()).await),
        Call::Prune { age, count, finished } => {
            let retention = Retention {
                history_age: Duration::from_secs(u64::from(age) * 20),
                history_count: u64::from(count),
                finished_jobs: Duration::from_secs(u64::from(finished) * 20),
            };
            let now = store.now().await.unwrap();
            format!("{:?}", store.prune(retention, now, 10_000).await)
        }
        Call::AdvanceClock(_) | Call::Flush | Call::Reopen | Call::Restore => String::new(),
    }
}

fn rejection() -> Rejection {
    Rejection::from(std::io::Error::other("no"))
}

fn some_job(due: u8, seed: u8, jobs: u64) -> kalends_store::JobPut {
    let uri = format!("https://example.com/{}?sig=x", seed % 3);
    let mut definition = definition(Target::Http(request(&uri)));
    definition.switch = if seed.is_multiple_of(5) { Switch::Disabled } else { Switch::Enabled };
    definition.extensions.description = Some(format!("Straße {jobs}"));
    let tags = [("Team", "A"), ("team", "a"), ("other", "")].map(|(n, v)| (n.into(), v.into()));
    definition.extensions.tags =
        (seed.is_multiple_of(2)).then(|| tags[..usize::from(seed % 4)].to_vec());
    let mut put = put(definition, u128::from(seed), at(u64::from(due)));
    put.facts = JobFacts {
        shortest_gap: (!seed.is_multiple_of(3)).then(|| Duration::from_secs(u64::from(seed))),
        authenticated: seed.is_multiple_of(7),
        shortest_retry: (seed.is_multiple_of(4)).then(|| Duration::from_millis(u64::from(seed))),
    };
    if due == 4 {
        put.state.due = None;
    }
    if seed.is_multiple_of(11) {
        put.state.lifecycle = Lifecycle::Faulted;
        put.state.finished = Some(at(u64::from(due)));
    }
    if seed % 3 == 1 {
        put.waiting = WaitingRuns::Supersede;
    }
    put
}

async fn due(store: &dyn Store, until: Instant, limit: usize) -> Vec<DueJob> {
    store.due(until, limit).await.unwrap().into_iter().map(|due| due.on).collect()
}

/// Run writes based on the contents of the in-memory store.
async fn writes(store: &dyn Store, wanted: &[(u8, u8, u8)]) -> Vec<RunWrite> {
    let due = due(store, Instant::MAX, 100).await;
    let claimable = store.claimable(Instant::MAX, 100).await.unwrap();
    let mut held = Vec::new();
    for key in 1..12 {
        let runs = store.open_runs(JobKey(key)).await.unwrap();
        held.extend(runs.into_iter().filter_map(|run| Some((run.id, run.claim?.token))));
    }
    let write = |&(kind, which, seed): &(u8, u8, u8)| {
        let which = usize::from(which);
        let missing = DueJob { job: JobKey(i64::from(seed % 7)), generation: 1, due: at(0) };
        let on = due.get(which).copied().unwrap_or(missing);
        let (run, token) =
            held.get(which).copied().unwrap_or((RunId(i64::from(seed % 9)), FencingToken(1)));
        let time = at(u64::from(seed));
        let lifecycle =
            if seed.is_multiple_of(9) { Lifecycle::Completed } else { Lifecycle::Active };
        let advance = Advance {
            due: (!seed.is_multiple_of(6)).then_some(time),
            used: u64::from(seed),
            lifecycle,
        };
        let entry = HistoryEntry {
            started: time,
            ended: time,
            expected: time,
            status: [AttemptStatus::Completed, AttemptStatus::Failed][usize::from(seed % 2)],
            message: format!("entry {seed}"),
            retry: u32::from(seed),
            repeat: 1,
            role: ActionRole::Main,
            timing: Timing::default(),
            generation: Some(1),
        };
        let ledger = LedgerRecord {
            generation: 1,
            from: time,
            to: time.saturating_add(Duration::from_secs(u64::from(seed % 5) * 10)),
            count: 1,
            cause: Cause::Scheduled,
            disposition: Disposition::Missed,
            closed: time,
        };
        let progress = Progress { retry: u32::from(seed), ..Progress::first(time) };
        let lease = Duration::from_secs(u64::from(seed % 4) * 5);
        let counts = AttemptCounts {
            executed: Some(time),
            failed: seed.is_multiple_of(2),
            faulted: seed.is_multiple_of(3),
        };
        let (closed, postponed) = (vec![ledger.clone()], vec![entry.clone(); which % 3]);
        let owner = NodeId(u64::MAX - u64::from(seed));
        match kind {
            0 | 1 => {
                let owner = (!seed.is_multiple_of(4)).then_some(owner);
                RunWrite::Begin {
                    on,
                    scheduled: on.due,
                    progress,
                    owner,
                    lease,
                    advance,
                    closed,
                    postponed,
                    waits_for: None,
                }
            }
            2 => RunWrite::Skip { on, advance, closed, postponed },
            // Claimed runs too: their leases may or may not have expired.
            3 if seed.is_multiple_of(2) => RunWrite::Claim {
                run,
                seen: Some(token),
                owner,
                lease,
                progress,
                expected: progress,
            },
            3 => {
                let run = claimable.get(which);
                let seen = run.and_then(|run| run.claim).map(|claim| claim.token);
                let run = run.map_or(RunId(i64::from(seed)), |run| run.id);
                RunWrite::Claim { run, seen, owner, lease, progress, expected: progress }
            }
            4 => RunWrite::RenewLease { run, token, lease },
            5 => {
                let claim = match seed.is_multiple_of(2) {
                    true => ClaimAfter::Keep { lease },
                    false => ClaimAfter::Release,
                };
                RunWrite::Continue { run, token, entry: Some(entry), counts, progress, claim }
            }
            _ => {
                let entry = (!seed.is_multiple_of(3)).then_some(entry);
                let lifecycle = (seed.is_multiple_of(2)).then_some(lifecycle);
                RunWrite::Finish {
                    run,
                    token,
                    entry,
                    counts,
                    closed: ledger,
                    lifecycle,
                    unused: None,
                }
            }
        }
    };
    wanted.iter().map(write).collect()
}

/// The jobs that are due, read at their scheduled times, some at others and some twice.
async fn jobs_at_due_times(store: &dyn Store) -> String {
    let mut jobs = Vec::new();
    for (number, DueJob { job, due, .. }) in due(store, Instant::MAX, 100).await.iter().enumerate()
    {
        let other = due.saturating_add(Duration::from_secs(1));
        jobs.push(JobAt { job: *job, due: Some(if number % 5 == 4 { other } else { *due }) });
        if number % 3 == 2 {
            jobs.push(JobAt { job: *job, due: None });
        }
    }
    format!("{:?}", store.jobs_for_run_at(jobs).await)
}

/// Everything that can be read, one line per call.
async fn observe(store: &dyn Store) -> Vec<String> {
    let group = group_path("g").unwrap();
    let subscription = group.subscription.clone();
    let mut seen = vec![
        format!("{:?}", store.group(group.clone()).await),
        format!("{:?}", store.groups(subscription.clone(), Page::first(100)).await),
        format!("{:?}", due(store, at(40), 3).await),
        format!("{:?}", due(store, Instant::MAX, 100).await),
        jobs_at_due_times(store).await,
        format!("{:?}", store.claimable(at(100), 2).await),
        format!("{:?}", store.claimable(Instant::MAX, 100).await),
        format!("{:?}", store.check().await),
    ];
    for collection in [None, Some("c")] {
        let scope = collection.map_or(AccessScope::Everything, |name| {
            AccessScope::Collection(collection_path(name).unwrap())
        });
        let scopes = vec![scope];
        let filter =
            RunFilter { scopes, job: None, status: None, from: Instant::MIN, to: Instant::MAX };
        let scopes = filter.scopes.clone();
        seen.push(format!("{:?}", store.run_counts(scopes, at(0), at(100_000)).await));
        let open =
            OpenRunsQuery { filter: filter.clone(), before: None, scan_max: 1_000, limit: 9 };
        seen.push(format!("{:?}", store.listed_open_runs(open).await));
        let closed = ClosedRunsQuery { filter, after: None, scan_max: 1_000, limit: 9 };
        seen.push(format!("{:?}", store.listed_closed_runs(closed).await));
    }
    for scope in [Scope::Subscription(subscription), Scope::Group(group)] {
        let after = Some(collection_path("C").unwrap());
        for page in [Page::first(10), Page { after, skip: 1, limit: 1 }] {
            seen.push(format!("{:?}", store.collections(scope.clone(), page).await));
        }
    }
    let filter = |contains: Option<&str>, tag: Option<(&str, Option<&str>)>, state| JobFilter {
        contains: contains.map(str::to_owned),
        tag: tag.map(|(name, value)| (name.to_owned(), value.map(str::to_owned))),
        state,
    };
    let filters = [
        JobFilter::default(),
        filter(Some("STRASSE"), None, None),
        filter(Some("Straße 1"), None, None),
        filter(Some("LONG"), None, None),
        filter(Some("/1"), Some(("TEAM", None)), None),
        filter(None, Some(("team", Some("a"))), Some(JobFilterState::Enabled)),
        filter(None, None, Some(JobFilterState::Disabled)),
        filter(None, None, Some(JobFilterState::Faulted)),
    ];
    for name in COLLECTIONS {
        let path = collection_path(name).unwrap();
        seen.push(format!("{:?}", store.collection(path.clone()).await));
        for filter in &filters {
            let page = Page::first(10);
            seen.push(format!("{:?}", store.jobs(path.clone(), filter.clone(), page, 99).await));
        }
        let page = Page { after: Some(JobName::new("A").unwrap()), skip: 1, limit: 2 };
        seen.push(format!("{:?}", store.jobs(path, JobFilter::default(), page, 1).await));
        for job in JOBS {
            let path = job_path(name, job).unwrap();
            seen.push(format!("{:?}", store.job(path.clone()).await));
            for status in [None, Some(AttemptStatus::Failed)] {
                let (filter, page) = (HistoryFilter { status }, Page::first(100));
                seen.push(format!("{:?}", store.history(path.clone(), filter, page).await));
            }
            let page = Page { after: Some(9), skip: 1, limit: 2 };
            seen.push(format!("{:?}", store.history(path, HistoryFilter::default(), page).await));
        }
    }
    for key in (0..14).map(JobKey) {
        seen.push(format!("{:?}", store.jobs_for_run(vec![key]).await));
        seen.push(format!("{:?}", store.open_runs(key).await));
        seen.push(format!("{:?}", store.newest_runs(vec![key], 3).await));
        for generation in 0..30 {
            seen.push(format!("{:?}", store.earlier_definition(key, generation).await));
        }
        seen.push(format!("{:?}", store.ledger(key, at(20), at(90), 2).await));
        seen.push(format!("{:?}", store.ledger(key, Instant::MIN, Instant::MAX, 100).await));
    }
    seen
}

fn advance_clock(clock: &ManualClock, seconds: u8) {
    clock.set(clock.now().checked_add(SignedDuration::from_secs(seconds.into())).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn random_calls_return_the_same_as_the_in_memory_store(calls in calls(), flush_threshold_rows in prop_oneof![1usize..8, Just(100_000)]) {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let memory = MemoryStore::new(clock.clone());
        let settings = SqliteSettings { flush_threshold_rows, ..SqliteSettings::default() };
        let mut path = folder.path().join("0.db");
        // Child processes of other tests inherit the lock of this file until they call exec.
        let open = |path: &Path| {
            let open = || SqliteStore::open(path, settings, codec(1), clock.clone());
            let mut attempts = 0;
            loop {
                match open() {
                    Err(StoreError::Busy(_)) if attempts < 5_000 => attempts += 1,
                    opened => break opened,
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        };
        let mut sqlite = Some(open(&path).unwrap());
        block_on(async {
            for (number, call) in calls.iter().enumerate() {
                let store = sqlite.take().unwrap();
                let store = match call {
                    Call::AdvanceClock(seconds) => {
                        advance_clock(&clock, *seconds);
                        store
                    }
                    Call::Flush => {
                        store.flush().await.unwrap();
                        store
                    }
                    Call::Reopen => {
                        drop(store);
                        open(&path).unwrap()
                    }
                    Call::Restore => {
                        path = folder.path().join(format!("{}.db", number + 1));
                        store.backup(path.clone()).await.unwrap();
                        open(&path).unwrap()
                    }
                    _ => store,
                };
                let writes_of_call = match call {
                    Call::Runs(wanted) => writes(&memory, wanted).await,
                    _ => vec![],
                };
                let expected = perform(&memory, call, &writes_of_call).await;
                assert_eq!(perform(&store, call, &writes_of_call).await, expected, "{call:?}");
                sqlite = Some(store);
            }
            assert_eq!(observe(sqlite.as_ref().unwrap()).await, observe(&memory).await);
        });
    }
}
