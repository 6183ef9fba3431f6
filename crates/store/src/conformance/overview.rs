//! Reads over all collections.

use std::ops::Bound;

use kalends_domain::{
    AccessScope, CertificateFacts, CollectionPath, CollectionState, HttpAuthentication,
    JobDefinition, JobPath, Lifecycle, Secret, SubscriptionId, Switch, Target,
};
use kalends_recurrence::{Definition, Instant};

use crate::api_store::{JobContext, JobPut, JobWrite};
use crate::conformance::Subject;
use crate::conformance::sample::{
    at, collection_path, definition, full_definition, group, put, request, standard,
};
use crate::overview_store::{
    FAILING_MIN, JobMatch, JobSearch, JobSet, ScannedSchedule, ScannedState, SearchPosition,
    SearchedCollection, TextsFrom,
};
use crate::record::{JobKey, JobRecord};

/// A collection in another subscription, which sorts before that of the samples.
fn other_subscription(name: &str) -> CollectionPath {
    let mut path = collection_path("g", name);
    path.group.subscription = SubscriptionId::new("00000000-0000-0000-0000-000000000001").unwrap();
    path
}

impl Subject {
    async fn put_job_in(&self, collection: &CollectionPath, name: &str, put: JobPut) -> JobRecord {
        let edited = self.edit_job_in(collection, name, JobWrite::Put(Box::new(put))).await;
        edited.unwrap()
    }

