//! Runs over all jobs: newest runs, lists and counts.

use std::time::Duration;

use kalends_domain::{
    AccessScope, ActionRole, AttemptStatus, ClosedRun, CollectionPath, Execution, HistoryEntry,
    JobPath, LastAttempt, LastAttempts, RunOutcome, RunStatus,
};
use kalends_recurrence::Instant;

use crate::api_store::{JobContext, JobWrite, WaitingRuns};
use crate::conformance::Subject;
use crate::conformance::sample::{
    advance, at, begin, closed, collection_path, definition, due, entry, failed, finish, job_path,
    put, retry, standard,
};
use crate::engine_store::{ClaimAfter, Retention, RunWrite, RunWriteResult};
use crate::record::{Disposition, FencingToken, JobKey, JobRecord, LedgerRecord, Progress, RunId};
use crate::run_reports::{
    ATTEMPT_SCAN_MAX, ClosedRunsQuery, ListedClosedRun, NewestRuns, OpenRunCount, OpenRunsQuery,
    RecordedAttempts, RunCounts, RunFilter,
};

/// Creates a job that is due at `at(60)` in a collection of group `g`.
async fn create_job(subject: &Subject, collection: &str, name: &str) -> JobRecord {
    let path = JobPath { collection: collection_path("g", collection), ..job_path(name) };
    let write = JobWrite::Put(Box::new(put(definition(), Some(at(60)))));
    let decide = move |_: JobContext<'_>| Ok(write.clone());
    subject.store.edit_job(path, Box::new(decide)).await.unwrap().after.unwrap()
}

async fn current(subject: &Subject, job: &JobRecord) -> JobRecord {
    subject.store.job(job.path.clone()).await.unwrap().unwrap().0
}

/// The record of a run of a job that closes two minutes after its scheduled time.
fn record(job: &JobRecord, disposition: Disposition) -> LedgerRecord {
    let due = due(job).due;
    let closed_at = due.saturating_add(Duration::from_secs(120));
    LedgerRecord { from: due, to: due, closed: closed_at, ..closed(disposition, 60) }
}

/// The last attempt of a run of a job: from five to `seconds` seconds after its scheduled time.
fn execution(job: &JobRecord, attempts: u32, seconds: u64) -> Execution {
    let due = due(job).due;
    let after = |seconds| due.saturating_add(Duration::from_secs(seconds));
    Execution { started: after(5), ended: after(seconds), attempts }
}

/// Begins the due run of a job and closes it after one attempt.
async fn run(subject: &Subject, job: &JobRecord, disposition: Disposition) -> ClosedRun {
    let job = current(subject, job).await;
    let (run, claim) = subject.begin_run(&job).await;
    let (record, execution) = (record(&job, disposition), execution(&job, 1, 7));
    let mut write = finish(run, claim.token, None);
    if let RunWrite::Finish { closed, entry, .. } = &mut write {
        *closed = record.clone();
        let entry = entry.as_mut().unwrap();
        (entry.started, entry.ended) = (execution.started, execution.ended);
        entry.expected = record.from;
        entry.message = format!("{} at {}", job.path.job, record.from);
    }
    assert_eq!(subject.commit(write).await, RunWriteResult::Done);
    ClosedRun { record, execution: Some(execution) }
}

async fn skip(subject: &Subject, job: &JobRecord, disposition: Disposition) -> ClosedRun {
    let job = current(subject, job).await;
    let record = record(&job, disposition);
    let (closed, postponed) = (vec![record.clone()], vec![]);
    let write = RunWrite::Skip { on: due(&job), advance: advance(&job), closed, postponed };
    assert_eq!(subject.commit(write).await, RunWriteResult::Done);
    ClosedRun { record, execution: None }
}

fn everything() -> RunFilter {
    RunFilter {
        scopes: vec![AccessScope::Everything],
        job: None,
        status: None,
        from: Instant::MIN,
        to: Instant::MAX,
    }
}

fn scope(collection: &str) -> AccessScope {
    AccessScope::Collection(collection_path("g", collection))
}

async fn list(subject: &Subject, filter: RunFilter) -> Vec<ListedClosedRun> {
    let query = ClosedRunsQuery { filter, after: None, scan_max: 1_000, limit: 1_000 };
    let page = subject.store.listed_closed_runs(query).await.unwrap();
    assert_eq!(page.end, None);
    page.runs
}

