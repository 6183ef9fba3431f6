//! Jobs: edits, reads and searches.

use kalends_domain::{Collection, CollectionState, JobName, Lifecycle, Switch};

use crate::api_store::{
    CollectionContext, CollectionWrite, JobContext, JobFilter, JobFilterState, JobWrite, Page,
};
use crate::conformance::Subject;
use crate::conformance::sample::{
    at, begin, collection_path, cron, definition, full_definition, job_path, put, request, standard,
};
use crate::error::StoreError;
use crate::record::{CollectionStatus, JobKey, JobRecord, JobState, JobUid};

/// Without a collection, edits and reads of a job fail.
pub async fn a_job_needs_a_collection(subject: Subject) {
    let decide = Box::new(|_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put(definition(), None)))));
    let edited = subject.store.edit_job(job_path("j"), decide).await;
    assert_eq!(edited, Err(StoreError::NoCollection));
    assert_eq!(subject.store.job(job_path("j")).await, Err(StoreError::NoCollection));
    let jobs =
        subject.store.jobs(collection_path("g", "c"), JobFilter::default(), Page::first(1), 9);
    assert_eq!(jobs.await, Err(StoreError::NoCollection));
}

/// A replaced job keeps its key, uid, time of creation and spelling.
pub async fn a_job_is_created_replaced_and_deleted(subject: Subject) {
    subject.create_collection().await;
    assert_eq!(subject.job("Job").await, None);
    let created = subject.put_job("Job", put(definition(), Some(at(60)))).await;
    assert_eq!((created.version, created.job.generation, created.state.due), (1, 1, Some(at(60))));
    assert_eq!(subject.job("JOB").await, Some(created.clone()));

    let mut other = put(full_definition(), None);
    (other.uid, other.created) = (JobUid([9; 16]), at(99));
    let replaced = subject.put_job("JOB", other.clone()).await;
    assert_eq!((replaced.version, replaced.job.generation), (2, 2));
    assert_eq!(
        (replaced.key, replaced.job.uid, replaced.job.created),
        (created.key, created.job.uid, created.job.created)
    );
    assert_eq!(replaced.path.job.as_str(), "Job");
    assert_eq!(replaced.job.definition, full_definition());
    assert_eq!(subject.job("job").await, Some(replaced.clone()));

    let kept = subject.edit_job("job", JobWrite::Keep).await;
    assert_eq!((kept.before.as_ref(), kept.after.as_ref()), (Some(&replaced), Some(&replaced)));
    let deleted = subject.edit_job("job", JobWrite::Delete).await;
    assert_eq!((deleted.before, deleted.after), (Some(replaced), None));
    assert_eq!(subject.job("job").await, None);
    assert_eq!(subject.edit_job("job", JobWrite::Delete).await.before, None);
}

/// Reads return the written definition and state, including secrets.
pub async fn every_member_of_a_definition_round_trips(subject: Subject) {
    subject.create_collection().await;
    let state = JobState {
        lifecycle: Lifecycle::Faulted,
        due: Some(at(1)),
        used: 2,
        last_execution: Some(at(3)),
        executions: 4,
        failures: 5,
        faulted: 6,
        finished: Some(at(7)),
        consecutive_failures: 8,
        skip_until: Some(at(9)),
    };
    let created =
        subject.put_job("j", crate::JobPut { state, ..put(full_definition(), None) }).await;
    assert_eq!((&created.job.definition, created.state), (&full_definition(), state));
    assert_eq!(subject.job("j").await, Some(created));
    let mut by_cron = full_definition();
    by_cron.recurrence = Some(Box::new(cron("0 2 * * MON-FRI")));
    let created = subject.put_job("by-cron", put(by_cron, None)).await;
    assert_eq!(subject.job("by-cron").await, Some(created));
}

/// Reads of jobs return the state of their collection.
pub async fn jobs_are_read_with_the_state_of_their_collection(subject: Subject) {
    subject.create_collection().await;
    let created = subject.put_job("j", put(definition(), None)).await;
    let path = collection_path("g", "c");
    for state in [CollectionState::Disabled, CollectionState::Suspended, CollectionState::Enabled] {
        subject.put_collection(path.clone(), Collection { state, ..standard() }).await;
        let read = subject.store.job(job_path("j")).await.unwrap();
        let status = CollectionStatus { state, is_paused: false };
        assert_eq!(read, Some((created.clone(), status)));
        for filter in
            [JobFilter::default(), JobFilter { contains: Some("j".into()), ..JobFilter::default() }]
        {
            let jobs = subject.store.jobs(path.clone(), filter, Page::first(1), 9);
            assert_eq!(jobs.await.unwrap().collection, status);
        }
    }
}

