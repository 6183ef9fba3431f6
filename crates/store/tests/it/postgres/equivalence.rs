//! Property test: for random sequences of calls, PostgreSQL and the in-memory store return the same.
//!
//! Keys of jobs, runs and entries differ, because sequences of PostgreSQL have gaps; the test replaces
//! each by the order in which it was first seen. It ignores times that come from a clock, except
//! whether a lease has expired: leases last an hour, and the clocks advance by a day.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kalends_domain::{
    ActionRole, AttemptStatus, Collection, CollectionState, JobName, Lifecycle, Plan, Switch,
};
use kalends_environment::{Clock, ManualClock};
use kalends_store::memory::MemoryStore;
use kalends_store::postgres::PostgresStore;
use kalends_store::record::{FencingToken, Job, JobState, NodeId, OpenRun, Progress, RunId};
use kalends_store::{
    Advance, AttemptCounts, ClaimAfter, CollectionWrite, HistoryFilter, JobFilter, JobFilterState,
    JobPut, JobWrite, Page, Retention, RunWrite, RunWriteResult, Scope, Store, WaitingRuns,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::database::TestDatabase;
use super::sample::{at, begin, collection_path, entry, finish, job_path, put, standard};
use super::with_server;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// A call. The ranges of its parameters are small, so that calls affect the same objects.
#[derive(Clone, Debug)]
enum Call {
    PutCollection { name: u8, is_enabled: bool, is_free: bool },
    DeleteCollection { name: u8 },
    DeleteGroup,
    PutJob { name: u8, due: u8, is_enabled: bool, lifecycle: u8, closes: bool, tag: u8 },
    DeleteJob { name: u8 },
    Run { name: u8 },
    Commit(Vec<Write>),
    AdvanceClock,
    Prune { age: u8, count: u8 },
    List { state: u8, text: u8, skip: u8, limit: u8, after: u8 },
}

/// A write of a batch, for a job by name or for an open run by position.
#[derive(Clone, Debug)]
enum Write {
    Begin { name: u8, is_claimed: bool, entries: u8 },
    Skip { name: u8, lifecycle: u8 },
    Claim { run: u8 },
    RenewLease { run: u8, is_stale: bool },
    Continue { run: u8, next: u8 },
    Finish { run: u8, is_stale: bool, lifecycle: u8 },
}

fn writes() -> impl Strategy<Value = Write> {
    let any = || any::<bool>();
    prop_oneof![
        (0..3_u8, any(), 0..3_u8).prop_map(|(name, is_claimed, entries)| Write::Begin {
            name,
            is_claimed,
            entries
        }),
        (0..3_u8, 0..3_u8).prop_map(|(name, lifecycle)| Write::Skip { name, lifecycle }),
        (0..4_u8).prop_map(|run| Write::Claim { run }),
        (0..4_u8, any()).prop_map(|(run, is_stale)| Write::RenewLease { run, is_stale }),
        (0..4_u8, 0..4_u8).prop_map(|(run, next)| Write::Continue { run, next }),
        (0..4_u8, any(), 0..4_u8).prop_map(|(run, is_stale, lifecycle)| Write::Finish {
            run,
            is_stale,
            lifecycle
        }),
    ]
}

fn calls() -> impl Strategy<Value = Call> {
    let any = || any::<bool>();
    prop_oneof![
        2 => (0..2_u8, prop::bool::weighted(0.8), any()).prop_map(|(name, is_enabled, is_free)| {
            Call::PutCollection { name, is_enabled, is_free }
        }),
        1 => Just(Call::DeleteGroup),
        1 => (0..2_u8).prop_map(|name| Call::DeleteCollection { name }),
        6 => (0..3_u8, 0..4_u8, prop::bool::weighted(0.9), 0..9_u8, any(), 0..3_u8).prop_map(
            |(name, due, is_enabled, lifecycle, closes, tag)| {
                Call::PutJob { name, due, is_enabled, lifecycle, closes, tag }
            }
        ),
        1 => (0..3_u8).prop_map(|name| Call::DeleteJob { name }),
        2 => (0..3_u8).prop_map(|name| Call::Run { name }),
        9 => prop::collection::vec(writes(), 1..6).prop_map(Call::Commit),
        2 => Just(Call::AdvanceClock),
        1 => (0..4_u8, 0..4_u8).prop_map(|(age, count)| Call::Prune { age, count }),
        2 => (0..6_u8, 0..5_u8, 0..3_u8, 0..4_u8, 0..4_u8).prop_map(
            |(state, text, skip, limit, after)| Call::List { state, text, skip, limit, after }
        ),
    ]
}

fn lifecycle(number: u8) -> Lifecycle {
    match number {
        1 => Lifecycle::Completed,
        2 => Lifecycle::Faulted,
        _ => Lifecycle::Active,
    }
}

/// A store, and its keys in the order in which they were first seen.
struct Observed {
    store: Arc<dyn Store>,
    seen: HashMap<(&'static str, i64), usize>,
}

impl Observed {
    /// The position of a key: equal in both stores if they returned their keys in the same order.
    fn position(&mut self, kind: &'static str, number: i64) -> usize {
        let next = self.seen.keys().filter(|(other, _)| *other == kind).count();
        *self.seen.entry((kind, number)).or_insert(next)
    }

    async fn runs(&self) -> Vec<OpenRun> {
        let mut runs = Vec::new();
        for name in 0..3 {
            if let Ok(Some((job, _))) = self.store.job(job_path(&format!("J{name}"))).await {
                runs.extend(self.store.open_runs(job.key).await.unwrap());
            }
        }
        runs
    }

    /// Performs a call and describes its result.
    async fn call(&mut self, call: &Call) -> String {
        let store = self.store.clone();
        match call {
            Call::PutCollection { name, is_enabled, is_free } => {
                let state = match is_enabled {
                    true => CollectionState::Enabled,
                    false => CollectionState::Disabled,
                };
                let plan = if *is_free { Plan::Free } else { Plan::Standard };
                let collection = Collection { state, plan, ..standard() };
                let path = collection_path(["c", "d"][usize::from(*name)]);
                let facts = Arc::new(std::sync::Mutex::new(String::new()));
                let seen_facts = facts.clone();
                let decide = move |context: kalends_store::CollectionContext<'_>| {
                    let others = [Plan::Free, Plan::Standard].map(|plan| (context.others)(plan));
                    *seen_facts.lock().unwrap() = format!("{:?} {others:?}", context.facts);
                    Ok(CollectionWrite::Put(collection.clone()))
                };
                let edited = store.edit_collection(path, Box::new(decide)).await.unwrap();
                let of = |record: kalends_store::record::CollectionRecord| {
                    (record.path, record.collection, record.version)
                };
                let facts = facts.lock().unwrap().clone();
                format!("{:?} {:?} {facts}", edited.before.map(of), edited.after.map(of))
            }
            Call::DeleteCollection { name } => {
                let path = collection_path(["C", "D"][usize::from(*name)]);
                let decide = |_: kalends_store::CollectionContext<'_>| Ok(CollectionWrite::Delete);
                let edited = store.edit_collection(path, Box::new(decide)).await.unwrap();
                format!("{:?}", edited.before.map(|record| record.version))
            }
            Call::DeleteGroup => {
                format!("{:?}", store.delete_group(collection_path("c").group).await)
            }
            Call::PutJob { name, due, is_enabled, lifecycle: number, closes, tag } => {
                let mut put = put((*due > 0).then(|| at(u64::from(*due) * 60)));
                put.definition.switch =
                    if *is_enabled { Switch::Enabled } else { Switch::Disabled };
                put.state.lifecycle = lifecycle(*number);
                put.facts.shortest_gap = Some(Duration::from_secs(u64::from(*due) + 60));
                put.facts.authenticated = *tag > 0;
                put.definition.extensions.description = Some("Über\0 %_ text".into());
                put.definition.extensions.tags =
                    (*tag > 0).then(|| vec![("Team".into(), format!("t{tag}"))]);
                if *closes {
                    put.waiting = WaitingRuns::Supersede;
                }
                self.edit(*name, move |existing| {
                    let kept = existing.map(|state| JobState {
                        executions: state.executions,
                        failures: state.failures,
                        ..put.state
                    });
                    let state = kept.unwrap_or(put.state);
                    JobWrite::Put(Box::new(JobPut { state, ..put.clone() }))
                })
                .await
            }
            Call::DeleteJob { name } => self.edit(*name, |_| JobWrite::Delete).await,
            Call::Run { name } => self.edit(*name, |_| JobWrite::Run { at: at(30) }).await,
            Call::Commit(writes) => self.commit(writes).await,
            Call::AdvanceClock => String::new(),
            Call::Prune { age, count } => {
                let retention = Retention {
                    history_age: Duration::from_secs(60 * u64::from(*age)),
                    history_count: u64::from(*count),
                    finished_jobs: DAY * 365 * 100,
                };
                format!("{:?}", store.prune(retention, at(180), 10_000).await)
            }
            Call::List { state, text, skip, limit, after } => {
                let states = [
                    JobFilterState::Enabled,
                    JobFilterState::Disabled,
                    JobFilterState::Completed,
                    JobFilterState::Faulted,
                ];
                let texts = ["über\0", "%", "j1", "t2"];
                let filter = JobFilter {
                    state: states.get(usize::from(*state)).copied(),
                    contains: texts.get(usize::from(*text)).map(|text| text.to_string()),
                    tag: (*text == 4).then(|| ("tEAM".into(), None)),
                };
                let after = (*after < 2).then(|| JobName::new(&format!("j{after}")).unwrap());
                let page = Page { after, skip: u64::from(*skip), limit: usize::from(*limit) };
                let jobs = store.jobs(collection_path("c"), filter, page, 99).await;
                let jobs = jobs
                    .map(|found| found.jobs.into_iter().map(|job| job.path).collect::<Vec<_>>());
                format!("{jobs:?}")
            }
        }
    }

    async fn edit(
        &mut self,
        name: u8,
        write: impl Fn(Option<JobState>) -> JobWrite + Send + 'static,
    ) -> String {
        let decide = move |context: kalends_store::JobContext<'_>| {
            Ok(write(context.existing.map(|job| job.state)))
        };
        let edited = self.store.edit_job(job_path(&format!("J{name}")), Box::new(decide)).await;
        match edited {
            Ok(edited) => {
                let before = edited.before.map(|job| self.position("job", job.key.0));
                let after = edited.after.map(|job| {
                    let name = self.position("job", job.key.0);
                    (
                        name,
                        job.path,
                        without_enabled_since(job.job),
                        without_clock(job.state),
                        job.version,
                    )
                });
                format!("{before:?} {after:?}")
            }
            Err(error) => format!("{error:?}"),
        }
    }

    async fn commit(&mut self, writes: &[Write]) -> String {
        let runs = self.runs().await;
        let run = |number: u8| {
            let run = runs.get(usize::from(number) % runs.len().max(1));
            run.map(|run| (run.id, run.claim.map(|claim| claim.token)))
                .unwrap_or((RunId(i64::MAX), None))
        };
        let token = |claim: Option<FencingToken>, is_stale: bool| {
            let token = claim.unwrap_or(FencingToken(1));
            if is_stale { FencingToken(token.0 + 1) } else { token }
        };
        let mut batch = Vec::new();
        for write in writes {
            batch.push(match write {
                Write::Begin { name, is_claimed, entries } => {
                    let Some(job) = self.due_job(*name).await else { continue };
                    let owner = is_claimed.then_some(NodeId(u64::MAX));
                    let mut write = begin(&job, owner);
                    if let RunWrite::Begin { postponed, lease, .. } = &mut write {
                        let status = AttemptStatus::Postponed;
                        let entry = kalends_domain::HistoryEntry { status, ..entry("late \0") };
                        *postponed = vec![entry; usize::from(*entries)];
                        *lease = HOUR;
                    }
                    write
                }
                Write::Skip { name, lifecycle: number } => {
                    let Some(job) = self.due_job(*name).await else { continue };
                    let due = job.state.due.map(|due| due.saturating_add(HOUR));
                    RunWrite::Skip {
                        on: super::sample::due(&job),
                        advance: Advance {
                            due,
                            used: job.state.used,
                            lifecycle: lifecycle(*number),
                        },
                        closed: vec![],
                        postponed: vec![],
                    }
                }
                Write::Claim { run: number } => {
                    let (run, seen) = run(*number);
                    let progress = Progress::first(at(90));
                    RunWrite::Claim {
                        run,
                        seen,
                        owner: NodeId(2),
                        lease: HOUR,
                        progress,
                        expected: progress,
                    }
                }
                Write::RenewLease { run: number, is_stale } => {
                    let (run, claim) = run(*number);
                    RunWrite::RenewLease { run, token: token(claim, *is_stale), lease: HOUR }
                }
                Write::Continue { run: number, next } => {
                    let (run, claim) = run(*number);
                    RunWrite::Continue {
                        run,
                        token: token(claim, false),
                        entry: Some(entry("failed")),
                        counts: AttemptCounts {
                            executed: Some(at(60)),
                            failed: true,
                            faulted: false,
                        },
                        progress: Progress {
                            role: ActionRole::Error,
                            retry: 1,
                            redelivery: 2,
                            next_at: at(u64::from(*next) * 60),
                            first_started: Some(at(59)),
                        },
                        claim: match next % 2 {
                            0 => ClaimAfter::Release,
                            _ => ClaimAfter::Keep { lease: HOUR },
                        },
                    }
                }
                Write::Finish { run: number, is_stale, lifecycle: code } => {
                    let (run, claim) = run(*number);
                    let mut write = finish(run, token(claim, *is_stale));
                    if let RunWrite::Finish { lifecycle: becomes, .. } = &mut write {
                        *becomes = (*code < 3).then(|| lifecycle(*code));
                    }
                    write
                }
            });
        }
        let results = self.store.commit(batch).await.unwrap();
        let results: Vec<_> = results.into_iter().map(|result| self.describe(result)).collect();
        results.join(", ")
    }

    fn describe(&mut self, result: RunWriteResult) -> String {
        match result {
            RunWriteResult::Begun { run, claim } => {
                let claim = claim.map(|claim| (claim.owner, claim.token));
                format!("begun {} {claim:?}", self.position("run", run.0))
            }
            RunWriteResult::Claimed(claim) => {
                format!("claimed {:?} {:?}", claim.owner, claim.token)
            }
            other => format!("{other:?}"),
        }
    }

    async fn due_job(&self, name: u8) -> Option<kalends_store::record::JobRecord> {
        let (job, _) = self.store.job(job_path(&format!("j{name}"))).await.ok()??;
        job.state.due.is_some().then_some(job)
    }

    /// Everything that can be read.
    async fn snapshot(&mut self) -> Vec<String> {
        let store = self.store.clone();
        let mut snapshot = Vec::new();
        let scope = Scope::Group(collection_path("c").group);
        for record in store.collections(scope, Page::first(9)).await.unwrap() {
            snapshot.push(format!("{:?} {:?} {}", record.path, record.collection, record.version));
        }
        for due in store.due(at(10_000), 99).await.unwrap() {
            let due = due.on;
            let name = self.position("job", due.job.0);
            snapshot.push(format!("due {name} {} {}", due.generation, due.due));
        }
        for run in store.claimable(at(100), 99).await.unwrap() {
            snapshot.push(self.run(&run));
        }
        for number in 0..3 {
            let path = job_path(&format!("j{number}"));
            let (job, collection) = match store.job(path.clone()).await {
                Ok(Some(found)) => found,
                other => {
                    snapshot.push(format!("{:?}", other.map(drop)));
                    continue;
                }
            };
            let (name, state) = (self.position("job", job.key.0), without_clock(job.state));
            let version = job.version;
            for generation in 1..job.job.generation {
                let earlier = store.earlier_definition(job.key, generation).await.unwrap();
                let definition = earlier.map(|earlier| (earlier.generation, earlier.definition));
                snapshot.push(format!("{definition:?}"));
            }
            let definition = without_enabled_since(job.job);
            snapshot.push(format!("{name} {definition:?} {state:?} {version} {collection:?}"));
            for run in store.open_runs(job.key).await.unwrap() {
                snapshot.push(self.run(&run));
            }
            let history = store.history(path, HistoryFilter::default(), Page::first(99)).await;
            for record in history.unwrap().unwrap() {
                snapshot.push(format!("{:?}", record.entry));
            }
            let ledger = store.ledger(job.key, at(0), at(10_000), 99).await.unwrap();
            let ledger = ledger.into_iter().map(|row| (row.from, row.cause, row.disposition));
            snapshot.push(format!("{:?}", ledger.collect::<Vec<_>>()));
        }
        snapshot.extend(store.check().await.unwrap());
        snapshot
    }

    fn run(&mut self, run: &OpenRun) -> String {
        let (name, job) = (self.position("run", run.id.0), self.position("job", run.job.0));
        let claim = run.claim.map(|claim| (claim.owner, claim.token));
        let OpenRun { generation, scheduled, cause, repeat, progress, .. } = run;
        format!(
            "run {name} of {job}: {generation} {scheduled} {cause:?} {repeat} {progress:?} {claim:?}"
        )
    }
}