/// Job and seconds of the scheduled time of each run.
fn names(runs: &[ListedClosedRun]) -> Vec<(String, u64)> {
    let seconds = |time: Instant| time.since(at(0)).as_secs();
    runs.iter().map(|run| (run.path.job.to_string(), seconds(run.run.record.from))).collect()
}

fn expected(runs: &[(&str, u64)]) -> Vec<(String, u64)> {
    runs.iter().map(|(name, seconds)| ((*name).to_owned(), *seconds)).collect()
}

/// With start, end and number of attempts, over retries; jobs in the order given.
pub async fn the_newest_runs_of_many_jobs_are_read_at_once(subject: Subject) {
    subject.create_collection().await;
    let (one, two) =
        (create_job(&subject, "c", "one").await, create_job(&subject, "c", "two").await);
    let first = run(&subject, &one, Disposition::Completed).await;
    let skipped = skip(&subject, &one, Disposition::SkippedOverlap).await;
    // A run with three attempts: two that a retry follows, and the last.
    let job = current(&subject, &one).await;
    let (number, claim) = subject.begin_run(&job).await;
    let mut token = claim.token;
    let retried = execution(&job, 3, 90);
    for offset in [0, 30] {
        let mut write = retry(number, token, 60);
        if let RunWrite::Continue { entry, claim, .. } = &mut write {
            let entry = entry.as_mut().unwrap();
            entry.started = retried.started.saturating_add(Duration::from_secs(offset));
            *claim = crate::ClaimAfter::Keep { lease: Duration::from_secs(10) };
        }
        let RunWriteResult::Claimed(claim) = subject.commit(write).await else { panic!() };
        token = claim.token;
    }
    let failed = ClosedRun { record: record(&job, Disposition::Failed), execution: Some(retried) };
    let mut write = finish(number, token, None);
    if let RunWrite::Finish { closed, entry, .. } = &mut write {
        *closed = failed.record.clone();
        entry.as_mut().unwrap().ended = retried.ended;
    }
    assert_eq!(subject.commit(write).await, RunWriteResult::Done);
    subject.begin_run(&current(&subject, &two).await).await;

    let keys = vec![two.key, JobKey(9_999), one.key, two.key];
    let read = subject.store.newest_runs(keys, 100).await.unwrap();
    let closed = [failed, skipped, first].each_ref().map(RunOutcome::from).to_vec();
    let idle = NewestRuns { closed, is_running: false };
    let running = NewestRuns { closed: vec![], is_running: true };
    assert_eq!(read, [running.clone(), NewestRuns::default(), idle.clone(), running]);
    let newest = subject.store.newest_runs(vec![one.key], 2).await.unwrap();
    assert_eq!(newest[0].closed, idle.closed[..2]);
}

/// A page is not shorter because runs of deleted jobs, which are removed later, are newer.
pub async fn a_list_of_runs_passes_over_those_of_deleted_jobs(subject: Subject) {
    subject.create_collection().await;
    let (a, b) = (create_job(&subject, "c", "a").await, create_job(&subject, "c", "b").await);
    run(&subject, &a, Disposition::Completed).await;
    for _ in 0..5 {
        run(&subject, &b, Disposition::Completed).await;
    }
    subject.edit_job("b", JobWrite::Delete).await;
    let query = ClosedRunsQuery { filter: everything(), after: None, scan_max: 500, limit: 2 };
    let page = subject.store.listed_closed_runs(query).await.unwrap();
    assert_eq!(names(&page.runs), expected(&[("a", 60)]));
}