    async fn edit_job_in(
        &self,
        collection: &CollectionPath,
        name: &str,
        write: JobWrite,
    ) -> Option<JobRecord> {
        let job = kalends_domain::JobName::new(name).unwrap();
        let path = JobPath { collection: collection.clone(), job };
        let decide = move |_: JobContext<'_>| Ok(write.clone());
        self.store.edit_job(path, Box::new(decide)).await.unwrap().after
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
    async fn search(&self, words: &[&str], scan_max: usize) -> Vec<JobMatch> {
        let collections = self.summaries(AccessScope::Everything, 100).await;
        let mut collections: Vec<_> = collections
            .iter()
            .map(|one| SearchedCollection { key: one.key, jobs: one.jobs, matched: 0 })
            .collect();
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let (mut after, mut found) = (None, vec![]);
        loop {
            let search = JobSearch {
                collections: collections.clone(),
                after,
                words: words.clone(),
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

    async fn names(&self, words: &[&str], scan_max: usize) -> Vec<String> {
        let found = self.search(words, scan_max).await;
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
        assert_eq!(subject.names(&[], scan_max).await, all, "{scan_max}");
        assert_eq!(subject.names(&["EXPORT"], scan_max).await, ["export-1", "B2", "full"]);
        assert_eq!(subject.names(&["2", "export", "COM"], scan_max).await, ["B2"]);
    }
    assert_eq!(subject.names(&["billing", "absent"], 100).await, [""; 0]);
    for (text, expected) in [
        ("nightly EXP", vec!["full"]),
        ("billing", vec!["full"]),
        ("hidden", vec![]),
        ("\nteam=billing\n", vec!["full"]),
        ("\nteam=bill\n", vec![]),
        ("\neam=billing\n", vec![]),
        ("%", vec![]),
        ("_", vec![]),
        ("' OR 1=1 --", vec![]),
        ("\0", vec![]),
    ] {
        assert_eq!(subject.names(&[text], 100).await, expected, "{text:?}");
    }
}

/// A collection that matches by its own name contributes all its jobs.
pub async fn a_search_returns_every_job_of_a_matching_collection(subject: Subject) {
    let paths = [collection_path("g", "a"), collection_path("g", "b")];
    subject.create_collections(&paths).await;
    for (path, name) in [(&paths[0], "j"), (&paths[1], "j"), (&paths[1], "k")] {
        subject.put_job_in(path, name, put(definition(), None)).await;
    }
    let found = subject.summaries(AccessScope::Everything, 9).await;
    let collections = found.iter().enumerate().map(|(number, one)| SearchedCollection {
        key: one.key,
        jobs: one.jobs,
        matched: if number == 1 { 0b10 } else { 0 },
    });
    let collections: Vec<_> = collections.collect();
    let search = async |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let collections = collections.clone();
        let search = JobSearch { collections, after: None, words, scan_max: 9 };
        let jobs = subject.store.search_jobs(search).await.unwrap().jobs;
        jobs.iter().map(|one| (one.state.collection, one.name.to_string())).collect::<Vec<_>>()
    };
    let second = |name: &str| (found[1].key, name.to_owned());
    assert_eq!(search(&["", "unknown"]).await, [second("j"), second("k")]);
    assert_eq!(search(&["K", "unknown"]).await, [second("k")], "the other word is the job's own");
    assert_eq!(search(&["unknown"]).await, []);
}

/// Matches have the state of the last edit and run.
pub async fn matches_have_the_current_state_of_their_job(subject: Subject) {
    let path = collection_path("g", "c");
    subject.create_collections(std::slice::from_ref(&path)).await;
    let mut edit = put(definition(), Some(at(60)));
    edit.state.last_execution = Some(at(3));
    edit.state.consecutive_failures = 4;
    let job = subject.put_job_in(&path, "j", edit.clone()).await;
    let found = subject.search(&[], 9).await[0].state;
    let summary = subject.summaries(AccessScope::Everything, 9).await;
    assert_eq!((found.job, found.collection), (job.key, summary[0].key));
    assert_eq!((found.switch, found.lifecycle), (Switch::Enabled, Lifecycle::Active));
    assert_eq!((found.due, found.last_execution), (Some(at(60)), Some(at(3))));
    assert_eq!((found.enabled_since, found.consecutive_failures), (None, 4));
    subject.begin_run(&job).await;
    assert_eq!(subject.search(&[], 9).await[0].state.due, Some(at(120)));
    edit.definition.switch = Switch::Disabled;
    edit.state.lifecycle = Lifecycle::Completed;
    subject.put_job_in(&path, "j", edit).await;
    let found = subject.search(&[], 9).await[0].state;
    assert_eq!((found.switch, found.lifecycle), (Switch::Disabled, Lifecycle::Completed));
}

/// The sets of disabled, failing and finished jobs follow every edit, up to a number of jobs.
pub async fn disabled_failing_and_finished_jobs_are_found_without_a_scan(subject: Subject) {
    let path = collection_path("g", "c");
    subject.create_collections(std::slice::from_ref(&path)).await;
    let found = async |set, limit| {
        let found = subject.store.jobs_of_set(set, limit).await.unwrap();
        let mut names: Vec<_> = found?.iter().map(|job| job.name.to_string()).collect();
        names.sort();
        Some(names.join(" "))
    };
    let sets = async || {
        let sets = [JobSet::Disabled, JobSet::Failing, JobSet::Finished];
        let [one, two, three] = sets.map(|set| found(set, 9));
        (one.await.unwrap(), two.await.unwrap(), three.await.unwrap())
    };
    let edit = put(definition(), Some(at(60)));
    let mut disabled = edit.clone();
    disabled.definition.switch = Switch::Disabled;
    let failing = |count| {
        let mut edit = edit.clone();
        edit.state.consecutive_failures = count;
        edit
    };
    subject.put_job_in(&path, "plain", edit.clone()).await;
    subject.put_job_in(&path, "off", disabled.clone()).await;
    subject.put_job_in(&path, "bad", failing(FAILING_MIN)).await;
    subject.put_job_in(&path, "wary", failing(FAILING_MIN - 1)).await;
    let mut finished = put(definition(), None);
    (finished.state.lifecycle, finished.state.finished) = (Lifecycle::Completed, Some(at(3)));
    subject.put_job_in(&path, "once", finished).await;
    assert_eq!(sets().await, ("off".into(), "bad".into(), "once".into()));
    subject.put_job_in(&path, "plain", disabled).await;
    assert_eq!(found(JobSet::Disabled, 2).await.as_deref(), Some("off plain"));
    assert_eq!(found(JobSet::Disabled, 1).await, None, "more than the limit");
    subject.put_job_in(&path, "off", edit.clone()).await;
    subject.put_job_in(&path, "bad", edit.clone()).await;
    subject.put_job_in(&path, "wary", failing(FAILING_MIN + 1)).await;
    subject.edit_job_in(&path, "once", JobWrite::Delete).await;
    assert_eq!(sets().await, ("plain".into(), "wary".into(), String::new()));
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
    assert_eq!(subject.names(&[], 9).await, ["one"]);
}

impl Subject {
    /// Every state, read in pages of this size.
    async fn states(&self, limit: usize) -> Vec<ScannedState> {
        let (mut all, mut after) = (vec![], None);
        loop {
            let page = self.store.scan_states(after, limit).await.unwrap();
            assert!(page.states.len() <= limit);
            all.extend(page.states);
            match page.next {
                Some(_) => after = page.next,
                None => return all,
            }
        }
    }

    /// Every schedule that is due before a time, read in pages of this size.
    async fn schedules(&self, due_before: Instant, limit: usize) -> Vec<ScannedSchedule> {
        let (mut all, mut after) = (vec![], None);
        loop {
            let page = self.store.scan_schedules(after, due_before, limit).await.unwrap();
            assert!(page.schedules.len() <= limit);
            all.extend(page.schedules);
            match page.next {
                Some(_) => after = page.next,
                None => return all,
            }
        }
    }
}

/// Every job is scanned once with its current state, for any size of the pages.
pub async fn the_states_of_all_jobs_are_scanned_in_pages(subject: Subject) {
    let paths = [collection_path("g", "a"), collection_path("h", "b")];
    subject.create_collections(&paths).await;
    let mut jobs = vec![];
    for (number, path) in [&paths[0], &paths[1], &paths[0], &paths[1], &paths[0]].iter().enumerate()
    {
        let edit = put(definition(), Some(at(60 * number as u64)));
        jobs.push(subject.put_job_in(path, &format!("j{number}"), edit).await);
    }
    let mut off = put(definition(), None);
    off.definition.switch = Switch::Disabled;
    subject.put_job_in(&paths[0], "j2", off).await;
    subject.begin_run(&jobs[1]).await;
    let keys: Vec<_> = jobs.iter().map(|job| job.key).collect();
    for limit in [1, 2, 5, 100] {
        let states = subject.states(limit).await;
        let found: Vec<_> = states.iter().map(|state| state.job.job).collect();
        assert_eq!(found, keys, "{limit}");
        assert_eq!(states[1].job.due, Some(at(120)), "the state after the run began");
        assert_eq!(states[1].job.used, 1);
        assert_eq!((states[2].job.switch, states[2].created), (Switch::Disabled, Some(at(0))));
        assert_eq!((states[0].job.switch, states[0].created), (Switch::Enabled, None));
    }
    let mut found =
        subject.store.job_paths(vec![keys[3], JobKey(i64::MAX), keys[0]]).await.unwrap();
    found.sort();
    assert_eq!(found, [(keys[0], jobs[0].path.clone()), (keys[3], jobs[3].path.clone())]);
    subject.edit_job_in(&paths[0], "j0", JobWrite::Delete).await;
    assert_eq!(subject.states(2).await.len(), 4);
    assert_eq!(subject.store.job_paths(vec![keys[0]]).await.unwrap(), []);
}

/// The texts of all jobs are scanned by collection and name, and of jobs after a key by key, for any
/// size of the pages.
pub async fn the_texts_of_all_jobs_are_scanned_by_name_and_those_of_newer_jobs_by_key(
    subject: Subject,
) {
    assert_eq!(subject.store.newest_job().await.unwrap(), JobKey(0));
    let paths = [collection_path("g", "a"), collection_path("h", "b")];
    subject.create_collections(&paths).await;
    let mut jobs = vec![];
    for (path, name) in [(&paths[1], "x"), (&paths[0], "c"), (&paths[0], "B"), (&paths[0], "a")] {
        jobs.push(subject.put_job_in(path, name, put(full_definition(), None)).await);
    }
    assert_eq!(subject.store.newest_job().await.unwrap(), jobs[3].key);
    let collections = subject.summaries(AccessScope::Everything, 9).await;
    for limit in [1, 2, 3, 4, 100] {
        let (mut all, mut after) = (vec![], None);
        loop {
            let page = subject.store.scan_texts(TextsFrom::Name(after), limit).await.unwrap();
            assert_eq!(page.is_full, page.texts.len() == limit);
            after = page.texts.last().map(|last| (last.collection, last.name.clone()));
            all.extend(page.texts);
            if !page.is_full {
                break;
            }
        }
        let names: Vec<_> = all.iter().map(|one| (one.collection, one.name.as_str())).collect();
        let (first, second) = (collections[0].key, collections[1].key);
        assert_eq!(names, [(first, "a"), (first, "B"), (first, "c"), (second, "x")], "{limit}");
        assert_eq!(all[1].job, jobs[2].key);
        assert!(all[0].text.contains("nightly exp"), "{:?}", all[0].text);
    }
    let newer = subject.store.scan_texts(TextsFrom::Key(jobs[1].key), 9).await.unwrap();
    let keys: Vec<_> = newer.texts.iter().map(|one| one.job).collect();
    assert_eq!(keys, [jobs[2].key, jobs[3].key]);
    let keys = vec![jobs[3].key, JobKey(i64::MAX), jobs[0].key];
    let mut states = subject.store.states_by_key(keys).await.unwrap();
    states.sort_by_key(|state| state.job);
    let found: Vec<_> = states.iter().map(|state| (state.job, state.collection)).collect();
    assert_eq!(
        found,
        [(jobs[0].key, collections[1].key), (jobs[3].key, collections[0].key)],
        "without the one that does not exist"
    );
}

/// Schedules of enabled, active jobs are scanned if they are due in time or have a certificate.
pub async fn the_schedules_of_active_jobs_are_scanned_in_pages(subject: Subject) {
    let path = collection_path("g", "c");
    subject.create_collections(std::slice::from_ref(&path)).await;
    let due = subject.put_job_in(&path, "due", put(definition(), Some(at(60)))).await;
    subject.put_job_in(&path, "later", put(definition(), Some(at(120)))).await;
    let mut off = put(definition(), Some(at(60)));
    off.definition.switch = Switch::Disabled;
    subject.put_job_in(&path, "off", off).await;
    let mut done = put(definition(), Some(at(60)));
    done.state.lifecycle = Lifecycle::Faulted;
    subject.put_job_in(&path, "done", done).await;
    let mut certified = put(full_definition(), None);
    certified.definition.switch = Switch::Enabled;
    certified.facts.authenticated = true;
    let Target::Http(request) = &mut certified.definition.action.action.target else { return };
    request.authentication = Some(Box::new(HttpAuthentication::ClientCertificate {
        pfx: Some(Secret::new("canary-pfx".into())),
        password: None,
        certificate: Some(CertificateFacts {
            thumbprint: "AB".into(),
            expiration: at(1_000),
            subject_name: "CN=x".into(),
        }),
    }));
    let certified = subject.put_job_in(&path, "certified", certified).await;
    for limit in [1, 2, 100] {
        let found = subject.schedules(at(120), limit).await;
        let keys: Vec<_> = found.iter().map(|one| one.job.job).collect();
        assert_eq!(keys, [due.key, certified.key], "{limit}");
        for (one, job) in found.iter().zip([&due, &certified]) {
            let Definition { start, created, recurrence } = one.definition.clone().unwrap();
            let JobDefinition { start: own_start, recurrence: own, .. } = &job.job.definition;
            assert_eq!(
                (start, created, &recurrence),
                (*own_start, job.job.created, &own.as_deref().cloned())
            );
        }
        let ends: Vec<_> = found.iter().map(|one| one.certificate_end).collect();
        assert_eq!(ends, [None, Some(at(1_000))]);
    }
    assert_eq!(subject.schedules(at(121), 100).await.len(), 3);
}
