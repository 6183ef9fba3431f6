//! Jobs.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{Method, StatusCode};
use kalends_actions::certificate::read_pfx;
use kalends_domain::{
    AccessScope, CollectionPath, CollectionState, EditKind, HttpAuthentication, JobDefinition,
    JobName, JobPath, JobStatus, Lifecycle, Permission, Switch, rule_of,
};
use kalends_recurrence::Instant;
use kalends_store::record::JobRecord;
use kalends_store::{
    DecideJob, Edited, JobContext, JobFilter, JobWrite, JobsPage, Refusal, RefusalKind, StoreError,
};
use kalends_wire::{
    ErrorCode, ErrorDetail, ErrorDetails, JobRuntimeState, Json, Version, keep_extensions,
    patch_job, read_job, write_job, write_list,
};

use super::search::{Until, search};
use super::{Asked, Done, done, nothing_there};
use crate::answer::{Answer, Refused};
use crate::app::App;
use crate::edit::{
    Condition, JobEdit, Mistakes, check_destinations, finished, unread_certificates,
};
use crate::filter;
use crate::paging::AskedPage;
use crate::request::read_json;

/// As many jobs the old versions list when `$top` does not say; no plan has more.
const OLD_PAGE_DEFAULT: usize = 1_000;
/// As many coming occurrences a preview shows.
const OCCURRENCES_SHOWN: usize = 10;
const YEAR: std::time::Duration = std::time::Duration::from_secs(366 * 86_400);

pub(super) async fn list(asked: Asked, path: CollectionPath) -> Done {
    let version = asked.query.version()?;
    let filter = asked.query.filter()?.map(filter::jobs).transpose()?;
    let filter: JobFilter = filter.unwrap_or_default();
    let asked_page =
        AskedPage::read(&asked, version, OLD_PAGE_DEFAULT, |position| JobName::new(position).ok())?;
    let page = asked_page.page.clone();
    let until = if version.is_old() { Until::Full } else { Until::Looked };
    let JobsPage { mut jobs, collection, rest } =
        search(&asked.app, &path, &filter, page, until).await?;
    let goes_on = rest.and_then(|rest| rest.after).map(|name| name.to_string());
    let next = asked_page.cut(&mut jobs, |job| job.path.job.to_string());
    let next = next.or_else(|| asked_page.link_after(&goes_on?));
    let values = jobs.iter().map(|job| write(job, collection, version).into_owned()).collect();
    Ok(Answer::json(StatusCode::OK, &write_list(values, next.as_deref())))
}

pub(super) async fn get(asked: Asked, path: JobPath) -> Done {
    let version = asked.query.version()?;
    let (job, state) = find(&asked.app, &path).await?;
    Ok(answer(StatusCode::OK, &job, state, version))
}

pub(super) async fn change(asked: Asked, path: JobPath) -> Done {
    let version = asked.query.version()?;
    match asked.method {
        Method::PUT => put(asked, path, version).await,
        Method::PATCH => patch(asked, path, version).await,
        _ => {
            delete(&asked.app, path, Condition::of(&asked.headers)).await?;
            done()
        }
    }
}

pub(super) async fn delete(app: &App, path: JobPath, condition: Condition) -> Result<(), Refused> {
    let delete = move |context: JobContext<'_>| {
        let existing = context.existing.ok_or_else(absent)?;
        condition.check(Some(existing.version))?;
        Ok(JobWrite::Delete)
    };
    edit(app, path, Box::new(delete), &Mistakes::default()).await.map(drop)
}

/// Enables or disables a job. `false` where it was so already.
pub(super) async fn switch(app: &App, path: JobPath, switch: Switch) -> Result<bool, Refused> {
    let edit_of_job = job_edit(app, Condition::default(), EditKind::Change)?;
    let mistakes = edit_of_job.mistakes.clone();
    let decide = move |context: JobContext<'_>| {
        let existing = context.existing.ok_or_else(absent)?;
        let new = JobDefinition { switch, ..existing.job.definition.clone() };
        edit_of_job.decide(new, &context)
    };
    let (edited, _) = edit(app, path, Box::new(decide), &mistakes).await?;
    Ok(edited.before.map(|job| job.version) != edited.after.map(|job| job.version))
}

/// `POST …/run`: one extra occurrence, now.
pub(super) async fn run(asked: Asked, path: JobPath) -> Done {
    asked.query.version()?;
    run_one(&asked.app, path).await?;
    done()
}