/// With the message of their last attempt; by status, time and job.
pub async fn runs_of_all_jobs_are_listed_newest_first(subject: Subject) {
    subject.create_collection().await;
    let (a, b) = (create_job(&subject, "c", "a").await, create_job(&subject, "c", "b").await);
    let first = run(&subject, &a, Disposition::Completed).await;
    run(&subject, &b, Disposition::Failed).await;
    skip(&subject, &a, Disposition::Missed).await;
    skip(&subject, &b, Disposition::Superseded).await;
    run(&subject, &a, Disposition::Failed).await;
    let all = list(&subject, everything()).await;
    assert_eq!(names(&all), expected(&[("a", 180), ("b", 120), ("a", 120), ("b", 60), ("a", 60)]));
    assert_eq!(all[4].run, first);
    let message = |run: &ListedClosedRun| Some(run.last.main.as_ref()?.message.clone());
    assert_eq!(message(&all[4]), Some(format!("a at {}", at(60))));
    assert_eq!(message(&all[2]), None);
    for (status, runs) in [
        (RunStatus::Succeeded, vec![("a", 60)]),
        (RunStatus::Failed, vec![("a", 180), ("b", 60)]),
        (RunStatus::Missed, vec![("a", 120)]),
        (RunStatus::Skipped, vec![("b", 120)]),
    ] {
        let found = list(&subject, RunFilter { status: Some(status), ..everything() }).await;
        assert_eq!(names(&found), expected(&runs), "{status:?}");
    }
    // Runs close 120 seconds after their scheduled times.
    let found = list(&subject, RunFilter { from: at(240), to: at(300), ..everything() }).await;
    assert_eq!(names(&found), expected(&[("b", 120), ("a", 120)]));
    let found = list(&subject, RunFilter { job: Some(b.key), ..everything() }).await;
    assert_eq!(names(&found), expected(&[("b", 120), ("b", 60)]));
    subject.edit_job("a", JobWrite::Delete).await;
    assert_eq!(names(&list(&subject, everything()).await), expected(&[("b", 120), ("b", 60)]));
}

/// As long as the attempts are among the newest entries of the history.
pub async fn the_attempts_of_a_run_and_of_its_error_action_are_listed_apart(subject: Subject) {
    use {ActionRole::Error, ActionRole::Main, AttemptStatus::Completed, AttemptStatus::Failed};
    subject.create_collection().await;
    let job = create_job(&subject, "c", "j").await;
    let (number, claim) = subject.begin_run(&job).await;
    let attempt = |role, retry: u32, status, seconds| HistoryEntry {
        started: at(seconds),
        ended: at(seconds + 2),
        message: format!("{role:?} {retry}"),
        retry,
        role,
        ..entry(status, 60)
    };
    let mut token = claim.token;
    for (entry, role, retry) in [
        (attempt(Main, 0, Failed, 60), Main, 1),
        (attempt(Main, 1, Failed, 70), Error, 0),
        (attempt(Error, 0, Failed, 80), Error, 1),
    ] {
        let write = RunWrite::Continue {
            run: number,
            token,
            entry: Some(entry),
            counts: failed(60),
            progress: Progress { role, retry, ..Progress::first(at(60)) },
            claim: ClaimAfter::Keep { lease: Duration::from_secs(10) },
        };
        let RunWriteResult::Claimed(claim) = subject.commit(write).await else { panic!() };
        token = claim.token;
    }
    let query = OpenRunsQuery { filter: everything(), before: None, scan_max: 9, limit: 9 };
    let open = subject.store.listed_open_runs(query).await.unwrap().runs;
    assert_eq!(open[0].attempts_by_role(), (2, Some(1)));

    let mut write = finish(number, token, None);
    if let RunWrite::Finish { closed, entry, .. } = &mut write {
        *closed = record(&job, Disposition::Failed);
        *entry = Some(attempt(Error, 1, Completed, 90));
    }
    assert_eq!(subject.commit(write).await, RunWriteResult::Done);
    // A run of another job at the same time.
    let other = create_job(&subject, "c", "other").await;
    run(&subject, &other, Disposition::Failed).await;
    let listed = list(&subject, everything()).await;
    let last = |role, retry: u32, status| LastAttempt {
        status,
        message: format!("{role:?} {retry}"),
        attempts: retry + 1,
    };
    let last =
        LastAttempts { main: Some(last(Main, 1, Failed)), error: Some(last(Error, 1, Completed)) };
    assert_eq!((&listed[1].last, listed[1].run.own_attempts(&last)), (&last, Some(2)));
    assert_eq!(listed[1].run.execution.map(|execution| execution.attempts), Some(4));
    assert_eq!(listed[0].last.error, None);
    assert_eq!(listed[0].run.own_attempts(&listed[0].last), Some(1));

    let job = current(&subject, &job).await;
    let (closed, postponed) = (
        vec![record(&job, Disposition::SkippedOverlap)],
        vec![entry(AttemptStatus::Postponed, 60); ATTEMPT_SCAN_MAX],
    );
    let write = RunWrite::Skip { on: due(&job), advance: advance(&job), closed, postponed };
    assert_eq!(subject.commit(write).await, RunWriteResult::Done);
    let oldest = list(&subject, everything()).await.pop().unwrap();
    assert_eq!(oldest.run, listed[1].run);
    assert_eq!(oldest.last, LastAttempts::default());
    assert_eq!(oldest.run.own_attempts(&oldest.last), None);
}

