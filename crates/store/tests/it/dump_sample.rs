//! A store with every kind of row, and the dump that the API of the store implies.

use std::time::Duration;

use kalends_domain::{
    AccessScope, ActionRole, AttemptStatus, ClosedRun, Collection, CollectionState, HistoryEntry,
    Lifecycle, Micros, NewNote, NoteAuthor, NoteText, Plan, Switch, Target, Timing,
};
use kalends_recurrence::{Instant, TICKS_PER_SECOND};
use kalends_store::record::{
    Cause, CollectionRecord, Disposition, JobRecord, JobState, LedgerRecord, NodeId, Pause,
    PauseRecord, Progress,
};
use kalends_store::{
    AttemptCounts, ClaimAfter, ClosedRunsQuery, CollectionContext, CollectionWrite, DueJob,
    HistoryFilter, JobContext, JobFilter, JobFilterState, JobPut, JobWrite, ListedOpenRun,
    OpenRunsQuery, Page, PauseContext, PauseWrite, RunFilter, RunWrite, RunWriteResult, Scope,
    Store,
};
use serde_json::{Value, json};

use crate::sample::{
    advance, collection, collection_path, definition, group_path, job_path, put, request,
};

const DUE: Instant = Instant::from_unix_seconds(1_770_000_060).unwrap();

const DISPOSITIONS: [Disposition; 9] = [
    Disposition::Completed,
    Disposition::Failed,
    Disposition::SkippedOverlap,
    Disposition::SkippedDisabled,
    Disposition::SkippedQuota,
    Disposition::Missed,
    Disposition::Superseded,
    Disposition::SkippedPaused,
    Disposition::SkippedByRequest,
];

async fn put_collection(store: &dyn Store, name: &str, plan: Plan, state: CollectionState) {
    let collection = Collection { plan, state, ..collection() };
    let decide = move |_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection.clone()));
    store.edit_collection(collection_path(name).unwrap(), Box::new(decide)).await.unwrap();
}

async fn put_job(store: &dyn Store, collection: &str, name: &str, put: JobPut) -> JobRecord {
    let decide = move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
    let path = job_path(collection, name).unwrap();
    store.edit_job(path, Box::new(decide)).await.unwrap().after.unwrap()
}

fn new_job(uid: u128, switch: Switch) -> JobPut {
    let mut definition = definition(Target::Http(request("https://example.com/")));
    definition.switch = switch;
    put(definition, uid, DUE)
}

fn entry(status: AttemptStatus, role: ActionRole, message: &str) -> HistoryEntry {
    HistoryEntry {
        started: DUE,
        ended: DUE.saturating_add(Duration::from_micros(1_500)),
        expected: DUE.previous_tick(),
        status,
        message: message.into(),
        retry: 2,
        repeat: 3,
        role,
        generation: Some(1),
        timing: Timing {
            connect: Some(Micros::new(7)),
            total: Some(Micros::new(u32::from(u16::MAX))),
            ..Timing::default()
        },
    }
}

fn begin(job: &JobRecord, owner: Option<NodeId>) -> RunWrite {
    let closed = |(number, disposition): (u64, Disposition)| LedgerRecord {
        generation: 1,
        from: DUE.saturating_sub(Duration::from_secs(60 * (number + 1))),
        to: DUE,
        count: number + 1,
        cause: if number % 2 == 0 { Cause::Scheduled } else { Cause::Manual },
        disposition,
        closed: DUE.next_tick(),
    };
    RunWrite::Begin {
        on: DueJob { job: job.key, generation: 1, due: DUE },
        scheduled: DUE,
        progress: Progress::first(DUE),
        owner,
        lease: Duration::from_secs(10),
        advance: advance(DUE, 1),
        closed: (0..).zip(DISPOSITIONS).map(closed).collect(),
        postponed: vec![entry(AttemptStatus::Postponed, ActionRole::Main, "")],
        waits_for: None,
    }
}

