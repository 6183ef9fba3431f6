//! Groups and collections: edits, reads and lists.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kalends_domain::{CollectionState, Plan};

use crate::api_store::{
    CollectionContext, CollectionWrite, GROUPS_PER_SUBSCRIPTION_MAX, JobContext, JobWrite, Page,
    Scope,
};
use crate::conformance::Subject;
use crate::conformance::sample::{collection_path, definition, group, job_path, put, standard};
use crate::error::StoreError;
use crate::record::{CollectionFacts, GroupRecord, JobFacts};
use crate::rejection::Rejection;

/// Deleting a group deletes its collections and jobs.
pub async fn a_group_is_created_replaced_listed_and_deleted_with_its_contents(subject: Subject) {
    let store = &subject.store;
    let record = |name: &str, location: &str| GroupRecord {
        path: group(name),
        location: Some(location.into()),
        tags: vec![("b".into(), "1".into()), ("a".into(), "2".into())],
    };
    assert!(store.put_group(record("Zoo", "West US")).await.unwrap());
    assert!(!store.put_group(record("zoo", "East US")).await.unwrap());
    let kept = store.group(group("ZOO")).await.unwrap().unwrap();
    assert_eq!((kept.path.group.as_str(), kept.location.as_deref()), ("Zoo", Some("East US")));
    assert_eq!(kept.tags, record("zoo", "").tags);

    subject.create_collection().await;
    subject.create_due_job("j").await;
    let groups = store.groups(group("g").subscription, Page::first(9)).await.unwrap();
    let names: Vec<_> = groups.iter().map(|group| group.path.group.as_str()).collect();
    assert_eq!(names, ["g", "Zoo"], "creating a collection creates its group");

    assert!(store.delete_group(group("G")).await.unwrap());
    assert!(!store.delete_group(group("g")).await.unwrap());
    assert_eq!(store.group(group("g")).await.unwrap(), None);
    assert_eq!(store.collection(collection_path("g", "c")).await.unwrap(), None);
    assert_eq!(store.job(job_path("j")).await, Err(StoreError::NoCollection));
    assert_eq!(store.due(kalends_recurrence::Instant::MAX, 9).await.unwrap(), []);
}

/// Groups are created on first use too.
pub async fn the_groups_of_a_subscription_are_limited_and_paged(subject: Subject) {
    let store = &subject.store;
    let name = |number: usize| format!("g{number:03}");
    let record = |number| GroupRecord { path: group(&name(number)), location: None, tags: vec![] };
    for number in 0..GROUPS_PER_SUBSCRIPTION_MAX {
        assert!(store.put_group(record(number)).await.unwrap());
    }
    let one_more = record(GROUPS_PER_SUBSCRIPTION_MAX);
    assert_eq!(store.put_group(one_more.clone()).await, Err(StoreError::TooManyGroups));
    let put = |path| {
        let decide = |_: CollectionContext<'_>| Ok(CollectionWrite::Put(standard()));
        store.edit_collection(path, Box::new(decide))
    };
    let refused = put(collection_path("more", "c")).await;
    assert_eq!(refused.err(), Some(StoreError::TooManyGroups));
    assert_eq!(store.group(group("more")).await.unwrap(), None);
    assert!(put(collection_path("g000", "c")).await.is_ok(), "in a group that exists");
    assert!(!store.put_group(record(0)).await.unwrap(), "an existing group is replaced");

    let list = async |after: Option<&str>, skip, limit| {
        let after = after.map(|name| group(name).group);
        let page = Page { after, skip, limit };
        let groups = store.groups(group("g").subscription, page).await.unwrap();
        groups.into_iter().map(|group| group.path.group.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 0, 2).await, ["g000", "g001"]);
    assert_eq!(list(Some("G001"), 1, 2).await, ["g003", "g004"]);
    assert_eq!(list(Some("g978"), 0, 9).await, ["g979"]);
    assert_eq!(list(None, 0, 9_999).await.len(), GROUPS_PER_SUBSCRIPTION_MAX);

    assert!(store.delete_group(group("g500")).await.unwrap());
    assert!(store.put_group(one_more).await.unwrap());
}

