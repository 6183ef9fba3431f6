//! `GET …/jobs/{job}/notes` and `GET /api/notes`: notes that callers gave with actions.

use http::StatusCode;
use kalends_domain::{AccessScope, JobPath, NoteRecord, Permission};
use kalends_store::{Page, StoreError};
use kalends_wire::{ErrorDetail, write_list, write_note};

use super::all_jobs::read_collection;
use super::{HandlerResult, RequestContext};
use crate::access::Caller;
use crate::app::App;
use crate::paging::{CursorRequest, PAGE_MAX, PageRequest};
use crate::request::invalid;
use crate::response::ApiResponse;

/// Notes that one request examines for a caller who may not read all of them.
const EXAMINED_MAX: usize = 5_000;
/// Notes that are read at a time for such a caller.
const BATCH: usize = 500;

/// Notes of a job, newest first.
pub(super) async fn of_job(request: RequestContext, path: JobPath) -> HandlerResult {
    let version = request.new_version()?;
    let page =
        PageRequest::read(&request, version, PAGE_MAX, |position| position.parse::<u64>().ok())?;
    let mut notes = match request.app.store.notes_of_job(path.clone(), page.page.clone()).await {
        Err(StoreError::NoCollection) => {
            return Err(ErrorDetail::collection_not_found(&path.collection).into());
        }
        notes => notes?.ok_or_else(|| ErrorDetail::job_not_found(&path.job))?,
    };
    let next = page.truncate(&mut notes, |note| note.number.to_string());
    Ok(response(&notes, next.as_deref()))
}

/// All notes that the caller may read, newest first; with the parameter `collection` those of a
/// collection itself.
pub(super) async fn list(request: RequestContext) -> HandlerResult {
    request.new_version()?;
    let collection = request.query.text("collection")?;
    let parameters: Vec<_> =
        collection.map(|text| ("collection", text.to_owned())).into_iter().collect();
    let page = CursorRequest::read(&request, &parameters)?;
    let after = page.position.as_ref().map(|position| {
        let message = "must come from a nextLink; request the first page again";
        position.parse().map_err(|_| invalid("cursor", message))
    });
    let (app, after) = (&request.app, after.transpose()?);
    let Readable { notes, rest } = match collection {
        Some(text) => {
            let path = read_collection(&request, text)?;
            let limit = page.size + 1;
            let notes = app.store.notes_of_collection(path.clone(), Page { after, skip: 0, limit });
            let notes = notes.await?.ok_or_else(|| ErrorDetail::collection_not_found(&path))?;
            Readable::first(notes, page.size)
        }
        None => readable(app, &request.caller, after, page.size).await?,
    };
    let next = rest.map(|rest| page.link_after(&rest.to_string()));
    Ok(response(&notes, next.as_deref()))
}

fn response(notes: &[NoteRecord], next: Option<&str>) -> ApiResponse {
    let values = notes.iter().map(|note| write_note(note).into_owned()).collect();
    ApiResponse::json(StatusCode::OK, &write_list(values, next))
}

/// Notes that a caller may read.
struct Readable {
    notes: Vec<NoteRecord>,
    /// The number of the note after which the next page begins; `None` at the end.
    rest: Option<u64>,
}

impl Readable {
    /// The first `size` of these notes.
    fn first(mut notes: Vec<NoteRecord>, size: usize) -> Readable {
        let has_more = notes.len() > size;
        notes.truncate(size);
        let rest = notes.last().filter(|_| has_more).map(|note| note.number);
        Readable { notes, rest }
    }
}

/// At most `size` notes after a number.
async fn readable(
    app: &App,
    caller: &Caller,
    mut after: Option<u64>,
    size: usize,
) -> Result<Readable, StoreError> {
    let may_read_all = caller.may(Permission::Read, &AccessScope::Everything);
    let may_read = |note: &NoteRecord| {
        // Every caller may know why nothing runs.
        may_read_all
            || note.subject.collection().is_none_or(|collection| {
                caller.may(Permission::Read, &AccessScope::Collection(collection.clone()))
            })
    };
    let batch = if may_read_all { size + 1 } else { BATCH };
    let mut notes = Vec::new();
    for _ in 0..EXAMINED_MAX / batch {
        let found = app.store.notes(Page { after, skip: 0, limit: batch }).await?;
        let is_last = found.len() < batch;
        after = found.last().map(|note| note.number);
        notes.extend(found.into_iter().filter(may_read));
        if is_last || notes.len() > size {
            return Ok(Readable::first(notes, size));
        }
    }
    Ok(Readable { notes, rest: after })
}