/// Creates collections and jobs in every state, runs and their history and ledger.
pub(crate) async fn fill(store: &dyn Store) {
    put_collection(store, "c", Plan::Standard, CollectionState::Enabled).await;
    put_collection(store, "disabled", Plan::Free, CollectionState::Disabled).await;
    put_collection(store, "Suspended", Plan::P10Premium, CollectionState::Suspended).await;
    put_collection(store, "empty", Plan::P20Premium, CollectionState::Enabled).await;
    put_job(store, "disabled", "waiting", new_job(1, Switch::Enabled)).await;
    put_job(store, "c", "disabled", new_job(2, Switch::Disabled)).await;
    for (uid, name, lifecycle, finished) in [
        (3, "completed", Lifecycle::Completed, Instant::MAX),
        (4, "Faulted", Lifecycle::Faulted, Instant::MIN),
    ] {
        let consecutive_failures = uid as u64;
        let finished = Some(finished);
        let skip_until = Some(DUE);
        let state = JobState {
            lifecycle,
            finished,
            consecutive_failures,
            skip_until,
            ..JobState::default()
        };
        put_job(store, "c", name, JobPut { state, ..new_job(uid, Switch::Enabled) }).await;
    }
    // One tick before 1970: the fraction of a second must not be negative.
    let created = Instant::from_ticks(-1).unwrap();
    let state = JobState { due: Some(Instant::MAX), ..JobState::default() };
    put_job(store, "c", "edge", JobPut { state, created, ..new_job(5, Switch::Enabled) }).await;

    let claimed = put_job(store, "c", "claimed", new_job(6, Switch::Enabled)).await;
    let unclaimed = put_job(store, "c", "unclaimed", new_job(7, Switch::Enabled)).await;
    let retrying = put_job(store, "c", "retrying", new_job(8, Switch::Enabled)).await;
    let owner = Some(NodeId(u64::MAX - 255));
    let begun = store.commit(vec![begin(&claimed, owner), begin(&unclaimed, None)]).await.unwrap();
    assert!(begun.iter().all(|result| matches!(result, RunWriteResult::Begun { .. })));
    let begun = store.commit(vec![begin(&retrying, Some(NodeId(1)))]).await.unwrap();
    let [RunWriteResult::Begun { run, claim: Some(claim) }] = begun[..] else {
        panic!("{begun:?}")
    };
    let message = "ä€😀 \"quoted\"\r\n\0\0 \\u0000 \\\0 \\\\u0000";
    let again = RunWrite::Continue {
        run,
        token: claim.token,
        entry: Some(entry(AttemptStatus::Failed, ActionRole::Error, message)),
        counts: AttemptCounts { executed: Some(DUE), failed: true, faulted: true },
        progress: Progress {
            role: ActionRole::Error,
            retry: 1,
            redelivery: 4,
            next_at: DUE.next_tick(),
            first_started: Some(DUE),
        },
        claim: ClaimAfter::Release,
    };
    assert_eq!(store.commit(vec![again]).await.unwrap(), [RunWriteResult::Done]);
    let pause = Pause::new(DUE, Some(Instant::MAX));
    let record = PauseRecord { pause, reason: "ä \"quoted\"".into(), by: "ops".into() };
    let decide = move |_: PauseContext<'_>| Ok(PauseWrite::Put(record.clone()));
    assert!(store.edit_pause(Box::new(decide)).await.unwrap().is_some());
    add_notes(store).await;
}

/// Notes of a job and of a collection, with and without the name of their author.
async fn add_notes(store: &dyn Store) {
    let note = |name: Option<&str>, text: &str| {
        let author = NoteAuthor { id: "token:1".into(), name: name.map(str::to_owned) };
        Some(NewNote { author, text: NoteText::new(text).unwrap() })
    };
    let run = Box::new(|_: JobContext<'_>| Ok(JobWrite::Run { at: DUE }));
    let path = job_path("c", "edge").unwrap();
    store.edit_job_with_note(path, run, note(Some("ä"), "\"why\" \\")).await.unwrap();
    let keep = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Keep));
    let path = collection_path("empty").unwrap();
    store.edit_collection_with_note(path, keep, note(None, "€😀")).await.unwrap();
}

/// ISO 8601 with seven fractional digits.
fn iso(instant: Instant) -> String {
    let seconds = instant.whole_second().to_string();
    let ticks = instant.ticks().rem_euclid(TICKS_PER_SECOND);
    format!("{}.{ticks:07}Z", seconds.trim_end_matches('Z'))
}

fn action(role: ActionRole) -> &'static str {
    match role {
        ActionRole::Main => "MainAction",
        ActionRole::Error => "ErrorAction",
    }
}

fn word(variant: impl std::fmt::Debug) -> String {
    format!("{variant:?}")
}

/// The dump that the API implies, sorted, without the numbers of ledger rows, which the API does not
/// return. `nul` stands for NUL in messages.
pub(crate) async fn expected(store: &dyn Store, nul: &str) -> Vec<String> {
    let subscription = group_path("g").unwrap().subscription;
    let PauseRecord { pause, reason, by } = store.pause().await.unwrap().unwrap();
    let mut lines = vec![json!({
        "kind": "pause",
        "since": iso(pause.since),
        "until": pause.until().map(iso),
        "resumed": pause.resumed_at().map(iso),
        "reason": reason,
        "author": by,
    })];
    let collections = store.collections(Scope::Subscription(subscription), Page::first(100)).await;
    for record in collections.unwrap() {
        let path = record.path.clone();
        let jobs = store.jobs(path, JobFilter::default(), Page::first(1_000), 1_000).await;
        let jobs = jobs.unwrap().jobs;
        lines.push(json!({
            "kind": "collection",
            "collection": AccessScope::Collection(record.path.clone()).to_string(),
            "name": record.path.collection.to_string(),
            "plan": word(record.collection.plan),
            "state": word(record.collection.state),
            "jobs": jobs.len(),
            "created": iso(record.created),
            "enabled_since": iso(record.enabled_since),
            "version": record.version,
        }));
        for job in jobs {
            lines.extend(expected_of_job(store, &record, &job, nul).await);
        }
    }
    for note in store.notes(Page::first(1_000)).await.unwrap() {
        let collection = note.subject.collection().cloned().map(AccessScope::Collection);
        lines.push(json!({
            "kind": "note",
            "collection": collection.map(|collection| collection.to_string()),
            "job": note.subject.job().map(|path| path.job.to_string()),
            "number": note.number,
            "time": iso(note.time),
            "action": note.action.as_str(),
            "author": note.author.id,
            "author_name": note.author.name,
            "text": note.text,
        }));
    }
    normalize(lines)
}