/// A replaced collection keeps its time of creation.
pub async fn a_collection_is_created_replaced_and_deleted(subject: Subject) {
    let created = subject.create_collection().await;
    assert_eq!((created.version, &created.collection), (1, &standard()));
    let mut changed = standard();
    changed.state = CollectionState::Suspended;
    changed.plan = Plan::P20Premium;
    changed.tags = None;
    changed.quota = None;
    let replaced = subject.put_collection(collection_path("g", "c"), changed.clone()).await;
    assert_eq!((replaced.version, replaced.created), (2, created.created));
    assert_eq!(replaced.collection, changed);
    let read = subject.store.collection(collection_path("g", "c")).await.unwrap();
    assert_eq!(read, Some(replaced.clone()));

    let keep = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Keep));
    let kept = subject.store.edit_collection(collection_path("g", "c"), keep).await.unwrap();
    assert_eq!((kept.before.as_ref(), kept.after.as_ref()), (Some(&replaced), Some(&replaced)));

    let delete = || Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Delete));
    let path = collection_path("g", "c");
    let deleted = subject.store.edit_collection(path.clone(), delete()).await.unwrap();
    assert_eq!((deleted.before, deleted.after), (Some(replaced), None));
    assert_eq!(subject.store.collection(path.clone()).await.unwrap(), None);
    let again = subject.store.edit_collection(path, delete()).await.unwrap();
    assert_eq!((again.before, again.after), (None, None));
}

/// The engine does not run occurrences that came due before `enabled_since`.
pub async fn enabled_since_changes_only_when_a_collection_is_enabled(subject: Subject) {
    let put = async |state| {
        (subject.advance_clock)(Duration::from_millis(5)).await;
        let collection = kalends_domain::Collection { state, ..standard() };
        subject.put_collection(collection_path("g", "c"), collection).await.enabled_since
    };
    let created = subject.create_collection().await;
    assert_eq!(created.enabled_since, created.created);
    let job = subject.create_due_job("j").await.key;
    let read = async || {
        let jobs = subject.store.jobs_for_run(vec![job]).await.unwrap();
        jobs[0].as_ref().unwrap().enabled_since
    };
    assert_eq!(read().await, created.created);
    assert_eq!(put(CollectionState::Enabled).await, created.created, "other edits keep it");
    assert_eq!(put(CollectionState::Disabled).await, created.created);
    assert_eq!(put(CollectionState::Suspended).await, created.created);
    let again = put(CollectionState::Enabled).await;
    assert!(again > created.created, "{again}");
    assert_eq!(read().await, again);
    let read = subject.store.collection(collection_path("g", "c")).await.unwrap().unwrap();
    assert_eq!(read.enabled_since, again);
    assert_eq!(put(CollectionState::Enabled).await, again);
}

/// A path in another case refers to the same collection.
pub async fn names_are_case_insensitive_and_keep_their_first_spelling(subject: Subject) {
    subject.put_collection(collection_path("Group", "Collection"), standard()).await;
    let other = collection_path("GROUP", "COLLECTION");
    let replaced = subject.put_collection(other.clone(), standard()).await;
    assert_eq!(replaced.version, 2);
    let read = subject.store.collection(other).await.unwrap().unwrap();
    assert_eq!(read.path.group.group.as_str(), "Group");
    assert_eq!(read.path.collection.as_str(), "Collection");
    let second = subject.put_collection(collection_path("gROUP", "second"), standard()).await;
    assert_eq!(second.path.group.group.as_str(), "Group", "the group as it was first spelled");
}

/// Order, paging and scope of lists.
pub async fn collections_are_listed_by_group_and_name(subject: Subject) {
    for (group, name) in [
        ("g-b", "x"),
        ("g", "sdk_test"),
        ("g", "sdk-test"),
        ("G", "July"),
        ("g", "jc1"),
        ("a", "z"),
    ] {
        subject.put_collection(collection_path(group, name), standard()).await;
    }
    let all = Scope::Subscription(group("g").subscription);
    let names = |records: Vec<crate::record::CollectionRecord>| {
        records.into_iter().map(|r| r.path.collection.as_str().to_owned()).collect::<Vec<_>>()
    };
    let list = async |scope: &Scope, page| {
        names(subject.store.collections(scope.clone(), page).await.unwrap())
    };
    let ordered = ["z", "jc1", "July", "sdk-test", "sdk_test", "x"];
    assert_eq!(list(&all, Page::first(100)).await, ordered);
    assert_eq!(list(&all, Page { after: None, skip: 1, limit: 2 }).await, ["jc1", "July"]);
    let after = Some(collection_path("g", "JULY"));
    assert_eq!(list(&all, Page { after, skip: 1, limit: 9 }).await, ["sdk_test", "x"]);
    let of_group = Scope::Group(group("G"));
    assert_eq!(list(&of_group, Page::first(9)).await, ordered[1..5]);
    assert_eq!(list(&Scope::Group(group("none")), Page::first(9)).await, [""; 0]);
}

