//! `POST …/preview`: the effect of saving a definition, decided by the code that saves it, without
//! saving it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use kalends_domain::{
    AccessScope, CollectionPath, EditKind, JobDefinition, JobPath, Permission, Switch,
};
use kalends_recurrence::{ImmediateRun, Instant};
use kalends_store::record::{Cause, CollectionRecord, Disposition};
use kalends_store::{JobContext, JobFilterState, JobWrite, WaitingRuns};
use kalends_wire::{Json, Version};

use super::explain::state_word;
use super::job_draft::{JobDraft, StoredCertificates};
use super::occurrences::snapshot;
use super::{HandlerResult, RequestContext, collections, jobs};
use crate::access::Caller;
use crate::app::App;
use crate::edit::{Condition, JobEdit, Repetition};
use crate::request::read_json;
use crate::response::{ApiError, ApiResponse};
use crate::route::PathForm;

/// Future occurrences in a preview.
const OCCURRENCES_SHOWN: usize = 10;
/// DST transitions of the coming year are reported, and later ones up to the last run that is shown.
const NOTES_AHEAD: Duration = Duration::from_secs(366 * 86_400);

pub(super) async fn preview(mut request: RequestContext, path: JobPath) -> HandlerResult {
    let version = request.new_version()?;
    let body = read_json(&mut request).await?;
    let access = PreviewAccess::of(&request.caller, &path.collection);
    let condition = Condition::of(&request.headers);
    let app = &request.app;
    let created = created_collection(&request, &path.collection, access).await?;
    let prepared = PreparedPreview::read(app, &path, &body, condition, version, access).await?;
    Ok(ApiResponse::json(StatusCode::OK, &prepared.decide(app, created.as_deref(), effect).await?))
}

/// The collection that saving the first job of a short path would create; `None` if there is one, or if
/// the caller may not create it.
pub(super) async fn created_collection(
    request: &RequestContext,
    path: &CollectionPath,
    access: PreviewAccess,
) -> Result<Option<Arc<CollectionRecord>>, ApiError> {
    match (PathForm::of(&request.path), access) {
        (PathForm::Short, PreviewAccess::Save) => {
            Ok(collections::missing(&request.app, path).await?.map(Arc::new))
        }
        _ => Ok(None),
    }
}

/// How much a preview reveals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreviewAccess {
    /// The caller may save the definition.
    Save,
    /// The caller may not. That a definition equals the stored one, or that a password opens the stored
    /// certificate, would confirm a guessed secret and is not revealed.
    Read,
}

impl PreviewAccess {
    pub(super) fn of(caller: &Caller, collection: &CollectionPath) -> PreviewAccess {
        match caller.may(Permission::Write, &AccessScope::Collection(collection.clone())) {
            true => PreviewAccess::Save,
            false => PreviewAccess::Read,
        }
    }
}

/// A definition that was read for its preview.
pub(super) struct PreparedPreview {
    path: JobPath,
    draft: JobDraft,
    edit: JobEdit,
}

impl PreparedPreview {
    pub(super) async fn read(
        app: &App,
        path: &JobPath,
        body: &Json<'_>,
        condition: Condition,
        version: Version,
        access: PreviewAccess,
    ) -> Result<PreparedPreview, ApiError> {
        let (repetition, certificates) = match access {
            PreviewAccess::Save => (Repetition::Keep, StoredCertificates::Read),
            PreviewAccess::Read => (Repetition::Replace, StoredCertificates::Skip),
        };
        let draft = JobDraft::read(app, path, body, version, certificates).await?;
        let edit = jobs::job_edit(app, condition, EditKind::Replace, version)?;
        let edit = JobEdit { repetition, ..edit };
        Ok(PreparedPreview { path: path.clone(), draft, edit })
    }

    /// Calls `decide` with the complete definition, on the state that saving it would find. `created` is
    /// the collection that saving would create.
    pub(super) async fn decide<T: Send + 'static>(
        self,
        app: &App,
        created: Option<&CollectionRecord>,
        mut decide: impl FnMut(&JobEdit, JobDefinition, &JobContext<'_>) -> Result<T, ApiError>
        + Send
        + 'static,
    ) -> Result<T, ApiError> {
        let PreparedPreview { path, draft, edit } = self;
        let mut decide = move |context: JobContext<'_>| {
            let definition = draft.complete(context.existing)?;
            decide(&edit, definition, &context)
        };
        match created {
            Some(collection) => decide(jobs::context_in_new(collection)),
            None => decide_only(app, path, decide).await,
        }
    }
}