/// Its history entry is older than those that the list reads first.
pub async fn the_last_attempt_of_an_old_run_is_listed(subject: Subject) {
    subject.create_collection().await;
    let job = create_job(&subject, "c", "j").await;
    for _ in 0..70 {
        run(&subject, &job, Disposition::Completed).await;
    }
    for listed in list(&subject, everything()).await {
        let main = listed.last.main.unwrap();
        assert_eq!(main.message, format!("j at {}", listed.run.record.from));
    }
}

/// Also for open runs, and for a job of another scope.
pub async fn a_list_of_runs_covers_only_the_given_scopes(subject: Subject) {
    subject.create_collection().await;
    subject.put_collection(collection_path("g", "other"), standard()).await;
    subject.put_collection(collection_path("g2", "c"), standard()).await;
    let own = create_job(&subject, "c", "own").await;
    let other = create_job(&subject, "other", "secret").await;
    for job in [&own, &other] {
        run(&subject, job, Disposition::Completed).await;
        subject.begin_run(&current(&subject, job).await).await;
    }
    let listed = async |scopes: Vec<AccessScope>, job: Option<JobKey>| {
        let filter = RunFilter { scopes, job, ..everything() };
        let closed = list(&subject, filter.clone()).await;
        let query = OpenRunsQuery { filter, before: None, scan_max: 100, limit: 100 };
        let open = subject.store.listed_open_runs(query).await.unwrap();
        let open: Vec<_> = open.runs.iter().map(|run| run.path.clone()).collect();
        assert_eq!(closed.iter().map(|run| run.path.clone()).rev().collect::<Vec<_>>(), {
            let mut open = open.clone();
            open.reverse();
            open
        });
        open.iter().map(|path| path.job.to_string()).collect::<Vec<_>>()
    };
    let group = AccessScope::Group(collection_path("g", "c").group);
    assert_eq!(listed(vec![group, scope("other")], None).await, ["secret", "own"]);
    assert_eq!(listed(vec![scope("c")], None).await, ["own"]);
    assert_eq!(listed(vec![scope("c")], Some(other.key)).await, [""; 0]);
    assert_eq!(listed(vec![scope("other")], Some(other.key)).await, ["secret"]);
    assert_eq!(listed(vec![], None).await, [""; 0]);
    let elsewhere: CollectionPath = collection_path("g2", "c");
    assert_eq!(listed(vec![AccessScope::Collection(elsewhere)], None).await, [""; 0]);
}

