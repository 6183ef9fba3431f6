//! Notes that callers give with actions.

use std::time::Duration;

use kalends_domain::{
    Collection, CollectionPath, CollectionState, JobDefinition, NewNote, NoteAction, NoteAuthor,
    NoteRecord, NoteSubject, NoteText, Switch,
};

use crate::api_store::{
    CollectionContext, CollectionWrite, JobContext, JobWrite, Page, PauseContext, PauseWrite,
};
use crate::conformance::Subject;
use crate::conformance::sample::{at, collection_path, definition, group, job_path, put, standard};
use crate::engine_store::Retention;
use crate::error::StoreError;
use crate::record::{Pause, PauseRecord};
use crate::rejection::Rejection;

fn note(text: &str) -> NewNote {
    let author = NoteAuthor { id: "token:1".into(), name: Some("Ä. Ops".into()) };
    NewNote { author, text: NoteText::new(text).unwrap() }
}

fn put_switched(switch: Switch) -> JobWrite {
    let definition = JobDefinition { switch, ..definition() };
    JobWrite::Put(Box::new(put(definition, Some(at(60)))))
}

async fn edit_job(subject: &Subject, name: &str, write: JobWrite, text: &str) {
    let decide = Box::new(move |_: JobContext<'_>| Ok(write.clone()));
    let edit = subject.store.edit_job_with_note(job_path(name), decide, Some(note(text)));
    edit.await.unwrap();
}

async fn edit_collection(
    subject: &Subject,
    path: CollectionPath,
    write: CollectionWrite,
    text: &str,
) {
    let decide = Box::new(move |_: CollectionContext<'_>| Ok(write.clone()));
    subject.store.edit_collection_with_note(path, decide, Some(note(text))).await.unwrap();
}

async fn notes_of(subject: &Subject, name: &str) -> Vec<NoteRecord> {
    subject.store.notes_of_job(job_path(name), Page::first(1_000)).await.unwrap().unwrap()
}

async fn all_notes(subject: &Subject) -> Vec<NoteRecord> {
    subject.store.notes(Page::first(1_000)).await.unwrap()
}

fn texts(notes: &[NoteRecord]) -> Vec<&str> {
    notes.iter().map(|note| note.text.as_str()).collect()
}

/// Each kind of write has its action. The time is that of the store.
pub async fn a_note_is_stored_with_the_action_of_its_edit(subject: Subject) {
    subject.create_collection().await;
    let before = subject.store.now().await.unwrap();
    let mut put_skipped = put(definition(), Some(at(60)));
    put_skipped.state.skip_until = Some(at(60));
    let put_skipped = JobWrite::Put(Box::new(put_skipped));
    for (write, text) in [
        (put_switched(Switch::Enabled), "one"),
        (put_switched(Switch::Enabled), "two"),
        (put_switched(Switch::Disabled), "<b>'; \"ä€😀\" \\u0000"),
        (put_switched(Switch::Enabled), "four"),
        (JobWrite::Run { at: at(70) }, "five"),
        (JobWrite::Keep, "six"),
        (put_skipped, "seven"),
    ] {
        edit_job(&subject, "Job", write, text).await;
    }
    // Without a note there is no row.
    subject.edit_job("job", put_switched(Switch::Disabled)).await;
    let after = subject.store.now().await.unwrap();
    let notes = notes_of(&subject, "jOB").await;
    let actions: Vec<_> = notes.iter().map(|note| (note.action, note.text.as_str())).collect();
    assert_eq!(
        actions,
        [
            (NoteAction::Skipped, "seven"),
            (NoteAction::Noted, "six"),
            (NoteAction::Ran, "five"),
            (NoteAction::Enabled, "four"),
            (NoteAction::Disabled, "<b>'; \"ä€😀\" \\u0000"),
            (NoteAction::Edited, "two"),
            (NoteAction::Created, "one"),
        ]
    );
    for stored in &notes {
        assert_eq!(stored.subject, NoteSubject::Job(job_path("Job")));
        assert_eq!(stored.author, note("x").author);
        assert!((before..=after).contains(&stored.time), "{stored:?}");
    }
    let NoteSubject::Job(path) = &notes[0].subject else { panic!("{notes:?}") };
    assert_eq!(path.job.as_str(), "Job", "the spelling of the job");
    assert_eq!(all_notes(&subject).await, notes);
}

/// Notes of a collection are not among those of its jobs.
pub async fn notes_of_collections_are_listed_with_those_of_jobs(subject: Subject) {
    let path = || collection_path("g", "c");
    let put = |state| CollectionWrite::Put(Collection { state, ..standard() });
    for (write, text) in [
        (put(CollectionState::Enabled), "created"),
        (put(CollectionState::Disabled), "off"),
        (put(CollectionState::Enabled), "on"),
        (CollectionWrite::Keep, "kept"),
        (CollectionWrite::Put(Collection { tags: None, ..standard() }), "edited"),
    ] {
        edit_collection(&subject, path(), write, text).await;
    }
    let put_job = put_switched(Switch::Enabled);
    edit_job(&subject, "j", put_job, "job").await;
    assert_eq!(texts(&notes_of(&subject, "j").await), ["job"]);
    let notes = all_notes(&subject).await;
    let actions: Vec<_> = notes.iter().map(|note| (note.action, note.text.as_str())).collect();
    assert_eq!(
        actions,
        [
            (NoteAction::Created, "job"),
            (NoteAction::Edited, "edited"),
            (NoteAction::Noted, "kept"),
            (NoteAction::Enabled, "on"),
            (NoteAction::Disabled, "off"),
            (NoteAction::Created, "created"),
        ]
    );
    assert!(notes[1..].iter().all(|note| note.subject == NoteSubject::Collection(path())));
}

/// Newest first; a page starts below a number.
pub async fn notes_are_paged(subject: Subject) {
    subject.create_collection().await;
    for number in 0..6 {
        for name in ["a", "b"] {
            edit_job(&subject, name, put_switched(Switch::Enabled), &format!("{name}{number}"))
                .await;
        }
    }
    let store = &subject.store;
    let page = async |page| store.notes_of_job(job_path("a"), page).await.unwrap().unwrap();
    let first = page(Page::first(2)).await;
    assert_eq!(texts(&first), ["a5", "a4"]);
    let after = Some(first[1].number);
    assert_eq!(texts(&page(Page { after, skip: 0, limit: 3 }).await), ["a3", "a2", "a1"]);
    assert_eq!(texts(&page(Page { after, skip: 3, limit: 3 }).await), ["a0"]);
    assert_eq!(texts(&page(Page { after, skip: 4, limit: 3 }).await), [""; 0]);
    let first = store.notes(Page::first(3)).await.unwrap();
    assert_eq!(texts(&first), ["b5", "a5", "b4"]);
    let after = Some(first[2].number);
    let next = store.notes(Page { after, skip: 1, limit: 2 }).await.unwrap();
    assert_eq!(texts(&next), ["b3", "a3"]);
}

/// However many notes of other subjects are newer.
pub async fn notes_of_a_collection_are_found_among_newer_ones_of_others(subject: Subject) {
    let path = || collection_path("g", "c");
    let put = |state| CollectionWrite::Put(Collection { state, ..standard() });
    let of_collection = async |page| subject.store.notes_of_collection(path(), page).await.unwrap();
    assert_eq!(of_collection(Page::first(1)).await, None);
    edit_collection(&subject, path(), put(CollectionState::Enabled), "created").await;
    edit_collection(&subject, path(), put(CollectionState::Disabled), "off").await;
    let other = collection_path("g", "other");
    edit_collection(&subject, other.clone(), put(CollectionState::Disabled), "other").await;
    for name in ["a", "b"] {
        for number in 0..60 {
            let text = format!("{name}{number}");
            edit_job(&subject, name, put_switched(Switch::Enabled), &text).await;
        }
    }
    let newest = of_collection(Page::first(1)).await.unwrap();
    assert_eq!(texts(&newest), ["off"]);
    assert_eq!(newest[0].subject, NoteSubject::Collection(path()));
    let rest = Page { after: Some(newest[0].number), skip: 0, limit: 9 };
    assert_eq!(texts(&of_collection(rest).await.unwrap()), ["created"]);
    let upper = collection_path("G", "OTHER");
    let of_other = subject.store.notes_of_collection(upper, Page::first(9)).await.unwrap();
    assert_eq!(texts(&of_other.unwrap()), ["other"]);
}

/// A missing collection is an error; a missing job is `None`.
pub async fn notes_of_a_missing_job_or_collection(subject: Subject) {
    let notes = || subject.store.notes_of_job(job_path("j"), Page::first(1));
    assert_eq!(notes().await, Err(StoreError::NoCollection));
    subject.create_collection().await;
    assert_eq!(notes().await, Ok(None));
    subject.create_due_job("j").await;
    assert_eq!(notes().await, Ok(Some(vec![])));
}

/// A rejected edit stores no note; neither does one of a job that does not exist.
pub async fn a_rejected_edit_stores_no_note(subject: Subject) {
    subject.create_collection().await;
    subject.create_due_job("j").await;
    let refusal = Rejection::from(std::io::Error::other("no"));
    let error = refusal.clone();
    let refuse = Box::new(move |_: JobContext<'_>| Err(error.clone()));
    let refused = subject.store.edit_job_with_note(job_path("j"), refuse, Some(note("why")));
    assert_eq!(refused.await, Err(StoreError::Rejected(refusal.clone())));
    let error = refusal.clone();
    let refuse = Box::new(move |_: CollectionContext<'_>| Err(error.clone()));
    let path = collection_path("g", "c");
    let refused = subject.store.edit_collection_with_note(path, refuse, Some(note("why")));
    assert_eq!(refused.await, Err(StoreError::Rejected(refusal)));
    for write in [JobWrite::Keep, JobWrite::Run { at: at(1) }, JobWrite::Delete] {
        edit_job(&subject, "missing", write, "why").await;
    }
    edit_collection(&subject, collection_path("g", "other"), CollectionWrite::Keep, "why").await;
    assert_eq!(all_notes(&subject).await, []);
}

/// The limit holds for each job and for each collection itself.
pub async fn the_newest_notes_of_a_resource_are_kept(subject: Subject) {
    let put = || CollectionWrite::Put(standard());
    for name in ["c", "other"] {
        edit_collection(&subject, collection_path("g", name), put(), "first").await;
    }
    edit_job(&subject, "j", put_switched(Switch::Enabled), "first").await;
    edit_job(&subject, "other", put_switched(Switch::Enabled), "first").await;
    for number in 0..NoteRecord::PER_SUBJECT_MAX {
        edit_job(&subject, "j", JobWrite::Keep, &number.to_string()).await;
        let keep = CollectionWrite::Keep;
        edit_collection(&subject, collection_path("g", "c"), keep, &number.to_string()).await;
    }
    let notes = notes_of(&subject, "j").await;
    assert_eq!(notes.len(), NoteRecord::PER_SUBJECT_MAX);
    assert_eq!((&*notes[0].text, &*notes[99].text), ("99", "0"));
    let all = all_notes(&subject).await;
    assert_eq!(all.len(), 2 * NoteRecord::PER_SUBJECT_MAX + 2);
    assert_eq!(texts(&all[200..]), ["first", "first"], "those of the other job and collection");
}

/// Neither a list nor a new job or collection of the same name shows the notes of a deleted one.
pub async fn notes_are_deleted_with_their_job_or_collection(subject: Subject) {
    let path = || collection_path("g", "c");
    let put_collection = || CollectionWrite::Put(standard());
    edit_collection(&subject, path(), put_collection(), "collection").await;
    edit_collection(&subject, collection_path("g", "other"), put_collection(), "other").await;
    for name in ["a", "b"] {
        edit_job(&subject, name, put_switched(Switch::Enabled), name).await;
    }
    edit_job(&subject, "a", JobWrite::Delete, "a note of a deletion belongs to nothing").await;
    assert_eq!(texts(&all_notes(&subject).await), ["b", "other", "collection"]);
    subject.create_due_job("a").await;
    assert_eq!(notes_of(&subject, "a").await, []);

    edit_collection(&subject, path(), CollectionWrite::Delete, "gone").await;
    assert_eq!(texts(&all_notes(&subject).await), ["other"]);
    subject.create_collection().await;
    subject.create_due_job("b").await;
    assert_eq!(notes_of(&subject, "b").await, []);
    assert_eq!(texts(&all_notes(&subject).await), ["other"]);
    assert!(subject.store.delete_group(group("g")).await.unwrap());
    assert_eq!(all_notes(&subject).await, []);
    // The rows that become unreachable are removed as well.
    subject.store.prune(Retention::default(), at(0), 1_000).await.unwrap();
    assert_eq!(subject.store.check().await.unwrap(), Vec::<String>::new());
}

/// Notes are retained as long as history.
pub async fn notes_expire_with_the_history(subject: Subject) {
    subject.create_collection().await;
    for text in ["one", "two", "three"] {
        edit_job(&subject, "j", put_switched(Switch::Enabled), text).await;
    }
    let retention = Retention::default();
    let last = all_notes(&subject).await[0].time;
    let prune = async |now, limit| subject.store.prune(retention, now, limit).await.unwrap();
    let expiry = all_notes(&subject).await[2].time.saturating_add(retention.history_age);
    assert_eq!(prune(expiry, 10).await, 0, "the first is not older than the limit");
    let expired = last.saturating_add(retention.history_age + Duration::from_secs(1));
    assert_eq!(prune(expired, 2).await, 2);
    assert_eq!(texts(&notes_of(&subject, "j").await).len(), 1);
    assert_eq!(prune(expired, 2).await, 1);
    assert_eq!(all_notes(&subject).await, []);
}

/// Pauses, their ends and requests that change nothing are notes about all jobs.
pub async fn pauses_have_notes_about_all_jobs(subject: Subject) {
    let edit = async |write: PauseWrite, text: &str| {
        let decide = Box::new(move |_: PauseContext<'_>| Ok(write.clone()));
        subject.store.edit_pause_with_note(decide, Some(note(text))).await.unwrap();
    };
    let record = |pause| PauseRecord { pause, reason: "moving".into(), by: "ops".into() };
    let pause = Pause::new(at(0), None);
    edit(PauseWrite::Put(record(pause)), "moving").await;
    edit(PauseWrite::Put(record(pause.resumed(at(1)))), "moved").await;
    edit(PauseWrite::Keep, "again").await;
    let refusal = Rejection::from(std::io::Error::other("no"));
    let refuse = Box::new(move |_: PauseContext<'_>| Err(refusal.clone()));
    assert!(subject.store.edit_pause_with_note(refuse, Some(note("why"))).await.is_err());
    let notes = all_notes(&subject).await;
    let actions: Vec<_> = notes.iter().map(|note| (note.action, note.text.as_str())).collect();
    assert_eq!(
        actions,
        [
            (NoteAction::Noted, "again"),
            (NoteAction::Resumed, "moved"),
            (NoteAction::Paused, "moving"),
        ]
    );
    assert!(notes.iter().all(|note| note.subject == NoteSubject::AllJobs));
    assert_eq!(subject.store.check().await.unwrap(), Vec::<String>::new());
}