/// Decides an edit on the state that saving it would find, and changes nothing.
async fn decide_only<T: Send + 'static>(
    app: &App,
    path: JobPath,
    mut decide: impl FnMut(JobContext<'_>) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let decided = Arc::new(Mutex::new(None));
    let result = Arc::clone(&decided);
    let collection = path.collection.clone();
    let decide = move |context: JobContext<'_>| {
        let decision = decide(context)?;
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(decision);
        Ok(JobWrite::Keep)
    };
    let edited = app.store.edit_job(path, Box::new(decide)).await;
    edited.map_err(|error| jobs::store_error(error, &collection))?;
    let decision = decided.lock().unwrap_or_else(PoisonError::into_inner).take();
    decision.ok_or_else(|| ApiError::internal("the store did not decide the edit"))
}

/// The body of a preview.
pub(super) fn effect(
    edit: &JobEdit,
    definition: JobDefinition,
    context: &JobContext<'_>,
) -> Result<Json<'static>, ApiError> {
    let write = edit.decide(definition.clone(), context)?;
    let superseded = superseded_by(&write, context);
    let (effect, state) = match (write, context.existing) {
        (JobWrite::Put(put), None) => ("Create", put.state),
        (JobWrite::Put(put), Some(_)) => ("Replace", put.state),
        (_, existing) => ("Nothing", existing.map(|existing| existing.state).unwrap_or_default()),
    };
    let now = context.now;
    let rule = edit.rule(&definition, context)?;
    let collection = context.collection.collection.state;
    let pause = context.pause.map(|record| record.pause);
    let snapshot = snapshot(&definition, &state, collection, pause, now);
    let upcoming = rule.without_count();
    let mut upcoming = snapshot.upcoming(&upcoming, Instant::MIN, Instant::MAX).peekable();
    let is_skipped = |at: &Instant| state.skip_until.is_some_and(|until| *at <= until);
    let skipped: Vec<_> = std::iter::from_fn(|| upcoming.next_if(is_skipped)).collect();
    let occurrences: Vec<_> = upcoming.take(OCCURRENCES_SHOWN).collect();
    let soon = now.saturating_add(edit.settings.schedules.start_delay);
    let immediate = match occurrences.first() {
        Some(&first) if first <= soon => ImmediateRun::Pending,
        _ => ImmediateRun::Past,
    };
    let noted_until =
        now.saturating_add(NOTES_AHEAD).max(occurrences.last().copied().unwrap_or(now));
    let notes = rule.dst_notes(now, noted_until);
    let runs_at_once = effect != "Nothing"
        && definition.switch == Switch::Enabled
        && runs_at_once(&definition, context)
        && due_before(context) != occurrences.first().copied();
    let state = JobFilterState::of(definition.switch, state.lifecycle);
    let times = |times: &[Instant]| times.iter().map(|at| at.to_string().into()).collect();
    let etag = context.existing.map(|existing| format!("\"{}\"", existing.version).into());
    let etag = etag.map(|etag| ("etag".into(), etag));
    let members = vec![
        ("effect".into(), effect.into()),
        ("state".into(), state_word(state).into()),
        ("runsAtOnce".into(), runs_at_once.into()),
        ("description".into(), rule.describe_with(immediate).into()),
        ("occurrences".into(), Json::Array(times(&occurrences))),
        ("skipped".into(), Json::Array(times(&skipped))),
        ("superseded".into(), Json::Array(times(&superseded))),
        ("notes".into(), Json::Array(notes.into_iter().map(|note| note.text.into()).collect())),
    ];
    Ok(Json::Object(members.into_iter().chain(etag).collect()))
}

/// Whether a definition is due as soon as it is saved: a job that runs once and whose time has passed,
/// or a new recurring one without a start time.
fn runs_at_once(definition: &JobDefinition, context: &JobContext<'_>) -> bool {
    match (&definition.recurrence, definition.start) {
        (None, start) => start.is_none_or(|start| start <= context.now),
        (Some(recurrence), None) => context.existing.is_none() && !recurrence.is_cron(),
        (Some(_), Some(_)) => false,
    }
}

/// When the job would run without the edit.
fn due_before(context: &JobContext<'_>) -> Option<Instant> {
    let existing = context.existing?;
    existing.state.due.filter(|_| existing.job.definition.switch == Switch::Enabled)
}

/// Scheduled times of the runs that an edit ends, and of the first occurrence that was due and not
/// started, in order.
fn superseded_by(write: &JobWrite, context: &JobContext<'_>) -> Vec<Instant> {
    let JobWrite::Put(put) = write else { return vec![] };
    let runs = context
        .open
        .iter()
        .filter(|run| put.waiting == WaitingRuns::Supersede && run.cause == Cause::Scheduled);
    let closed = put.closed_by_edit.iter();
    let closed = closed.filter(|record| record.disposition == Disposition::Superseded);
    let mut times: Vec<_> =
        runs.map(|run| run.scheduled).chain(closed.map(|record| record.from)).collect();
    times.sort_unstable();
    times
}