/// Each run is listed once; a page may be empty.
pub async fn a_list_of_runs_examines_a_limited_number_of_rows_and_resumes(subject: Subject) {
    subject.create_collection().await;
    let (a, b) = (create_job(&subject, "c", "a").await, create_job(&subject, "c", "b").await);
    for _ in 0..3 {
        run(&subject, &a, Disposition::Completed).await;
        run(&subject, &b, Disposition::Failed).await;
    }
    let filters = [
        (everything(), vec![("b", 180), ("a", 180), ("b", 120), ("a", 120), ("b", 60), ("a", 60)]),
        (
            RunFilter { status: Some(RunStatus::Failed), ..everything() },
            vec![("b", 180), ("b", 120), ("b", 60)],
        ),
        (RunFilter { job: Some(a.key), ..everything() }, vec![("a", 180), ("a", 120), ("a", 60)]),
    ];
    for (filter, runs) in filters {
        for (scan_max, limit) in [(1, 1), (2, 1), (4, 2), (5, 5)] {
            let (mut after, mut found, mut pages) = (None, Vec::new(), 0);
            loop {
                let filter = filter.clone();
                let query = ClosedRunsQuery { filter, after, scan_max, limit };
                let page = subject.store.listed_closed_runs(query).await.unwrap();
                assert!(page.runs.len() <= limit);
                found.extend(page.runs);
                pages += 1;
                after = page.end;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(names(&found), expected(&runs), "{scan_max} {limit}");
            assert!(pages >= runs.len() / limit, "{pages}");
        }
    }
}

/// Those opened last first.
pub async fn open_runs_are_listed_with_their_attempts(subject: Subject) {
    subject.create_collection().await;
    let (a, b) = (create_job(&subject, "c", "a").await, create_job(&subject, "c", "b").await);
    let (first, claim) = subject.begin_run(&a).await;
    assert_eq!(subject.commit(retry(first, claim.token, 90)).await, RunWriteResult::Done);
    let (second, _) = subject.begin_run(&b).await;
    let page = async |before, limit| {
        let query = OpenRunsQuery { filter: everything(), before, scan_max: 9, limit };
        subject.store.listed_open_runs(query).await.unwrap()
    };
    let all = page(None, 9).await;
    assert_eq!(all.end, None);
    let runs: Vec<_> = all.runs.iter().map(|run| (run.run.id, run.attempts)).collect();
    let retried = RecordedAttempts { count: 1, first_started: Some(at(60)) };
    assert_eq!(runs, [(second, RecordedAttempts::default()), (first, retried)]);
    let newest = page(None, 1).await;
    assert_eq!((newest.runs.len(), newest.end), (1, Some(second)));
    let rest = page(newest.end, 9).await;
    assert_eq!(rest.runs, all.runs[1..]);
    let none: Option<RunId> = page(Some(first), 9).await.end;
    assert_eq!(none, None);
}

/// Those between two attempts too, up to the number of runs to examine.
pub async fn open_runs_are_counted_by_scope(subject: Subject) {
    subject.create_collection().await;
    subject.put_collection(collection_path("g", "other"), standard()).await;
    let count = async |scopes: Vec<AccessScope>, scan_max| {
        let OpenRunCount { count, more } =
            subject.store.open_run_count(scopes, scan_max).await.unwrap();
        (count, more)
    };
    let scope = |collection| vec![AccessScope::Collection(collection_path("g", collection))];
    let all = || vec![AccessScope::Everything];
    assert_eq!(count(all(), 9).await, (0, false));
    let own = create_job(&subject, "c", "own").await;
    let (retried, claim) = subject.begin_run(&own).await;
    assert_eq!(subject.commit(retry(retried, claim.token, 90)).await, RunWriteResult::Done);
    let mut claims = vec![];
    for name in ["x", "y"] {
        let job = create_job(&subject, "other", name).await;
        claims.push(subject.begin_run(&job).await);
    }
    assert_eq!(count(all(), 9).await, (3, false));
    assert_eq!(count(scope("c"), 9).await, (1, false));
    assert_eq!(count(scope("other"), 9).await, (2, false));
    assert_eq!(count([scope("other"), scope("other")].concat(), 9).await, (2, false));
    assert_eq!(count(scope("none"), 9).await, (0, false));
    assert_eq!(count(vec![], 9).await, (0, false));
    assert_eq!(count(all(), 2).await, (2, true));
    assert_eq!(count(scope("c"), 2).await, (0, true), "the newest runs are those of the other");
    let (run, claim) = claims[0];
    subject.commit(finish(run, claim.token, None)).await;
    assert_eq!(count(all(), 9).await, (2, false));
}

/// A reader of everything sees the sum of all collections.
pub async fn closed_runs_are_counted_by_time_and_collection(subject: Subject) {
    subject.create_collection().await;
    subject.put_collection(collection_path("g", "other"), standard()).await;
    let (own, other) =
        (create_job(&subject, "c", "own").await, create_job(&subject, "other", "secret").await);
    let counts = async |scopes| {
        let (from, to) = (Instant::from_ticks(0).unwrap(), at(100_000));
        let counts = subject.store.run_counts(scopes, from, to).await.unwrap();
        counts.into_iter().map(|(_, counts)| counts).collect::<Vec<_>>()
    };
    assert_eq!(counts(vec![AccessScope::Everything]).await, []);
    run(&subject, &own, Disposition::Completed).await;
    run(&subject, &own, Disposition::Failed).await;
    skip(&subject, &own, Disposition::Missed).await;
    run(&subject, &other, Disposition::Failed).await;
    // A range of occurrences, and one that an edit closes.
    let job = current(&subject, &own).await;
    let closed = LedgerRecord { count: 5, ..record(&job, Disposition::SkippedDisabled) };
    let write = RunWrite::Skip {
        on: due(&job),
        advance: advance(&job),
        closed: vec![closed],
        postponed: vec![],
    };
    assert_eq!(subject.commit(write).await, RunWriteResult::Done);
    let job = current(&subject, &own).await;
    let put = crate::JobPut {
        closed_by_edit: Some(record(&job, Disposition::Superseded)),
        waiting: WaitingRuns::Supersede,
        ..put(definition(), Some(at(60)))
    };
    subject.put_job("own", put).await;
    let of_own = RunCounts { succeeded: 1, failed: 1, skipped: 6, missed: 1 };
    let of_other = RunCounts { failed: 1, ..RunCounts::default() };
    let of_all = RunCounts { failed: 2, ..of_own };
    let sum = |counts: Vec<RunCounts>| {
        counts.into_iter().fold(RunCounts::default(), |mut sum, counts| {
            sum.add(counts);
            sum
        })
    };
    assert_eq!(sum(counts(vec![AccessScope::Everything]).await), of_all);
    assert_eq!(sum(counts(vec![scope("c")]).await), of_own);
    assert_eq!(sum(counts(vec![scope("other")]).await), of_other);
    assert_eq!(sum(counts(vec![scope("c"), scope("other"), scope("c")]).await), of_all);
    assert_eq!(counts(vec![scope("none")]).await, []);
    assert_eq!(counts(vec![]).await, []);
    // Buckets start at whole ten minutes.
    let all = vec![AccessScope::Everything];
    let found = subject.store.run_counts(all.clone(), at(0), at(100_000)).await.unwrap();
    let start = found[0].0;
    assert_eq!(start.ticks() % 6_000_000_000, 0);
    assert!(start <= at(180) && at(180) < start.saturating_add(Duration::from_secs(600)));
    let before = subject.store.run_counts(all.clone(), at(0), start).await.unwrap();
    assert_eq!(before, []);
    let only = start.saturating_add(Duration::from_secs(600));
    assert_eq!(subject.store.run_counts(all, start, only).await.unwrap(), found[..1]);
}

/// A stale write, and a run that is closed twice.
pub async fn writes_that_change_nothing_are_not_counted(subject: Subject) {
    subject.create_collection().await;
    let job = create_job(&subject, "c", "j").await;
    let (run, claim) = subject.begin_run(&job).await;
    let stale = finish(run, FencingToken(99), None);
    let done = finish(run, claim.token, None);
    let again = done.clone();
    let results = subject.store.commit(vec![stale, done, again, begin(&job)]).await.unwrap();
    let expected = [RunWriteResult::Stale, RunWriteResult::Done];
    assert_eq!(results, [expected[0], expected[1], expected[0], expected[0]]);
    let counts =
        subject.store.run_counts(vec![scope("c")], Instant::from_ticks(0).unwrap(), at(100_000));
    let counts = counts.await.unwrap();
    let one = RunCounts { succeeded: 1, ..RunCounts::default() };
    assert_eq!(counts.iter().map(|(_, counts)| *counts).collect::<Vec<_>>(), [one]);
}

/// Whatever the retention of history is.
pub async fn counts_of_runs_are_removed_after_eight_days(subject: Subject) {
    subject.create_collection().await;
    let job = create_job(&subject, "c", "j").await;
    run(&subject, &job, Disposition::Completed).await;
    let counts = async || {
        let all = vec![AccessScope::Everything];
        let counts = subject.store.run_counts(all, Instant::from_ticks(0).unwrap(), at(100_000));
        counts.await.unwrap().len()
    };
    const DAY: Duration = Duration::from_secs(86_400);
    let retention = Retention { history_age: 365 * DAY, ..Retention::default() };
    subject.store.prune(retention, at(180).saturating_add(8 * DAY), 100).await.unwrap();
    assert_eq!(counts().await, 1);
    let later = at(180).saturating_add(8 * DAY + Duration::from_secs(700));
    assert_eq!(subject.store.prune(retention, later, 100).await.unwrap(), 0);
    assert_eq!(counts().await, 0);
    assert_eq!(list(&subject, everything()).await.len(), 1);
}
