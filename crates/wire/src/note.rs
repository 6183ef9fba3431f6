//! Notes that callers give with actions.

use kalends_domain::{NoteRecord, NoteSubject};

use crate::id::{collection_id, job_id};
use crate::json::Json;
use crate::object::ObjectBuilder;

/// Serialises a note. One about all jobs has neither `collection` nor `job`, one about a collection has
/// no `job`.
pub fn write_note(note: &NoteRecord) -> Json<'_> {
    let id = match &note.subject {
        NoteSubject::AllJobs => None,
        NoteSubject::Collection(path) => Some(collection_id(path)),
        NoteSubject::Job(path) => Some(job_id(path)),
    };
    let collection = note.subject.collection().map(|path| path.collection.as_str());
    ObjectBuilder::new()
        .put("time", note.time)
        .put("action", note.action.as_str())
        .put("note", &note.text)
        .put("by", &note.author.id)
        .put_some("byName", note.author.name.as_ref())
        .put_some("collection", collection)
        .put_some("job", note.subject.job().map(|path| path.job.as_str()))
        .put_some("resource", id)
        .into()
}