async fn expected_of_job(
    store: &dyn Store,
    record: &CollectionRecord,
    job: &JobRecord,
    nul: &str,
) -> Vec<Value> {
    let collection = AccessScope::Collection(record.path.clone()).to_string();
    let name = job.path.job.to_string();
    let history = store.history(job.path.clone(), HistoryFilter::default(), Page::first(1_000));
    let history = history.await.unwrap().unwrap();
    let state = JobFilterState::of(job.job.definition.switch, job.state.lifecycle);
    let runs =
        state == JobFilterState::Enabled && record.collection.state == CollectionState::Enabled;
    let mut lines = vec![json!({
        "kind": "job",
        "collection": collection,
        "name": name,
        "id": job.key.0,
        "uid": job.job.uid.to_string(),
        "state": word(state),
        "next_run": job.state.due.filter(|_| runs).map(iso),
        "last_run": job.state.last_execution.map(iso),
        "occurrences": job.state.used,
        "executions": job.state.executions,
        "failures": job.state.failures,
        "faulted": job.state.faulted,
        "history_entries": history.len(),
        "finished": job.state.finished.map(iso),
        "created": iso(job.job.created),
        "generation": job.job.generation,
        "version": job.version,
        "schedule_generation": job.job.schedule_generation,
        "enabled_since": job.job.enabled_since.map(iso),
        "consecutive_failures": job.state.consecutive_failures,
        "skip_until": job.state.skip_until.map(iso),
    })];
    let filter = RunFilter {
        scopes: vec![AccessScope::Everything],
        job: Some(job.key),
        status: None,
        from: Instant::MIN,
        to: Instant::MAX,
    };
    let open_filter = filter.clone();
    let query = OpenRunsQuery { filter: open_filter, before: None, scan_max: 1_000, limit: 1_000 };
    for ListedOpenRun { run, attempts, .. } in store.listed_open_runs(query).await.unwrap().runs {
        lines.push(json!({
            "kind": "run",
            "collection": collection,
            "job": name,
            "run": run.id.0,
            "scheduled": iso(run.scheduled),
            "cause": word(run.cause),
            "occurrence": run.repeat,
            "action": action(run.progress.role),
            "attempt": run.progress.retry + 1,
            "redelivery": run.progress.redelivery,
            "next_attempt": iso(run.progress.next_at),
            "first_started": run.progress.first_started.map(iso),
            "owner": run.claim.map(|claim| format!("{:016x}", claim.owner.0)),
            "fencing_token": run.claim.map(|claim| claim.token.0),
            "lease_until": run.claim.map(|claim| iso(claim.lease_until)),
            "generation": run.generation,
            "waits_for": run.waits_for.map(|key| match key.is_collection() {
                true => "Collection",
                false => "Host",
            }),
            "finished_attempts": attempts.count,
        }));
    }
    for record in history {
        let (entry, timing) = (&record.entry, record.entry.timing);
        lines.push(json!({
            "kind": "history",
            "collection": collection,
            "job": name,
            "sequence": record.sequence,
            "scheduled": iso(entry.expected),
            "started": iso(entry.started),
            "ended": iso(entry.ended),
            "status": word(entry.status),
            "action": action(entry.role),
            "retry": entry.retry,
            "occurrence": entry.repeat,
            "message": entry.message.replace('\0', nul),
            "dns_us": timing.dns.map(Micros::get),
            "connect_us": timing.connect.map(Micros::get),
            "tls_us": timing.tls.map(Micros::get),
            "first_byte_us": timing.first_byte.map(Micros::get),
            "total_us": timing.total.map(Micros::get),
            "generation": entry.generation,
        }));
    }
    let query = ClosedRunsQuery { filter, after: None, scan_max: 1_000, limit: 1_000 };
    for listed in store.listed_closed_runs(query).await.unwrap().runs {
        let ClosedRun { record: row, execution } = listed.run;
        lines.push(json!({
            "kind": "ledger",
            "collection": collection,
            "job": name,
            "first_scheduled": iso(row.from),
            "last_scheduled": iso(row.to),
            "count": row.count,
            "cause": word(row.cause),
            "disposition": word(row.disposition),
            "closed": iso(row.closed),
            "generation": row.generation,
            "started": execution.map(|execution| iso(execution.started)),
            "ended": execution.map(|execution| iso(execution.ended)),
            "attempts": execution.map(|execution| execution.attempts),
        }));
    }
    lines
}

/// Makes a dump comparable with [`expected`].
pub(crate) fn normalize(lines: Vec<Value>) -> Vec<String> {
    let text = |mut line: Value| {
        if line["kind"] == "ledger" {
            line.as_object_mut().unwrap().remove("number");
        }
        line.to_string()
    };
    let mut lines: Vec<_> = lines.into_iter().map(text).collect();
    lines.sort_unstable();
    lines
}
