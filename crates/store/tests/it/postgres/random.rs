//! Random sequences of calls: PostgreSQL answers as the reference does.
//!
//! Numbers of jobs, runs and entries differ (PostgreSQL leaves some out), so each is compared by
//! when it was first seen. Instants that a clock gave are left out, but for whether a lease has
//! expired: it lasts for an hour, and time passes for both stores by a day.

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
use kalends_store::record::{
    Disposition, FencingToken, JobState, NodeId, OpenRun, Progress, RunId,
};
use kalends_store::{
    Advance, AttemptCounts, CollectionWrite, HistoryFilter, JobFilter, JobFilterState, JobPut,
    JobWrite, Page, Retention, RunWrite, RunWriteResult, Scope, Store, WaitingRuns,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::sample::{at, begin, collection_path, entry, finish, job_path, put, standard};
use super::scratch::Scratch;
use super::with_server;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// One call. Small numbers choose among few things, so that calls meet.
#[derive(Clone, Debug)]
enum Call {
    PutCollection { name: u8, is_enabled: bool, is_free: bool },
    DeleteCollection { name: u8 },
    DeleteGroup,
    PutJob { name: u8, due: u8, is_enabled: bool, lifecycle: u8, closes: bool, tag: u8 },
    DeleteJob { name: u8 },
    Run { name: u8 },
    Commit(Vec<Write>),
    Pass,
    Prune { age: u8, count: u8 },
    List { state: u8, text: u8, skip: u8, limit: u8, after: u8 },
}

/// One write of a batch, about a job or about one of the open runs that the stores tell of.
#[derive(Clone, Debug)]
enum Write {
    Begin { name: u8, is_claimed: bool, entries: u8 },
    Pass { name: u8, lifecycle: u8 },
    Claim { run: u8 },
    Extend { run: u8, is_stale: bool },
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
        (0..3_u8, 0..3_u8).prop_map(|(name, lifecycle)| Write::Pass { name, lifecycle }),
        (0..4_u8).prop_map(|run| Write::Claim { run }),
        (0..4_u8, any()).prop_map(|(run, is_stale)| Write::Extend { run, is_stale }),
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
        2 => Just(Call::Pass),
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

/// A store, and the names that numbers have in it.
struct Side {
    store: Arc<dyn Store>,
    seen: HashMap<(&'static str, i64), usize>,
}

impl Side {
    /// The number of a number: the same in both stores where they were first told in the same order.
    fn name(&mut self, kind: &'static str, number: i64) -> usize {
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

    /// Carries a call out and says what came of it.
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
                let told = facts.clone();
                let decide = move |context: kalends_store::CollectionContext<'_>| {
                    let others = [Plan::Free, Plan::Standard].map(|plan| (context.others)(plan));
                    *told.lock().unwrap() = format!("{:?} {others:?}", context.facts);
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
                    put.waiting = WaitingRuns::Close(Disposition::Superseded);
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
            Call::Pass => String::new(),
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
                let before = edited.before.map(|job| self.name("job", job.key.0));
                let after = edited.after.map(|job| {
                    let name = self.name("job", job.key.0);
                    (name, job.path, job.job, unclocked(job.state), job.version)
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
                Write::Pass { name, lifecycle: number } => {
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
                    RunWrite::Claim { run, seen, owner: NodeId(2), lease: HOUR, progress }
                }
                Write::Extend { run: number, is_stale } => {
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
                    }
                }
                Write::Finish { run: number, is_stale, lifecycle: word } => {
                    let (run, claim) = run(*number);
                    let mut write = finish(run, token(claim, *is_stale));
                    if let RunWrite::Finish { lifecycle: becomes, .. } = &mut write {
                        *becomes = (*word < 3).then(|| lifecycle(*word));
                    }
                    write
                }
            });
        }
        let answers = self.store.commit(batch).await.unwrap();
        let told: Vec<_> = answers.into_iter().map(|answer| self.told(answer)).collect();
        told.join(", ")
    }

    fn told(&mut self, answer: RunWriteResult) -> String {
        match answer {
            RunWriteResult::Begun { run, claim } => {
                let claim = claim.map(|claim| (claim.owner, claim.token));
                format!("begun {} {claim:?}", self.name("run", run.0))
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

    /// All there is to see.
    async fn picture(&mut self) -> Vec<String> {
        let store = self.store.clone();
        let mut picture = Vec::new();
        let scope = Scope::Group(collection_path("c").group);
        for record in store.collections(scope, Page::first(9)).await.unwrap() {
            picture.push(format!("{:?} {:?} {}", record.path, record.collection, record.version));
        }
        for due in store.due(at(10_000), 99).await.unwrap() {
            let due = due.on;
            let name = self.name("job", due.job.0);
            picture.push(format!("due {name} {} {}", due.generation, due.due));
        }
        for run in store.claimable(at(100), 99).await.unwrap() {
            picture.push(self.run(&run));
        }
        for number in 0..3 {
            let path = job_path(&format!("j{number}"));
            let (job, collection) = match store.job(path.clone()).await {
                Ok(Some(found)) => found,
                other => {
                    picture.push(format!("{:?}", other.map(drop)));
                    continue;
                }
            };
            let (name, state) = (self.name("job", job.key.0), unclocked(job.state));
            let version = job.version;
            picture.push(format!("{name} {:?} {state:?} {version} {collection:?}", job.job));
            for run in store.open_runs(job.key).await.unwrap() {
                picture.push(self.run(&run));
            }
            let history = store.history(path, HistoryFilter::default(), Page::first(99)).await;
            for record in history.unwrap().unwrap() {
                picture.push(format!("{:?}", record.entry));
            }
            let ledger = store.ledger(job.key, at(0), at(10_000), 99).await.unwrap();
            let ledger = ledger.into_iter().map(|row| (row.from, row.cause, row.disposition));
            picture.push(format!("{:?}", ledger.collect::<Vec<_>>()));
        }
        picture.extend(store.check().await.unwrap());
        picture
    }

    fn run(&mut self, run: &OpenRun) -> String {
        let (name, job) = (self.name("run", run.id.0), self.name("job", run.job.0));
        let claim = run.claim.map(|claim| (claim.owner, claim.token));
        let OpenRun { generation, scheduled, cause, repeat, progress, .. } = run;
        format!(
            "run {name} of {job}: {generation} {scheduled} {cause:?} {repeat} {progress:?} {claim:?}"
        )
    }
}

/// A state without the clock, which says when a job was finished; whether it is, is compared.
fn unclocked(state: JobState) -> JobState {
    JobState { finished: state.finished.map(|_| at(0)), ..state }
}

/// Empties the database, which is cheaper than making one.
async fn empty(scratch: &Scratch) {
    let tables = "TRUNCATE subscriptions, groups, collections, jobs, states, runs, history, ledger";
    scratch.plain().await.batch_execute(tables).await.unwrap();
}

async fn compare(
    scratch: &Scratch,
    store: Arc<PostgresStore>,
    calls: &[Call],
) -> Result<(), String> {
    empty(scratch).await;
    let clock = Arc::new(ManualClock::new(Timestamp::from_second(1_770_000_000).unwrap()));
    let reference = Arc::new(MemoryStore::new(clock.clone()));
    let mut expected = Side { store: reference, seen: HashMap::new() };
    let mut found = Side { store, seen: HashMap::new() };
    for (number, call) in calls.iter().enumerate() {
        if let Call::Pass = call {
            clock.set(clock.now().checked_add(DAY).unwrap());
            scratch.pass(DAY).await;
        }
        let (one, other) = (expected.call(call).await, found.call(call).await);
        let told = |what: &str, one: &dyn std::fmt::Debug, other: &dyn std::fmt::Debug| {
            format!("{what} of call {number}, {call:?}:\n{one:#?}\nbut PostgreSQL:\n{other:#?}")
        };
        if one != other {
            return Err(told("the answer", &one, &other));
        }
        let (one, other) = (expected.picture().await, found.picture().await);
        if one != other {
            return Err(told("the picture", &one, &other));
        }
    }
    Ok(())
}

#[test]
fn random_calls_are_answered_as_the_reference_answers_them() {
    with_server(async {
        let scratch = Scratch::make().await;
        let store = Arc::new(scratch.connect().await);
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
                    let compared = handle.block_on(compare(&scratch, store.clone(), &calls));
                    compared.map_err(TestCaseError::fail)
                })
                .unwrap_or_else(|error| panic!("{error}"));
        })
        .await
        .unwrap();
    });
}
