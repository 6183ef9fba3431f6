//! Jobs whose rows cannot be read, on a damaged store: the others run, and the damaged ones can be
//! replaced and deleted.

use std::sync::Arc;

use kalends_domain::{HttpAuthentication, Secret, Target};
use kalends_environment::ManualClock;
use kalends_recurrence::Instant;
use kalends_store::{
    CollectionContext, CollectionWrite, EditedJob, JobContext, JobFilter, JobWrite, JobsPage, Page,
    SCAN_MAX, Store, StoreError,
};

use crate::repair::RepairTest;
use crate::sample::{collection, collection_path, definition, job_path, put, request};

/// Makes the states of `bad` and `worse` unreadable: times that are out of range. The names of the
/// tables and of their keys differ between the stores.
pub(crate) fn damage_states(states: &str, key: &str) -> String {
    let of = |name: &str| format!("job = (SELECT {key} FROM jobs WHERE name = '{name}')");
    let (bad, worse) = (of("bad"), of("worse"));
    format!(
        "UPDATE {states} SET last_execution = {max} WHERE {bad};
         UPDATE {states} SET enabled_since = {max} WHERE {worse}",
        max = i64::MAX,
    )
}

/// Creates the jobs `bad`, `good` and `worse`, due at `due`. The caller damages `bad` and `worse`.
pub(crate) async fn create_jobs(store: &dyn Store, due: Instant) {
    let decide = |_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection()));
    store.edit_collection(collection_path("c").unwrap(), Box::new(decide)).await.unwrap();
    for (number, name) in (1..).zip(["bad", "good", "worse"]) {
        edit(store, name, new_job(number, due)).await.unwrap();
    }
}

fn new_job(number: u128, due: Instant) -> JobWrite {
    let mut request = request("http://example.com");
    let password = Some(Secret::new("secret".into()));
    request.authentication =
        Some(Box::new(HttpAuthentication::Basic { username: Some("user".into()), password }));
    JobWrite::Put(Box::new(put(definition(Target::Http(request)), number, due)))
}

async fn edit(store: &dyn Store, name: &str, write: JobWrite) -> Result<EditedJob, StoreError> {
    let decide = move |_: JobContext<'_>| Ok(write.clone());
    store.edit_job(job_path("c", name).unwrap(), Box::new(decide)).await
}

/// The names of all jobs, read in pages of one job.
async fn names(store: &dyn Store, filter: &JobFilter) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = Page { after, skip: 0, limit: 1 };
        let path = collection_path("c").unwrap();
        let JobsPage { jobs, rest, .. } =
            store.jobs(path, filter.clone(), page, SCAN_MAX).await.unwrap();
        names.extend(jobs.iter().map(|job| job.path.job.to_string()));
        after = match (jobs.last(), rest) {
            (Some(job), _) => Some(job.path.job.clone()),
            (None, Some(rest)) => rest.after,
            (None, None) => return names,
        };
    }
}

#[track_caller]
fn assert_unreadable<T: std::fmt::Debug>(result: Result<T, StoreError>, names: &[&str]) {
    let Err(StoreError::Unreadable(jobs)) = result else { panic!("{result:?}") };
    let paths = jobs.iter().map(|job| job.path.clone().unwrap());
    let mut found: Vec<_> = paths.map(|path| path.rsplit('/').next().unwrap().to_owned()).collect();
    // A store reads jobs in the order that suits it.
    found.sort();
    assert_eq!(found, names);
}

/// Checks a store in which `bad` and `worse` are damaged.
pub(crate) async fn check(store: Arc<dyn Store>, clock: &Arc<ManualClock>, due: Instant) {
    let filter = JobFilter { contains: Some("o".into()), ..JobFilter::default() };
    for filter in [JobFilter::default(), filter] {
        assert_eq!(names(&*store, &filter).await, ["good"]);
    }
    assert_unreadable(store.job(job_path("c", "bad").unwrap()).await, &["bad"]);
    let mut keys: Vec<_> =
        store.due(Instant::MAX, 9).await.unwrap().iter().map(|due| due.on.job).collect();
    keys.sort();
    assert_eq!(keys.len(), 3);
    assert_unreadable(store.jobs_for_run(keys).await, &["bad", "worse"]);
    for write in [JobWrite::Keep, JobWrite::Run { at: due }] {
        assert_unreadable(edit(&*store, "bad", write).await, &["bad"]);
    }

    let test = RepairTest::start(store.clone(), clock);
    test.until(async |test| test.calls().len() >= 5).await;
    let mut calls = test.calls();
    calls.dedup();
    assert_eq!(calls.len(), 5, "only one job runs");
    assert_eq!(test.metric("kalends_unreadable_jobs"), "2");
    assert_eq!(test.found(), Vec::<String>::new());
    test.stop().await;

    let replaced = edit(&*store, "bad", new_job(4, due)).await.unwrap();
    assert!(replaced.before.is_none() && replaced.after.is_some(), "{replaced:?}");
    let deleted = edit(&*store, "worse", JobWrite::Delete).await.unwrap();
    assert_eq!((deleted.before, deleted.after), (None, None));
    assert!(store.job(job_path("c", "bad").unwrap()).await.unwrap().is_some());
    assert_eq!(store.job(job_path("c", "worse").unwrap()).await.unwrap(), None);
    assert_eq!(names(&*store, &JobFilter::default()).await, ["bad", "good"]);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}