pub(super) async fn run_one(app: &App, path: JobPath) -> Result<(), Refused> {
    app.gate.pass_run(app, &path.collection)?;
    let at = app.now();
    let mistakes = Mistakes::default();
    let found = mistakes.clone();
    let run = move |context: JobContext<'_>| {
        let existing = context.existing.ok_or_else(absent)?;
        match existing.state.lifecycle {
            Lifecycle::Active => Ok(JobWrite::Run { at }),
            _ => {
                let message = finished(existing).message;
                Err(found.keep(ErrorDetails::one(ErrorCode::JobNotRunnable, "", message)))
            }
        }
    };
    edit(app, path, Box::new(run), &mistakes).await.map(drop)
}

/// `POST …/preview`: what a definition would do, without saving it.
pub(super) async fn preview(mut asked: Asked, path: JobPath) -> Done {
    let version = asked.new_version()?;
    let body = read_json(&mut asked).await?;
    let app = &asked.app;
    let definition = read_job(&body, version, &app.settings.limits)?;
    let now = app.now();
    let rule = rule_of(&definition, now, &app.settings.schedules)
        .map_err(ErrorDetails::from_rule_errors)?;
    let existing = match app.store.job(path.clone()).await {
        Ok(existing) => existing,
        Err(StoreError::NoCollection) => {
            return Err(ErrorDetail::collection_not_found(&path.collection).into());
        }
        Err(error) => return Err(error.into()),
    };
    // Whether two definitions are the same tells whether a secret was guessed; that is for those who
    // may set it.
    let place = AccessScope::Collection(path.collection.clone());
    let may_compare = asked.caller.may(Permission::Write, &place);
    let stored = existing.as_ref().map(|(job, _)| &job.job.definition);
    check_destinations(&definition, stored, &path.collection, &app.settings.egress)?;
    let effect = match existing {
        None => "Create",
        Some((job, _)) if may_compare && job.job.definition == definition => "Nothing",
        Some(_) => "Replace",
    };
    let occurrences = rule.occurrences().take(OCCURRENCES_SHOWN);
    let changes = rule.dst_notes(now, now.saturating_add(YEAR));
    let body = Json::Object(vec![
        ("effect".into(), effect.into()),
        ("description".into(), rule.describe().into()),
        ("occurrences".into(), Json::Array(occurrences.map(|at| at.to_string().into()).collect())),
        (
            "notes".into(),
            Json::Array(changes.into_iter().map(|change| change.text.into()).collect()),
        ),
    ]);
    Ok(Answer::json(StatusCode::OK, &body))
}

async fn put(mut asked: Asked, path: JobPath, version: Version) -> Done {
    let body = read_json(&mut asked).await?;
    let definition = read_job(&body, version, &asked.app.settings.limits)?;
    let definition = read_certificates(&asked.app, definition).await?;
    let edit_of_job = job_edit(&asked.app, Condition::of(&asked.headers), EditKind::Replace)?;
    let mistakes = edit_of_job.mistakes.clone();
    let put = move |context: JobContext<'_>| {
        let mut definition = definition.clone();
        if let Some(existing) = context.existing.filter(|_| version.is_old()) {
            keep_extensions(&existing.job.definition, &mut definition);
        }
        edit_of_job.decide(definition, &context)
    };
    let (edited, state) = edit(&asked.app, path, Box::new(put), &mistakes).await?;
    let status = if edited.before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok(answer(status, &edited.after.ok_or_else(nothing_there)?, state, version))
}

async fn patch(mut asked: Asked, path: JobPath, version: Version) -> Done {
    let body = read_json(&mut asked).await?;
    let limits = asked.app.settings.limits.clone();
    // Certificates are read outside the transaction, from the definition as it is now.
    let (job, _) = find(&asked.app, &path).await?;
    let patched = patch_job(&job.path, &job.job.definition, body.clone(), version, &limits)?;
    let with_certificates = read_certificates(&asked.app, patched).await?;
    let edit_of_job = job_edit(&asked.app, Condition::of(&asked.headers), EditKind::Change)?;
    let mistakes = edit_of_job.mistakes.clone();
    let patch = move |context: JobContext<'_>| {
        let existing = context.existing.ok_or_else(absent)?;
        let stored = &existing.job.definition;
        let patched = patch_job(&existing.path, stored, body.clone(), version, &limits);
        let mut patched = patched.map_err(|errors| edit_of_job.mistakes.keep(errors))?;
        if unread_certificates(&mut patched).next().is_some() {
            // The same patch of the same definition: what was read outside holds.
            match *stored == job.job.definition {
                true => patched = with_certificates.clone(),
                false => return Err(changed_meanwhile()),
            }
        }
        edit_of_job.decide(patched, &context)
    };
    let (edited, state) = edit(&asked.app, path, Box::new(patch), &mistakes).await?;
    Ok(answer(StatusCode::OK, &edited.after.ok_or_else(nothing_there)?, state, version))
}

