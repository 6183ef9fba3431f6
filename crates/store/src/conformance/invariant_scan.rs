//! The invariant scan over all jobs.

use kalends_domain::{AttemptStatus, CollectionState, Lifecycle, Switch};

use crate::api_store::{CollectionWrite, JobWrite};
use crate::conformance::Subject;
use crate::conformance::sample::{
    at, begin, collection_path, definition, due, entry, job_path, put, standard,
};
use crate::engine_store::{Advance, RunWrite, RunWriteResult};
use crate::invariant_scan::{HistorySums, ScanPage, ScannedJob};
use crate::record::{Cause, JobKey, JobRecord};

/// All pages of a scan.
async fn pages(subject: &Subject, scan_max: usize) -> Vec<ScanPage> {
    let mut pages: Vec<ScanPage> = vec![];
    loop {
        let after = pages.last().and_then(|page| page.next);
        let page = subject.store.scan_jobs(after, scan_max).await.unwrap();
        assert_eq!(page.orphans, []);
        let is_last = page.next.is_none();
        pages.push(page);
        if is_last {
            return pages;
        }
    }
}

async fn all(subject: &Subject, scan_max: usize) -> Vec<ScannedJob> {
    pages(subject, scan_max).await.into_iter().flat_map(|page| page.jobs).collect()
}

async fn keys(subject: &Subject) -> Vec<JobKey> {
    all(subject, 3).await.into_iter().map(|job| job.job).collect()
}

/// A job with attempts in its history: two of the main action, of which one failed.
async fn recorded(subject: &Subject, name: &str) -> JobRecord {
    use AttemptStatus::{Completed, Failed, Postponed};
    let job = subject.create_due_job(name).await;
    let mut error = entry(Failed, 4);
    error.role = kalends_domain::ActionRole::Error;
    let skip = RunWrite::Skip {
        on: due(&job),
        advance: Advance { due: Some(at(60)), used: 0, lifecycle: Lifecycle::Active },
        closed: vec![],
        postponed: vec![entry(Completed, 1), entry(Failed, 2), entry(Postponed, 3), error],
    };
    assert_eq!(subject.commit(skip).await, RunWriteResult::Done);
    job
}

/// Pages of any size return the same jobs.
pub async fn every_job_is_scanned_once_with_consistent_values(subject: Subject) {
    subject.create_collection().await;
    assert_eq!(all(&subject, 9).await, []);
    let first = recorded(&subject, "first").await;
    let mut disabled = put(definition(), Some(at(60)));
    disabled.definition.switch = Switch::Disabled;
    let off = subject.put_job("off", disabled).await;
    let mut done = put(definition(), None);
    done.state.lifecycle = Lifecycle::Completed;
    let done = subject.put_job("done", done).await;
    let running = subject.create_due_job("running").await;
    assert!(matches!(subject.commit(begin(&running)).await, RunWriteResult::Begun { .. }));
    subject.edit_job("running", JobWrite::Run { at: at(70) }).await;

    let jobs = all(&subject, 1_000).await;
    let expected = [&first, &off, &done, &running].map(|job| job.key);
    assert_eq!(jobs.iter().map(|job| job.job).collect::<Vec<_>>(), expected);
    let sums = HistorySums { entries: 4, attempts: 2, failures: 1 };
    assert_eq!(jobs.iter().map(|job| job.history.entries).collect::<Vec<_>>(), [4, 0, 0, 0]);
    assert_eq!((jobs[0].history, jobs[0].created), (sums, first.job.created));
    assert_eq!(
        (jobs[1].gate_state.switch, jobs[1].gate_state.state.due),
        (Switch::Disabled, Some(at(60)))
    );
    assert_eq!(jobs[2].gate_state.state.lifecycle, Lifecycle::Completed);
    let open = &jobs[3].open;
    assert_eq!(
        open.iter().map(|run| run.cause).collect::<Vec<_>>(),
        [Cause::Scheduled, Cause::Manual]
    );
    assert!(open[0].claim.is_some() && open[1].claim.is_none());
    assert!(jobs.iter().all(|job| job.gate_state.collection == Switch::Enabled));
    assert_eq!(jobs[3].collection, jobs[0].collection);

    let one_by_one = pages(&subject, 1).await;
    assert!(one_by_one.iter().all(|page| page.jobs.len() <= 1), "a page exceeds its limit");
    for scan_max in [1, 2, 3, 5, 7] {
        assert_eq!(all(&subject, scan_max).await, jobs, "in pages of {scan_max}");
    }
    let off = kalends_domain::Collection { state: CollectionState::Disabled, ..standard() };
    subject.put_collection(collection_path("g", "c"), off).await;
    let jobs = all(&subject, 9).await;
    assert!(
        jobs.len() == 4 && jobs.iter().all(|job| job.gate_state.collection == Switch::Disabled)
    );
}

/// Neither deleted jobs nor jobs of deleted collections.
pub async fn deleted_jobs_are_not_scanned(subject: Subject) {
    subject.create_collection().await;
    let [first, second, third] = [
        recorded(&subject, "first").await,
        recorded(&subject, "second").await,
        recorded(&subject, "third").await,
    ];
    assert_eq!(keys(&subject).await, [first.key, second.key, third.key]);
    assert!(matches!(subject.commit(begin(&second)).await, RunWriteResult::Begun { .. }));
    subject.edit_job("second", JobWrite::Delete).await;
    assert_eq!(subject.store.job(job_path("second")).await.unwrap(), None);
    assert_eq!(keys(&subject).await, [first.key, third.key]);
    let delete = |_: crate::CollectionContext<'_>| Ok(CollectionWrite::Delete);
    subject.store.edit_collection(collection_path("g", "c"), Box::new(delete)).await.unwrap();
    assert_eq!(keys(&subject).await, []);
}