/// A refused edit leaves no partial changes, such as a new group.
pub async fn a_refused_edit_changes_nothing(subject: Subject) {
    let created = subject.create_collection().await;
    let refusal = Rejection::from(std::io::Error::other("no"));
    let error = refusal.clone();
    let refuse = Box::new(move |_: CollectionContext<'_>| Err(error.clone()));
    let refused = subject.store.edit_collection(collection_path("g", "c"), refuse).await;
    assert_eq!(refused, Err(StoreError::Rejected(refusal.clone())));
    let error = refusal.clone();
    let refuse = Box::new(move |_: CollectionContext<'_>| Err(error.clone()));
    let refused = subject.store.edit_collection(collection_path("new", "c"), refuse).await;
    assert_eq!(refused, Err(StoreError::Rejected(refusal.clone())));
    assert_eq!(subject.store.group(group("new")).await.unwrap(), None);
    let error = refusal.clone();
    let refuse = Box::new(move |_: JobContext<'_>| Err(error.clone()));
    let refused = subject.store.edit_job(job_path("j"), refuse).await;
    assert_eq!(refused, Err(StoreError::Rejected(refusal)));
    assert_eq!(subject.job("j").await, None);
    let read = subject.store.collection(collection_path("g", "c")).await.unwrap();
    assert_eq!(read, Some(created));
}

/// The context of an edit: aggregates of its jobs, and other collections by plan.
pub async fn an_edit_of_a_collection_sees_the_facts_of_its_jobs(subject: Subject) {
    subject.create_collection().await;
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    for (name, facts) in [
        ("a", JobFacts { shortest_gap: seconds(60), authenticated: true, shortest_retry: None }),
        (
            "b",
            JobFacts {
                shortest_gap: seconds(30),
                authenticated: true,
                shortest_retry: seconds(20),
            },
        ),
        ("c", JobFacts::default()),
    ] {
        subject.put_job(name, crate::JobPut { facts, ..put(definition(), None) }).await;
    }
    let mut free = standard();
    free.plan = Plan::Free;
    subject.put_collection(collection_path("g", "free"), free.clone()).await;
    subject.put_collection(collection_path("g2", "free"), free).await;

    let seen = Arc::new(Mutex::new(None));
    let writer = seen.clone();
    let inspect = Box::new(move |context: CollectionContext<'_>| {
        let others = [Plan::Free, Plan::Standard].map(context.others);
        *writer.lock().unwrap() = Some((context.facts, others, context.existing.is_some()));
        Ok(CollectionWrite::Keep)
    });
    subject.store.edit_collection(collection_path("g", "C"), inspect).await.unwrap();
    let facts = CollectionFacts {
        jobs: 3,
        shortest_gap: seconds(30),
        authenticated: 2,
        shortest_retry: seconds(20),
    };
    assert_eq!(
        *seen.lock().unwrap(),
        Some((facts, [2, 0], true)),
        "the collection itself is not counted"
    );
}

/// The decision and the write are one transaction.
pub async fn concurrent_puts_cannot_exceed_the_quota_of_jobs(subject: Subject) {
    const MAX: u64 = 5;
    subject.create_collection().await;
    let race = (0..20).map(|number| {
        let write = JobWrite::Put(Box::new(put(definition(), None)));
        let decide = move |context: JobContext<'_>| match context.jobs < MAX {
            true => Ok(write.clone()),
            false => Err(Rejection::from(std::io::Error::other("full"))),
        };
        subject.store.edit_job(job_path(&format!("j{number}")), Box::new(decide))
    });
    // Polled together, so that a store may process them concurrently.
    let mut edits: Vec<_> = race.collect();
    let mut won = 0;
    std::future::poll_fn(|context| {
        edits.retain_mut(|edit| match edit.as_mut().poll(context) {
            std::task::Poll::Pending => true,
            std::task::Poll::Ready(result) => {
                won += u64::from(result.is_ok());
                false
            }
        });
        if edits.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    assert_eq!(won, MAX);
    let jobs =
        subject.store.jobs(collection_path("g", "c"), Default::default(), Page::first(99), 99);
    assert_eq!(jobs.await.unwrap().jobs.len() as u64, MAX);
}
