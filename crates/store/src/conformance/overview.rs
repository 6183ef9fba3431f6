//! Reads over all collections.

use std::ops::Bound;

use kalends_domain::{
    AccessScope, CollectionPath, CollectionState, JobPath, Lifecycle, SubscriptionId, Switch,
};

use crate::api_store::{JobContext, JobPut, JobWrite};
use crate::conformance::Subject;
use crate::conformance::sample::{
    at, collection_path, definition, full_definition, group, put, request, standard,
};
use crate::overview_store::{JobMatch, JobSearch, SearchPosition, SearchedCollection};
use crate::record::{JobKey, JobRecord};

/// A collection in another subscription, which sorts before that of the samples.
fn other_subscription(name: &str) -> CollectionPath {
    let mut path = collection_path("g", name);
    path.group.subscription = SubscriptionId::new("00000000-0000-0000-0000-000000000001").unwrap();
    path
}

impl Subject {
    async fn put_job_in(&self, collection: &CollectionPath, name: &str, put: JobPut) -> JobRecord {
        let job = kalends_domain::JobName::new(name).unwrap();
        let path = JobPath { collection: collection.clone(), job };
        let decide = move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
        self.store.edit_job(path, Box::new(decide)).await.unwrap().after.unwrap()
    }

    async fn create_collections(&self, paths: &[CollectionPath]) {
        for path in paths {
            self.put_collection(path.clone(), standard()).await;
        }
    }

    /// The collections of a scope, read in pages of this size.
    async fn summaries(&self, scope: AccessScope, limit: usize) -> Vec<crate::CollectionSummary> {
        let (mut all, mut from) = (vec![], Bound::Unbounded);
        loop {
            let page = self.store.collection_summaries(scope.clone(), from, limit).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { return all };
            from = Bound::Excluded(last.record.path.clone());
            all.extend(page);
        }
    }

    /// Every match of a search of all collections, in scans of this size.
    async fn search(&self, contains: Option<&str>, scan_max: usize) -> Vec<JobMatch> {
        let collections = self.summaries(AccessScope::Everything, 100).await;
        let mut collections: Vec<_> = collections
            .iter()
            .map(|one| SearchedCollection { key: one.key, jobs: one.jobs, matches: false })
            .collect();
        let contains = contains.map(str::to_owned);
        let (mut after, mut found) = (None, vec![]);
        loop {
            let search = JobSearch {
                collections: collections.clone(),
                after,
                contains: contains.clone(),
                scan_max,
            };
            let page = self.store.search_jobs(search).await.unwrap();
            assert!(page.jobs.len() <= scan_max);
            found.extend(page.jobs);
            let Some(SearchPosition { collection, after: name }) = page.rest else { return found };
            let start = collections.iter().position(|one| one.key == collection).unwrap();
            collections.drain(..start);
            after = name;
        }
    }

    async fn names(&self, contains: Option<&str>, scan_max: usize) -> Vec<String> {
        let found = self.search(contains, scan_max).await;
        found.iter().map(|one| one.name.to_string()).collect()
    }
}

/// Collections of a scope are listed by path, with their number of jobs, from any position.
pub async fn collections_of_a_scope_are_listed_by_path_with_their_jobs(subject: Subject) {
    let paths = [
        other_subscription("z"),
        collection_path("g", "B"),
        collection_path("g", "c"),
        collection_path("h", "a"),
    ];
    subject.create_collections(&paths).await;
    for name in ["one", "two"] {
        subject.put_job_in(&paths[1], name, put(definition(), None)).await;
    }
    let listed = async |scope, limit| {
        let found = subject.summaries(scope, limit).await;
        found.into_iter().map(|one| (one.record.path, one.jobs)).collect::<Vec<_>>()
    };
    let expected: Vec<_> = paths.iter().cloned().zip([0, 2, 0, 0]).collect();
    for limit in [1, 2, 3, 9] {
        assert_eq!(listed(AccessScope::Everything, limit).await, expected, "{limit}");
    }
    let subscription = AccessScope::Subscription(group("g").subscription);
    assert_eq!(listed(subscription, 2).await, expected[1..]);
    assert_eq!(listed(AccessScope::Group(group("G")), 1).await, expected[1..3]);
    assert_eq!(listed(AccessScope::Collection(collection_path("G", "b")), 9).await, expected[1..2]);
    assert_eq!(listed(AccessScope::Group(group("none")), 9).await, []);
    let from = Bound::Included(collection_path("G", "C"));
    let found = subject.store.collection_summaries(AccessScope::Everything, from, 9);
    let found: Vec<_> = found.await.unwrap().into_iter().map(|one| one.record.path).collect();
    assert_eq!(found, paths[2..]);
}