/// Names are listed in case-insensitive order; pages start after a name and skip.
pub async fn jobs_are_listed_by_name_and_paged(subject: Subject) {
    subject.create_collection().await;
    for name in ["b", "C", "a_x", "a-x", "D"] {
        subject.put_job(name, put(definition(), None)).await;
    }
    let list = async |page| {
        let jobs = subject.store.jobs(collection_path("g", "c"), JobFilter::default(), page, 1);
        let found = jobs.await.unwrap();
        assert_eq!(found.rest, None, "a list without a filter has no rest");
        let jobs = found.jobs.into_iter();
        jobs.map(|record| record.path.job.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list(Page::first(9)).await, ["a-x", "a_x", "b", "C", "D"]);
    assert_eq!(list(Page { after: None, skip: 3, limit: 1 }).await, ["C"]);
    let after = Some(JobName::new("B").unwrap());
    assert_eq!(list(Page { after, skip: 0, limit: 9 }).await, ["C", "D"]);
    assert_eq!(list(Page::first(0)).await, [""; 0]);
}

/// An edit replaces the tags by which a job is found.
pub async fn a_job_is_found_by_the_tags_of_its_last_edit(subject: Subject) {
    subject.create_collection().await;
    let edits: [&[(&str, &str)]; 4] = [
        &[("team", "Blue"), ("stage", "test")],
        &[("Team", "Blue"), ("stage", "live"), ("new", "")],
        &[("team", "Blue"), ("TEAM", "Blue"), ("stage", "live")],
        &[],
    ];
    for tags in edits {
        let mut edit = put(definition(), None);
        let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let tags: Vec<_> = tags.collect();
        edit.definition.extensions.tags = Some(tags.clone());
        subject.put_job("j", edit).await;
        for (name, value) in
            [("team", "Blue"), ("stage", "test"), ("stage", "live"), ("new", ""), ("none", "")]
        {
            let tag = Some((name.to_owned(), Some(value.to_owned())));
            let filter = JobFilter { tag, ..JobFilter::default() };
            let jobs = subject.store.jobs(collection_path("g", "c"), filter, Page::first(9), 9);
            let is_tagged =
                |tag: &(String, String)| tag.0.eq_ignore_ascii_case(name) && tag.1 == value;
            let expected = usize::from(tags.iter().any(is_tagged));
            assert_eq!(jobs.await.unwrap().jobs.len(), expected, "{name} {value} of {tags:?}");
        }
    }
}

/// Filters by state, text and tag, and combinations of them.
pub async fn jobs_are_found_by_state_text_and_tag(subject: Subject) {
    subject.create_collection().await;
    subject.put_job("Nightly_100", put(definition(), None)).await;
    subject.put_job("full", put(full_definition(), None)).await;
    let mut done = put(definition(), None);
    done.state.lifecycle = Lifecycle::Completed;
    done.definition.action.action = request("http://Exports.example.com/a%20b?code=hidden");
    done.definition.switch = Switch::Disabled;
    subject.put_job("done", done).await;
    let find = async |filter| {
        let jobs = subject.store.jobs(collection_path("g", "c"), filter, Page::first(9), 9);
        let jobs = jobs.await.unwrap().jobs.into_iter();
        jobs.map(|record| record.path.job.as_str().to_owned()).collect::<Vec<_>>()
    };
    let state = |state| JobFilter { state: Some(state), ..JobFilter::default() };
    assert_eq!(find(state(JobFilterState::Enabled)).await, ["Nightly_100"]);
    assert_eq!(find(state(JobFilterState::Disabled)).await, ["full"]);
    assert_eq!(find(state(JobFilterState::Completed)).await, ["done"]);
    assert_eq!(find(state(JobFilterState::Faulted)).await, [""; 0]);
    let text = |text: &str| JobFilter { contains: Some(text.into()), ..JobFilter::default() };
    assert_eq!(find(text("NIGHTLY")).await, ["full", "Nightly_100"], "name and description");
    assert_eq!(find(text("_1")).await, ["Nightly_100"], "no wildcard");
    assert_eq!(find(text("%")).await, ["done"], "no wildcard");
    assert_eq!(find(text("exports.EXAMPLE")).await, ["done"]);
    assert_eq!(find(text("hidden")).await, [""; 0], "no query");
    assert_eq!(find(text("billing")).await, ["full"], "tags");
    assert_eq!(find(text("' OR 1=1 --")).await, [""; 0]);
    let tag = |name: &str, value: Option<&str>| JobFilter {
        tag: Some((name.into(), value.map(Into::into))),
        ..JobFilter::default()
    };
    assert_eq!(find(tag("team", None)).await, ["full"]);
    assert_eq!(find(tag("TEAM", Some("billing"))).await, ["full"]);
    assert_eq!(find(tag("team", Some("Billing"))).await, [""; 0]);
    let both = JobFilter { state: Some(JobFilterState::Disabled), ..text("example") };
    assert_eq!(find(both).await, ["full"]);
}

/// The partial results of a search add up to the page, whatever the scan limit.
pub async fn a_search_scans_a_limited_number_of_jobs_and_resumes(subject: Subject) {
    subject.create_collection().await;
    let tags = |shard: &str| Some(vec![("Shard".to_owned(), shard.to_owned())]);
    for (number, name) in ["a", "B", "c-1", "C_2", "d", "E", "f"].into_iter().enumerate() {
        let mut job = put(definition(), None);
        job.definition.extensions.tags = tags(if number % 3 == 0 { "x" } else { "y" });
        if number == 5 {
            job.definition.switch = Switch::Disabled;
        }
        subject.put_job(name, job).await;
    }
    // Replaces the tags of a job.
    let mut job = put(definition(), None);
    job.definition.extensions.tags = tags("x");
    subject.put_job("B", job).await;
    let search = async |filter: &JobFilter, page: Page<JobName>, scan_max| {
        let (mut names, mut page, mut calls) = (Vec::new(), page, 0);
        loop {
            let jobs =
                subject.store.jobs(collection_path("g", "c"), filter.clone(), page, scan_max);
            let found = jobs.await.unwrap();
            calls += 1;
            names.extend(found.jobs.into_iter().map(|job| job.path.job.as_str().to_owned()));
            match found.rest {
                Some(rest) => page = rest,
                None => return (names, calls),
            }
        }
    };
    let text = |text: &str| JobFilter { contains: Some(text.into()), ..JobFilter::default() };
    let tag = |value: Option<&str>| JobFilter {
        tag: Some(("shard".into(), value.map(Into::into))),
        ..JobFilter::default()
    };
    let disabled = JobFilter { state: Some(JobFilterState::Disabled), ..JobFilter::default() };
    let all = ["a", "B", "c-1", "C_2", "d", "E", "f"];
    for (filter, expected) in [
        (text("example"), all.as_slice()),
        (text("nothing like it"), &[]),
        (tag(Some("x")), &["a", "B", "C_2", "f"]),
        (tag(Some("z")), &[]),
        (tag(None), &all),
        (disabled.clone(), &["E"]),
        (JobFilter { contains: Some("_".into()), ..tag(Some("x")) }, &["C_2"]),
        (JobFilter { tag: tag(Some("y")).tag, ..disabled }, &["E"]),
    ] {
        for scan_max in [0, 1, 2, 3, 7, 8] {
            let what = format!("{filter:?}, {scan_max} at a time");
            assert_eq!(search(&filter, Page::first(9), scan_max).await.0, expected, "{what}");
            let page = Page { after: None, skip: 1, limit: 2 };
            let part: Vec<_> = expected.iter().skip(1).take(2).copied().collect();
            assert_eq!(search(&filter, page, scan_max).await.0, part, "{what}, a page");
        }
    }
    let (_, calls) = search(&text("nothing like it"), Page::first(9), 2).await;
    assert_eq!(calls, 4, "no more than two jobs a call");
    let (_, calls) = search(&text("nothing like it"), Page::first(9), 8).await;
    assert_eq!(calls, 1);
    let (_, calls) = search(&text("example"), Page::first(2), 2).await;
    assert_eq!(calls, 1, "a full page has no rest");
}

/// The new job has another key and no runs or history.
pub async fn a_recreated_job_shares_nothing_with_the_deleted_one(subject: Subject) {
    subject.create_collection().await;
    let first = subject.create_due_job("j").await;
    assert_eq!(subject.job("J").await.map(|job| job.key), Some(first.key));
    subject.commit(begin(&first)).await;
    subject.edit_job("j", JobWrite::Delete).await;
    assert_eq!(subject.job("j").await, None);
    let again = subject.put_job("J", put(definition(), Some(at(60)))).await;
    assert_ne!(again.key, first.key);
    assert_eq!(subject.job("j").await.as_ref(), Some(&again));
    assert_eq!((again.version, again.job.generation, again.path.job.as_str()), (1, 1, "J"));
    assert_eq!(subject.store.open_runs(again.key).await.unwrap(), []);
    assert_eq!(subject.history_of("j").await, []);
}

/// A recreated collection does not contain the jobs of the deleted one.
pub async fn deleting_a_collection_deletes_its_jobs(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    subject.commit(begin(&job)).await;
    let delete = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Delete));
    subject.store.edit_collection(collection_path("g", "c"), delete).await.unwrap();
    subject.create_collection().await;
    assert_eq!(subject.job("j").await, None);
    assert_eq!(job_by_key(&subject, job.key).await, None);
    assert_eq!(subject.store.open_runs(job.key).await.unwrap(), []);
    assert_eq!(subject.store.check().await.unwrap(), [""; 0]);
}

/// A job as the engine reads it.
async fn job_by_key(subject: &Subject, key: JobKey) -> Option<JobRecord> {
    let found = subject.store.jobs_for_run(vec![key]).await.unwrap().remove(0);
    found.map(|found| found.job.clone())
}

/// Lookup by key, as the engine does it.
pub async fn a_job_is_found_by_its_key(subject: Subject) {
    subject.create_collection().await;
    let job = subject.create_due_job("j").await;
    assert_eq!(job_by_key(&subject, job.key).await, Some(job));
    assert_eq!(job_by_key(&subject, JobKey(i64::MAX)).await, None);
}
