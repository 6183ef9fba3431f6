//! Notes: the reason that a user gave for an action, with the user and the time.
use std::time::Duration;

use kalends_recurrence::Instant;
use serde_json::Value;

use crate::address::{CollectionAddress, JobAddress, encode};
use crate::api::{Api, Json as _, read};
use crate::format::counted;
use crate::view::{Time, View};

/// Actions that enable or disable.
const SWITCHED: [&str; 2] = ["Enabled", "Disabled"];

/// Time between two notes that a user gives at once, at most.
const GROUP_DISTANCE: Duration = Duration::from_secs(10);

/// A note on an action.
#[derive(Clone)]
pub(crate) struct Note {
    pub(crate) time: Option<Time>,
    at: Option<Instant>,
    is_of_job: bool,
    /// `Disabled`, `Ran` and so on.
    pub(crate) action: String,
    pub(crate) text: String,
    pub(crate) by: String,
    /// Collection and job; empty if the note is about the whole server.
    pub(crate) subject: String,
    /// URL of the page of the subject; empty if it has none.
    pub(crate) href: String,
}

/// Notes on many jobs that a user gave at once.
pub(crate) struct NoteGroup {
    /// The newest one.
    pub(crate) note: Note,
    /// Time of the oldest one.
    oldest: Option<Instant>,
    jobs: u64,
}

impl NoteGroup {
    /// Groups notes, which come newest first.
    pub(crate) fn of(notes: Vec<Note>) -> Vec<NoteGroup> {
        let mut groups: Vec<NoteGroup> = Vec::new();
        for note in notes {
            match groups.last_mut().filter(|group| group.has(&note)) {
                Some(group) => {
                    group.jobs += 1;
                    group.oldest = note.at;
                }
                None => groups.push(NoteGroup { oldest: note.at, jobs: 1, note }),
            }
        }
        groups
    }

    fn has(&self, other: &Note) -> bool {
        let is_close = match (self.oldest, other.at) {
            (Some(oldest), Some(at)) => oldest.since(at) <= GROUP_DISTANCE,
            _ => false,
        };
        let key =
            |note: &Note| (note.is_of_job, note.action.clone(), note.text.clone(), note.by.clone());
        is_close && other.is_of_job && key(&self.note) == key(other)
    }

    /// `50 jobs`; empty for a single note.
    pub(crate) fn jobs(&self) -> String {
        match self.jobs {
            1 => String::new(),
            jobs => counted(jobs, "job", "jobs"),
        }
    }
}

impl Note {
    fn new(note: &Value, view: &View) -> Note {
        let id = note.text("resource");
        let job = JobAddress::of_id(&id, &view.default_group);
        let is_of_job = job.is_some();
        let collection = CollectionAddress::of_id(&id, &view.default_group);
        let (subject, href) = match (job, collection) {
            (Some(job), _) => (
                format!("{}/{}", job.collection.collection, job.job),
                format!("{}jobs/{}", view.root, job.in_console()),
            ),
            (None, Some(collection)) => {
                let href = format!("{}collections/{}", view.root, collection.in_console());
                (collection.collection, href)
            }
            (None, None) => (String::new(), String::new()),
        };
        Note {
            time: note.time("time").map(|at| view.time(at)),
            at: note.time("time"),
            is_of_job,
            action: note.text("action"),
            text: note.text("note"),
            by: match note.text("byName") {
                name if name.is_empty() => note.text("by"),
                name => name,
            },
            subject,
            href,
        }
    }

    /// The notes of a job, newest first.
    pub(crate) async fn of_job(job: &JobAddress, view: &View, api: &dyn Api) -> Vec<Note> {
        Note::list(api, &job.api("/notes", ""), view).await
    }

    /// The newest notes of everything that the caller may read.
    pub(crate) async fn newest(limit: usize, view: &View, api: &dyn Api) -> Vec<Note> {
        Note::list(api, &format!("/api/notes?limit={limit}"), view).await
    }

    /// The note of the user who disabled a collection; `None` if it was enabled since.
    pub(crate) async fn of_disabled_collection(
        collection: &CollectionAddress,
        view: &View,
        api: &dyn Api,
    ) -> Option<Note> {
        let target = format!("/api/notes?collection={}", encode(&collection.name_or_id()));
        let notes = Note::list(api, &target, view).await;
        let switched = notes.into_iter().find(|note| SWITCHED.contains(&note.action.as_str()));
        switched.filter(|note| note.action == "Disabled")
    }

    async fn list(api: &dyn Api, target: &str, view: &View) -> Vec<Note> {
        let notes = read(api, target).await.unwrap_or_default();
        notes.list("value").iter().map(|note| Note::new(note, view)).collect()
    }
}