fn job_edit(app: &App, condition: Condition, kind: EditKind) -> Result<JobEdit, Refused> {
    Ok(JobEdit {
        settings: app.settings.clone(),
        now: app.now(),
        uid: app.new_uid()?,
        kind,
        condition,
        mistakes: Mistakes::default(),
    })
}

/// Reads what certificates say, off the threads that answer requests.
async fn read_certificates(app: &App, mut job: JobDefinition) -> Result<JobDefinition, Refused> {
    if unread_certificates(&mut job).next().is_none() {
        return Ok(job);
    }
    let limits = app.settings.limits.clone();
    let read = move || {
        for (path, authentication) in unread_certificates(&mut job) {
            let HttpAuthentication::ClientCertificate { pfx: Some(pfx), password, certificate } =
                authentication
            else {
                continue;
            };
            let empty = kalends_domain::Secret::new(String::new());
            let identity = read_pfx(pfx, password.as_ref().unwrap_or(&empty), &limits);
            let path = format!("{path}.request.authentication.pfx");
            let identity = identity.map_err(|fault| {
                Refused::from(ErrorDetails::one(fault.kind.into(), path, fault.message))
            })?;
            *certificate = Some(identity.facts().clone());
        }
        Ok(job)
    };
    tokio::task::spawn_blocking(read).await.map_err(|error| Refused::internal(error.to_string()))?
}

/// A job and the state of its collection.
pub(super) async fn find(
    app: &App,
    path: &JobPath,
) -> Result<(JobRecord, CollectionState), Refused> {
    let job = app.store.job(path.clone()).await;
    let job = job.map_err(|error| missing(error, &path.collection))?;
    Ok(job.ok_or_else(|| ErrorDetail::job_not_found(&path.job))?)
}

async fn edit(
    app: &App,
    path: JobPath,
    mut decide: DecideJob,
    mistakes: &Mistakes,
) -> Result<(Edited<JobRecord>, CollectionState), Refused> {
    let collection = Arc::new(Mutex::new(CollectionState::default()));
    let seen = Arc::clone(&collection);
    let decide = Box::new(move |context: JobContext<'_>| {
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = context.collection.collection.state;
        decide(context)
    });
    let edited = match app.store.edit_job(path.clone(), decide).await {
        Ok(edited) => edited,
        Err(StoreError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => {
            return Err(ErrorDetail::job_not_found(&path.job).into());
        }
        Err(error) => {
            return Err(mistakes
                .take()
                .map_or_else(|| missing(error, &path.collection), Refused::from));
        }
    };
    (app.changed)();
    let collection = *collection.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((edited, collection))
}

pub(super) fn missing(error: StoreError, path: &CollectionPath) -> Refused {
    match error {
        StoreError::NoCollection => ErrorDetail::collection_not_found(path).into(),
        error => error.into(),
    }
}

fn absent() -> Refusal {
    Refusal { kind: RefusalKind::NotFound, path: None, message: String::new() }
}

fn changed_meanwhile() -> Refusal {
    let message = "the job was changed by somebody else meanwhile; try again".into();
    Refusal { kind: RefusalKind::PreconditionFailed, path: None, message }
}

fn write(job: &JobRecord, collection: CollectionState, version: Version) -> Json<'_> {
    let state = &job.state;
    let status = JobStatus {
        last_execution: state.last_execution,
        next_execution: state.due.filter(|_: &Instant| state.lifecycle == Lifecycle::Active),
        executions: state.executions,
        failures: state.failures,
        faulted: state.faulted,
    };
    let facts = JobRuntimeState { lifecycle: state.lifecycle, status, collection };
    write_job(&job.path, &job.job.definition, &facts, version)
}

fn answer(
    status: StatusCode,
    job: &JobRecord,
    collection: CollectionState,
    version: Version,
) -> Answer {
    Answer::json(status, &write(job, collection, version)).with_etag(job.version, version)
}
