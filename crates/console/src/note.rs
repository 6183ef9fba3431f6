//! Notes: the reason that a user gave for an action, with the user and the time.
use serde_json::Value;

use crate::address::{CollectionAddress, JobAddress, encode};
use crate::api::{Api, Json as _, read};
use crate::view::{Time, View};

/// Actions that enable or disable.
const SWITCHED: [&str; 2] = ["Enabled", "Disabled"];

/// A note on an action.
#[derive(Clone)]
pub(crate) struct Note {
    pub(crate) time: Option<Time>,
    /// `Disabled`, `Ran` and so on.
    pub(crate) action: String,
    pub(crate) text: String,
    pub(crate) by: String,
    /// Collection and job; empty if the note is about the whole server.
    pub(crate) subject: String,
    /// URL of the page of the subject; empty if it has none.
    pub(crate) href: String,
}

impl Note {
    fn new(note: &Value, view: &View) -> Note {
        let id = note.text("resource");
        let job = JobAddress::of_id(&id, &view.default_group);
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