/// A search over several collections finds every match once, in order, for any size of its scans.
pub async fn a_search_of_several_collections_finds_every_match_once(subject: Subject) {
    let paths = [other_subscription("z"), collection_path("g", "empty"), collection_path("h", "a")];
    subject.create_collections(&paths).await;
    for name in ["b", "A", "c", "export-1"] {
        subject.put_job_in(&paths[0], name, put(definition(), None)).await;
    }
    subject.put_job_in(&paths[2], "full", put(full_definition(), None)).await;
    let mut target = put(definition(), None);
    target.definition.action.action = request("http://Exports.example.com/a?code=hidden");
    subject.put_job_in(&paths[2], "B2", target).await;
    for scan_max in [1, 2, 3, 4, 5, 100] {
        let all = ["A", "b", "c", "export-1", "B2", "full"];
        assert_eq!(subject.names(None, scan_max).await, all, "{scan_max}");
        assert_eq!(subject.names(Some("EXPORT"), scan_max).await, ["export-1", "B2", "full"]);
    }
    for (text, expected) in [
        ("nightly EXP", vec!["full"]),
        ("billing", vec!["full"]),
        ("hidden", vec![]),
        ("%", vec![]),
        ("_", vec![]),
        ("' OR 1=1 --", vec![]),
        ("\0", vec![]),
    ] {
        assert_eq!(subject.names(Some(text), 100).await, expected, "{text:?}");
    }
}

/// A collection that matches by its own name contributes all its jobs.
pub async fn a_search_returns_every_job_of_a_matching_collection(subject: Subject) {
    let paths = [collection_path("g", "a"), collection_path("g", "b")];
    subject.create_collections(&paths).await;
    for path in &paths {
        subject.put_job_in(path, "j", put(definition(), None)).await;
    }
    let found = subject.summaries(AccessScope::Everything, 9).await;
    let collections = found.iter().enumerate().map(|(number, one)| SearchedCollection {
        key: one.key,
        jobs: one.jobs,
        matches: number == 1,
    });
    let search = JobSearch {
        collections: collections.collect(),
        after: None,
        contains: Some("unknown".into()),
        scan_max: 9,
    };
    let found_jobs = subject.store.search_jobs(search).await.unwrap().jobs;
    let keys: Vec<_> = found_jobs.iter().map(|one| one.state.collection).collect();
    assert_eq!(keys, [found[1].key]);
}

/// Matches have the state of the last edit and run.
pub async fn matches_have_the_current_state_of_their_job(subject: Subject) {
    let path = collection_path("g", "c");
    subject.create_collections(std::slice::from_ref(&path)).await;
    let mut edit = put(definition(), Some(at(60)));
    edit.state.last_execution = Some(at(3));
    edit.state.consecutive_failures = 4;
    let job = subject.put_job_in(&path, "j", edit.clone()).await;
    let found = subject.search(None, 9).await[0].state;
    let summary = subject.summaries(AccessScope::Everything, 9).await;
    assert_eq!((found.job, found.collection), (job.key, summary[0].key));
    assert_eq!((found.switch, found.lifecycle), (Switch::Enabled, Lifecycle::Active));
    assert_eq!((found.due, found.last_execution), (Some(at(60)), Some(at(3))));
    assert_eq!((found.enabled_since, found.consecutive_failures), (None, 4));
    subject.begin_run(&job).await;
    assert_eq!(subject.search(None, 9).await[0].state.due, Some(at(120)));
    edit.definition.switch = Switch::Disabled;
    edit.state.lifecycle = Lifecycle::Completed;
    subject.put_job_in(&path, "j", edit).await;
    let found = subject.search(None, 9).await[0].state;
    assert_eq!((found.switch, found.lifecycle), (Switch::Disabled, Lifecycle::Completed));
}

/// Jobs are read by their keys; deleted jobs and those of deleted collections are absent.
pub async fn jobs_are_read_by_their_keys(subject: Subject) {
    let paths = [collection_path("g", "a"), collection_path("h", "b")];
    subject.create_collections(&paths).await;
    let one = subject.put_job_in(&paths[0], "one", put(full_definition(), None)).await;
    let two = subject.put_job_in(&paths[1], "two", put(definition(), Some(at(60)))).await;
    let read = async || {
        let keys = vec![two.key, JobKey(i64::MAX), one.key];
        let mut found = subject.store.jobs_by_key(keys).await.unwrap();
        found.sort_by_key(|job| job.key);
        found
    };
    assert_eq!(read().await, [one.clone(), two.clone()]);
    let disabled = kalends_domain::Collection { state: CollectionState::Disabled, ..standard() };
    subject.put_collection(paths[0].clone(), disabled).await;
    assert_eq!(read().await, [one.clone(), two.clone()]);
    let delete = |_: crate::CollectionContext<'_>| Ok(crate::CollectionWrite::Delete);
    subject.store.edit_collection(paths[1].clone(), Box::new(delete)).await.unwrap();
    assert_eq!(read().await, [one]);
    assert_eq!(subject.names(None, 9).await, ["one"]);
}