/// Replaces the time at which a job was enabled, which comes from a clock, by a constant.
fn without_enabled_since(job: Job) -> Job {
    let enabled_since = job.enabled_since.map(|_| at(0));
    Job { enabled_since, ..job }
}

/// Replaces the time at which a job finished, which comes from a clock, by a constant.
fn without_clock(state: JobState) -> JobState {
    JobState { finished: state.finished.map(|_| at(0)), ..state }
}

/// Truncates all tables, which is faster than creating a database.
async fn truncate(database: &TestDatabase) {
    let tables =
        "TRUNCATE subscriptions, groups, collections, jobs, earlier_definitions, states, runs,
        history, ledger";
    database.client().await.batch_execute(tables).await.unwrap();
}

async fn compare(
    database: &TestDatabase,
    store: Arc<PostgresStore>,
    calls: &[Call],
) -> Result<(), String> {
    truncate(database).await;
    let clock = Arc::new(ManualClock::new(Timestamp::from_second(1_770_000_000).unwrap()));
    let reference = Arc::new(MemoryStore::new(clock.clone()));
    let mut expected = Observed { store: reference, seen: HashMap::new() };
    let mut found = Observed { store, seen: HashMap::new() };
    for (number, call) in calls.iter().enumerate() {
        if let Call::AdvanceClock = call {
            clock.set(clock.now().checked_add(DAY).unwrap());
            database.advance_clock(DAY).await;
        }
        let (one, other) = (expected.call(call).await, found.call(call).await);
        let difference = |what: &str, one: &dyn std::fmt::Debug, other: &dyn std::fmt::Debug| {
            format!("{what} of call {number}, {call:?}:\n{one:#?}\nbut PostgreSQL:\n{other:#?}")
        };
        if one != other {
            return Err(difference("the result", &one, &other));
        }
        let (one, other) = (expected.snapshot().await, found.snapshot().await);
        if one != other {
            return Err(difference("the snapshot", &one, &other));
        }
    }
    Ok(())
}

#[test]
fn random_calls_return_the_same_as_the_in_memory_store() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = Arc::new(database.connect().await);
        let handle = tokio::runtime::Handle::current();
        let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
        tokio::task::spawn_blocking(move || {
            let config = Config {
                cases: cases.unwrap_or(30),
                failure_persistence: None,
                ..Config::default()
            };
            let first = Call::PutCollection { name: 0, is_enabled: true, is_free: false };
            let sequences = prop::collection::vec(calls(), 10..30).prop_map(move |mut calls| {
                calls.insert(0, first.clone());
                calls
            });
            TestRunner::new(config)
                .run(&sequences, |calls| {
                    let compared = handle.block_on(compare(&database, store.clone(), &calls));
                    compared.map_err(TestCaseError::fail)
                })
                .unwrap_or_else(|error| panic!("{error}"));
        })
        .await
        .unwrap();
    });
}
